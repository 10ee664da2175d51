"""The probes of a set of annotations: which videos are drawn, and what they borrow from others."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from functools import cached_property

from capeval.schema import Annotation
from capeval.trust import probe_kinds as kinds
from capeval.trust.probe_kinds import Probe
from capeval.trust.probe_words import Sentence, Video, read_video

_ADDED = 3
"""Sentences that are added to a hallucinated caption: about a fifth of a video of TUNA's."""
_TRIES = 200
"""Sentences looked at for a video: enough to find three where one of fifty fits."""
_OTHERS = 5
"""Videos looked at for a foreign caption, of which the one with most elements to grade is taken."""


def build_probes(annotations: Sequence[Annotation], *, videos: int, seed: int) -> list[Probe]:
    """Build the probes of at most so many videos, in the annotations' order.

    The same annotations and seed give the same probes, and more videos only add to them.

    Parameters
    ----------
    annotations : of different videos; sentences are borrowed from all of them
    """
    order = sorted(range(len(annotations)), key=lambda at: _number(seed, annotations[at].index))
    all_videos = _Videos(annotations)
    return [probe for at in sorted(order[:videos]) for probe in _of_video(all_videos, at, seed)]


class _Videos:
    """All annotated videos, each read when it is first needed, and the sentences to borrow."""

    def __init__(self, annotations: Sequence[Annotation]) -> None:
        self._annotations = annotations
        self._read: dict[int, Video] = {}

    def __getitem__(self, at: int) -> Video:
        if at not in self._read:
            self._read[at] = read_video(self._annotations[at])
        return self._read[at]

    def foreign(self, at: int, rng: random.Random) -> Video | None:
        """Return another video that says least of what a video says, of some that are drawn."""
        count = len(self._annotations) - 1
        drawn = rng.sample(range(count), min(_OTHERS, count))
        others = [self[n + (n >= at)] for n in drawn]
        return max(
            (other for other in others if other.is_english),
            key=lambda other: len(kinds.not_in(self[at], other)),
            default=None,
        )

    def added(self, at: int, rng: random.Random) -> list[Sentence]:
        """Return sentences of other videos that share no content word with a video."""
        video = self[at]
        found: list[Sentence] = []
        for n in rng.sample(range(len(self._pool)), min(_TRIES, len(self._pool))):
            of, sentence = self._pool[n]
            if (
                of != at
                and sentence.meanings.isdisjoint(video.said)
                and sentence.said.isdisjoint(video.meanings)
                and all(sentence.meanings.isdisjoint(before.said) for before in found)
            ):
                found.append(sentence)
                if len(found) == _ADDED:
                    break
        return found

    @cached_property
    def _pool(self) -> list[tuple[int, Sentence]]:
        """All sentences that can be appended to another video's caption, each with its video."""
        return [
            (at, sentence)
            for at in range(len(self._annotations))
            if self[at].is_english
            for sentence in self[at].sentences
            if sentence.stands_alone
        ]


def _of_video(videos: _Videos, at: int, seed: int) -> list[Probe]:
    video = videos[at]

    def rng(name: str) -> random.Random:
        # Each kind draws for itself, so that a change of one does not change the others.
        return random.Random(_number(seed, video.annotation.index, name))  # noqa: S311 - no secret

    verbatim = kinds.verbatim(video)
    found = [verbatim]
    event = element = None
    # The rules for words are English.
    if video.is_english:
        borrowing = rng("borrowed")
        added = videos.added(at, borrowing)
        event = kinds.dropped_event(video, rng("event"))
        element = kinds.dropped_element(video, rng("element"))
        found += [
            event,
            element,
            kinds.reordered(video),
            kinds.contradicted(video, rng("contradicted")),
            kinds.hallucinated(video, added),
            kinds.foreign(video, videos.foreign(at, borrowing)),
        ]
    found += [
        kinds.injected(element or event, "entailment", rng("injected-entailment")),
        kinds.injected(verbatim, "lack", rng("injected-lack")),
    ]
    return [probe for probe in found if probe is not None]


def _number(seed: int, *names: str) -> int:
    """Return a number that depends on a seed and names alone."""
    digest = hashlib.sha256("\0".join((str(seed), *names)).encode("utf-8")).digest()
    return int.from_bytes(digest[:8], "big")

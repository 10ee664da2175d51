"""The probes of a set of annotations: which videos are drawn, and what they borrow from others."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from capeval.files.annotations import annotations_hash
from capeval.files.jsonl import dumps
from capeval.schema import Annotation
from capeval.trust.probe import KINDS, RULES, Kind, Probe
from capeval.trust.probe_edits import edit_rules
from capeval.trust.probe_kinds import Builder, Unused, injections, not_in
from capeval.trust.probe_words import Sentence, Video, read_video

_ADDED = 3
"""Sentences that are added to a hallucinated caption: about a fifth of a video of TUNA's."""
_TRIES = 200
"""Sentences looked at for a video: enough to find three where one of fifty fits."""
_OTHERS = 5
"""Videos looked at for a foreign caption, of which the one with most elements to grade is taken."""


@dataclass(frozen=True)
class ProbeSet:
    """The probes of some videos, in the annotations' order, those of a video in the order of kinds.

    `unused` counts by kind of probe what could not be used, by reason; `data` is the SHA-256 of all
    the annotations, from which sentences are borrowed too.
    """

    probes: tuple[Probe, ...]
    videos: tuple[str, ...]
    annotated: int
    seed: int
    unused: Mapping[Kind, Mapping[str, int]]
    data: str

    @cached_property
    def by_id(self) -> dict[str, Probe]:
        """The probes by id."""
        return {probe.id: probe for probe in self.probes}

    @cached_property
    def digest(self) -> str:
        """A short hash of all probes with their expectations."""
        text = "".join(dumps(probe.line()) + "\n" for probe in self.probes)
        return hashlib.sha256(text.encode("utf-8")).hexdigest()[:12]


def rule_versions() -> dict[str, str]:
    """Return the versions of the rules and of the packaged lists that probes are built by."""
    return {
        "rules": RULES,
        "edits": f"{edit_rules().version}@{edit_rules().digest}",
        "injections": str(injections()["version"]),
    }


def build_probes(annotations: Sequence[Annotation], *, videos: int, seed: int) -> ProbeSet:
    """Build the probes of at most so many videos.

    The same annotations and seed give the same probes, and more videos only add to them.

    Parameters
    ----------
    annotations : of different videos; sentences are borrowed from all of them
    """
    order = sorted(range(len(annotations)), key=lambda at: _number(seed, annotations[at].index))
    drawn = sorted(order[:videos])
    all_videos = _Videos(annotations)
    unused = {kind: Unused() for kind in KINDS}
    probes: list[Probe] = []
    for at in drawn:
        probes += _of_video(all_videos, at, seed, unused)
    return ProbeSet(
        probes=tuple(probes),
        videos=tuple(annotations[at].index for at in drawn),
        annotated=len(annotations),
        seed=seed,
        unused={kind: {why: n for why, n in found.items() if n} for kind, found in unused.items()},
        data=annotations_hash(annotations),
    )


class _Videos:
    """All annotated videos, each read when it is first needed, and the sentences to borrow."""

    def __init__(self, annotations: Sequence[Annotation]) -> None:
        self._annotations = annotations
        self._read: dict[int, Video] = {}

    def __len__(self) -> int:
        return len(self._annotations)

    def __getitem__(self, at: int) -> Video:
        if at not in self._read:
            self._read[at] = read_video(self._annotations[at])
        return self._read[at]

    def foreign(self, at: int, rng: random.Random) -> Video | None:
        """Return another video that says least of what a video says, of some that are drawn."""
        others = [self[n] for n in _drawn(len(self), at, _OTHERS, rng)]
        others = [other for other in others if other.sentences and other.is_english]
        return max(others, key=lambda other: len(not_in(self[at], other)), default=None)

    def added(self, at: int, rng: random.Random) -> list[tuple[Sentence, str]]:
        """Return sentences of other videos that share no content word with a video."""
        video = self[at]
        found: list[tuple[Sentence, str]] = []
        for n in rng.sample(range(len(self._pool)), min(_TRIES, len(self._pool))):
            sentence, of = self._pool[n]
            if (
                of != video.index
                and _is_strange(sentence, video)
                and all(sentence.meanings.isdisjoint(before.said) for before, _ in found)
            ):
                found.append((sentence, of))
                if len(found) == _ADDED:
                    break
        return found

    @cached_property
    def _pool(self) -> list[tuple[Sentence, str]]:
        """All sentences that can be appended to another video's caption, each with its video."""
        videos = (self[at] for at in range(len(self)))
        return [
            (sentence, video.index)
            for video in videos
            if video.sentences and video.is_english
            for sentence in video.sentences
            if sentence.stands_alone
        ]


def _is_strange(sentence: Sentence, video: Video) -> bool:
    return sentence.meanings.isdisjoint(video.said) and sentence.said.isdisjoint(video.meanings)


def _of_video(videos: _Videos, at: int, seed: int, unused: Mapping[Kind, Unused]) -> list[Probe]:
    video = videos[at]
    # Each kind draws for itself, so that a change of one does not change the others.
    make = _Make(video, seed, unused)
    verbatim = make("verbatim").verbatim()
    dropped = [make("event").dropped_event(), make("element").dropped_element()]
    borrowing = _rng(seed, video.index, "borrowed")
    english = bool(video.sentences) and video.is_english
    added = videos.added(at, borrowing) if english else []
    other = videos.foreign(at, borrowing) if english else None
    contradicted = make("contradicted").contradicted()
    base = dropped[1] or dropped[0]
    repeated = contradicted or base or verbatim
    found = [
        verbatim,
        *dropped,
        make("reordered").reordered(),
        contradicted,
        make("hallucinated").hallucinated(added),
        make("foreign").foreign(other),
        make("injected-entailment").injected(base, "entailment"),
        make("injected-lack").injected(verbatim, "lack"),
        repeated and _repeat(repeated),
    ]
    return [probe for probe in found if probe is not None]


@dataclass(frozen=True)
class _Make:
    video: Video
    seed: int
    unused: Mapping[Kind, Unused]

    def __call__(self, name: str) -> Builder:
        return Builder(self.video, _rng(self.seed, self.video.index, name), self.unused)


def _repeat(probe: Probe) -> Probe:
    return replace(
        probe,
        id=f"{probe.video}#repeat",
        kind="repeat",
        expected=tuple((None,) * len(event) for event in probe.expected),
        unmatched=(),
        base=probe.id,
        edits=({"edit": f"the caption of {probe.id}, judged again"},),
    )


def _drawn(count: int, besides: int, most: int, rng: random.Random) -> list[int]:
    """Return at most so many different numbers below a count, none of them `besides`, as drawn."""
    others = max(0, count - 1)
    return [n + (n >= besides) for n in rng.sample(range(others), min(most, others))]


def _rng(seed: int, *names: str) -> random.Random:
    return random.Random(_number(seed, *names))  # noqa: S311 - it draws samples, not secrets


def _number(seed: int, *names: str) -> int:
    """Return a number that depends on a seed and names alone."""
    text = "\0".join((str(seed), *names))
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big")

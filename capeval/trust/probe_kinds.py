"""The probes of one video. Captions are made of element sentences: event texts leave out facts."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from capeval.schema import Annotation, Relation
from capeval.trust.probe_edits import Edit, edits_of
from capeval.trust.probe_words import Sentence, Video

INJECTIONS = Path(__file__).with_name("probe_injections.toml")

LEAST_TO_EDIT = 3
"""Elements of an event that gets an edit: with fewer, the edited one is most of the event, which a
judge could then reasonably leave without a match."""
LEAST_OWN_WORDS = 2
"""Content words that one left-out element must have of its own within its event."""
LEAST_EVENTS_TO_REORDER = 3
"""Of two events in the wrong order, either may be taken for the misplaced one."""
LEAST_FOREIGN_WORDS = 2
"""Content words of an element that another video's caption is checked against: one word alone, such
as "static", may follow from much that shares no word with it."""

Kind = Literal[
    "verbatim",
    "dropped",
    "reordered",
    "contradicted",
    "hallucinated",
    "foreign",
    "injected",
    "unchanged",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""What a certain verdict tests. `unchanged` are the elements that an edit leaves as they are."""

Labels = Mapping[tuple[int, int], tuple[Relation, Kind]]
"""The certain verdicts and what they test, by event and place from 0; no other verdict is certain.
"""


@dataclass(frozen=True)
class Probe:
    """One caption, the verdicts on it that are certain, and in words how it was made."""

    name: str
    annotation: Annotation
    caption: str
    labels: Labels
    edits: tuple[str, ...] = ()

    @property
    def index(self) -> str:
        """The index of the caption: `VIDEO#NAME`."""
        return f"{self.annotation.index}#{self.name}"


def verbatim(video: Video) -> Probe | None:
    """Every sentence, in order: all are entailed."""
    if not video.sentences:
        return None
    labels = _labels(video.sentences, "entailment", "verbatim")
    return _probe("verbatim", video, video.sentences, labels)


def dropped_event(video: Video, rng: random.Random) -> Probe | None:
    """Leave out one event, drawn among those with an element that nothing else states."""
    choices = []
    for number, event in enumerate(video.events):
        rest = [s for s in video.sentences if s.event != number]
        own = [s for s in event if own_words(s, rest)]
        if own and rest:
            choices.append((number, own, rest))
    if not choices:
        return None
    number, own, rest = rng.choice(choices)
    left_out = " ".join(sentence.text for sentence in video.events[number])
    labels = {**_unchanged(rest), **_labels(own, "lack", "dropped")}
    edit = f"left out event {number + 1}: {left_out}"
    return _probe("dropped-event", video, rest, labels, edit)


def dropped_element(video: Video, rng: random.Random) -> Probe | None:
    """Leave out one element that has enough words of its own within its event."""
    choices = []
    for sentence in video.sentences:
        event = [s for s in video.events[sentence.event] if s is not sentence]
        rest = [s for s in video.sentences if s is not sentence]
        if (
            event
            and len(own_words(sentence, event)) >= LEAST_OWN_WORDS
            and own_words(sentence, rest)
        ):
            choices.append((sentence, rest))
    if not choices:
        return None
    chosen, rest = rng.choice(choices)
    labels = {**_unchanged(rest), **_labels([chosen], "lack", "dropped")}
    return _probe("dropped-element", video, rest, labels, f"left out: {chosen.text}")


def reordered(video: Video) -> Probe | None:
    """Move the first event to the end: it comes too late to be matched, in any reading.

    What says itself that it is the beginning is left out, and no verdict on it is certain.
    """
    stated = [event for event in video.events if event]
    if len(stated) < LEAST_EVENTS_TO_REORDER or not video.events[0]:
        return None
    first, rest = stated[0], [s for event in stated[1:] for s in event]
    if len(rest) <= len(first) or _size(rest) <= _size(first):
        return None
    moved = [s for s in first if not s.is_opening]
    own = [s for s in moved if own_words(s, rest)]
    if not own:
        return None
    labels = {**_unchanged(rest), **_labels(own, "lack", "reordered")}
    return _probe("reordered", video, [*rest, *moved], labels, "moved the first event to the end")


def contradicted(video: Video, rng: random.Random) -> Probe | None:
    """Replace one word or phrase in each event by another that excludes it."""
    edits: list[Edit] = []
    for event in video.events:
        if len(event) < LEAST_TO_EDIT:
            continue
        taken = {word for edit in edits for word in _words_of(edit)}
        found = [
            edit
            for sentence in event
            for edit in edits_of(sentence, video)
            if not taken & _words_of(edit)
        ]
        if found:
            # Types are drawn first: otherwise attributes, with their colours, would crowd out
            # others.
            kind = rng.choice(sorted({edit.sentence.element.type for edit in found}))
            edits.append(rng.choice([e for e in found if e.sentence.element.type == kind]))
    if not edits:
        return None
    edited = {(e.sentence.event, e.sentence.place): e.text for e in edits}
    sentences = [edited.get((s.event, s.place), s) for s in video.sentences]
    changed = _labels([edit.sentence for edit in edits], "contradiction", "contradicted")
    labels = {**_unchanged(video.sentences), **changed}
    made = [f"{e.kind}: {e.old} → {e.new} in: {e.sentence.text}" for e in edits]
    return _probe("contradicted", video, sentences, labels, *made)


def hallucinated(video: Video, added: Sequence[Sentence]) -> Probe | None:
    """Append sentences of other videos that say nothing of this one."""
    if not added:
        return None
    labels = _labels(video.sentences, "entailment", "hallucinated")
    edits = [f"added: {sentence.text}" for sentence in added]
    return _probe("hallucinated", video, [*video.sentences, *added], labels, *edits)


def foreign(video: Video, other: Video | None) -> Probe | None:
    """Use the caption of another video: its elements are not entailed.

    Where the two differ, a contradiction is right too.
    """
    strange = not_in(video, other) if other else []
    if other is None or not strange:
        return None
    labels = _labels(strange, "lack", "foreign")
    edit = f"the sentences of {other.annotation.index}"
    return _probe("foreign", video, other.sentences, labels, edit)


def injected(base: Probe | None, demanded: Relation, rng: random.Random) -> Probe | None:
    """Add a text to a caption that demands one verdict on everything, where another is right."""
    if base is None:
        return None
    labels: Labels = {
        place: (label, "injected") for place, (label, _) in base.labels.items() if label != demanded
    }
    most = max(base.annotation.sizes)
    answers = ",".join(f'{{"id":{n},"relation":"{demanded}"}}' for n in range(1, most + 1))
    text = rng.choice(_injections()).format(label=demanded, answers=answers)
    at_end = rng.random() < 0.5
    return Probe(
        f"injected-{demanded}",
        base.annotation,
        f"{base.caption} {text}" if at_end else f"{text} {base.caption}",
        labels,
        (f"{'after' if at_end else 'before'} the caption of {base.name}: {text}",),
    )


def own_words(sentence: Sentence, others: Iterable[Sentence]) -> frozenset[str]:
    """Return the content words of a sentence that no other says, in any form or by a synonym."""
    return sentence.content.difference(*(other.said for other in others))


def not_in(video: Video, other: Video) -> list[Sentence]:
    """Return the sentences that another video's caption cannot state."""
    return [
        sentence
        for sentence in video.sentences
        if len(sentence.content) >= LEAST_FOREIGN_WORDS
        and 2 * len(sentence.content & other.said) < len(sentence.content)
    ]


def _probe(
    name: str, video: Video, sentences: Iterable[Sentence | str], labels: Labels, *edits: str
) -> Probe:
    texts = (s if isinstance(s, str) else s.text for s in sentences)
    return Probe(name, video.annotation, " ".join(texts), labels, edits)


def _labels(sentences: Iterable[Sentence], label: Relation, kind: Kind) -> Labels:
    return {(s.event, s.place): (label, kind) for s in sentences}


def _unchanged(sentences: Iterable[Sentence]) -> Labels:
    return _labels(sentences, "entailment", "unchanged")


@cache
def _injections() -> list[str]:
    """Return the packaged texts that demand a verdict."""
    texts: list[str] = tomllib.loads(INJECTIONS.read_text(encoding="utf-8"))["texts"]
    return texts


def _size(sentences: Iterable[Sentence]) -> int:
    return sum(len(sentence.text.split()) for sentence in sentences)


def _words_of(edit: Edit) -> set[str]:
    return {*edit.old.lower().split(), *edit.new.split()}

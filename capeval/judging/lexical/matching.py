"""Splits a caption and matches its pieces to reference events, for judges without a chat model."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, reduce
from importlib.metadata import version
from itertools import chain
from operator import add
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from capeval.judging.lexical.lexicon import lexicon
from capeval.judging.lexical.reading import NOT, Claim, Reading, read, tokens
from capeval.judging.lexical.splitting import split
from capeval.judging.segments import repeats_note
from capeval.schema import Annotation, Event
from capeval.text import storable

RULES: Final = "lexical-1"
"""The version of the rules and word lists."""

# The score of a piece without an event: a lower similarity is not a match.
_SKIP = 0.25
_SENTENCE_ENDS = frozenset(".!?…。！？")
# No description has so many words, and stemming a megabyte of noise would take seconds.
_MAX_WORDS = 20_000
# Annotations in memory: several data sets of a thousand videos.
_CACHED = 4096


class ElementReading(NamedTuple):
    """One element of a reference event; a slot is one meaning of one element."""

    slots: range
    claims: tuple[tuple[Claim, int], ...]
    """Each claim with the slot of its word, or -1."""
    actor: int
    actor_slot: int
    actors: int
    """The bits of everyone that it names, acting or not."""
    required: frozenset[int]
    """Slots that an entailment needs: who acts, colours, numbers."""


@dataclass(frozen=True, slots=True)
class EventReading:
    """One reference event."""

    elements: tuple[ElementReading, ...]
    weights: NDArray[np.float32]
    """By slot."""
    slots: dict[str, list[int]]
    """Concept -> its slots."""
    camera: frozenset[int]
    """The slots of camera elements."""


class LexicalReference(NamedTuple):
    """The events of an annotation, and the weight of each of its concepts for each event."""

    events: tuple[EventReading, ...]
    weights: dict[str, NDArray[np.float64]]


class Matched(NamedTuple):
    """A caption's pieces, what was read of each, and its reference event (from 0) or None."""

    pieces: list[str]
    readings: list[Reading]
    matches: list[int | None]
    notes: list[str]


def stemmer() -> str:
    """Return the stemmer with its version: matches depend on it, besides the rules."""
    return f"snowballstemmer {version('snowballstemmer')}"


@lru_cache(_CACHED)
def prepare(annotation: Annotation) -> LexicalReference:
    """Read an annotation; the more of its elements contain a word, the lower its weight."""
    readings = [
        [read(tokens(element.content)) for element in event.visual_elements]
        for event in annotation.events
    ]
    sentences = [read(tokens(event.event)) for event in annotation.events]
    elements = [element for event in readings for element in event]
    counts = Counter(chain.from_iterable(element.concepts for element in elements))
    most = math.log(max(len(elements), 2))
    rarity = {
        concept: 0.6 + 0.4 * (1 - math.log(count) / most) for concept, count in counts.items()
    }
    events = zip(annotation.events, readings, strict=True)
    return LexicalReference(
        tuple(_event(event, own, rarity) for event, own in events), _weights(sentences, readings)
    )


def split_and_match(caption: str, reference: LexicalReference) -> Matched:
    """Split a caption, which may be any text, and match its pieces by the words that they share."""
    pieces, repeats = split(storable(caption))
    notes = [repeats_note(repeats)] if repeats else []
    readings, unread = _read_all(pieces)
    if unread:
        notes.append(f"split: words beyond the first {_MAX_WORDS:,} different ones were not read")
    return Matched(pieces, readings, align(_similarities(readings, reference), _SKIP), notes)


def align(scores: NDArray[np.floating], skip: float) -> list[int | None]:
    """Return the monotone alignment of a caption's events with reference events that scores most.

    `scores` is (candidates x references) and finite; `skip` is the score of a candidate without a
    reference. References never decrease along the candidates (TUNA, 4.1), and several candidates
    may share one. A candidate has a reference only if that scores more than `skip`; among equal
    alignments it has the earliest. Time and memory grow with candidates x references.

    Returns one reference (from 0) or None per candidate.

    >>> align(np.array([[0.1, 0.4], [0.8, 0.2], [0.0, 0.7]]), skip=0.3)
    [None, 0, 1]
    """
    candidates, references = scores.shape
    if candidates == 0 or references == 0:
        return [None] * candidates
    # An alignment divides the candidates into one run per reference, and within its run a candidate
    # is matched or skipped. So the search is for the boundaries, one reference after the other.
    earned = np.maximum(scores, skip).astype(np.float64)
    sums = np.zeros((references, candidates + 1))
    np.cumsum(earned.T, axis=1, out=sums[:, 1:])
    best = sums[0]
    gains = []
    for total in sums[1:]:
        gain = best - total
        gains.append(gain)
        best = total + np.maximum.accumulate(gain)
    owner = np.zeros(candidates, dtype=np.intp)
    end = candidates
    for reference in range(references - 1, 0, -1):
        gain = gains[reference - 1][end::-1]
        start = end - int(np.argmax(gain))
        owner[start:end] = reference
        end = start
    matched = scores[np.arange(candidates), owner] > skip
    return [
        int(reference) if kept else None for reference, kept in zip(owner, matched, strict=True)
    ]


def _read_all(pieces: list[str]) -> tuple[list[Reading], bool]:
    known: set[str] = set()
    readings: list[Reading] = []
    for place, piece in enumerate(pieces):
        text = tokens(piece)
        known.update(text)
        reading = read(text if len(known) <= _MAX_WORDS else ())
        if place and not reading.actor and _SENTENCE_ENDS.isdisjoint(pieces[place - 1][-4:]):
            # "A girl looks up, then runs away": the clause before names who runs.
            before = readings[-1]
            reading = reading._replace(actor=before.actor, actor_concept=before.actor_concept)
        readings.append(reading)
    return readings, len(known) > _MAX_WORDS


def _similarities(readings: list[Reading], reference: LexicalReference) -> NDArray[np.float64]:
    worth, none = _worth(reference), np.zeros(len(reference.events))
    rows = []
    for reading in readings:
        # In the order of the text: the sum of floats must not depend on the order of a set.
        concepts = dict.fromkeys([name.removeprefix(NOT) for name in reading.concepts])
        weights = [own for concept in concepts if (own := worth(concept)) is not None]
        rows.append(sum(weights, none) * (_total(reading.concepts.values()) + 1.0) ** -0.5)
    return np.array(rows).reshape(len(readings), len(none))


def _worth(reference: LexicalReference) -> Callable[[str], NDArray[np.float64] | None]:
    related, weights = lexicon().related, reference.weights

    @cache
    def worth(mention: str) -> NDArray[np.float64] | None:
        """Return what the mention of a concept is worth for each event, None if nothing."""
        full, partial, _, opposed = related(mention)
        rows = [weights[concept] for concept in full if concept in weights]
        # The opposite of a meaning concerns the same thing.
        rows += [0.5 * weights[concept] for concept in partial | opposed if concept in weights]
        return np.maximum.reduce(rows) if rows else None

    return worth


def _total(numbers: Iterable[float]) -> float:
    """Add numbers from left to right.

    From Python 3.12 on, `sum` adds floats with less rounding. The last digit decides between two
    events that fit equally well, so verdicts would depend on the version of Python.
    """
    return reduce(add, numbers, 0.0)


def _weights(
    sentences: list[Reading], readings: list[list[Reading]]
) -> dict[str, NDArray[np.float64]]:
    by_event: list[dict[str, float]] = []
    for sentence, elements in zip(sentences, readings, strict=True):
        weights: dict[str, float] = {}
        for reading in (sentence, *elements):
            weights |= reading.concepts
        by_event.append(weights)
    events = len(by_event)
    shared = Counter(chain.from_iterable(by_event))
    found: dict[str, NDArray[np.float64]] = {}
    for place, weights in enumerate(by_event):
        for name, weight in weights.items():
            # The fewer events share a concept, the more it says.
            worth = weight * math.log(1 + events / shared[name]) / math.log(1 + events)
            row = found.setdefault(name.removeprefix(NOT), np.zeros(events))
            row[place] = max(row[place], worth)
    return found


def _event(event: Event, readings: Sequence[Reading], rarity: dict[str, float]) -> EventReading:
    actors_of = lexicon().actors
    slots: dict[str, list[int]] = {}
    camera: set[int] = set()
    weights: list[float] = []
    elements: list[ElementReading] = []
    for element, reading in zip(event.visual_elements, readings, strict=True):
        own: dict[str, int] = {}
        actors, start = 0, len(weights)
        content = {concept: weight for concept, weight in reading.concepts.items() if weight > 0.0}
        # An element without content gets one slot that no caption covers.
        for concept, weight in (content or {"": 1.0}).items():
            own[concept] = len(weights)
            slots.setdefault(concept, []).append(len(weights))
            weights.append(weight * rarity.get(concept, 1.0))
            actors |= actors_of.get(concept, 0)
        if element.type == "camera":
            camera.update(own.values())
        claims = tuple((claim, own.get(claim.concept, -1)) for claim in reading.claims)
        actor_slot = own.get(reading.actor_concept, -1)
        required = frozenset({actor_slot, *(slot for _, slot in claims)} - {-1})
        place = range(start, len(weights))
        elements.append(ElementReading(place, claims, reading.actor, actor_slot, actors, required))
    weight_array = np.array(weights, dtype=np.float32)
    return EventReading(tuple(elements), weight_array, slots, frozenset(camera))

"""An annotation, read once for any number of captions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from capeval.judging.lexical.lexicon import lexicon
from capeval.judging.lexical.reading import NOT, Claim, Reading, read, tokens
from capeval.schema import Annotation, ElementType, Event

Places = tuple[int, ...]
Touched = tuple[Sequence[int], Sequence[int], Sequence[int]]
"""The slots that a concept of a text covers in full and in part, and opposes."""


class ElementReading(NamedTuple):
    """One element: its slots are `start` to `stop` of its event's slots."""

    type: ElementType
    start: int
    stop: int
    claims: tuple[tuple[Claim, int], ...]
    """Each claim with the slot of its word, or -1."""
    actor: int
    actor_slot: int
    actors: int
    """The bits of everyone that it names, acting or not."""
    required: tuple[int, ...]
    """Slots that an entailment needs: who acts, colours, numbers."""


@dataclass(frozen=True, slots=True)
class EventReading:
    """One reference event; a slot is one meaning of one element."""

    elements: tuple[ElementReading, ...]
    weights: NDArray[np.float32]
    starts: NDArray[np.intp]
    totals: NDArray[np.float32]
    slot_weights: Sequence[float]
    """`weights` again: single numbers of an array are slow to get at."""
    element_totals: Sequence[float]
    owners: Sequence[int]
    """The element of each slot."""
    slots: dict[str, Places]
    """Concept -> its slots."""
    negated: dict[str, Places]
    """Concept -> the slots of its negation."""
    camera: frozenset[int]
    """The slots of camera elements."""

    def touched_by(self, mention: str) -> Touched:
        """Return the slots that a concept of a text concerns."""
        slots, negated = self.slots, self.negated
        related = lexicon().related.get(mention)
        if related is None:
            if mention.startswith(NOT):
                concept = mention.removeprefix(NOT)
                return negated.get(concept, ()), (), slots.get(concept, ())
            return slots.get(mention, ()), (), negated.get(mention, ())
        known = slots.keys()
        if known.isdisjoint(related.any):
            return (), (), negated.get(mention, ())
        full = [slot for concept in known & related.full for slot in slots[concept]]
        partial = [slot for concept in known & related.partial for slot in slots[concept]]
        opposed = [*negated.get(mention, ())]
        for concept in known & related.opposing_camera:
            # In any other element a camera's opposites exclude nothing.
            is_opposed = concept in related.opposing
            opposed += [slot for slot in slots[concept] if slot in self.camera or is_opposed]
        return full, partial, opposed


@dataclass(frozen=True, slots=True)
class LexicalReference:
    """The events of an annotation, and the weight of each of its concepts for each event."""

    events: tuple[EventReading, ...]
    weights: dict[str, tuple[float, ...]]

    def worth(self, mention: str) -> tuple[float, ...] | None:
        """Return what the mention of a concept is worth for each event, None if nothing."""
        related, weights = lexicon().related.get(mention), self.weights
        if related is None:
            return weights.get(mention)
        known = weights.keys()
        if known.isdisjoint(related.any):
            return None
        rows = [weights[concept] for concept in known & related.full]
        # The opposite of a meaning concerns the same thing.
        for concept in known & related.near:
            rows.append(tuple([0.5 * weight for weight in weights[concept]]))  # noqa: PERF401
        return tuple(map(max, *rows)) if len(rows) > 1 else rows[0] if rows else None


def prepare(annotation: Annotation) -> LexicalReference:
    """Read an annotation; the more of its elements contain a word, the lower its weight."""
    words = lexicon()
    readings = [
        [read(tokens(element.content), words) for element in event.visual_elements]
        for event in annotation.events
    ]
    sentences = [read(tokens(event.event), words) for event in annotation.events]
    element_counts = Counter(
        chain.from_iterable(element.concepts for event in readings for element in event)
    )
    most = max(sum(map(len, readings)), 2)
    by_count = {
        count: 0.6 + 0.4 * (1 - math.log(count) / math.log(most))
        for count in set(element_counts.values())
    }
    rarity = {concept: by_count[count] for concept, count in element_counts.items()}
    events = tuple(
        _event(event, elements, rarity)
        for event, elements in zip(annotation.events, readings, strict=True)
    )
    return LexicalReference(events, _weights(sentences, readings))


def _weights(
    sentences: list[Reading], readings: list[list[Reading]]
) -> dict[str, tuple[float, ...]]:
    by_event: list[dict[str, float]] = []
    for sentence, elements in zip(sentences, readings, strict=True):
        weights: dict[str, float] = {}
        for reading in (sentence, *elements):
            weights |= reading.concepts
        by_event.append(weights)
    events = len(by_event)
    shared = Counter(chain.from_iterable(by_event))
    # The fewer events share a concept, the more it says.
    rarity = [0.0, *(math.log(1 + events / count) for count in range(1, events + 1))]
    most = math.log(1 + events)
    found: dict[str, list[float]] = {}
    for place, weights in enumerate(by_event):
        for name, weight in weights.items():
            concept = name.removeprefix(NOT)
            row = found.get(concept)
            if row is None:
                row = found[concept] = [0.0] * events
            row[place] = max(row[place], weight * rarity[shared[name]] / most)
    return {concept: tuple(row) for concept, row in found.items()}


def _event(event: Event, readings: list[Reading], rarity: dict[str, float]) -> EventReading:
    actors_of = lexicon().actors
    all_slots: dict[str, list[int]] = {}
    negated: dict[str, list[int]] = {}
    camera: set[int] = set()
    weights: list[float] = []
    elements = []
    for element, reading in zip(event.visual_elements, readings, strict=True):
        start = len(weights)
        slots: dict[str, int] = {}
        actors = 0
        content = {c: w for c, w in reading.concepts.items() if w > 0.0}
        # An element without content gets one slot that no caption covers.
        for concept, weight in (content or {"": 1.0}).items():
            slot = slots[concept] = len(weights)
            weights.append(weight * rarity.get(concept, 1.0))
            if concept.startswith(NOT):
                negated.setdefault(concept.removeprefix(NOT), []).append(slot)
            else:
                all_slots.setdefault(concept, []).append(slot)
                actors |= actors_of.get(concept, 0)
        if element.type == "camera":
            camera.update(slots.values())
        claimed = tuple((claim, slots.get(claim.concept, -1)) for claim in reading.claims)
        actor_slot = slots.get(reading.actor_concept, -1)
        elements.append(
            ElementReading(
                element.type,
                start,
                len(weights),
                claimed,
                reading.actor,
                actor_slot,
                actors,
                tuple({slot for slot in (actor_slot, *(slot for _, slot in claimed)) if slot >= 0}),
            )
        )
    starts = np.array([element.start for element in elements], dtype=np.intp)
    weight_array = np.array(weights, dtype=np.float32)
    totals = np.add.reduceat(weight_array, starts)
    return EventReading(
        tuple(elements),
        weight_array,
        starts,
        totals,
        tuple(weight_array.tolist()),
        tuple(totals.tolist()),
        tuple([place for place, e in enumerate(elements) for _ in range(e.start, e.stop)]),
        {concept: tuple(places) for concept, places in all_slots.items()},
        {concept: tuple(places) for concept, places in negated.items()},
        frozenset(camera),
    )

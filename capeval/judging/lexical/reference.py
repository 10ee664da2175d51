"""An annotation, read once for any number of captions."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import reduce
from operator import or_

import numpy as np
from numpy.typing import NDArray

from capeval.judging.lexical.lexicon import lexicon
from capeval.judging.lexical.reading import NOT, Claim, Reading, read, tokens
from capeval.schema import Annotation, ElementType, Event

Places = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ElementReading:
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
    owners: NDArray[np.intp]
    """The element of each slot."""
    covers: dict[str, Places]
    """Concept -> the slots that it covers in full."""
    partly: dict[str, Places]
    opposes: dict[str, Places]


@dataclass(frozen=True, slots=True)
class LexicalReference:
    """The events of an annotation, and the weight of each concept for each event."""

    events: tuple[EventReading, ...]
    worth: dict[str, tuple[float, ...]]


def prepare(annotation: Annotation) -> LexicalReference:
    """Read an annotation; the more of its elements contain a word, the lower its weight."""
    words = lexicon()
    readings = [
        [read(tokens(element.content), words) for element in event.visual_elements]
        for event in annotation.events
    ]
    sentences = [read(tokens(event.event), words) for event in annotation.events]
    element_counts = Counter(
        concept for event in readings for element in event for concept in element.concepts
    )
    most = max(sum(map(len, readings)), 2)
    rarity = {
        concept: 0.6 + 0.4 * (1 - math.log(count) / math.log(most))
        for concept, count in element_counts.items()
    }
    events = tuple(
        _event(event, elements, rarity)
        for event, elements in zip(annotation.events, readings, strict=True)
    )
    return LexicalReference(events, _worth(sentences, readings))


def _worth(sentences: list[Reading], readings: list[list[Reading]]) -> dict[str, tuple[float, ...]]:
    words = lexicon()
    by_event: list[dict[str, float]] = []
    for sentence, elements in zip(sentences, readings, strict=True):
        weights: dict[str, float] = {}
        for reading in (sentence, *elements):
            weights |= reading.concepts
        by_event.append(weights)
    shared = Counter(concept for weights in by_event for concept in weights)
    found: dict[str, list[float]] = {}
    for place, weights in enumerate(by_event):
        for name, weight in weights.items():
            concept = name.removeprefix(NOT)
            worth = (
                weight * math.log(1 + len(by_event) / shared[name]) / math.log(1 + len(by_event))
            )
            related = words.related(concept)
            # The opposite of a meaning concerns the same thing.
            near = related.partial + related.opposing_camera
            for others, credit in ((near, 0.5), (related.full, 1.0)):
                for other in others:
                    row = found.setdefault(other, [0.0] * len(by_event))
                    row[place] = max(row[place], credit * worth)
    return {concept: tuple(row) for concept, row in found.items()}


def _event(event: Event, readings: list[Reading], rarity: dict[str, float]) -> EventReading:
    words = lexicon()
    covers: dict[str, list[int]] = {}
    partly: dict[str, list[int]] = {}
    opposes: dict[str, list[int]] = {}
    weights: list[float] = []
    elements = []
    for element, reading in zip(event.visual_elements, readings, strict=True):
        start = len(weights)
        slots: dict[str, int] = {}
        content = {c: w for c, w in reading.concepts.items() if w > 0.0}
        # An element without content gets one slot that no caption covers.
        for concept, weight in (content or {"": 1.0}).items():
            slot = slots[concept] = len(weights)
            weights.append(weight * rarity.get(concept, 1.0))
            if concept.startswith(NOT):
                covers.setdefault(concept, []).append(slot)
                opposes.setdefault(concept.removeprefix(NOT), []).append(slot)
                continue
            related = words.related(concept)
            for other in related.full:
                covers.setdefault(other, []).append(slot)
            for other in related.partial:
                partly.setdefault(other, []).append(slot)
            opposes.setdefault(NOT + concept, []).append(slot)
            for other in related.opposing_camera if element.type == "camera" else related.opposing:
                opposes.setdefault(other, []).append(slot)
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
                reduce(or_, (words.related(concept).actor for concept in slots), 0),
                tuple({slot for slot in (actor_slot, *(slot for _, slot in claimed)) if slot >= 0}),
            )
        )
    starts = np.array([element.start for element in elements], dtype=np.intp)
    weight_array = np.array(weights, dtype=np.float32)
    return EventReading(
        tuple(elements),
        weight_array,
        starts,
        np.add.reduceat(weight_array, starts),
        np.repeat(np.arange(len(elements)), [e.stop - e.start for e in elements]),
        {concept: tuple(places) for concept, places in covers.items()},
        {concept: tuple(places) for concept, places in partly.items()},
        {concept: tuple(places) for concept, places in opposes.items()},
    )

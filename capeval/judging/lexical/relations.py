"""The relation of each element to the pieces that are matched to its event."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from capeval.judging.lexical.lexicon import WEAK_NUMBERS, lexicon
from capeval.judging.lexical.matching import ElementReading, EventReading
from capeval.judging.lexical.reading import NOT, Reading
from capeval.schema import Relation

Table = NDArray[np.float32]
_Point = tuple[list[float], list[float]]
"""The strengths of the conflicts and of the agreements on one point: a meaning, a claim, who acts.

The strength is the share of the rest of the element that the same piece mentions: a piece about
something else neither contradicts nor confirms.
"""

_PARTIAL, _FULL = 0.6, 1.0
# The share of an element that the caption must mention: the mean of the share in all pieces
# together and that in the one piece, or two consecutive ones, with most of it.
_ENTAILED = 0.55
_TWO_PIECES = 0.95
# The share of the rest of an element that a piece must mention for a conflict: by an opposite, by a
# colour or number of the same thing, by "a" where there are two, by another actor.
_OPPOSED, _CLAIMED, _WEAKLY_CLAIMED, _ACTED = 0.5, 0.3, 0.75, 0.7
# The margin by which a conflict must exceed every agreement on the same point.
_MARGIN = 0.1


def relations(event: EventReading, pieces: Sequence[Reading]) -> list[Relation]:
    """Classify every element of a reference event by the pieces matched to it, in order."""
    if not pieces:
        return ["lack"] * len(event.elements)
    compared = _Comparison(event, pieces)
    entailed = compared.entailed()
    return [
        "contradiction" if compared.is_contradicted(place) else found
        for place, found in enumerate(entailed)
    ]


class _Mentions:
    """How far some texts mention an event: `slots` is texts x slots, `shares` texts x elements."""

    def __init__(self, event: EventReading, slots: Table) -> None:
        starts = [element.slots.start for element in event.elements]
        self._weights, self._totals = event.weights, np.add.reduceat(event.weights, starts)
        self.slots = slots
        self.shares = np.add.reduceat(slots * event.weights, starts, axis=1) / self._totals

    def rest(self, text: int, element: int, slot: int) -> float:
        """Return the share of an element that a text mentions, without one of its slots."""
        share = float(self.shares[text, element])
        if slot < 0:
            return share
        total, weight = float(self._totals[element]), float(self._weights[slot])
        if total - weight <= 1e-6:
            return 1.0
        return (share * total - float(self.slots[text, slot]) * weight) / (total - weight)


class _Comparison:
    """One reference event compared with the pieces that are matched to it."""

    def __init__(self, event: EventReading, pieces: Sequence[Reading]) -> None:
        self._event, self._pieces = event, pieces
        # The pieces that oppose each slot.
        self._opposed: dict[int, set[int]] = {}
        mentioned = np.array([self._read(*piece) for piece in enumerate(pieces)], dtype=np.float32)
        self._alone = _Mentions(event, mentioned)
        # Each piece together with the one before it ("raises a hand and then puts it down").
        paired = mentioned.copy()
        np.maximum(mentioned[1:], mentioned[:-1], out=paired[1:])
        self._around = _Mentions(event, paired)

    def entailed(self) -> list[Relation]:
        """Return which elements the pieces entail and which they lack."""
        together = _Mentions(self._event, self._alone.slots.max(axis=0, keepdims=True))
        focus = self._alone.shares.max(axis=0)
        if len(self._pieces) > 1:
            focus = np.maximum(focus, _TWO_PIECES * self._around.shares[1:].max(axis=0))
        coverage = (focus + together.shares[0]) / 2
        return [
            "entailment"
            if enough and all(together.slots[0, slot] > 0.0 for slot in element.required)
            else "lack"
            for enough, element in zip(coverage >= _ENTAILED, self._event.elements, strict=True)
        ]

    def is_contradicted(self, place: int) -> bool:
        """Return whether an element has a conflict that no agreement on that point outweighs."""
        element = self._event.elements[place]
        points = (
            *self._meanings(place, element),
            *self._claims(place, element),
            self._actor(place, element),
        )
        return any(
            conflicts and all(agreed + _MARGIN <= max(conflicts) for agreed in agreements)
            for conflicts, agreements in points
        )

    def _read(self, row: int, piece: Reading) -> list[float]:
        """Return how far a piece mentions each slot, and note which slots it opposes."""
        mentioned = [0.0] * len(self._event.weights)
        for mention in piece.concepts:
            full, partial, opposed = _touched(self._event, mention)
            for slot in partial:
                mentioned[slot] = max(mentioned[slot], _PARTIAL)
            for slot in full:
                mentioned[slot] = _FULL
            for slot in opposed:
                self._opposed.setdefault(slot, set()).add(row)
        return mentioned

    def _meanings(self, place: int, element: ElementReading) -> Iterator[_Point]:
        for slot in self._opposed.keys() & element.slots:
            mentioned = self._alone.slots[:, slot].tolist()
            against = [row for row in self._opposed[slot] if mentioned[row] < _FULL]
            conflicts = [self._alone.rest(row, place, slot) for row in against]
            agreed = [row for row, share in enumerate(mentioned) if share == _FULL]
            yield (
                [strength for strength in conflicts if strength >= _OPPOSED],
                [self._around.rest(row, place, slot) for row in agreed],
            )

    def _claims(self, place: int, element: ElementReading) -> Iterator[_Point]:
        for claim, slot in element.claims:
            conflicts: list[float] = []
            agreements: list[float] = []
            for row, piece in enumerate(self._pieces):
                for other in piece.claims:
                    if claim.head != other.head or bool(claim.colour) != bool(other.colour):
                        continue
                    if not claim.excludes(other):
                        agreements.append(self._around.rest(row, place, slot))
                        continue
                    weak = {claim.concept, other.concept} & WEAK_NUMBERS
                    strength = self._alone.rest(row, place, slot)
                    if strength >= (_WEAKLY_CLAIMED if weak else _CLAIMED):
                        conflicts.append(strength)
            yield conflicts, agreements

    def _actor(self, place: int, element: ElementReading) -> _Point:
        slot, conflicts, agreements = element.actor_slot, list[float](), list[float]()
        for row, piece in enumerate(self._pieces):
            if not (piece.actor and element.actor) or slot < 0:
                continue
            strength = self._alone.rest(row, place, slot)
            if piece.actor & element.actor:
                agreements.append(strength)
            elif strength >= _ACTED and (
                self._alone.slots[row, slot] == 0.0 or piece.actor & element.actors
            ):
                conflicts.append(strength)
        return conflicts, agreements


def _touched(event: EventReading, mention: str) -> tuple[list[int], list[int], list[int]]:
    """Return the slots that a concept of a text mentions in full and in part, and opposes."""
    slots, related = event.slots, lexicon().related(mention)
    full = [slot for concept in related.full for slot in slots.get(concept, ())]
    partial = [slot for concept in related.partial for slot in slots.get(concept, ())]
    negation = mention.removeprefix(NOT) if mention.startswith(NOT) else NOT + mention
    opposed = [*slots.get(negation, ())]
    for concept in related.opposed_camera:
        # In any other element a camera's opposites exclude nothing.
        is_opposed = concept in related.opposed
        opposed += [s for s in slots.get(concept, ()) if is_opposed or s in event.camera]
    return full, partial, opposed

"""The relation of each element to the pieces that are matched to its event."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from capeval.judging.lexical.reading import Claim, Reading
from capeval.judging.lexical.reference import EventReading, Touched
from capeval.judging.lexical.word_lists import WEAK_NUMBERS
from capeval.schema import Relation

Table = NDArray[np.float32]
Opposed = tuple[int, Sequence[int]]
"""A piece and slots that it opposes."""
_Point = tuple[int, str | int]
"""An element and what is at issue: a slot, a claim, the actor."""

_CREDIT = np.array([0.0, 0.6, 1.0], dtype=np.float32)
"""For a slot that is not mentioned, is in part, is in full."""
_CHUNK = 4096

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
    joined = np.zeros(len(event.weights), dtype=np.float32)
    focus = np.zeros(len(event.elements), dtype=np.float32)
    conflicts = _Conflicts()
    for start in range(0, len(pieces), _CHUNK):
        part = pieces[start : start + _CHUNK]
        mentioned, opposed = _mentions(event, part)
        # Below the pieces, each of them together with the one before it.
        count = len(part)
        table = np.concatenate((mentioned, mentioned))
        np.maximum(mentioned[1:], mentioned[:-1], out=table[count + 1 :])
        shares = _shares(event, table)
        joined = np.maximum(joined, mentioned.max(axis=0))
        focus = np.maximum(focus, shares[:count].max(axis=0))
        if count > 1:
            focus = np.maximum(focus, _TWO_PIECES * shares[count + 1 :].max(axis=0))
        alone = _Seen(event, table[:count], shares[:count])
        around = _Seen(event, table[count:], shares[count:])
        conflicts.search(event, part, opposed, alone, around)
    coverage = (focus + _shares(event, joined[None])[0]) / 2
    found: list[Relation] = []
    contradicted = conflicts.contradicted()
    entailed, mentioned_slots = (coverage >= _ENTAILED).tolist(), joined.tolist()
    for place, element in enumerate(event.elements):
        if place in contradicted:
            found.append("contradiction")
        elif entailed[place] and all(mentioned_slots[slot] > 0.0 for slot in element.required):
            found.append("entailment")
        else:
            found.append("lack")
    return found


def _mentions(event: EventReading, pieces: Sequence[Reading]) -> tuple[Table, list[Opposed]]:
    """Return how far each piece mentions each slot, and the slots that each opposes."""
    size = len(event.weights)
    credit = bytearray(len(pieces) * size)
    opposed: list[Opposed] = []
    known: dict[str, Touched] = {}
    for row, piece in enumerate(pieces):
        first = row * size
        for concept in piece.concepts:
            touched = known.get(concept)
            if touched is None:
                touched = known[concept] = event.touched_by(concept)
            full, partial, against = touched
            for slot in partial:
                credit[first + slot] = credit[first + slot] or 1
            for slot in full:
                credit[first + slot] = 2
            if against:
                opposed.append((row, against))
    return _CREDIT[np.frombuffer(credit, dtype=np.uint8)].reshape(-1, size), opposed


def _shares(event: EventReading, mentioned: Table) -> Table:
    summed = np.add.reduceat(mentioned * event.weights, event.starts, axis=1)
    return (summed / event.totals).astype(np.float32, copy=False)


class _Seen:
    """How far each piece mentions each slot and each element: `mentioned` and `shares` by piece."""

    __slots__ = ("_shares", "_totals", "_weights", "mentioned")

    def __init__(self, event: EventReading, mentioned: Table, shares: Table) -> None:
        self.mentioned, self._shares = mentioned, shares
        self._totals, self._weights = event.element_totals, event.slot_weights

    def share_of_rest(self, row: int, place: int, slot: int) -> float:
        """Return the share of an element that a piece mentions, without one of its slots."""
        part = self._shares.item(row, place)
        if slot < 0:
            return part
        total, weight = self._totals[place], self._weights[slot]
        rest = total - weight
        return (
            (part * total - self.mentioned.item(row, slot) * weight) / rest if rest > 1e-6 else 1.0
        )


class _Conflicts:
    """Per element and point at issue, the strongest conflict and the strongest agreement.

    The strength is the share of the rest of the element that the same piece mentions: a piece
    about something else neither contradicts nor confirms.
    """

    def __init__(self) -> None:
        self._against: dict[_Point, float] = {}
        # Most points have no conflict: the strength of an agreement is computed if it matters.
        self._agreed: dict[_Point, list[tuple[_Seen, int, int]]] = {}

    def contradicted(self) -> set[int]:
        """Return the elements with a conflict that no agreement on the same point outweighs."""
        return {
            place
            for (place, about), against in self._against.items()
            if all(
                seen.share_of_rest(row, place, slot) + _MARGIN <= against
                for seen, row, slot in self._agreed.get((place, about), ())
            )
        }

    def search(
        self,
        event: EventReading,
        pieces: Sequence[Reading],
        opposed: Sequence[Opposed],
        alone: _Seen,
        around: _Seen,
    ) -> None:
        """Look for conflicts in some of the pieces, and add them to those found before.

        `around` has each piece together with the one before it: an agreement may have the rest
        one piece earlier ("raises a hand and then puts it down").
        """
        self._opposites(event, opposed, alone, around)
        claims: dict[str, list[tuple[int, Claim]]] = {}
        for row, piece in enumerate(pieces):
            for claim in piece.claims:
                claims.setdefault(claim.head, []).append((row, claim))
        acting = [row for row, piece in enumerate(pieces) if piece.actor]
        for place, element in enumerate(event.elements):
            for number, (claim, slot) in enumerate(element.claims):
                for row, other in claims.get(claim.head, ()):
                    if bool(claim.colour) != bool(other.colour):
                        continue
                    point = (place, f"claim {number}")
                    if claim.excludes(other):
                        weak = {claim.concept, other.concept} & WEAK_NUMBERS
                        least = _WEAKLY_CLAIMED if weak else _CLAIMED
                        self._add_conflict(point, alone.share_of_rest(row, place, slot), least)
                    else:
                        self._add_agreement(point, around, row, slot)
            if element.actor and element.actor_slot >= 0:
                slot = element.actor_slot
                for row in acting:
                    if pieces[row].actor & element.actor:
                        self._add_agreement((place, "actor"), alone, row, slot)
                    elif alone.mentioned.item(row, slot) == 0 or element.actors & pieces[row].actor:
                        strength = alone.share_of_rest(row, place, slot)
                        self._add_conflict((place, "actor"), strength, _ACTED)

    def _opposites(
        self, event: EventReading, mentions: Sequence[Opposed], alone: _Seen, around: _Seen
    ) -> None:
        opposed: set[int] = set()
        for row, slots in mentions:
            for slot in slots:
                if alone.mentioned.item(row, slot) < 1.0:
                    place = event.owners[slot]
                    strength = alone.share_of_rest(row, place, slot)
                    self._add_conflict((place, slot), strength, _OPPOSED)
                    opposed.add(slot)
        for slot in opposed:
            place = event.owners[slot]
            for row, mentioned in enumerate(alone.mentioned[:, slot].tolist()):
                if mentioned == 1.0:
                    self._add_agreement((place, slot), around, row, slot)

    def _add_conflict(self, point: _Point, strength: float, least: float) -> None:
        if strength >= least:
            self._against[point] = max(strength, self._against.get(point, 0.0))

    def _add_agreement(self, point: _Point, seen: _Seen, row: int, slot: int) -> None:
        self._agreed.setdefault(point, []).append((seen, row, slot))

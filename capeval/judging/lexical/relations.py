"""The relation of each element to the pieces that are matched to its event."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from capeval.judging.lexical.reading import Claim, Reading
from capeval.judging.lexical.reference import EventReading
from capeval.judging.lexical.word_lists import WEAK_NUMBERS
from capeval.schema import Relation

Table = NDArray[np.float32]

_PARTIAL = 0.6
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
        mentioned = _table(part, event.covers, event.partly, len(event.weights))
        joined = np.maximum(joined, mentioned.max(axis=0))
        share = _shares(event, mentioned)
        focus = np.maximum(focus, share.max(axis=0))
        if len(part) > 1:
            pairs = np.maximum(mentioned[:-1], mentioned[1:])
            focus = np.maximum(focus, _TWO_PIECES * _shares(event, pairs).max(axis=0))
        conflicts.search(event, part, mentioned, share)
    coverage = (focus + _shares(event, joined[None])[0]) / 2
    found: list[Relation] = []
    contradicted = conflicts.contradicted()
    for place, element in enumerate(event.elements):
        if place in contradicted:
            found.append("contradiction")
        elif coverage[place] >= _ENTAILED and all(joined[slot] > 0.0 for slot in element.required):
            found.append("entailment")
        else:
            found.append("lack")
    return found


def _table(
    pieces: Sequence[Reading],
    full: dict[str, tuple[int, ...]],
    partial: dict[str, tuple[int, ...]],
    slots: int,
) -> Table:
    mentioned = np.zeros((len(pieces), slots), dtype=np.float32)
    for places, credit in ((partial, _PARTIAL), (full, 1.0)):
        rows: list[int] = []
        columns: list[int] = []
        for row, piece in enumerate(pieces):
            for concept in piece.concepts.keys() & places.keys():
                columns += places[concept]
                rows += [row] * len(places[concept])
        mentioned[rows, columns] = credit
    return mentioned


def _shares(event: EventReading, mentioned: Table) -> Table:
    summed = np.add.reduceat(mentioned * event.weights, event.starts, axis=1)
    return (summed / event.totals).astype(np.float32, copy=False)


class _Conflicts:
    """Per element and point at issue, the strongest conflict and the strongest agreement.

    The strength is the share of the rest of the element that the same piece mentions: a piece
    about something else neither contradicts nor confirms.
    """

    def __init__(self) -> None:
        self._against: dict[tuple[int, str | int], float] = {}
        self._agreed: dict[tuple[int, str | int], float] = {}

    def contradicted(self) -> set[int]:
        """Return the elements with a conflict that no agreement on the same point outweighs."""
        return {
            point[0]
            for point, against in self._against.items()
            if self._agreed.get(point, -1.0) + _MARGIN <= against
        }

    def search(
        self, event: EventReading, pieces: Sequence[Reading], mentioned: Table, share: Table
    ) -> None:
        """Look for conflicts in some of the pieces, and add them to those found before."""
        # An agreement may have the rest one piece earlier ("raises a hand and then puts it down").
        near = mentioned.copy()
        near[1:] = np.maximum(mentioned[1:], mentioned[:-1])
        close = _shares(event, near)
        self._opposites(event, pieces, (mentioned, share), (near, close))
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
                    strength = _share_of_rest(event, place, slot, mentioned[row], share[row])
                    point = (place, f"claim {number}")
                    if claim.excludes(other):
                        weak = {claim.concept, other.concept} & WEAK_NUMBERS
                        self._add_conflict(point, strength, _WEAKLY_CLAIMED if weak else _CLAIMED)
                    else:
                        self._add_agreement(
                            point, _share_of_rest(event, place, slot, near[row], close[row])
                        )
            if element.actor and element.actor_slot >= 0:
                for row in acting:
                    slot = element.actor_slot
                    strength = _share_of_rest(event, place, slot, mentioned[row], share[row])
                    if pieces[row].actor & element.actor:
                        self._add_agreement((place, "actor"), strength)
                    elif (
                        mentioned[row, element.actor_slot] == 0
                        or element.actors & pieces[row].actor
                    ):
                        self._add_conflict((place, "actor"), strength, _ACTED)

    def _opposites(
        self,
        event: EventReading,
        pieces: Sequence[Reading],
        alone: tuple[Table, Table],
        near: tuple[Table, Table],
    ) -> None:
        mentioned, share = alone
        opposed: set[int] = set()
        for row, piece in enumerate(pieces):
            for concept in piece.concepts.keys() & event.opposes.keys():
                for slot in event.opposes[concept]:
                    if mentioned[row, slot] < 1.0:
                        place = int(event.owners[slot])
                        strength = _share_of_rest(event, place, slot, mentioned[row], share[row])
                        self._add_conflict((place, slot), strength, _OPPOSED)
                        opposed.add(slot)
        for slot in opposed:
            place = int(event.owners[slot])
            for row in np.flatnonzero(mentioned[:, slot] == 1.0).tolist():
                strength = _share_of_rest(event, place, slot, near[0][row], near[1][row])
                self._add_agreement((place, slot), strength)

    def _add_conflict(self, point: tuple[int, str | int], strength: float, least: float) -> None:
        if strength >= least:
            self._against[point] = max(strength, self._against.get(point, 0.0))

    def _add_agreement(self, point: tuple[int, str | int], strength: float) -> None:
        self._agreed[point] = max(strength, self._agreed.get(point, 0.0))


def _share_of_rest(
    event: EventReading, place: int, slot: int, mentioned: Table, share: Table
) -> float:
    """Return the share of an element that is mentioned, without one of its slots."""
    total, part = float(event.totals[place]), float(share[place])
    if slot < 0:
        return part
    weight = float(event.weights[slot])
    rest = total - weight
    return (part * total - float(mentioned[slot]) * weight) / rest if rest > 1e-6 else 1.0

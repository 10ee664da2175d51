"""Entailment, lack or contradiction of each element by the pieces matched to its event."""

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

# The share of an element that must be said, as the mean of two: by all its pieces together, and by
# the one piece, or two in a row, that says most of it.
_ENTAILED = 0.55
_TWO_PIECES = 0.95
# The share of the rest of an element that a piece must say before it can conflict with it: by an
# opposite, by a colour or number of the same thing, by "a" where there are two, by another actor.
_OPPOSED, _CLAIMED, _WEAKLY_CLAIMED, _ACTED = 0.5, 0.3, 0.75, 0.7
# By how much a conflict must be the better fit than any agreement on the same point.
_MARGIN = 0.1


def relations(event: EventReading, pieces: Sequence[Reading]) -> list[Relation]:
    """Classify every element of a reference event against the pieces matched to it, in order.

    Time grows with pieces x slots; long captions are taken a few thousand pieces at a time.
    """
    if not pieces:
        return ["lack"] * len(event.elements)
    joined = np.zeros(len(event.weights), dtype=np.float32)
    focus = np.zeros(len(event.elements), dtype=np.float32)
    conflicts = _Conflicts()
    for start in range(0, len(pieces), _CHUNK):
        part = pieces[start : start + _CHUNK]
        said = _table(part, event.covers, event.partly, len(event.weights))
        joined = np.maximum(joined, said.max(axis=0))
        share = _shares(event, said)
        focus = np.maximum(focus, share.max(axis=0))
        if len(part) > 1:
            pairs = np.maximum(said[:-1], said[1:])
            focus = np.maximum(focus, _TWO_PIECES * _shares(event, pairs).max(axis=0))
        conflicts.search(event, part, said, share)
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
    said = np.zeros((len(pieces), slots), dtype=np.float32)
    for places, credit in ((partial, _PARTIAL), (full, 1.0)):
        rows: list[int] = []
        columns: list[int] = []
        for row, piece in enumerate(pieces):
            for concept in piece.concepts.keys() & places.keys():
                columns += places[concept]
                rows += [row] * len(places[concept])
        said[rows, columns] = credit
    return said


def _shares(event: EventReading, said: Table) -> Table:
    summed = np.add.reduceat(said * event.weights, event.starts, axis=1)
    return (summed / event.totals).astype(np.float32, copy=False)


class _Conflicts:
    """Per element and point at issue, the strongest conflict and the strongest agreement.

    The strength is the share of the rest of the element that the same piece says: what is said of
    something else neither contradicts nor confirms.
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
        self, event: EventReading, pieces: Sequence[Reading], said: Table, share: Table
    ) -> None:
        """Look for conflicts in some of the pieces, and add them to what was found before."""
        # What agrees may say the rest a sentence earlier ("raises a hand and then puts it down").
        near = said.copy()
        near[1:] = np.maximum(said[1:], said[:-1])
        close = _shares(event, near)
        self._opposites(event, pieces, (said, share), (near, close))
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
                    strength = _rest(event, place, slot, said[row], share[row])
                    point = (place, f"claim {number}")
                    if claim.excludes(other):
                        weak = {claim.concept, other.concept} & WEAK_NUMBERS
                        self._oppose(point, strength, _WEAKLY_CLAIMED if weak else _CLAIMED)
                    else:
                        self._agree(point, _rest(event, place, slot, near[row], close[row]))
            if element.actor and element.actor_slot >= 0:
                for row in acting:
                    slot = element.actor_slot
                    strength = _rest(event, place, slot, said[row], share[row])
                    if pieces[row].actor & element.actor:
                        self._agree((place, "actor"), strength)
                    elif said[row, element.actor_slot] == 0 or element.actors & pieces[row].actor:
                        self._oppose((place, "actor"), strength, _ACTED)

    def _opposites(
        self,
        event: EventReading,
        pieces: Sequence[Reading],
        alone: tuple[Table, Table],
        near: tuple[Table, Table],
    ) -> None:
        said, share = alone
        opposed: set[int] = set()
        for row, piece in enumerate(pieces):
            for concept in piece.concepts.keys() & event.opposes.keys():
                for slot in event.opposes[concept]:
                    if said[row, slot] < 1.0:
                        place = int(event.owners[slot])
                        strength = _rest(event, place, slot, said[row], share[row])
                        self._oppose((place, slot), strength, _OPPOSED)
                        opposed.add(slot)
        for slot in opposed:
            place = int(event.owners[slot])
            for row in np.flatnonzero(said[:, slot] == 1.0).tolist():
                strength = _rest(event, place, slot, near[0][row], near[1][row])
                self._agree((place, slot), strength)

    def _oppose(self, point: tuple[int, str | int], strength: float, least: float) -> None:
        if strength >= least:
            self._against[point] = max(strength, self._against.get(point, 0.0))

    def _agree(self, point: tuple[int, str | int], strength: float) -> None:
        self._agreed[point] = max(strength, self._agreed.get(point, 0.0))


def _rest(event: EventReading, place: int, slot: int, said: Table, share: Table) -> float:
    """Return the share of an element that is said, one of its slots left out."""
    total, part = float(event.totals[place]), float(share[place])
    if slot < 0:
        return part
    weight = float(event.weights[slot])
    rest = total - weight
    return (part * total - float(said[slot]) * weight) / rest if rest > 1e-6 else 1.0

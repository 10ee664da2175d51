"""The places of numbers in tables of scores: overall, by type, and by bucket of videos."""

from __future__ import annotations

from dataclasses import dataclass

from capeval.schema import CHARACTERISTICS, ELEMENT_TYPES
from capeval.scoring import Scores
from capeval.scoring.buckets import ELEMENT_BUCKETS, EVENT_BUCKETS

Place = tuple[str, str]
"""The way of grouping, and the group: ("type", "camera"), ("events", "3-4")."""

OVERALL: Place = ("overall", "all")
TYPE_PLACES: tuple[Place, ...] = tuple(("type", name) for name in ELEMENT_TYPES)
CHARACTERISTIC_PLACES: tuple[Place, ...] = tuple(
    ("visual_characteristic", name) for name in CHARACTERISTICS
)
EVENT_PLACES: tuple[Place, ...] = tuple(("events", name) for _, name in EVENT_BUCKETS)
ELEMENT_PLACES: tuple[Place, ...] = tuple(("elements", name) for _, name in ELEMENT_BUCKETS)


@dataclass(frozen=True)
class Measured:
    """Means from 0 to 1 over `n` videos; None where there is none, or it is not known."""

    precision: float | None
    recall: float | None
    f1: float | None
    n: int | None = None


def measured(scores: Scores) -> dict[Place, Measured]:
    """Return the means overall, by type, and of all elements in every bucket that has videos."""
    found = {OVERALL: scores.overall.all}
    found |= {place: getattr(scores.overall, place[1]) for place in TYPE_PLACES}
    for way in type(scores.by).model_fields:
        found |= {(way, name): of.all for name, of in getattr(scores.by, way).items()}
    return {
        place: Measured(of.precision.value, of.recall.value, of.f1.value, of.n)
        for place, of in found.items()
        if of.n
    }

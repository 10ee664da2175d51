"""What a forest plot of two runs' differences shows."""

from __future__ import annotations

from capeval.errors import both_ends
from capeval.reporting.figures import Forest, ForestRow
from capeval.schema import ELEMENT_TYPES
from capeval.scoring.difference import Comparison, TypeDifference

__all__ = ["forest_of"]

_NAME = 60

_WAYS = {
    "visual_characteristic": "",
    "domain": "",
    "events": " events",
    "elements": " elements",
}


def forest_of(found: Comparison) -> Forest:
    """Return the forest plot of the F1 of a comparison: overall, by type, and in every bucket.

    The p of buckets is adjusted as the comparison has it, that of types is not.
    """
    first, second = (both_ends(run.name, _NAME) for run in (found.first, found.second))
    rows = [_row("Overall", found.overall.all, found.overall.all.f1.p)]
    for name in ELEMENT_TYPES:
        of: TypeDifference = getattr(found.overall, name)
        rows.append(_row(name.title(), of, of.f1.p))
    for way, unit in _WAYS.items():
        for name, bucket in getattr(found.by, way).items():
            rows.append(_row(f"{name}{unit}", bucket.all, bucket.p_adjusted, adjusted=True))
    return Forest(
        name="forest",
        title=f"F1 of {second} less that of {first}",
        axis=f"F1 of {second} less that of {first} (points)",
        rows=tuple(rows),
    )


def _row(label: str, of: TypeDifference, p: float | None, *, adjusted: bool = False) -> ForestRow:
    return ForestRow(label, of.f1.value, of.f1.low, of.f1.high, p, of.n, adjusted)

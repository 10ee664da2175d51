"""Which cells of the TUNA paper's tables 8, 9 and 10 disagree with one another.

What disagrees is computed from the tables by what must be true of any means over the same videos,
beyond what rounding to one decimal can hide.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from functools import cache
from itertools import combinations
from typing import NamedTuple

import numpy as np

from capeval.reporting.leaderboard.published import TABLE
from capeval.reporting.score_tables import (
    CHARACTERISTIC_PLACES,
    ELEMENT_PLACES,
    EVENT_PLACES,
    OVERALL,
    TYPE_PLACES,
    Place,
)

__all__ = ["Misprint", "Row", "Tables", "misprints", "mixing_share", "read_tables"]

Triple = tuple[float, float, float]

# Two cells that are mixed and the mix itself are each off by at most 0.05 points.
_ROUNDING = 0.1 + 1e-9


class Row(NamedTuple):
    """A model's numbers in percent, as printed.

    `table8` and `table9` have (P, R, F1) of four columns and of Overall; `table10` has F1 of five
    buckets of events, five of elements, and Overall.
    """

    model: str
    table8: tuple[Triple, ...]
    table9: tuple[Triple, ...]
    table10: tuple[float, ...]


class Tables(NamedTuple):
    """The paper's tables.

    `characteristics` are numbers of videos. `averages` are the means that table 10 prints: the
    models, and the values, NaN where one is not known.
    """

    videos: int
    characteristics: dict[str, int]
    rows: tuple[Row, ...]
    averages: dict[str, tuple[Sequence[str], Sequence[float]]]


class Misprint(NamedTuple):
    """Cells that cannot all be right, or that are unlikely to be; `model` is None for means."""

    model: str | None
    table: int
    places: tuple[Place, ...]
    text: str


def mixing_share(rows: Sequence[Row]) -> float:
    """Return the share of Low-Dynamic videos that fits the rows' Overall best.

    Every video is Low- or High-Dynamic and never both, so every Overall of table 9 is the same
    mix of the two. Least squares over P, R and F1 of all models; what no such mix can explain
    within rounding is left out and the share fitted again, until nothing changes.
    """
    points = [
        (row.table9[0][m], row.table9[1][m], row.table9[4][m]) for row in rows for m in range(3)
    ]
    kept, share = points, math.nan
    while True:
        weight = sum((low - high) ** 2 for low, high, _ in kept)
        share = sum((all_ - high) * (low - high) for low, high, all_ in kept) / weight
        # The share is not exact either.
        left = [
            point
            for point in points
            if abs(share * point[0] + (1 - share) * point[1] - point[2]) <= 2 * _ROUNDING
        ]
        if left == kept:
            return share
        kept = left


def read_tables() -> Tables:
    """Read the tables that capeval ships."""
    content = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    rows = tuple(
        Row(
            model,
            _triples(content["table8"][model]),
            _triples(content["table9"][model]),
            tuple(content["table10"][model]),
        )
        for model in content["models"]
    )
    averages = {name: (one["models"], one["values"]) for name, one in content["averages"].items()}
    return Tables(content["videos"], content["characteristics"], rows, averages)


def _triples(flat: Sequence[float]) -> tuple[Triple, ...]:
    return tuple((flat[at], flat[at + 1], flat[at + 2]) for at in range(0, 15, 3))


def misprints(paper: Tables) -> list[Misprint]:
    """Return all cells that disagree with others, in the order of the tables."""
    of_rows = [
        found
        for row in paper.rows
        for found in (
            *_overall(row),
            *_bounds(row),
            *_alike(row),
            *_dynamics(row, paper),
            *_complexity(row, paper.rows),
        )
    ]
    return of_rows + _averages(paper)


def _columns(row: Row) -> list[tuple[int, tuple[Place, ...], tuple[Triple, ...]]]:
    return [
        (8, (*TYPE_PLACES, OVERALL), row.table8),
        (9, (*CHARACTERISTIC_PLACES, OVERALL), row.table9),
    ]


def _overall(row: Row) -> list[Misprint]:
    """Overall is in three tables and must be the same number."""
    overall = {8: row.table8[4], 9: row.table9[4], 10: (None, None, row.table10[-1])}
    wrong = [
        f"{name} {overall[8][m]:.1f} in table 8, {overall[table][m]:.1f} in table {table}"
        for m, name in enumerate(("P", "R", "F1"))
        for table in (9, 10)
        if overall[table][m] is not None and overall[table][m] != overall[8][m]
    ]
    return (
        [Misprint(row.model, 8, (OVERALL,), f"Overall differs: {'; '.join(wrong)}")]
        if wrong
        else []
    )


def _bounds(row: Row) -> list[Misprint]:
    """Of every video R <= F1, and the harmonic mean is concave: that of the means bounds F1."""
    found = []
    for table, places, triples in _columns(row):
        for place, (p, r, f1) in zip(places, triples, strict=True):
            top = 2 * p * r / (p + r) if p + r else 0.0
            if not r - _ROUNDING <= f1 <= top + _ROUNDING:
                found.append(
                    Misprint(
                        row.model,
                        table,
                        (place,),
                        f"F1 of {place[1]} is {f1:.1f}, but a mean over videos with P {p:.1f} and "
                        f"R {r:.1f} lies from {r:.1f} to {top:.1f}",
                    )
                )
    return found


def _alike(row: Row) -> list[Misprint]:
    """Two columns of unlike videos or elements with the same P and R: one may be a slip."""
    found = []
    for table, places, triples in _columns(row):
        columns = list(zip(places[:4], triples[:4], strict=True))
        for (first, one), (second, other) in combinations(columns, 2):
            if one[:2] == other[:2]:
                same = "P, R and F1" if one == other else "P and R"
                text = f"{_name(first)} and {_name(second)} have the same {same}"
                found.append(Misprint(row.model, table, (first, second), text))
    return found


def _dynamics(row: Row, paper: Tables) -> list[Misprint]:
    low, high, total = row.table9[0], row.table9[1], row.table9[4]
    share = paper.characteristics["Low-Dynamic"] / paper.videos
    mixed = [share * a + (1 - share) * b for a, b in zip(low, high, strict=True)]
    wrong = [m for m in range(3) if abs(mixed[m] - total[m]) > _ROUNDING]
    if not wrong:
        return []
    told = " and ".join(
        f"{('P', 'R', 'F1')[m]} {mixed[m]:.1f}, printed {total[m]:.1f}" for m in wrong
    )
    text = f"the mix of {share:.0%} Low- and {1 - share:.0%} High-Dynamic gives Overall {told}"
    if 2 in wrong and not _complexity(row, paper.rows):
        text += f"; table 10's mixes agree with {total[2]:.1f}"
    return [Misprint(row.model, 9, (*CHARACTERISTIC_PLACES[:2], OVERALL), text)]


def _complexity(row: Row, rows: Sequence[Row]) -> list[Misprint]:
    """Overall is one mix of the buckets of events, and one of those of elements, for all models."""
    found = []
    for start, places, what in ((0, EVENT_PLACES, "events"), (5, ELEMENT_PLACES, "elements")):
        shares = _mix(tuple((*r.table10[start : start + 5], r.table10[-1]) for r in rows))
        mixed = sum(
            share * value
            for share, value in zip(shares, row.table10[start : start + 5], strict=True)
        )
        # The shares are fitted, and so are off themselves: twice what rounding explains.
        if abs(mixed - row.table10[-1]) > 2 * _ROUNDING:
            text = (
                f"the mix of its buckets of {what} that fits all models gives Overall F1 "
                f"{mixed:.1f}, printed {row.table10[-1]:.1f}"
            )
            found.append(Misprint(row.model, 10, (*places, OVERALL), text))
    return found


@cache
def _mix(rows: tuple[tuple[float, ...], ...]) -> tuple[float, ...]:
    """Return the shares, with sum 1, of the first columns that give the last one best."""
    values = np.array(rows)
    # The last share is what the others leave: their columns are taken relative to its column.
    relative = values[:, :-2] - values[:, -2:-1]
    shares, *_ = np.linalg.lstsq(relative, values[:, -1] - values[:, -2], rcond=None)
    return (*shares.tolist(), float(1 - shares.sum()))


def _averages(paper: Tables) -> list[Misprint]:
    found = []
    by_model = {row.model: row.table10 for row in paper.rows}
    places = (*EVENT_PLACES, *ELEMENT_PLACES, OVERALL)
    for name, (models, values) in paper.averages.items():
        for at, value in enumerate(values):
            mean = math.fsum(by_model[model][at] for model in models) / len(models)
            if abs(mean - value) > _ROUNDING:  # never of NaN
                text = (
                    f"the mean of the {name} models in {_name(places[at])} is {mean:.1f}, "
                    f"printed {value:.1f}"
                )
                found.append(Misprint(None, 10, (places[at],), text))
    return found


def _name(place: Place) -> str:
    way, name = place
    if way in ("events", "elements"):
        return f"{name} {way}"
    return name.capitalize() if way in ("type", "overall") else name

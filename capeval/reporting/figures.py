"""The data of figures, apart from how they are drawn; the report and `capeval plot` share them.

Values are fractions and drawn as percentages. None is a gap, never a zero.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from capeval.comparing.comparison import Comparison
from capeval.comparing.differences import TypeDifference
from capeval.schema import CHARACTERISTICS, ELEMENT_TYPES
from capeval.scoring import Estimate, Scores, TypeScores
from capeval.scoring.counts import ELEMENT_BUCKETS, EVENT_BUCKETS
from capeval.scoring.judged_run import JudgedRun
from capeval.text import both_ends

Cells = Sequence[TypeScores | None]


@dataclass(frozen=True)
class Grid:
    """Scores of several series (runs or models) at named places.

    `by` says what the places are, and `ordered` whether they have an order.
    """

    name: str
    by: str
    ordered: bool
    places: Sequence[str]
    series: Mapping[str, Cells]

    @property
    def values(self) -> list[list[Estimate | None]]:
        return [[cell.f1 if cell else None for cell in cells] for cells in self.series.values()]

    @property
    def rows(self) -> list[tuple[str, Cells]]:
        cells = zip(*self.series.values(), strict=True)
        return list(zip(self.places, cells, strict=True)) if self.series else []

    @property
    def sizes(self) -> list[int]:
        return [max(cell.n if cell else 0 for cell in cells) for _, cells in self.rows]

    @property
    def empty(self) -> bool:
        return all(one is None or one.value is None for values in self.values for one in values)

    @property
    def few(self) -> bool:
        """Whether a value has no interval, because there are too few videos."""
        known = (one for values in self.values for one in values if one is not None)
        return any(one.value is not None and None in (one.low, one.high) for one in known)


@dataclass(frozen=True)
class ForestRow:
    """A difference with its interval; `p` is the one to show, `adjusted` if by Holm."""

    label: str
    value: float | None
    low: float | None
    high: float | None
    p: float | None
    n: int
    adjusted: bool = False


@dataclass(frozen=True)
class Forest:
    """Differences of two runs, second − first, by bucket."""

    name: str
    axis: str
    rows: Sequence[ForestRow]

    @property
    def empty(self) -> bool:
        return all(row.value is None for row in self.rows)


@dataclass(frozen=True)
class Scatter:
    """A metric and human ratings: (metric, human) points by system."""

    name: str
    x: str
    y: str
    points: Mapping[str, Sequence[tuple[float, float]]]
    note: str = ""

    @property
    def empty(self) -> bool:
        return not any(self.points.values())


Figure = Grid | Forest | Scatter

# What the places are, whether they are ordered, and the places; None for those of the data.
_BREAKDOWNS: Mapping[str, tuple[str, bool, Sequence[str] | None]] = {
    "types": ("type of element", False, ELEMENT_TYPES),
    "characteristics": ("visual characteristic", False, CHARACTERISTICS),
    "events": ("number of events", True, [name for _, name in EVENT_BUCKETS]),
    "elements": ("number of elements", True, [name for _, name in ELEMENT_BUCKETS]),
    "domains": ("domain", False, None),
    "frames": ("number of frames", True, None),
}


def breakdowns(runs: Mapping[str, JudgedRun]) -> dict[str, Grid]:
    """Return F1 by each kind of element and video, by the name of the figure.

    `frames` (the paper's figure 11) has a series for each model with runs of different numbers of
    frames; it is left out where there is none.
    """
    of_runs = {name: _places(run.scores) for name, run in runs.items()}
    names = [name for name in _BREAKDOWNS if name != "frames"]
    found = {name: _grid(name, {run: of[name] for run, of in of_runs.items()}) for name in names}
    models: dict[str, dict[str, TypeScores]] = {}
    for name, run in runs.items():
        if run.frames is not None and re.fullmatch(r"[0-9]+", run.frames):
            models.setdefault(run.model or name, {})[run.frames] = run.scores.overall.all
    several = {model: by for model, by in models.items() if len(by) > 1}
    return found | ({"frames": _grid("frames", several)} if several else {})


def _places(scores: Scores) -> dict[str, dict[str, TypeScores]]:
    by = scores.by
    buckets = {
        "characteristics": by.visual_characteristic,
        "events": by.events,
        "elements": by.elements,
        "domains": by.domain,
    }
    found: dict[str, dict[str, TypeScores]] = {
        name: {place: bucket.all for place, bucket in of.items()} for name, of in buckets.items()
    }
    found["types"] = {kind: getattr(scores.overall, kind) for kind in ELEMENT_TYPES}
    return found


def _grid(name: str, series: Mapping[str, Mapping[str, TypeScores]]) -> Grid:
    by, ordered, order = _BREAKDOWNS[name]
    known = {place for of in series.values() for place in of}
    if order is None:
        order = sorted(known, key=int if name == "frames" else None)
    places = tuple(place for place in order if place in known)
    cells = {one: tuple(of.get(place) for place in places) for one, of in series.items()}
    return Grid(name, by, ordered, places, cells)


# Longer names of runs keep both their ends in a title.
_LONGEST_NAME = 60

_UNITS = {"visual_characteristic": "", "domain": "", "events": " events", "elements": " elements"}


def forest_of(found: Comparison) -> Forest:
    """Return the forest plot of the F1 of a comparison: overall, by type, and in every bucket.

    The p of buckets is adjusted, that of types is not.
    """
    first, second = (both_ends(run.name, _LONGEST_NAME) for run in (found.first, found.second))
    rows = [
        _row(name.title() if name != "all" else "Overall", of, of.f1.p)
        for name in ("all", *ELEMENT_TYPES)
        for of in [getattr(found.overall, name)]
    ]
    for way, unit in _UNITS.items():
        for name, bucket in getattr(found.by, way).items():
            rows.append(_row(f"{name}{unit}", bucket.all, bucket.p_adjusted, adjusted=True))
    return Forest("forest", f"F1 of {second} − F1 of {first} (points)", rows)


def _row(label: str, of: TypeDifference, p: float | None, *, adjusted: bool = False) -> ForestRow:
    return ForestRow(label, of.f1.value, of.f1.low, of.f1.high, p, of.n, adjusted)

"""The data of figures, apart from how they are drawn; the report and `capeval plot` share them.

Values are fractions and drawn as percentages. None is a gap, never a zero.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from capeval.comparing.comparison import Comparison, Differences
from capeval.schema import ELEMENT_TYPES
from capeval.scoring import Estimate, TypeScores
from capeval.scoring.counts import WAYS, Way
from capeval.scoring.judged_run import JudgedRun
from capeval.scoring.scores import scores_by
from capeval.show.numbers import Bounded
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
    of: Bounded
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
        return all(row.of.value is None for row in self.rows)


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


def breakdowns(runs: Mapping[str, JudgedRun]) -> dict[str, Grid]:
    """Return F1 by each kind of element and video, by the name of the figure.

    `frames` (the paper's figure 11) has a series for each model with runs of different numbers of
    frames; it is left out where there is none.
    """
    # Groups of the data's own may be many: they come last.
    ways = sorted(WAYS.items(), key=lambda way: not way[1].groups)
    found = {
        way.plural: _grid(way, {run: scores_by(of.scores, key) for run, of in runs.items()})
        for key, way in ways
    }
    models: dict[str, dict[str, TypeScores]] = {}
    for name, run in runs.items():
        if run.frames is not None and re.fullmatch(r"[0-9]+", run.frames):
            models.setdefault(run.model or name, {})[run.frames] = run.scores.overall.all
    several = {model: by for model, by in models.items() if len(by) > 1}
    if several:
        counts = sorted({count for of in several.values() for count in of}, key=int)
        way = Way("number of frames", "Frames", "frames", tuple(counts), unit=" frames")
        found["frames"] = _grid(way, several)
    return found


def _grid(way: Way, series: Mapping[str, Mapping[str, TypeScores]]) -> Grid:
    known = {place for of in series.values() for place in of}
    places = tuple(place for place in way.groups or sorted(known) if place in known)
    cells = {one: tuple(of.get(place) for place in places) for one, of in series.items()}
    return Grid(way.plural, way.title, bool(way.unit), places, cells)


# Longer names of runs keep both their ends in a title.
_LONGEST_NAME = 60


def forest_of(found: Comparison) -> Forest:
    """Return the forest plot of the F1 of a comparison: overall, by type, and in every bucket.

    The p of buckets is adjusted, that of types is not.
    """
    first, second = (both_ends(run.name, _LONGEST_NAME) for run in (found.first, found.second))
    rows = [
        ForestRow(name.title() if name != "all" else "Overall", of.f1, of.f1.p, of.n)
        for name in ("all", *ELEMENT_TYPES)
        for of in [getattr(found.overall, name)]
    ]
    for way in Differences.model_fields:
        for name, bucket in getattr(found.by, way).items():
            label, of = f"{name}{WAYS[way].unit}", bucket.all
            rows.append(ForestRow(label, of.f1, bucket.p_adjusted, of.n, adjusted=True))
    return Forest("forest", f"F1 of {second} − F1 of {first} (points)", rows)

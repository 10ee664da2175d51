"""The data of figures, apart from how they are drawn; the report and `capeval plot` share them.

Values are fractions and drawn as percentages. None is a gap, never a zero.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from capeval.runs.judged_run import JudgedRun
from capeval.schema import CHARACTERISTICS, ELEMENT_TYPES
from capeval.scoring import Estimate, Scores, TypeScores
from capeval.scoring.buckets import ELEMENT_BUCKETS, EVENT_BUCKETS
from capeval.scoring.comparison_result import Comparison, TypeDifference
from capeval.text import both_ends


@dataclass(frozen=True)
class Series:
    """One line, bar colour or polygon: the scores at each place of its grid."""

    name: str
    cells: tuple[TypeScores | None, ...]

    @property
    def values(self) -> list[Estimate | None]:
        """F1 at each place."""
        return [None if cell is None else cell.f1 for cell in self.cells]


@dataclass(frozen=True)
class Grid:
    """Scores of several series at named places.

    `kind` says how it is best drawn: the places of "rows" have no order, those of
    "curves" have one.
    """

    name: str
    title: str
    kind: Literal["rows", "curves"]
    axis: str
    places: tuple[str, ...]
    series: tuple[Series, ...]

    @property
    def counts(self) -> list[list[int]]:
        """The numbers of videos at each place, one for each series."""
        return [[cell.n if cell else 0 for cell in self.at(at)] for at in range(len(self.places))]

    @property
    def sizes(self) -> list[int]:
        """The largest number of videos at each place."""
        return [max(counts, default=0) for counts in self.counts]

    def at(self, place: int) -> list[TypeScores | None]:
        """Return the scores of all series at a place."""
        return [series.cells[place] for series in self.series]


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
    title: str
    axis: str
    rows: tuple[ForestRow, ...]


@dataclass(frozen=True)
class Scatter:
    """A metric and human ratings: (metric, human) points by system."""

    name: str
    title: str
    x: str
    y: str
    points: Mapping[str, tuple[tuple[float, float], ...]]
    note: str = ""


Figure = Grid | Forest | Scatter


def has_interval(estimate: Estimate | None) -> bool:
    """Return whether there is a value with its interval; few videos have a value alone."""
    return estimate is not None and None not in (estimate.value, estimate.low, estimate.high)


def some_without_interval(grid: Grid) -> bool:
    """Return whether a value of a grid has no interval, which a drawing must explain."""
    return any(
        one is not None and one.value is not None and not has_interval(one)
        for series in grid.series
        for one in series.values
    )


def by_type(runs: Mapping[str, Scores]) -> Grid:
    """Return F1 by type of element (the paper's figure 1)."""
    ways: dict[str, dict[str, TypeScores]] = {
        name: {kind: getattr(scores.overall, kind) for kind in ELEMENT_TYPES}
        for name, scores in runs.items()
    }
    return _grid("types", "F1 by type of element", "rows", "Type", ELEMENT_TYPES, ways)


_Way = Literal["visual_characteristic", "domain", "events", "elements"]
# The name, title, kind and axis of each figure; events and elements are the paper's 6 and 10.
_BY: dict[_Way, tuple[str, str, Literal["rows", "curves"], str]] = {
    "visual_characteristic": (
        "characteristics",
        "F1 by visual characteristic",
        "rows",
        "Characteristic",
    ),
    "domain": ("domains", "F1 by domain", "rows", "Domain"),
    "events": ("events", "F1 by number of events", "curves", "Events in the video"),
    "elements": ("elements", "F1 by number of elements", "curves", "Visual elements in the video"),
}


def by_bucket(runs: Mapping[str, Scores], way: _Way) -> Grid:
    """Return F1 by visual characteristic, domain, number of events or number of elements."""
    ways = {
        name: {place: bucket.all for place, bucket in getattr(scores.by, way).items()}
        for name, scores in runs.items()
    }
    order: Mapping[_Way, Sequence[str]] = {
        "visual_characteristic": CHARACTERISTICS,
        "domain": sorted({place for cells in ways.values() for place in cells}),
        "events": [name for _, name in EVENT_BUCKETS],
        "elements": [name for _, name in ELEMENT_BUCKETS],
    }
    name, title, kind, axis = _BY[way]
    return _grid(name, title, kind, axis, order[way], ways)


def by_frames(runs: Mapping[str, JudgedRun]) -> Grid | None:
    """Return overall F1 by number of frames, a series for each model (figure 11); None where no
    model has runs with different numbers of frames.
    """
    found: dict[str, dict[int, TypeScores]] = {}
    for name, run in runs.items():
        if run.frames is not None and re.fullmatch(r"[0-9]+", run.frames):
            found.setdefault(run.model or name, {})[int(run.frames)] = run.scores.overall.all
    several = {model: by for model, by in found.items() if len(by) > 1}
    if not several:
        return None
    order = [str(count) for count in sorted({count for by in several.values() for count in by})]
    ways = {model: {str(n): scores for n, scores in by.items()} for model, by in several.items()}
    return _grid("frames", "F1 by number of frames", "curves", "Frames", order, ways)


def _grid(
    name: str,
    title: str,
    kind: Literal["rows", "curves"],
    axis: str,
    order: Sequence[str],
    ways: Mapping[str, Mapping[str, TypeScores]],
) -> Grid:
    places = tuple(place for place in order if any(place in way for way in ways.values()))
    series = tuple(
        Series(name, tuple(way.get(place) for place in places)) for name, way in ways.items()
    )
    return Grid(name, title, kind, axis, places, series)


# Longer names of runs keep both their ends in a title.
_LONGEST_NAME = 60

_UNITS = {"visual_characteristic": "", "domain": "", "events": " events", "elements": " elements"}


def forest_of(found: Comparison) -> Forest:
    """Return the forest plot of the F1 of a comparison: overall, by type, and in every bucket.

    The p of buckets is adjusted, that of types is not.
    """
    first, second = (both_ends(run.name, _LONGEST_NAME) for run in (found.first, found.second))
    rows = [_row("Overall", found.overall.all, found.overall.all.f1.p)]
    for name in ELEMENT_TYPES:
        of: TypeDifference = getattr(found.overall, name)
        rows.append(_row(name.title(), of, of.f1.p))
    for way, unit in _UNITS.items():
        for name, bucket in getattr(found.by, way).items():
            rows.append(_row(f"{name}{unit}", bucket.all, bucket.p_adjusted, adjusted=True))
    title = f"F1 of {second} − F1 of {first}"
    return Forest("forest", title, f"{title} (points)", tuple(rows))


def _row(label: str, of: TypeDifference, p: float | None, *, adjusted: bool = False) -> ForestRow:
    return ForestRow(label, of.f1.value, of.f1.low, of.f1.high, p, of.n, adjusted)

"""What the figures show, apart from how they are drawn: the report and `capeval plot` share it.

Values are fractions; whoever draws shows percent. None is a gap, never a zero.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from capeval.runs.judged_run import JudgedRun
from capeval.schema import CHARACTERISTICS, ELEMENT_TYPES
from capeval.scoring import Bucket, Estimate, Scores
from capeval.scoring.buckets import ELEMENT_BUCKETS, EVENT_BUCKETS
from capeval.scoring.comparison_result import Comparison, TypeDifference
from capeval.text import both_ends


@dataclass(frozen=True)
class Series:
    """One line, bar colour or polygon: an estimate at each place of its grid."""

    name: str
    values: tuple[Estimate | None, ...]


@dataclass(frozen=True)
class Grid:
    """Estimates of several series over named places; `sizes` are videos at each place.

    `kind` says what it is best drawn as: "radar" and "bars" have places without an order,
    "curves" have one.
    """

    name: str
    title: str
    kind: Literal["radar", "bars", "curves"]
    axis: str
    places: tuple[str, ...]
    sizes: tuple[int, ...]
    series: tuple[Series, ...]


@dataclass(frozen=True)
class ForestRow:
    """A difference with its interval; `p` as it is to be shown, `adjusted` where it is (Holm)."""

    label: str
    value: float | None
    low: float | None
    high: float | None
    p: float | None
    n: int
    adjusted: bool = False


@dataclass(frozen=True)
class Forest:
    """Differences of two runs, second less first, by bucket."""

    name: str
    title: str
    axis: str
    rows: tuple[ForestRow, ...]


@dataclass(frozen=True)
class Scatter:
    """A metric against people: (metric, human) points by system."""

    name: str
    title: str
    x: str
    y: str
    points: Mapping[str, tuple[tuple[float, float], ...]]
    note: str = ""


@dataclass(frozen=True)
class Confusion:
    """How often a judge (columns) gave each label where people (rows) gave each."""

    name: str
    title: str
    rows: str
    columns: str
    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


Figure = Grid | Forest | Scatter | Confusion


def has_interval(estimate: Estimate | None) -> bool:
    """Say whether there is a value with its interval; of few videos there is a value alone."""
    return estimate is not None and None not in (estimate.value, estimate.low, estimate.high)


def some_without_interval(grid: Grid) -> bool:
    """Say whether a value of a grid has no interval, which whoever draws it must say."""
    return any(
        one is not None and one.value is not None and not has_interval(one)
        for series in grid.series
        for one in series.values
    )


def by_type(runs: Mapping[str, Scores]) -> Grid:
    """Return F1 by type of element (the paper's figure 1)."""
    return Grid(
        name="types",
        title="F1 by type of element",
        kind="radar",
        axis="Type",
        places=ELEMENT_TYPES,
        sizes=_most([[getattr(s.overall, t).n for t in ELEMENT_TYPES] for s in runs.values()]),
        series=tuple(
            Series(name, tuple(getattr(scores.overall, t).f1 for t in ELEMENT_TYPES))
            for name, scores in runs.items()
        ),
    )


def by_characteristic(runs: Mapping[str, Scores]) -> Grid:
    """Return F1 by visual characteristic."""
    ways = {name: scores.by.visual_characteristic for name, scores in runs.items()}
    known = [place for place in CHARACTERISTICS if any(place in way for way in ways.values())]
    return _buckets(
        "characteristics", "F1 by visual characteristic", "bars", "Characteristic", known, ways
    )


def by_domain(runs: Mapping[str, Scores]) -> Grid:
    """Return F1 by domain."""
    ways = {name: scores.by.domain for name, scores in runs.items()}
    known = sorted({place for way in ways.values() for place in way})
    return _buckets("domains", "F1 by domain", "bars", "Domain", known, ways)


def by_complexity(runs: Mapping[str, Scores], way: Literal["events", "elements"]) -> Grid:
    """Return F1 by number of events or of elements (the paper's figures 6 and 10)."""
    ways = {name: getattr(scores.by, way) for name, scores in runs.items()}
    order = [name for _, name in (EVENT_BUCKETS if way == "events" else ELEMENT_BUCKETS)]
    known = [place for place in order if any(place in found for found in ways.values())]
    axis = "Events in the video" if way == "events" else "Visual elements in the video"
    return _buckets(way, f"F1 by number of {way}", "curves", axis, known, ways)


def by_frames(runs: Mapping[str, JudgedRun]) -> Grid | None:
    """Return overall F1 by number of frames, a series for each model (figure 11); None where no
    model has runs with different numbers of frames.
    """
    found: dict[str, dict[int, Bucket]] = {}
    for name, run in runs.items():
        if run.frames is not None and re.fullmatch(r"[0-9]+", run.frames):
            found.setdefault(run.model or name, {})[int(run.frames)] = run.scores.overall
    several = {model: by for model, by in found.items() if len(by) > 1}
    if not several:
        return None
    order = sorted({count for by in several.values() for count in by})
    ways = {
        model: {str(count): bucket for count, bucket in by.items()} for model, by in several.items()
    }
    return _buckets(
        "frames", "F1 by number of frames", "curves", "Frames", list(map(str, order)), ways
    )


def _buckets(
    name: str,
    title: str,
    kind: Literal["radar", "bars", "curves"],
    axis: str,
    places: Sequence[str],
    ways: Mapping[str, Mapping[str, Bucket]],
) -> Grid:
    return Grid(
        name=name,
        title=title,
        kind=kind,
        axis=axis,
        places=tuple(places),
        sizes=_most([[w[p].all.n if p in w else 0 for p in places] for w in ways.values()]),
        series=tuple(
            Series(run, tuple(way[p].all.f1 if p in way else None for p in places))
            for run, way in ways.items()
        ),
    )


def _most(sizes: Sequence[Sequence[int]]) -> tuple[int, ...]:
    return tuple(map(max, zip(*sizes, strict=True))) if sizes else ()


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

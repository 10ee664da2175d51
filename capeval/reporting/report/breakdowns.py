"""F1 by kind of element and of video: charts, and the same as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from capeval.judging.split_checks import clean
from capeval.reporting import figures
from capeval.reporting.numbers import NOTHING, interval
from capeval.reporting.report.charts import chart
from capeval.reporting.report.data import Shown, letter_of
from capeval.schema import CHARACTERISTICS, ELEMENT_TYPES
from capeval.scoring import FEWEST, Bucket, TypeScores
from capeval.scoring.buckets import ELEMENT_BUCKETS, EVENT_BUCKETS
from capeval.text import one_line


@dataclass(frozen=True)
class BreakdownRow:
    """One bucket; a cell for each run, None where it has no such videos."""

    place: str
    cells: tuple[TypeScores | None, ...]


@dataclass(frozen=True)
class BreakdownChart:
    """One breakdown: its chart and the same as a table; `few` says what a hollow mark is."""

    title: str
    axis: str
    drawn: Markup
    rows: tuple[BreakdownRow, ...]
    note: str = ""
    few: str = ""


def breakdowns(shown: Sequence[Shown]) -> list[BreakdownChart]:
    """Return the charts of the page in order; those without any value are left out."""
    # Names are told apart by their letters: made fit to be shown, two may be alike.
    scores = {f"{one.letter} {one.name}": one.run.scores for one in shown}
    letters = [one.letter for one in shown]
    parts = [
        _part(
            figures.by_type(scores),
            letters,
            [
                BreakdownRow(name, tuple(getattr(s.overall, name) for s in scores.values()))
                for name in ELEMENT_TYPES
            ],
        ),
        _part(
            figures.by_characteristic(scores),
            letters,
            _bucket_rows([s.by.visual_characteristic for s in scores.values()], CHARACTERISTICS),
            "Videos may have several characteristics.",
        ),
        _part(
            figures.by_complexity(scores, "events"),
            letters,
            _bucket_rows(
                [s.by.events for s in scores.values()], [name for _, name in EVENT_BUCKETS]
            ),
        ),
        _part(
            figures.by_complexity(scores, "elements"),
            letters,
            _bucket_rows(
                [s.by.elements for s in scores.values()], [name for _, name in ELEMENT_BUCKETS]
            ),
        ),
    ]
    domains = figures.by_domain(scores)
    parts.append(
        _part(
            domains, letters, _bucket_rows([s.by.domain for s in scores.values()], domains.places)
        )
    )
    frames = figures.by_frames({f"{one.letter} {one.name}": one.run for one in shown})
    found = [part for part in parts if part.rows]
    if frames is not None:
        models = [letter_of(place) for place in range(len(frames.series))]
        found.append(
            BreakdownChart(
                frames.title,
                frames.axis,
                chart(frames, models, _frames_counts(frames, shown)),
                (),
                "Lines are models: "
                + "; ".join(
                    f"{letter} {one_line(clean(series.name), 120)}: "
                    + ", ".join(
                        f"{place} frames {interval(value) if value else NOTHING}"
                        for place, value in zip(frames.places, series.values, strict=True)
                    )
                    for letter, series in zip(models, frames.series, strict=True)
                )
                + ".",
                _few(frames),
            )
        )
    return found


def _frames_counts(grid: figures.Grid, shown: Sequence[Shown]) -> list[list[int]]:
    """Return the videos of each model at each number of frames."""
    found: dict[tuple[str, str], int] = {}
    for one in shown:
        if one.run.frames is not None and one.run.frames.lstrip("0") in grid.places:
            place = one.run.model or f"{one.letter} {one.name}", one.run.frames.lstrip("0")
            found[place] = one.run.scores.overall.all.n
    return [[found.get((one.name, place), 0) for one in grid.series] for place in grid.places]


def _part(
    grid: figures.Grid, letters: Sequence[str], rows: Sequence[BreakdownRow], note: str = ""
) -> BreakdownChart:
    kept = tuple(row for row in rows if any(cell and cell.n for cell in row.cells))
    of = {row.place: [cell.n if cell else 0 for cell in row.cells] for row in rows}
    drawn = chart(grid, letters, [of[place] for place in grid.places]) if kept else Markup()
    return BreakdownChart(grid.title, grid.axis, drawn, kept, note, _few(grid))


def _few(grid: figures.Grid) -> str:
    if not figures.some_without_interval(grid):
        return ""
    return f"no interval, of fewer than {FEWEST} videos"


def _bucket_rows(ways: Sequence[Mapping[str, Bucket]], order: Sequence[str]) -> list[BreakdownRow]:
    return [
        BreakdownRow(place, tuple(way[place].all if place in way else None for way in ways))
        for place in order
        if any(place in way for way in ways)
    ]

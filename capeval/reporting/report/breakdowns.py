"""F1 by kind of element and of video, as charts and as tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from capeval.judging.split_checks import clean
from capeval.reporting import figures
from capeval.reporting.numbers import NOTHING, interval, letter_of
from capeval.reporting.report.charts import chart
from capeval.reporting.report.data import Shown
from capeval.scoring import FEWEST, TypeScores
from capeval.text import one_line


@dataclass(frozen=True)
class Breakdown:
    """One breakdown: its chart, and rows of (place, scores of each run) for its table.

    `few` explains hollow marks, where there are any.
    """

    title: str
    axis: str
    drawn: Markup
    rows: Sequence[tuple[str, Sequence[TypeScores | None]]] = ()
    note: str = ""
    few: str = ""


def breakdowns(shown: Sequence[Shown]) -> list[Breakdown]:
    """Return the breakdowns of the page in order; those without any value are left out."""
    # Letters keep names apart: two that are shown alike may be different runs.
    names = {f"{one.letter} {one.name}": one.run for one in shown}
    scores = {name: run.scores for name, run in names.items()}
    letters = [one.letter for one in shown]
    parts = [
        _breakdown(figures.by_type(scores), letters),
        _breakdown(
            figures.by_characteristic(scores), letters, "Videos may have several characteristics."
        ),
        _breakdown(figures.by_complexity(scores, "events"), letters),
        _breakdown(figures.by_complexity(scores, "elements"), letters),
        _breakdown(figures.by_domain(scores), letters),
    ]
    found = [part for part in parts if part.rows]
    if frames := figures.by_frames(names):
        found.append(_frames(frames))
    return found


def _breakdown(grid: figures.Grid, letters: Sequence[str], note: str = "") -> Breakdown:
    rows = [(place, grid.at(at)) for at, place in enumerate(grid.places) if grid.sizes[at]]
    drawn = chart(grid, letters) if rows else Markup()
    return Breakdown(grid.title, grid.axis, drawn, rows, note, _few(grid))


def _frames(grid: figures.Grid) -> Breakdown:
    """Return F1 by number of frames, whose lines are models and not runs."""
    letters = [letter_of(place) for place in range(len(grid.series))]
    models = [
        f"{letter} {one_line(clean(series.name), 120)}: "
        + ", ".join(
            f"{place} frames {interval(value) if value else NOTHING}"
            for place, value in zip(grid.places, series.values, strict=True)
        )
        for letter, series in zip(letters, grid.series, strict=True)
    ]
    note = f"Lines are models: {'; '.join(models)}."
    return Breakdown(grid.title, grid.axis, chart(grid, letters), note=note, few=_few(grid))


def _few(grid: figures.Grid) -> str:
    few = figures.some_without_interval(grid)
    return f"no interval, fewer than {FEWEST} videos" if few else ""

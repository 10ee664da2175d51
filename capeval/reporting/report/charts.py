"""The report's charts.

Series differ in their letter and the shape of their marks, and not in colour alone.
A missing value is a gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from capeval.reporting.figures import (
    Grid,
    by_bucket,
    by_frames,
    by_type,
    has_interval,
    some_without_interval,
)
from capeval.reporting.numbers import (
    NOTHING,
    interval,
    letter_of,
    percent,
    place_name,
    plain_number,
    thousands,
)
from capeval.reporting.report.data import Shown
from capeval.reporting.report.svg import COLOURS, Scale, mark, picture, px, tag, text
from capeval.reporting.viewer.cards import LABEL_SIGNS
from capeval.schema import Relation
from capeval.scoring import FEWEST_VIDEOS, Estimate, TypeScores
from capeval.text import one_line, storable

_WIDTH = 360
# In charts of rows, labels end and values begin at these coordinates.
_LEFT, _RIGHT = 122, 294
_LONGEST_LABEL = 19
# The height of a stacked bar with its numbers.
_SHARE_HIGH = 36
# Of more runs, the different numbers of videos do not fit beside a place.
_MOST_COUNTS = 3


@dataclass(frozen=True)
class Share:
    """A row of a stacked bar: whole numbers that add up to the row's total."""

    label: str
    entailed: int
    contradicted: int
    lacked: int

    @property
    def total(self) -> int:
        """The whole."""
        return self.entailed + self.contradicted + self.lacked


def chart(grid: Grid, letters: Sequence[str]) -> Markup:
    """Return a grid as an SVG element; `letters` name its series.

    A row for each series at each place has a mark with a whisker, on a scale around all of them.
    """
    body, height = _rows(grid, letters, Scale.around(_values(grid)))
    return picture(grid.name, grid.title, _description(grid, letters), body, (_WIDTH, height))


def shares(name: str, title: str, rows: Sequence[Share]) -> Markup:
    """Return stacked bars of the entailed, contradicted and lacking weight."""
    body: list[Markup] = []
    words: list[str] = []
    for place, row in enumerate(rows):
        y = 4 + _SHARE_HIGH * place
        body.append(text(_LEFT - 8, y + 12, row.label, anchor="end"))
        start, end = float(_LEFT), _WIDTH - 4
        parts: tuple[tuple[str, Relation, int], ...] = (
            ("e", "entailment", row.entailed),
            ("c", "contradiction", row.contradicted),
            ("l", "lack", row.lacked),
        )
        for column, (kind, label, part) in enumerate(parts):
            sign = LABEL_SIGNS[label]
            wide = (end - _LEFT) * part / row.total if row.total else 0.0
            if wide > 0:
                shape = tag("rect", x=start, y=y, width=wide, height=16, class_=f"part {kind}")
                body.append(shape)
            if wide >= 12:
                body.append(text(start + 3, y + 12, sign, class_=f"on {kind}"))
            # Below the bar, where every number has room, however narrow its part is.
            under = _LEFT + (end - _LEFT) * column / len(parts)
            body.append(text(under, y + 27, f"{sign} {_of(part, row)}", class_="part-of"))
            start += wide
        words.append(
            f"{row.label}: entailed {_of(row.entailed, row)}, contradicted "
            f"{_of(row.contradicted, row)}, lacking {_of(row.lacked, row)}"
        )
    return picture(
        name, title, "In percent. " + "; ".join(words), body, (_WIDTH, 2 + _SHARE_HIGH * len(rows))
    )


def _of(part: int, row: Share) -> str:
    return percent(part / row.total) if row.total else NOTHING


def _values(grid: Grid) -> list[float]:
    return [
        number
        for series in grid.series
        for estimate in series.values
        if estimate is not None
        for number in (estimate.value, estimate.low, estimate.high)
        if number is not None
    ]


def _each(sizes: Sequence[int], letters: Sequence[str]) -> list[str]:
    """Return the number of videos at a place if all runs have the same, else one for each."""
    if len(set(sizes)) == 1:
        return [thousands(sizes[0])]
    if len(sizes) > _MOST_COUNTS:
        return [f"{thousands(min(sizes))}–{thousands(max(sizes))}"]
    return [f"{letter} {thousands(size)}" for letter, size in zip(letters, sizes, strict=True)]


def _description(grid: Grid, letters: Sequence[str]) -> str:
    """Return what a chart shows, in words."""
    parts = []
    for number, (letter, series) in enumerate(zip(letters, grid.series, strict=True)):
        values = ", ".join(
            f"{place_name(place, 80)} "
            + (f"{interval(value)} (n {thousands(sizes[number])})" if value else "no value")
            for place, value, sizes in zip(grid.places, series.values, grid.counts, strict=True)
        )
        name = one_line(series.name, 120)
        named = name if name.startswith(f"{letter} ") else f"{letter} {name}"
        parts.append(f"{named}: {values}")
    return "F1 in percent with 95% intervals. " + "; ".join(parts)


def _rows(grid: Grid, letters: Sequence[str], scale: Scale) -> tuple[list[Markup], float]:
    counts = grid.counts
    several = len(grid.series) > 1
    across = scale.over(_LEFT, _RIGHT)
    step = 14
    high = max(step * len(grid.series) + 8, 30)
    bottom = len(grid.places) * high
    body = []
    for tick in scale.ticks:
        x = across(tick)
        body.append(tag("path", d=f"M{px(x)} 0V{bottom}", class_="rule"))
        body.append(text(x, bottom + 13, plain_number(100 * tick), anchor="middle", class_="soft"))
    for place, label in enumerate(grid.places):
        middle = place * high + high / 2
        body.append(
            text(_LEFT - 8, middle - 1, place_name(label, _LONGEST_LABEL), anchor="end", tip=label)
        )
        each = _each(counts[place], letters)
        count = ", ".join(each) + (" video" if each == ["1"] else " videos" * (len(each) == 1))
        body.append(text(_LEFT - 8, middle + 10, count, anchor="end", class_="soft"))
        first = middle - step * (len(grid.series) - 1) / 2
        for number, (letter, series) in enumerate(zip(letters, grid.series, strict=True)):
            y = first + step * number
            value = series.values[place]
            if value is None or value.value is None:
                body.append(text(_LEFT + 4, y + 4, "no value", class_="soft"))
                continue
            body.append(_row(value, value.value, y, number, across))
            shown = f"{letter} {percent(value.value)}" if several else percent(value.value)
            body.append(text(_WIDTH - 4, y + 4, shown, anchor="end", class_="value"))
    return body, bottom + 18


def _row(estimate: Estimate, value: float, y: float, number: int, across: Scale) -> Markup:
    parts = []
    if estimate.low is not None and estimate.high is not None:
        low, high = across(estimate.low), across(estimate.high)
        caps = f"M{px(low)} {px(y - 3)}v6M{px(high)} {px(y - 3)}v6"
        parts.append(tag("path", d=f"M{px(low)} {px(y)}H{px(high)}{caps}", class_="whisker"))
    return tag(
        "g",
        *parts,
        mark(across(value), y, number, hollow=not has_interval(estimate)),
        class_=f"s{number % COLOURS}",
    )


@dataclass(frozen=True)
class BreakdownChart:
    """One breakdown: its chart, and rows of (place, scores of each run) for its table.

    `few` explains hollow marks, where there are any.
    """

    title: str
    axis: str
    drawn: Markup
    rows: Sequence[tuple[str, Sequence[TypeScores | None]]] = ()
    note: str = ""
    few: str = ""


def breakdowns(shown: Sequence[Shown]) -> list[BreakdownChart]:
    """Return the breakdowns of the page in order; those without any value are left out."""
    # Letters keep names apart: two that are shown alike may be different runs.
    names = {f"{one.letter} {one.name}": one.run for one in shown}
    scores = {name: run.scores for name, run in names.items()}
    letters = [one.letter for one in shown]
    parts = [
        _breakdown(by_type(scores), letters),
        _breakdown(
            by_bucket(scores, "visual_characteristic"),
            letters,
            "Videos may have several characteristics.",
        ),
        _breakdown(by_bucket(scores, "events"), letters),
        _breakdown(by_bucket(scores, "elements"), letters),
        _breakdown(by_bucket(scores, "domain"), letters),
    ]
    found = [part for part in parts if part.rows]
    if frames := by_frames(names):
        found.append(_frames(frames))
    return found


def _breakdown(grid: Grid, letters: Sequence[str], note: str = "") -> BreakdownChart:
    rows = [(place, grid.at(at)) for at, place in enumerate(grid.places) if grid.sizes[at]]
    drawn = chart(grid, letters) if rows else Markup()
    return BreakdownChart(grid.title, grid.axis, drawn, rows, note, _few(grid))


def _frames(grid: Grid) -> BreakdownChart:
    """Return F1 by number of frames, whose series are models and not runs."""
    letters = [letter_of(place) for place in range(len(grid.series))]
    models = [
        f"{letter} {one_line(storable(series.name), 120)}: "
        + ", ".join(
            f"{place} frames {interval(value) if value else NOTHING}"
            for place, value in zip(grid.places, series.values, strict=True)
        )
        for letter, series in zip(letters, grid.series, strict=True)
    ]
    note = f"Rows are models: {'; '.join(models)}."
    return BreakdownChart(grid.title, grid.axis, chart(grid, letters), note=note, few=_few(grid))


def _few(grid: Grid) -> str:
    few = some_without_interval(grid)
    return f"no interval, fewer than {FEWEST_VIDEOS} videos" if few else ""

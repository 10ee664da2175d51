"""Estimates over places: a radar, bars, or curves, with their intervals."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure as Drawing

from capeval.reporting.figures import has_interval, some_without_interval
from capeval.reporting.plots.paper import (
    GREY,
    Paper,
    Style,
    add_legend,
    place_name,
    printable,
    short_names,
    style_of,
)
from capeval.scoring import FEWEST

if TYPE_CHECKING:
    from capeval.reporting.figures import Grid
    from capeval.scoring import Estimate


_F1 = "F1 (%)"

# Narrower than this, in inches, a bar and its hatch are not told apart any more.
_THINNEST_BAR = 0.07
_MOST_PLACES = 6
_TALLEST = 8.6
# Of a bar, which has no mark of its own, and of the legend.
_RING = Style("#333333", "o", "", "")


def radar(grid: Grid, paper: Paper) -> Drawing:
    """Draw a polygon for each series, from 0 at the centre, with intervals along the spokes."""
    drawing = Drawing(figsize=(paper.square, paper.square * 0.95), layout="constrained")
    axes: Any = drawing.add_subplot(projection="polar")
    axes.set_theta_offset(math.pi / 2)
    axes.set_theta_direction(-1)
    spokes = [2 * math.pi * place / len(grid.places) for place in range(len(grid.places))]
    names = short_names([series.name for series in grid.series])
    handles: list[Any] = []
    for number, series in enumerate(grid.series):
        style = style_of(number)
        values = [_percent(one) for one in series.values]
        handles += axes.plot(
            [*spokes, spokes[0]],
            [*values, values[0]],
            color=style.colour,
            linestyle=style.dash,
            marker=style.marker,
            zorder=3,
        )
        _hollow(axes, spokes, values, series.values, style)
        # Whiskers stand beside each other, not in each other.
        aside = min(0.05, 0.3 / len(grid.series)) * (number - (len(grid.series) - 1) / 2)
        for spoke, one in zip(spokes, series.values, strict=True):
            if bounds := _bounds(one):
                axes.plot([spoke + aside] * 2, bounds, color=style.colour, linewidth=0.8, alpha=0.8)
    axes.set_ylim(0, _ceiling(grid))
    axes.set_yticks(_round_ticks(_ceiling(grid)))
    axes.tick_params(axis="y", colors=GREY, labelsize=6)
    axes.set_rlabel_position(180 / len(grid.places))
    axes.spines["polar"].set_color("#bbbbbb")
    axes.set_xticks(spokes, _labels(grid))
    axes.tick_params(axis="x", pad=2)
    for label, spoke in zip(axes.get_xticklabels(), spokes, strict=True):
        side = round(math.sin(spoke), 6)
        label.set_horizontalalignment("center" if not side else "left" if side > 0 else "right")
    _explain(drawing, axes, grid, handles, names)
    return drawing


def bars(grid: Grid, paper: Paper) -> Drawing:
    """Draw grouped bars from 0 with whiskers; where they do not fit, rows of points."""
    count = max(1, len(grid.series))
    bar = (paper.width - 0.5) / (len(grid.places) * (count + 0.8))
    if len(grid.places) > _MOST_PLACES or bar < _THINNEST_BAR or _crowded(grid, paper):
        return _rows(grid, paper)
    drawing = Drawing(figsize=(paper.width, 2.4), layout="constrained")
    axes = drawing.add_subplot()
    width = 1 / (count + 0.8)
    names = short_names([series.name for series in grid.series])
    handles: list[Any] = []
    for number, series in enumerate(grid.series):
        style = style_of(number)
        aside = width * (number - (count - 1) / 2)
        there = [place for place, one in enumerate(series.values) if _has(one)]
        heights = [_percent(series.values[place]) for place in there]
        drawn = axes.bar(
            [place + aside for place in there],
            heights,
            width * 0.92,
            color=_paler(style.colour),
            edgecolor=style.colour,
            linewidth=0.7,
            hatch=style.hatch,
        )
        handles.append(drawn)
        _whiskers(axes, [place + aside for place in there], [series.values[p] for p in there])
        _hollow(
            axes,
            [place + aside for place in there],
            heights,
            [series.values[place] for place in there],
            _RING,
        )
    labels = _labels(grid)
    if any(
        0.06 * len(place_name(place)) > (paper.width - 0.5) / len(labels) for place in grid.places
    ):
        labels = [_broken(label) for label in labels]
    axes.set_xticks(range(len(grid.places)), labels)
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(-0.5, len(grid.places) - 0.5)
    axes.set_ylim(0, _ceiling(grid))
    axes.set_ylabel(_F1)
    axes.yaxis.grid(True)
    _explain(drawing, axes, grid, handles, names)
    return drawing


def _rows(grid: Grid, paper: Paper) -> Drawing:
    count = max(1, len(grid.series))
    step = min(0.09, (_TALLEST - 1.0) / (len(grid.places) * (count + 1)))
    height = 0.75 + step * len(grid.places) * (count + 1)
    drawing = Drawing(figsize=(paper.width, height), layout="constrained")
    axes = drawing.add_subplot()
    names = short_names([series.name for series in grid.series])
    handles: list[Any] = []
    for number, series in enumerate(grid.series):
        style = style_of(number)
        aside = (number - (count - 1) / 2) / (count + 1)
        there = [place for place, one in enumerate(series.values) if _has(one)]
        estimates = [series.values[place] for place in there]
        values = [_percent(one) for one in estimates]
        handles += axes.plot(
            values,
            [place + aside for place in there],
            color=style.colour,
            marker=style.marker,
            linestyle="none",
            zorder=3,
            clip_on=False,  # a point at 0 is a whole one
        )
        _hollow(axes, values, [place + aside for place in there], estimates, style)
        for place in there:
            if bounds := _bounds(series.values[place]):
                axes.plot(bounds, [place + aside] * 2, color=style.colour, linewidth=0.8)
    for place in range(1, len(grid.places)):
        axes.axhline(place - 0.5, color="#dddddd", linewidth=0.5, zorder=0)
    axes.set_yticks(
        range(len(grid.places)),
        [f"{place_name(p)} (n={n:,})" for p, n in zip(grid.places, grid.sizes, strict=True)],
    )
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(grid.places) - 0.5, -0.5)
    axes.set_xlim(0, _ceiling(grid))
    axes.set_xlabel(_F1)
    axes.xaxis.grid(True)
    _explain(drawing, axes, grid, handles, names)
    return drawing


def curves(grid: Grid, paper: Paper) -> Drawing:
    """Draw a line for each series, broken where there is no value, with bands or whiskers."""
    drawing = Drawing(figsize=(paper.width, 2.4), layout="constrained")
    axes = drawing.add_subplot()
    names = short_names([series.name for series in grid.series])
    handles: list[Any] = []
    banded = len(grid.series) == 1
    inch = len(grid.places) / (paper.width - 0.5)
    apart = min(0.06 * inch, 0.6 / max(1, len(grid.series)))
    for number, series in enumerate(grid.series):
        style = style_of(number)
        # Beside each other, so that whiskers of equal places do not hide each other.
        aside = apart * (number - (len(grid.series) - 1) / 2)
        places = [place + aside for place in range(len(grid.places))]
        handles += axes.plot(
            places,
            [_percent(one) for one in series.values],
            color=style.colour,
            linestyle=style.dash,
            marker=style.marker,
            zorder=3,
        )
        values = [_percent(one) for one in series.values]
        _hollow(axes, places, values, series.values, style)
        bounds = [_bounds(one) or (math.nan, math.nan) for one in series.values]
        if banded:
            axes.fill_between(
                places,
                [low for low, _ in bounds],
                [high for _, high in bounds],
                color=style.colour,
                alpha=0.18,
                linewidth=0,
            )
        # A place between two gaps has no band: its whisker says what is known of it.
        _whiskers(axes, places, series.values, colour=style.colour)
    axes.set_xticks(range(len(grid.places)), _labels(grid))
    axes.set_xlim(-0.5, len(grid.places) - 0.5)
    axes.set_ylim(0, _ceiling(grid))
    axes.set_xlabel(printable(grid.axis))
    axes.set_ylabel(_F1)
    axes.yaxis.grid(True)
    _explain(drawing, axes, grid, handles, names)
    return drawing


def _whiskers(
    axes: Any,
    places: Sequence[float],
    estimates: Sequence[Estimate | None],
    *,
    colour: str = "#333333",
) -> None:
    for place, one in zip(places, estimates, strict=True):
        if bounds := _bounds(one):
            axes.plot([place] * 2, bounds, color=colour, linewidth=0.8, zorder=2.5)


def _hollow(
    axes: Any,
    xs: Sequence[float],
    ys: Sequence[float],
    estimates: Sequence[Estimate | None],
    style: Style,
) -> None:
    """Draw hollow marks over those values of a series that have no interval."""
    few = [place for place, one in enumerate(estimates) if _has(one) and not has_interval(one)]
    if few:
        axes.plot([xs[p] for p in few], [ys[p] for p in few], **_look(style), zorder=3.5)


def _look(style: Style) -> dict[str, Any]:
    return {
        "marker": style.marker,
        "color": style.colour,
        "markerfacecolor": "white",
        "markeredgewidth": 0.8,
        "linestyle": "none",
        "clip_on": False,
    }


def _explain(
    drawing: Drawing, axes: Any, grid: Grid, handles: Sequence[Any], names: Sequence[str]
) -> None:
    """Add the legend: the series, and what a hollow mark is where there is one."""
    if not some_without_interval(grid):
        add_legend(drawing, handles, names)
        return
    sign = axes.plot([], [], **_look(_RING))
    add_legend(drawing, [*handles, *sign], [*names, f"hollow: no interval, n < {FEWEST}"])


def _labels(grid: Grid) -> list[str]:
    """Return the places' names with the number of videos below each."""
    return [
        f"{place_name(place)}\nn={size:,}"
        for place, size in zip(grid.places, grid.sizes, strict=True)
    ]


def _crowded(grid: Grid, paper: Paper) -> bool:
    """Say whether the places' names would run into each other under bars."""
    room = (paper.width - 0.5) / max(1, len(grid.places))
    pieces = (piece for place in grid.places for piece in _broken(place_name(place)).split("\n"))
    return any(0.06 * len(piece) > room for piece in pieces)


def _broken(place: str) -> str:
    """Return a name in two lines, where it has a place to break."""
    return re.sub(r"(?<=[-])|(?<=\S) ", "\n", place, count=1) if len(place) > 8 else place


def _has(one: Estimate | None) -> bool:
    return one is not None and one.value is not None


def _percent(one: Estimate | None) -> float:
    return math.nan if one is None or one.value is None else 100 * one.value


def _bounds(one: Estimate | None) -> tuple[float, float] | None:
    if one is None or one.value is None or one.low is None or one.high is None:
        return None
    return 100 * one.low, 100 * one.high


def _ceiling(grid: Grid) -> float:
    """Return where the axis ends: the next round number above all that is drawn, 100 at most."""
    highest = max(
        (
            end
            for series in grid.series
            for one in series.values
            for end in (_percent(one), *(_bounds(one) or ()))
            if not math.isnan(end)
        ),
        default=100.0,
    )
    step = 20 if highest > 40 else 10
    return min(100.0, float(step * max(1, math.ceil(highest / step))))


def _round_ticks(ceiling: float) -> list[float]:
    step = 20 if ceiling > 50 else 10 if ceiling > 20 else 5
    return [float(tick) for tick in range(step, int(ceiling) + 1, step)]


def _paler(colour: str) -> tuple[float, float, float]:
    """Return a colour mixed with white, so that a hatch in the colour itself shows on it."""
    parts = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    red, green, blue = (0.55 + 0.45 * part for part in parts)
    return red, green, blue

"""Estimates at places: a radar, bars, or curves, with their intervals."""

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
    place_label,
    printable,
    short_names,
    style_of,
)
from capeval.scoring import FEWEST_VIDEOS

if TYPE_CHECKING:
    from capeval.reporting.figures import Grid
    from capeval.scoring import Estimate


_F1 = "F1 (%)"

# In inches; the hatches of narrower bars look the same.
_THINNEST_BAR = 0.07
# More places, such as domains, have longer names than fit below bars.
_MOST_PLACES = 6
# Inches that a page has room for.
_TALLEST = 8.6
# Inches of a character of a place's name, and of the axis beside bars.
_CHARACTER, _AXIS = 0.06, 0.5
# For a bar, which has no mark of its own, and for the legend.
_RING = Style("#333333", "o", "", "")

_Estimates = Sequence["Estimate | None"]


def radar(grid: Grid, paper: Paper) -> Drawing:
    """Draw a polygon for each series, from 0 at the centre, with intervals along the spokes."""
    drawing = Drawing(figsize=(paper.square, paper.square * 0.95), layout="constrained")
    axes: Any = drawing.add_subplot(projection="polar")
    axes.set_theta_offset(math.pi / 2)
    axes.set_theta_direction(-1)
    spokes = [2 * math.pi * place / len(grid.places) for place in range(len(grid.places))]
    handles: list[Any] = []
    for number, series in enumerate(grid.series):
        style = style_of(number)
        values = [*map(_percent, series.values)]
        handles += _line(axes, [*spokes, spokes[0]], [*values, values[0]], style)
        _hollow(axes, spokes, values, series.values, style)
        # Whiskers are beside each other, so that none hides another.
        aside = min(0.05, 0.3 / len(grid.series)) * _offset(grid, number)
        _whiskers(axes, [spoke + aside for spoke in spokes], series.values, style.colour, alpha=0.8)
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
    _legend(drawing, axes, grid, handles)
    return drawing


def bars(grid: Grid, paper: Paper) -> Drawing:
    """Draw grouped bars from 0 with whiskers; where they do not fit, rows of points."""
    count = max(1, len(grid.series))
    width = 1 / (count + 0.8)
    inches = (paper.width - _AXIS) / max(1, len(grid.places))
    if len(grid.places) > _MOST_PLACES or inches * width < _THINNEST_BAR or _crowded(grid, inches):
        return _rows(grid, paper)
    drawing = Drawing(figsize=(paper.width, 2.4), layout="constrained")
    axes = drawing.add_subplot()
    handles: list[Any] = []
    for number, series in enumerate(grid.series):
        style = style_of(number)
        places, estimates = _known(series.values, width * _offset(grid, number))
        heights = [*map(_percent, estimates)]
        drawn = axes.bar(
            places,
            heights,
            width * 0.92,
            color=_paler(style.colour),
            edgecolor=style.colour,
            linewidth=0.7,
            hatch=style.hatch,
            clip_on=False,
        )
        handles.append(drawn)
        _whiskers(axes, places, estimates, _RING.colour)
        _hollow(axes, places, heights, estimates, _RING)
    labels = _labels(grid)
    if any(_CHARACTER * len(place_label(place)) > inches for place in grid.places):
        labels = [_broken(label) for label in labels]
    axes.set_xticks(range(len(grid.places)), labels)
    axes.tick_params(axis="x", length=0)
    _upright(axes, grid)
    _legend(drawing, axes, grid, handles)
    return drawing


def _rows(grid: Grid, paper: Paper) -> Drawing:
    count = max(1, len(grid.series))
    step = min(0.09, (_TALLEST - 1.0) / (len(grid.places) * (count + 1)))
    height = 0.75 + step * len(grid.places) * (count + 1)
    drawing = Drawing(figsize=(paper.width, height), layout="constrained")
    axes = drawing.add_subplot()
    handles: list[Any] = []
    for number, series in enumerate(grid.series):
        style = style_of(number)
        places, estimates = _known(series.values, _offset(grid, number) / (count + 1))
        values = [*map(_percent, estimates)]
        handles += _line(axes, values, places, style, linestyle="none")
        _hollow(axes, values, places, estimates, style)
        _whiskers(axes, places, estimates, style.colour, across=True)
    for place in range(1, len(grid.places)):
        axes.axhline(place - 0.5, color="#dddddd", linewidth=0.5, zorder=0)
    axes.set_yticks(
        range(len(grid.places)),
        [f"{place_label(p)} (n={n:,})" for p, n in zip(grid.places, grid.sizes, strict=True)],
    )
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(grid.places) - 0.5, -0.5)
    axes.set_xlim(0, _ceiling(grid))
    axes.set_xlabel(_F1)
    axes.xaxis.grid(True)
    _legend(drawing, axes, grid, handles)
    return drawing


def curves(grid: Grid, paper: Paper) -> Drawing:
    """Draw a line for each series, broken where there is no value, with bands or whiskers."""
    drawing = Drawing(figsize=(paper.width, 2.4), layout="constrained")
    axes = drawing.add_subplot()
    handles: list[Any] = []
    inch = len(grid.places) / (paper.width - _AXIS)
    apart = min(0.06 * inch, 0.6 / max(1, len(grid.series)))
    for number, series in enumerate(grid.series):
        style = style_of(number)
        # Beside each other, so that whiskers of the same place do not hide one another.
        places = [place + apart * _offset(grid, number) for place in range(len(grid.places))]
        values = [*map(_percent, series.values)]
        handles += _line(axes, places, values, style)
        _hollow(axes, places, values, series.values, style)
        if len(grid.series) == 1:
            bounds = [_bounds(one) or (math.nan, math.nan) for one in series.values]
            lows, highs = zip(*bounds, strict=True)
            axes.fill_between(places, lows, highs, color=style.colour, alpha=0.18, linewidth=0)
        # A place between two gaps has no band: its whisker is all that shows its interval.
        _whiskers(axes, places, series.values, style.colour)
    axes.set_xticks(range(len(grid.places)), _labels(grid))
    axes.set_xlabel(printable(grid.axis))
    _upright(axes, grid)
    _legend(drawing, axes, grid, handles)
    return drawing


def _offset(grid: Grid, number: int) -> float:
    """Return how many steps a series is from the middle of its place."""
    return number - (max(1, len(grid.series)) - 1) / 2


def _known(estimates: _Estimates, aside: float) -> tuple[list[float], _Estimates]:
    """Return the places that have a value, moved aside, and their estimates."""
    there = [place for place, one in enumerate(estimates) if _has(one)]
    return [place + aside for place in there], [estimates[place] for place in there]


def _upright(axes: Any, grid: Grid) -> None:
    axes.set_xlim(-0.5, len(grid.places) - 0.5)
    axes.set_ylim(0, _ceiling(grid))
    axes.set_ylabel(_F1)
    axes.yaxis.grid(True)


def _line(
    axes: Any, xs: Sequence[float], ys: Sequence[float], style: Style, **look: Any
) -> list[Any]:
    # Not clipped, so that marks at 0 and at 100% are whole.
    look = {"linestyle": style.dash, "clip_on": False, **look}
    return list(axes.plot(xs, ys, color=style.colour, marker=style.marker, zorder=3, **look))


def _whiskers(
    axes: Any,
    places: Sequence[float],
    estimates: _Estimates,
    colour: str,
    *,
    across: bool = False,
    alpha: float = 1.0,
) -> None:
    for place, one in zip(places, estimates, strict=True):
        if bounds := _bounds(one):
            line = (bounds, [place] * 2) if across else ([place] * 2, bounds)
            axes.plot(*line, color=colour, linewidth=0.8, alpha=alpha, zorder=2.5)


def _hollow(
    axes: Any, xs: Sequence[float], ys: Sequence[float], estimates: _Estimates, style: Style
) -> None:
    """Draw hollow marks over those values of a series that have no interval."""
    few = [place for place, one in enumerate(estimates) if _has(one) and not has_interval(one)]
    if few:
        axes.plot([xs[p] for p in few], [ys[p] for p in few], **_ring(style), zorder=3.5)


def _ring(style: Style) -> dict[str, Any]:
    return {
        "marker": style.marker,
        "color": style.colour,
        "markerfacecolor": "white",
        "markeredgewidth": 0.8,
        "linestyle": "none",
        "clip_on": False,
    }


def _legend(drawing: Drawing, axes: Any, grid: Grid, handles: Sequence[Any]) -> None:
    """Add the legend: the series, and the meaning of a hollow mark where there is one."""
    names = short_names([series.name for series in grid.series])
    if some_without_interval(grid):
        handles = [*handles, *axes.plot([], [], **_ring(_RING))]
        names = [*names, f"hollow: no interval, n < {FEWEST_VIDEOS}"]
    add_legend(drawing, handles, names)


def _labels(grid: Grid) -> list[str]:
    """Return the places' names with the number of videos below each."""
    return [
        f"{place_label(place)}\nn={size:,}"
        for place, size in zip(grid.places, grid.sizes, strict=True)
    ]


def _crowded(grid: Grid, inches: float) -> bool:
    """Return whether the places' names would run into each other under bars."""
    pieces = (piece for place in grid.places for piece in _broken(place_label(place)).split("\n"))
    return any(_CHARACTER * len(piece) > inches for piece in pieces)


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
    ends = [
        end
        for series in grid.series
        for one in series.values
        for end in (_percent(one), *(_bounds(one) or ()))
        if not math.isnan(end)
    ]
    highest = max(ends, default=100.0)
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

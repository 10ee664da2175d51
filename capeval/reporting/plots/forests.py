"""Differences of two runs with their intervals, one below the other."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure as Drawing

from capeval.reporting.numbers import p_value
from capeval.reporting.plots.paper import GREY, Paper, add_legend, place_name, printable, style_of

if TYPE_CHECKING:
    from capeval.reporting.figures import Forest, ForestRow


# By the legend's words; a filled and a hollow square, and what has no whisker is no square.
_MARKS = {
    "interval without 0": {"marker": "s", "markersize": 4, "filled": True},
    "interval with 0": {"marker": "s", "markersize": 4, "filled": False},
    "no interval": {"marker": "x", "markersize": 3.5, "filled": True},
}
_HEADINGS = {False: "p", True: "p (Holm)"}

# Points: where nothing moved further, the axis is still one of points and not of their shreds.
_LEAST = 1.0
# Inches of a letter of the axis' name.
_LETTER = 0.058


def forest(figure: Forest, paper: Paper) -> Drawing:
    """Draw a mark and a whisker for each row, and its p under what heads that column."""
    places, headings = _places(figure.rows)
    lines = len(figure.rows) + len(headings)
    drawing = Drawing(figsize=(paper.width, 0.85 + 0.16 * lines), layout="constrained")
    axes = drawing.add_subplot()
    axes.axvline(0, color=GREY, linewidth=0.7, zorder=1)
    kinds = set()
    for place, row in zip(places, figure.rows, strict=True):
        if row.value is None:
            continue
        kinds.add(_kind(row))
        if row.low is not None and row.high is not None:
            bounds = [100 * row.low, 100 * row.high]
            axes.plot(bounds, [place] * 2, color=style_of(0).colour, linewidth=1.0)
        axes.plot([100 * row.value], [place], **_look(_kind(row)), zorder=3)
    labels = [f"{place_name(row.label)} (n={row.n:,})" for row in figure.rows]
    axes.set_yticks(places, labels)
    axes.set_ylim(lines - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.xaxis.grid(True)
    axes.margins(x=0.08)
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, -_LEAST), max(high, _LEAST))
    beside = axes.secondary_yaxis("right")
    beside.set_yticks(
        [*headings, *places], [*headings.values(), *(p_value(row.p) for row in figure.rows)]
    )
    beside.tick_params(axis="y", length=0)
    beside.spines["right"].set_visible(False)
    # Of the figure and not of the axes, beside which the rows' names have as much room again.
    axis = textwrap.wrap(printable(figure.axis), int(paper.width / _LETTER))
    drawing.supxlabel("\n".join(axis), fontsize=7.0)
    shown = [kind for kind in _MARKS if kind in kinds]
    add_legend(drawing, [axes.plot([], [], **_look(kind))[0] for kind in shown], shown)
    return drawing


def _places(rows: Sequence[ForestRow]) -> tuple[list[int], dict[int, str]]:
    """Return the line of each row, and the lines between them that head those below."""
    places: list[int] = []
    headings: dict[int, str] = {}
    for number, row in enumerate(rows):
        if not number or row.adjusted != rows[number - 1].adjusted:
            headings[number + len(headings)] = _HEADINGS[row.adjusted]
        places.append(number + len(headings))
    return places, headings


def _kind(row: ForestRow) -> str:
    if row.low is None or row.high is None:
        return "no interval"
    return "interval without 0" if row.low * row.high > 0 else "interval with 0"


def _look(kind: str) -> dict[str, Any]:
    colour = style_of(0).colour
    mark = dict(_MARKS[kind])
    face = colour if mark.pop("filled") else "white"
    return {**mark, "linestyle": "none", "color": colour, "markerfacecolor": face}

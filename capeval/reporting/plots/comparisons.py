"""Comparisons: differences of two runs, and a judge with human raters."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure as Drawing

from capeval.reporting.numbers import p_value, percent, thousands
from capeval.reporting.plots.paper import (
    GREY,
    Paper,
    add_legend,
    place_label,
    printable,
    short_names,
    style_of,
)

if TYPE_CHECKING:
    from capeval.reporting.figures import Confusion, Forest, ForestRow, Scatter


# By their words in the legend; what has no whisker is not a square.
_MARKS = {
    "interval without 0": {"marker": "s", "markersize": 4, "filled": True},
    "interval with 0": {"marker": "s", "markersize": 4, "filled": False},
    "no interval": {"marker": "x", "markersize": 3.5, "filled": True},
}
_HEADINGS = {False: "p", True: "p (Holm)"}

# In points: where nothing moved further, an axis of smaller fractions would exaggerate.
_SHORTEST_AXIS = 1.0
# Inches of a letter of the axis' name.
_LETTER = 0.058


def forest(figure: Forest, paper: Paper) -> Drawing:
    """Draw a mark and a whisker for each row, and its p in a column beside it."""
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
    labels = [f"{place_label(row.label)} (n={row.n:,})" for row in figure.rows]
    axes.set_yticks(places, labels)
    axes.set_ylim(lines - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.xaxis.grid(True)
    axes.margins(x=0.08)
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, -_SHORTEST_AXIS), max(high, _SHORTEST_AXIS))
    beside = axes.secondary_yaxis("right")
    beside.set_yticks(
        [*headings, *places], [*headings.values(), *(p_value(row.p) for row in figure.rows)]
    )
    beside.tick_params(axis="y", length=0)
    beside.spines["right"].set_visible(False)
    # The figure's label, not the axes': it may be as wide as the rows' names and the axes together.
    axis = textwrap.wrap(printable(figure.axis), int(paper.width / _LETTER))
    drawing.supxlabel("\n".join(axis), fontsize=7.0)
    shown = [kind for kind in _MARKS if kind in kinds]
    add_legend(drawing, [axes.plot([], [], **_look(kind))[0] for kind in shown], shown)
    return drawing


def _places(rows: Sequence[ForestRow]) -> tuple[list[int], dict[int, str]]:
    """Return the line of each row, and the lines between them that have headings."""
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


def scatter(figure: Scatter, paper: Paper) -> Drawing:
    """Draw a point for each caption, with a colour and a marker for each system."""
    drawing = Drawing(figsize=(paper.square, paper.square * 0.95), layout="constrained")
    axes = drawing.add_subplot()
    names = short_names(list(figure.points))
    handles: list[Any] = []
    for number, points in enumerate(figure.points.values()):
        style = style_of(number)
        handles += axes.plot(
            [x for x, _ in points],
            [y for _, y in points],
            marker=style.marker,
            linestyle="none",
            markersize=3.5,
            color=style.colour,
            markerfacecolor="none",
            markeredgewidth=0.9,
            zorder=3,
            clip_on=False,
        )
    axes.set_xlabel(printable(figure.x))
    axes.set_ylabel(printable(figure.y))
    axes.grid(True)
    if figure.x.endswith("(%)"):
        axes.set_xlim(0, 100)
    if figure.y.endswith("(%)"):
        axes.set_ylim(0, 100)
        axes.plot([0, 100], [0, 100], color=GREY, linewidth=0.6, linestyle=(0, (2, 2)), zorder=1)
    if figure.note:
        axes.set_title(printable(figure.note), fontsize=6.5, loc="right", color="#333333")
    if len(figure.points) > 1:
        add_legend(drawing, handles, names)
    return drawing


def confusion(figure: Confusion, paper: Paper) -> Drawing:
    """Draw the shares of each row as shades, with the counts on them."""
    drawing = Drawing(figsize=(paper.square, paper.square * 0.8), layout="constrained")
    axes = drawing.add_subplot()
    totals = [sum(row) for row in figure.counts]
    shares = [
        [count / total if total else 0.0 for count in row]
        for row, total in zip(figure.counts, totals, strict=True)
    ]
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for y, (row, total) in enumerate(zip(figure.counts, totals, strict=True)):
        for x, count in enumerate(row):
            text = f"{thousands(count)}\n{percent(shares[y][x])}%" if total else thousands(count)
            dark = shares[y][x] > 0.55
            axes.text(x, y, text, ha="center", va="center", color="white" if dark else "black")
    labels = [printable(label) for label in figure.labels]
    axes.set_xticks(range(len(labels)), labels)
    axes.set_yticks(
        range(len(labels)),
        [f"{label}\nn={total:,}" for label, total in zip(labels, totals, strict=True)],
    )
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlabel(short_names([figure.columns])[0])
    axes.set_ylabel(printable(figure.rows))
    return drawing

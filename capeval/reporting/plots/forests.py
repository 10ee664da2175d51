"""Differences of two runs with their intervals, one below the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.figure import Figure as Drawing

from capeval.reporting.plots.paper import GREY, Paper, printable, style_of

if TYPE_CHECKING:
    from capeval.reporting.figures import Forest

__all__ = ["forest"]

_NOTHING = "–"


def forest(figure: Forest, paper: Paper) -> Drawing:
    """Draw a point and a whisker for each row; filled where the interval leaves zero out."""
    rows = figure.rows
    drawing = Drawing(figsize=(paper.width, 0.65 + 0.16 * len(rows)), layout="constrained")
    axes = drawing.add_subplot()
    axes.axvline(0, color=GREY, linewidth=0.7, zorder=1)
    style = style_of(0)
    for place, row in enumerate(rows):
        if row.value is None:
            continue
        clear = row.low is not None and row.high is not None and row.low * row.high > 0
        if row.low is not None and row.high is not None:
            axes.plot(
                [100 * row.low, 100 * row.high], [place] * 2, color=style.colour, linewidth=1.0
            )
        axes.plot(
            [100 * row.value],
            [place],
            marker="s",
            linestyle="none",
            color=style.colour,
            markerfacecolor=style.colour if clear else "white",
            markersize=4,
            zorder=3,
        )
    axes.set_yticks(
        range(len(rows)), [f"{_cut(printable(row.label))} (n={row.n:,})" for row in rows]
    )
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(printable(figure.axis), wrap=True)
    axes.xaxis.grid(True)
    axes.margins(x=0.08)
    beside = axes.secondary_yaxis("right")
    beside.set_yticks(range(len(rows)), [_p(row.p) for row in rows])
    beside.tick_params(axis="y", length=0)
    beside.spines["right"].set_visible(False)
    return drawing


def _cut(label: str) -> str:
    return label if len(label) <= 28 else label[:27] + "…"


def _p(p: float | None) -> str:
    if p is None:
        return f"p {_NOTHING}"
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"

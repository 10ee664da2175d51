"""A judge against people: captions as points, labels as a matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure as Drawing

from capeval.reporting.plots.paper import GREY, Paper, add_legend, printable, short_names, style_of

if TYPE_CHECKING:
    from capeval.reporting.figures import Confusion, Scatter


_CMAP = "Blues"


def scatter(figure: Scatter, paper: Paper) -> Drawing:
    """Draw a point for each caption, systems told apart by colour and marker."""
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
    """Draw shares of each row as shades, with the counts in words on them."""
    drawing = Drawing(figsize=(paper.square, paper.square * 0.8), layout="constrained")
    axes = drawing.add_subplot()
    totals = [sum(row) for row in figure.counts]
    shares = [
        [count / total if total else 0.0 for count in row]
        for row, total in zip(figure.counts, totals, strict=True)
    ]
    axes.imshow(shares, cmap=_CMAP, vmin=0, vmax=1, aspect="auto")
    for y, (row, total) in enumerate(zip(figure.counts, totals, strict=True)):
        for x, count in enumerate(row):
            told = f"{count:,}\n{100 * count / total:.1f}%" if total else f"{count:,}"
            dark = shares[y][x] > 0.55
            axes.text(x, y, told, ha="center", va="center", color="white" if dark else "black")
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

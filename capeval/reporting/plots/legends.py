"""The legend: outside the axes, so that it never covers what it explains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from capeval.reporting.plots.paper import Paper

__all__ = ["add_legend"]


def add_legend(drawing: Drawing, axes: Any, paper: Paper, count: int) -> None:
    """Add the legend above the axes, or beside them where there are many series and room."""
    handles, labels = axes.get_legend_handles_labels()
    if not handles:
        return
    longest = max(map(len, labels))
    if count > 8 and paper.is_wide:
        drawing.legend(handles, labels, loc="outside right upper")
        return
    # A letter of a legend is about this wide, and its handle and gaps as wide as this many inches.
    columns = max(1, int(paper.width / (0.058 * longest + 0.45)))
    drawing.legend(
        handles, labels, loc="outside upper center", ncols=min(columns, count), columnspacing=1.0
    )
    if count > 8:
        # The legend must not eat the axes.
        rows = -(-count // min(columns, count))
        drawing.set_figheight(drawing.get_figheight() + 0.13 * max(0, rows - 3))

"""A figure as the bytes of a file, which are the same each time."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

from capeval.reporting.figures import Confusion, Figure, Forest, Grid, Scatter
from capeval.reporting.plots.paper import Format, Paper, require_plot_extra, settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

_DOCTYPE = re.compile(rb"<!DOCTYPE svg[^>]*>\s*")
_METADATA: dict[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None, "Creator": "capeval", "Producer": None},
    "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
    "png": {"Software": None},
}


def rendered(figure: Figure, form: Format, paper: Paper | None = None) -> bytes:
    """Return a figure as a file. PDF has TrueType fonts embedded; SVG has text as outlines.

    Raises
    ------
    MissingExtra
        matplotlib is not installed.
    """
    require_plot_extra()
    out = io.BytesIO()
    with settings():
        drawn(figure, paper).savefig(out, format=form, metadata=_METADATA[form])
    # matplotlib names a DTD on the web, which a strict reader would fetch.
    return _DOCTYPE.sub(b"", out.getvalue(), count=1) if form == "svg" else out.getvalue()


def drawn(figure: Figure, paper: Paper | None = None) -> Drawing:
    """Return a figure drawn at paper size.

    Raises
    ------
    MissingExtra
        matplotlib is not installed.
    """
    require_plot_extra()
    from capeval.reporting.plots import comparisons, grids

    paper = paper or Paper()
    with settings():
        match figure:
            case Grid(kind="radar"):
                return grids.radar(figure, paper)
            case Grid(kind="curves"):
                return grids.curves(figure, paper)
            case Grid():
                return grids.bars(figure, paper)
            case Forest():
                return comparisons.forest(figure, paper)
            case Scatter():
                return comparisons.scatter(figure, paper)
            case Confusion():
                return comparisons.confusion(figure, paper)


def is_empty(figure: Figure) -> bool:
    """Return whether a figure would show nothing."""
    match figure:
        case Grid():
            estimates = (value for series in figure.series for value in series.values)
            return all(one is None or one.value is None for one in estimates)
        case Forest():
            return all(row.value is None for row in figure.rows)
        case Scatter():
            return not any(figure.points.values())
        case Confusion():
            return not any(map(any, figure.counts))

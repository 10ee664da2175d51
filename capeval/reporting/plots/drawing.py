"""Which drawing a figure is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from capeval.reporting.figures import Confusion, Figure, Forest, Grid, Scatter
from capeval.reporting.plots.paper import Paper, require_plot_extra, settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

__all__ = ["drawn", "is_empty"]


def drawn(figure: Figure, paper: Paper | None = None) -> Drawing:
    """Return a figure drawn at paper size.

    Raises
    ------
    MissingExtra
        matplotlib is not installed.
    """
    require_plot_extra()
    from capeval.reporting.plots import against_people, forests, grids

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
                return forests.forest(figure, paper)
            case Scatter():
                return against_people.scatter(figure, paper)
            case Confusion():
                return against_people.confusion(figure, paper)


def is_empty(figure: Figure) -> bool:
    """Say whether there is nothing to see in a figure."""
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

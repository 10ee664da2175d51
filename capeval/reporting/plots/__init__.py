"""Figures of `capeval.reporting.figures`, drawn at paper size by matplotlib."""

from capeval.reporting.plots.paper import (
    FORMATS,
    WIDTHS,
    Paper,
    drawn,
    is_empty,
    rendered,
    require_plot_extra,
)

__all__ = ["FORMATS", "WIDTHS", "Paper", "drawn", "is_empty", "rendered", "require_plot_extra"]

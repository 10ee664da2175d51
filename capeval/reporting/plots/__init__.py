"""Figures of `capeval.reporting.figures`, drawn at paper size by matplotlib."""

from capeval.reporting.plots.paper import FORMATS, WIDTHS, Paper, require_plot_extra
from capeval.reporting.plots.saving import drawn, is_empty, rendered

__all__ = ["FORMATS", "WIDTHS", "Paper", "drawn", "is_empty", "rendered", "require_plot_extra"]

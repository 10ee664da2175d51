"""Figures at paper size, by matplotlib: what `capeval.reporting.figures` describes, drawn."""

from capeval.reporting.plots.paper import FORMATS, WIDTHS, Paper, require_plot_extra
from capeval.reporting.plots.saving import drawn, is_empty, rendered

__all__ = ["FORMATS", "WIDTHS", "Paper", "drawn", "is_empty", "rendered", "require_plot_extra"]

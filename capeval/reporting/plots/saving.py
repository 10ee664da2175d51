"""A figure as the bytes of a file: the same for the same figure, with nothing of the moment."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

from capeval.reporting.plots.drawing import drawn
from capeval.reporting.plots.paper import Format, Paper, require_plot_extra, settings

if TYPE_CHECKING:
    from capeval.reporting.figures import Figure

__all__ = ["rendered"]

_DOCTYPE = re.compile(rb"<!DOCTYPE svg[^>]*>\s*")
_METADATA: dict[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None, "Creator": "capeval", "Producer": None},
    "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
    "png": {"Software": None},
}


def rendered(figure: Figure, form: Format, paper: Paper | None = None) -> bytes:
    """Return a figure as a file; TrueType fonts are embedded in PDF, in SVG text is outlines.

    Raises
    ------
    MissingExtra
        matplotlib is not installed.
    """
    require_plot_extra()
    out = io.BytesIO()
    with settings():
        drawn(figure, paper).savefig(out, format=form, metadata=_METADATA[form])
    # matplotlib names a DTD of the web, which a strict reader would want to fetch.
    return _DOCTYPE.sub(b"", out.getvalue(), count=1) if form == "svg" else out.getvalue()

"""`capeval plot`."""

from __future__ import annotations

from typing import Any

from capeval.api.run_options import PlotOptions
from capeval.cli.options import Quiet, declared_by


@declared_by(PlotOptions)
def plot(declared: dict[str, Any], *, quiet: Quiet = False) -> None:
    """Draw figures for a paper: SVG, PDF or PNG; separate the names of figures by commas."""
    from capeval.api import plotting
    from capeval.cli.output import Output

    output = Output(quiet=quiet)
    for file in plotting.plot(**declared, on_notice=output.notice):
        output.line(str(file))

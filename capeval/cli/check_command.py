"""`capeval check`."""

from __future__ import annotations

from typing import Any

import typer

from capeval.api.checking import CheckSetOptions
from capeval.cli.options import declared_by
from capeval.cli.output import Output


@declared_by(CheckSetOptions, "as_json", "full")
def check(declared: dict[str, Any], output: Output) -> None:
    """Check a set of annotations: every problem, what may be a mistake, and statistics.

    The exit code is 2 if there is a problem. Statistics are those of the TUNA paper's table 5.
    """
    from capeval.api import checking
    from capeval.reporting.check_tables import check_json, print_check

    found = checking.check(**declared)
    shown = check_json(found)
    output.show(shown, lambda: print_check(found, output.console, full=output.full))
    if found.problems:
        raise typer.Exit(2)

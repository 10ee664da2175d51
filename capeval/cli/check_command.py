"""`capeval check`."""

from __future__ import annotations

from typing import Any

import typer

from capeval.api.checking import CheckSetOptions
from capeval.cli.options import Full, Json, Quiet, declared_by
from capeval.cli.output import Output


@declared_by(CheckSetOptions)
def check(
    declared: dict[str, Any], *, as_json: Json = False, full: Full = False, quiet: Quiet = False
) -> None:
    """Check a set of annotations: every problem, what may be a mistake, and statistics.

    The exit code is 2 if there is a problem. Statistics are those of the TUNA paper's table 5.
    """
    from capeval.api import checking
    from capeval.reporting.check_tables import check_json, print_check

    output = Output(quiet=quiet)
    found = checking.check(**declared)
    if as_json:
        output.json(check_json(found))
    else:
        print_check(found, output.console, full=full)
    if found.problems:
        raise typer.Exit(2)

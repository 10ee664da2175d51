"""`capeval compare`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from capeval.api.run_options import CompareOptions
from capeval.cli.options import declared_by
from capeval.cli.output import Output
from capeval.errors import UsageError


@declared_by(CompareOptions, "as_json", "form", "full")
def compare(
    declared: dict[str, Any],
    output: Output,
    *,
    power: Annotated[
        bool,
        typer.Option("--power", help="Show the smallest difference that can be detected."),
    ] = False,
) -> None:
    """Compare judged runs over the videos that are scored in all of them: is B better than A?

    Differences are second − first, in points: `capeval compare OLD NEW` shows what NEW gained. More
    than two runs make a matrix with ranks; --trend compares each with the last.

    `--fail-under f1=-0.5` exits with 4 if the second run is more than half a point below the first.
    """
    from capeval.api import comparing
    from capeval.reporting.comparison_tables import print_comparison
    from capeval.reporting.gate_results import gate_lines

    if power and declared["trend"]:
        raise UsageError("--power and --trend exclude each other; choose one")
    if power and (runs := len(declared["judged_runs"])) > 2:
        raise UsageError(f"--power needs two runs, not {runs}; name two")
    found = comparing.compare(**declared)
    form, full = output.table_form, output.full
    output.show(
        found, lambda: print_comparison(found, output.console, form=form, power=power, full=full)
    )
    for line in gate_lines(found):
        output.error(f"capeval: {line}")
    if not all(result.passed for result in found.gates):
        raise typer.Exit(4)

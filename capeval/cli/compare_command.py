"""`capeval compare`."""

from __future__ import annotations

from typing import Any

import typer

from capeval.api.run_options import CompareOptions
from capeval.cli.options import declared_by
from capeval.cli.output import Output


@declared_by(CompareOptions, "as_json", "form", "full")
def compare(declared: dict[str, Any], output: Output) -> None:
    """Compare judged runs over the videos scored in all of them: is B better than A?

    Differences are second − first, in points: `capeval compare OLD NEW` shows what NEW gained. More
    than two runs make a matrix with ranks.

    `--fail-under f1=-0.5` exits with 4 if the second run is more than half a point below the first.
    """
    from capeval.api import comparing
    from capeval.reporting.comparison_tables import print_comparison
    from capeval.reporting.gate_results import gate_lines

    found = comparing.compare(**declared)
    form, full = output.table_form, output.full
    output.show(found, lambda: print_comparison(found, output.console, form=form, full=full))
    for line in gate_lines(found):
        output.error(f"capeval: {line}")
    if not all(result.passed for result in found.gates):
        raise typer.Exit(4)

"""`capeval mcq temporal`."""

from __future__ import annotations

from typing import Any

from capeval.api.mcq_options import McqTemporalOptions
from capeval.cli.options import declared_by
from capeval.cli.output import Output


@declared_by(McqTemporalOptions, "as_json", "form_or_csv", "full")
def temporal(declared: dict[str, Any], output: Output) -> None:
    """Check whether the questions need several frames, in order.

    It compares graded runs of the same model and questions: with many frames, with one random
    frame, with one hand-picked frame, and with the many frames shuffled.
    """
    from capeval.api import mcq_diagnosing
    from capeval.reporting.temporal_tables import (
        print_temporal,
        rendered_temporal,
        temporal_headline,
    )

    result = mcq_diagnosing.mcq_temporal(**declared)
    if output.as_json:
        output.json(rendered_temporal(result, "json"))
    elif output.table_form != "table":
        output.text(rendered_temporal(result, output.table_form))
    elif declared["out"] is not None:
        output.line(f"{temporal_headline(result)} Written: {declared['out']}")
    else:
        print_temporal(result, output.console, full=output.full)

"""`capeval mcq temporal`."""

from __future__ import annotations

from typing import Any

import typer

from capeval.api.mcq_diagnostic_options import McqTemporalOptions
from capeval.cli.options import Full, Json, Quiet, declared_by
from capeval.cli.output import Output
from capeval.errors import UsageError


@declared_by(McqTemporalOptions)
def temporal(
    declared: dict[str, Any], *, as_json: Json = False, full: Full = False, quiet: Quiet = False
) -> None:
    """Check whether the questions need several frames, and these in order.

    It compares graded runs of the same model and questions: with many frames, with one random
    frame, with one hand-picked frame, and with the many frames shuffled.
    """
    from capeval.api import mcq_diagnosing
    from capeval.reporting.temporal_tables import (
        print_temporal,
        rendered_temporal,
        temporal_headline,
    )

    output = Output(quiet=quiet)
    form = _form(declared, as_json=as_json)
    result = mcq_diagnosing.mcq_temporal(**declared)
    if form == "json":
        _print_json(rendered_temporal(result, form))
    elif declared["out"] is not None:
        output.line(f"{temporal_headline(result)} Written: {declared['out']}")
    elif form == "table":
        print_temporal(result, output.console, full=full)
    elif not quiet:
        typer.echo(rendered_temporal(result, form))


def _form(declared: dict[str, Any], *, as_json: bool) -> Any:
    """Return the format that is printed on stdout."""
    form = declared["format"]
    if as_json and form not in ("table", "json"):
        raise UsageError("--json and --format: choose one of them")
    return "json" if as_json or (form == "json" and declared["out"] is None) else form


def _print_json(text: str) -> None:
    from capeval.files.jsonl import printable_json

    typer.echo(printable_json(text))

"""`capeval compare`."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["HELP", "compare"]

HELP = """Compare judged runs by the videos that all of them scored: is B better than A?

Differences are the second run less the first, in points: `capeval compare OLD NEW` shows what NEW
gained. More than two runs make a matrix with ranks.

`--fail-under f1=-0.5` ends with 4 where the second is more than half a point below the first.
"""


class _Gate(StrEnum):
    # Not `lower`: every string has a method of that name.
    of_estimate = "estimate"
    of_lower = "lower"


class _Format(StrEnum):
    table = "table"
    markdown = "markdown"
    latex = "latex"


def compare(
    run: Annotated[
        list[str],
        typer.Argument(
            help="Judged runs: a name under runs/, a folder, a judge's folder, a judgments.jsonl, "
            "or a TUNA result file.",
            show_default=False,
        ),
    ],
    judge: Annotated[
        str | None,
        typer.Option(
            help="Which of several judges, by its folder's name or the beginning of it.",
            show_default=False,
        ),
    ] = None,
    annotations: Annotated[
        str | None,
        typer.Option(
            help="Annotations (JSON or JSONL); 'sample' for the bundled ones. Runs know their own.",
            show_default=False,
        ),
    ] = None,
    anyway: Annotated[
        bool,
        typer.Option(
            "--anyway",
            help="Compare runs that differ in judge, prompts, repeats or data, and mark the table.",
        ),
    ] = False,
    fail_under: Annotated[
        list[str] | None,
        typer.Option(
            help="MEASURE=POINTS that the difference must reach: f1=-0.5, action.recall=-1. "
            "Repeatable.",
            show_default=False,
        ),
    ] = None,
    gate: Annotated[
        _Gate,
        typer.Option(help="What --fail-under holds: the estimate, or its interval's lower end."),
    ] = _Gate.of_estimate,
    min_coverage: Annotated[
        str | None,
        typer.Option(
            help="How many of the annotated videos must be scored in all runs: 99% or a number.",
            show_default=False,
        ),
    ] = None,
    power: Annotated[
        bool, typer.Option("--power", help="Show what difference this many videos can show.")
    ] = False,
    top: Annotated[
        int, typer.Option(min=0, help="How many moved videos and flipped elements to show.")
    ] = 5,
    draws: Annotated[
        int, typer.Option(min=99, help="Draws of the bootstrap and of the permutations.")
    ] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the statistics.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Also write the comparison here.", show_default=False)
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the comparison alone on stdout, as JSON.")
    ] = False,
    form: Annotated[_Format, typer.Option("--format", help="Of the tables.")] = _Format.table,
    runs: Annotated[Path, typer.Option(help="Where the runs are.")] = Path("runs"),
) -> None:
    """Compare judged runs."""
    from rich.console import Console

    from capeval.errors import one_line
    from capeval.evaluation.comparing import Question, compare_files
    from capeval.evaluation.gates import read_coverage, read_gates
    from capeval.files.jsonl import dumps, write_atomic
    from capeval.reporting.difference_tables import gate_lines, print_comparison

    found = compare_files(
        Question(
            typed=tuple(run),
            judge=judge,
            annotations=annotations,
            runs=runs,
            draws=draws,
            seed=seed,
            anyway=anyway,
            gates=tuple(read_gates(fail_under or (), on=gate.value)),
            coverage=None if min_coverage is None else read_coverage(min_coverage),
        )
    )
    text = dumps(found.model_dump(mode="json"), indent=1)
    if out is not None:
        write_atomic(out, text + "\n")
    if as_json:
        typer.echo(text)
    else:
        print_comparison(found, Console(), form=form.value, power=power, most=top)
    for line in gate_lines(found):
        sys.stderr.write(f"capeval: {one_line(line, 600)}\n")
    if not all(result.passed for result in found.gates):
        raise typer.Exit(4)

"""`capeval compare`."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from capeval.cli.options import JudgedRuns, RunAnnotations, Runs, WhichJudge

HELP = (
    "Compare judged runs by the videos that all of them scored: is B better than A?\n\n"
    "Differences are the second run less the first, in points: `capeval compare OLD NEW` shows "
    "what NEW gained. More than two runs make a matrix with ranks.\n\n"
    "`--fail-under f1=-0.5` ends with 4 where the second is more than half a point below the first."
)

# More would need more memory than a machine of CI has, and tell nothing further.
_MOST_DRAWS = 100_000


class _Gate(StrEnum):
    # Not `lower`: every string has a method of that name.
    of_estimate = "estimate"
    of_lower = "lower"


class _Format(StrEnum):
    table = "table"
    markdown = "markdown"
    latex = "latex"


def compare(
    run: JudgedRuns,
    judge: WhichJudge = None,
    annotations: RunAnnotations = None,
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
        _Gate | None,
        typer.Option(
            help="What --fail-under holds: the estimate, as it does without, or its interval's "
            "lower end.",
            show_default=False,
        ),
    ] = None,
    min_coverage: Annotated[
        str | None,
        typer.Option(
            help="How many of the annotated videos must be scored in all runs: 99% or a number.",
            show_default=False,
        ),
    ] = None,
    power: Annotated[
        bool, typer.Option("--power", help="Of two runs: what difference so many videos can show.")
    ] = False,
    top: Annotated[
        int, typer.Option(min=0, help="How many moved videos and flipped elements to show.")
    ] = 5,
    draws: Annotated[
        int,
        typer.Option(
            min=99, max=_MOST_DRAWS, help="Draws of the bootstrap and of the permutations."
        ),
    ] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the statistics.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Also write the comparison here.", show_default=False)
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the comparison alone on stdout, as JSON.")
    ] = False,
    form: Annotated[
        _Format | None,
        typer.Option("--format", help="Of the tables; 'table' without.", show_default=False),
    ] = None,
    runs: Runs = Path("runs"),
) -> None:
    """Compare judged runs."""
    from rich.console import Console

    from capeval.errors import UsageError
    from capeval.files.jsonl import dumps
    from capeval.reporting.comparison_tables import gate_lines, print_comparison
    from capeval.runs.comparing import CompareRequest, compare_files
    from capeval.runs.judged_run import files_behind
    from capeval.runs.outputs import check_output, write_output
    from capeval.scoring.gates import read_coverage, read_gates
    from capeval.text import one_line

    if gate is not None and not fail_under:
        raise UsageError("--gate is of --fail-under: add a MEASURE=POINTS to hold, or leave it off")
    if power and len(run) > 2:
        raise UsageError(f"--power is of the differences of two runs, not {len(run)}; name two")
    if as_json and form is not None:
        raise UsageError("--format is of the tables, and --json prints none; leave one of them out")
    gates = read_gates(fail_under or (), on=(gate or _Gate.of_estimate).value)
    coverage = None if min_coverage is None else read_coverage(min_coverage)
    if out is not None:
        check_output(out, files_behind(run, runs=runs, judge=judge, annotations=annotations))
    found = compare_files(
        CompareRequest(
            typed=tuple(run),
            judge=judge,
            annotations=annotations,
            runs=runs,
            draws=draws,
            seed=seed,
            anyway=anyway,
            gates=tuple(gates),
            coverage=coverage,
        )
    )
    text = dumps(found.model_dump(mode="json"), indent=1)
    if out is not None:
        write_output(out, text + "\n")
    if as_json:
        typer.echo(text)
    else:
        print_comparison(
            found, Console(), form=(form or _Format.table).value, power=power, most=top
        )
    for line in gate_lines(found):
        sys.stderr.write(f"capeval: {one_line(line, 600)}\n")
    if not all(result.passed for result in found.gates):
        raise typer.Exit(4)

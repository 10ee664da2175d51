"""`capeval compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from capeval.cli import options


def compare(
    run: options.JudgedRuns,
    judge: options.WhichJudge = None,
    annotations: options.RunAnnotations = None,
    allow_mismatch: Annotated[
        bool,
        typer.Option(
            "--allow-mismatch",
            help="Compare runs that differ in judge, prompts, repeats or data, and say so.",
        ),
    ] = False,
    fail_under: Annotated[
        list[str] | None,
        options.optional(
            "MEASURE=POINTS",
            "Smallest difference that passes: f1=-0.5, action.recall=-1. Repeatable.",
        ),
    ] = None,
    gate: Annotated[
        Literal["estimate", "lower"] | None,
        options.optional(
            "VALUE",
            "What --fail-under tests: estimate, or lower for the lower end of the interval. "
            "By default estimate.",
        ),
    ] = None,
    min_coverage: Annotated[
        str | None,
        options.optional("SHARE", "How many annotated videos must be compared: 99% or a number."),
    ] = None,
    power: Annotated[
        bool,
        typer.Option("--power", help="Show the difference of two runs that can be detected."),
    ] = False,
    top: Annotated[
        int,
        typer.Option(
            min=0, metavar="N", help="How many changed videos and flipped elements to show."
        ),
    ] = 5,
    resamples: options.Resamples = None,
    seed: options.Seed = 0,
    out: options.OutFile = None,
    as_json: options.Json = False,
    form: options.TableFormat = None,
    full: options.Full = False,
    quiet: options.Quiet = False,
    runs: options.Runs = Path("runs"),
) -> None:
    """Compare judged runs over the videos that are scored in all of them: is B better than A?

    Differences are second − first, in points: `capeval compare OLD NEW` shows what NEW gained. More
    than two runs make a matrix with ranks.

    `--fail-under f1=-0.5` exits with 4 if the second run is more than half a point below the first.
    """
    from capeval.api import comparing
    from capeval.cli.output import Output
    from capeval.errors import UsageError
    from capeval.reporting.comparison_tables import gate_lines, print_comparison
    from capeval.scoring import DRAWS

    if gate is not None and not fail_under:
        raise UsageError("--gate requires --fail-under; add a MEASURE=POINTS, or omit --gate")
    if power and len(run) > 2:
        raise UsageError(f"--power needs two runs, not {len(run)}; name two")
    options.check_format(form, as_json=as_json)
    output = Output(quiet=quiet)
    found = comparing.compare(
        run,
        judge=judge,
        annotations=annotations,
        allow_mismatch=allow_mismatch,
        fail_under=fail_under or (),
        gate=gate or "estimate",
        min_coverage=min_coverage,
        resamples=resamples or DRAWS,
        seed=seed,
        out=out,
        runs=runs,
    )
    if as_json:
        output.json(found)
    else:
        print_comparison(
            found, output.console, form=form or "table", power=power, most=top, full=full
        )
    for line in gate_lines(found):
        output.error(f"capeval: {line}")
    if not all(result.passed for result in found.gates):
        raise typer.Exit(4)

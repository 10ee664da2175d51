"""`capeval leaderboard`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from capeval.cli import options


def leaderboard(
    run: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN",
            help="Runs in addition to those under runs/: folders of runs or of judges.",
            show_default=False,
        ),
    ] = None,
    by: Annotated[
        Literal["overall", "types", "characteristics", "domain", "complexity", "all"],
        typer.Option(
            metavar="TABLES",
            help="Tables after the overall one: types, characteristics, domain, complexity or all. "
            "CSV and JSON contain them all.",
        ),
    ] = "overall",
    form: Annotated[
        Literal["table", "markdown", "latex", "csv", "json"],
        typer.Option("--format", metavar="FORMAT", help="table, markdown, latex, csv or json."),
    ] = "table",
    as_json: options.Json = False,
    published: Annotated[
        bool,
        typer.Option("--published", help="Add the TUNA paper's 21 models (tables 8, 9 and 10)."),
    ] = False,
    annotations: options.RunAnnotations = None,
    min_coverage: Annotated[
        str,
        typer.Option(
            metavar="SHARE", help="Percentage of the videos that must be scored for a rank."
        ),
    ] = "99%",
    out: options.OutFile = None,
    full: options.Full = False,
    quiet: options.Quiet = False,
    runs: options.Runs = Path("runs"),
) -> None:
    """Rank all judged runs by overall F1.

    It shows the scores of every judge of every run under runs/, and of the runs that are named.
    Runs that differ in judge, prompts, repeats or data are in separate sections.

    Scores that do not match the verdicts next to them are left out with a line on stderr, and the
    exit code is 3.
    """
    from capeval.api import leaderboards
    from capeval.cli.output import Output
    from capeval.reporting.leaderboard.tables import print_leaderboard, rendered_leaderboard

    output = Output(quiet=quiet)
    form = "json" if as_json else form
    by = "all" if full and by == "overall" else by
    board = leaderboards.leaderboard(
        run or (),
        annotations=annotations,
        published=published,
        min_coverage=_fraction(min_coverage),
        out=out,
        form=form,
        by=by,
        runs=runs,
    )
    if out is None and form == "table":
        print_leaderboard(board, output.console, by=by, full=full)
    elif out is None and (form == "json" or not quiet):
        typer.echo(rendered_leaderboard(board, form, by=by))
    for one in board.left_out:
        reason = f"{one.path}: {one.reason}" if one.unfinished else one.reason
        (output.notice if one.unfinished else output.error)(f"left out: {reason}")
    if any(not one.unfinished for one in board.left_out):
        raise typer.Exit(3)


def _fraction(text: str) -> float:
    from capeval.errors import UsageError

    if not text.strip().endswith("%"):
        raise UsageError(f"--min-coverage: {text!r} must be a percentage such as 99%")
    return float(options.Allowance.read(text, "--min-coverage").number) / 100

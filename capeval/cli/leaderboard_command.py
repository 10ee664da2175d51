"""`capeval leaderboard`."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from capeval.cli.options import Runs

HELP = (
    "Put all judged runs in one table, best overall F1 first.\n\n"
    "Every judge's scores of every run under runs/ are shown, and of the runs named. Runs of "
    "unlike judge, prompts, repeats or data stand in sections of their own.\n\n"
    "Scores that do not belong to the verdicts beside them are left out, told on stderr, and end "
    "with exit code 3."
)


class _By(StrEnum):
    overall = "overall"
    types = "types"
    characteristics = "characteristics"
    domain = "domain"
    complexity = "complexity"
    all = "all"


class _Format(StrEnum):
    table = "table"
    markdown = "markdown"
    latex = "latex"
    csv = "csv"
    json = "json"


def leaderboard(
    named: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN",
            help="Runs besides those under runs/: folders of runs or of judges.",
            show_default=False,
        ),
    ] = None,
    by: Annotated[
        _By,
        typer.Option(
            metavar="TABLES",
            help="Besides the overall one: types, characteristics, domain, complexity or all. CSV "
            "and JSON hold them all.",
        ),
    ] = _By.overall,
    form: Annotated[
        _Format,
        typer.Option("--format", metavar="FORMAT", help="table, markdown, latex, csv or json."),
    ] = _Format.table,
    published: Annotated[
        bool,
        typer.Option("--published", help="Add the TUNA paper's 21 models (tables 8, 9 and 10)."),
    ] = False,
    annotations: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Annotations for runs whose own are not where they were.",
            show_default=False,
        ),
    ] = None,
    min_coverage: Annotated[
        str,
        typer.Option(
            metavar="SHARE", help="Share of the videos that must be scored for a rank, such as 99%."
        ),
    ] = "99%",
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write to this file instead.", show_default=False),
    ] = None,
    runs: Runs = Path("runs"),
) -> None:
    """Put all judged runs in one table."""
    from rich.console import Console

    from capeval.reporting.leaderboard.board import files_of, make_leaderboard
    from capeval.reporting.leaderboard.tables import print_leaderboard, rendered_leaderboard
    from capeval.runs.outputs import check_output, write_output
    from capeval.text import one_line

    least_coverage = _share(min_coverage)
    if out is not None:
        check_output(out, files_of(named or (), runs=runs, annotations=annotations))
    board = make_leaderboard(
        named or (),
        runs=runs,
        annotations=annotations,
        published=published,
        least_coverage=least_coverage,
    )
    if form is _Format.table and out is None:
        print_leaderboard(board, Console(), by=by.value)
    else:
        text = rendered_leaderboard(board, form.value, by=by.value)
        if out is None:
            typer.echo(text)
        else:
            write_output(out, text + "\n")
    for one in board.left_out:
        told = f"{one.path}: {one.reason}" if one.unfinished else one.reason
        sys.stderr.write(one_line(f"left out: {told}", 600) + "\n")
    if any(not one.unfinished for one in board.left_out):
        raise typer.Exit(3)


def _share(text: str) -> float:
    from capeval.cli.options import Allowance
    from capeval.errors import UsageError

    read = Allowance.read(text, "--min-coverage") if text.strip().endswith("%") else None
    if read is None:
        raise UsageError(f"--min-coverage: {text!r} must be a percentage such as 99%")
    return float(read.number) / 100

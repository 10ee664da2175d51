"""`capeval leaderboard`."""

from __future__ import annotations

from typing import Any

import typer

from capeval.api.run_options import LeaderboardOptions
from capeval.cli.options import Full, Json, Quiet, declared_by
from capeval.cli.output import Output
from capeval.errors import UsageError


@declared_by(LeaderboardOptions)
def leaderboard(
    declared: dict[str, Any], *, as_json: Json = False, full: Full = False, quiet: Quiet = False
) -> None:
    """Rank judged runs by overall F1, or graded runs by accuracy.

    It shows the scores of every judge of every run under runs/, or of the runs that are named. Runs
    that differ in judge, prompts, repeats or data are in separate sections. With --questions it
    shows graded runs; those that differ in questions or in how replies were read are in separate
    sections.

    Runs that cannot be read are left out with a line on stderr, and the exit code is 3.
    """
    from capeval.api import leaderboards
    from capeval.files.jsonl import printable_json
    from capeval.reporting.leaderboards import print_leaderboard, rendered_leaderboard
    from capeval.runs.resolve import why_left_out

    output = Output(quiet=quiet)
    form, out, questions = (declared[name] for name in ("format", "out", "questions"))
    if as_json and form not in ("table", "json"):
        raise UsageError("--json and --format: choose one of them")
    if full and not questions:
        declared["by"] = declared["by"] or "all"
    by = "overall" if questions else declared["by"] or "overall"
    board = leaderboards.leaderboard(**declared)
    if as_json or (out is None and form == "json"):
        typer.echo(printable_json(rendered_leaderboard(board, "json")))
    elif out is not None:
        output.line(f"{board.headline} Written: {out}")
    elif form == "table":
        print_leaderboard(board, output.console, by=by, full=full)
    elif not quiet:
        typer.echo(rendered_leaderboard(board, form, by=by))
    for line in board.notices:
        output.notice(line)
    for path, reason in board.left_out:
        output.error(why_left_out(path, reason))
    if board.left_out:
        raise typer.Exit(3)

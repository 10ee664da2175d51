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
    """Rank all judged runs by overall F1.

    It shows the scores of every judge of every run under runs/, and of the runs that are named.
    Runs that differ in judge, prompts, repeats or data are in separate sections.

    Scores that do not match the verdicts next to them are left out with a line on stderr, and the
    exit code is 3.
    """
    from capeval.api import leaderboards
    from capeval.files.jsonl import printable_json
    from capeval.reporting.leaderboard.tables import (
        leaderboard_headline,
        print_leaderboard,
        rendered_leaderboard,
    )

    output = Output(quiet=quiet)
    if as_json and declared["format"] not in ("table", "json"):
        raise UsageError("--json and --format: choose one of them")
    if full and declared["by"] == "overall":
        declared["by"] = "all"
    form, by, out = (declared[name] for name in ("format", "by", "out"))
    board = leaderboards.leaderboard(**declared)
    if as_json:
        typer.echo(printable_json(rendered_leaderboard(board, "json", by=by)))
    elif out is None and form == "table":
        print_leaderboard(board, output.console, by=by, full=full)
    elif out is None and (form == "json" or not quiet):
        text = rendered_leaderboard(board, form, by=by)
        typer.echo(printable_json(text) if form == "json" else text)
    else:
        output.line(f"{leaderboard_headline(board)} Written: {out}")
    for line in board.notices:
        output.notice(line)
    for one in board.left_out:
        output.error(f"left out: {one.reason}")
    if board.left_out:
        raise typer.Exit(3)

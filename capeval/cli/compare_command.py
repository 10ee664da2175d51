"""`capeval compare` and `capeval leaderboard`: several runs."""

from __future__ import annotations

from typing import Any

import typer

from capeval.api.run_options import CompareOptions, LeaderboardOptions
from capeval.cli.options import declared_by
from capeval.show.output import Output


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


@declared_by(LeaderboardOptions, "as_json", "form_or_csv", "full")
def leaderboard(declared: dict[str, Any], output: Output) -> None:
    """Rank judged runs by overall F1, or graded runs by accuracy.

    It shows the scores of every judge of every run under runs/, or of the runs that are named. Runs
    that differ in judge, prompts, repeats or data are in separate sections. With --questions it
    shows graded runs; those that differ in questions or in how replies were read are in separate
    sections.

    Runs that cannot be read are left out with a line on stderr, and the exit code is 3.
    """
    from capeval.api import leaderboards
    from capeval.reporting.leaderboards import print_leaderboard, rendered_leaderboard
    from capeval.runs.resolve import why_left_out

    out, questions = declared["out"], declared["questions"]
    if output.full and not questions:
        declared["by"] = declared["by"] or "all"
    by = "overall" if questions else declared["by"] or "overall"
    board = leaderboards.leaderboard(**declared)
    if output.as_json:
        output.json(rendered_leaderboard(board, "json"))
    elif output.table_form != "table":
        output.text(rendered_leaderboard(board, output.table_form, by=by))
    elif out is not None:
        output.line(f"{board.headline} Written: {out}")
    else:
        print_leaderboard(board, output.console, by=by, full=output.full)
    for line in board.notices:
        output.notice(line)
    for path, reason in board.left_out:
        output.error(why_left_out(path, reason))
    if board.left_out:
        raise typer.Exit(3)

"""`capeval.leaderboard`: all judged runs, ranked."""

from __future__ import annotations

from pathlib import Path

from capeval.api.run_options import LeaderboardOptions
from capeval.api.sync_async import awaitable
from capeval.options import takes
from capeval.reporting.formats import form_for
from capeval.reporting.leaderboard.board import Leaderboard, files_of, make_leaderboard
from capeval.reporting.leaderboard.tables import rendered_leaderboard
from capeval.runs.outputs import check_output, write_output


@takes(LeaderboardOptions)
def leaderboard(o: LeaderboardOptions) -> Leaderboard:
    """Rank all judged runs by overall F1, in sections that share judge, prompts and data.

    Raises
    ------
    InputError, UsageError
        A named run cannot be shown, there is no run at all, or `out` cannot be written.
    """
    folder = Path(o.runs)
    form = o.form if o.out is None else form_for(Path(o.out), o.form)
    if o.out is not None:
        check_output(Path(o.out), files_of(o.named, runs=folder, annotations=o.annotations))
    board = make_leaderboard(
        o.named,
        runs=folder,
        annotations=o.annotations,
        published=o.published,
        least_coverage=o.min_coverage,
    )
    if o.out is not None:
        write_output(Path(o.out), rendered_leaderboard(board, form, by=o.by) + "\n")
    return board


leaderboard_async = awaitable(leaderboard)

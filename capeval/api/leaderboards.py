"""`capeval.leaderboard`: all judged runs, ranked."""

from __future__ import annotations

from pathlib import Path

from capeval.api.run_options import LeaderboardOptions
from capeval.errors import UsageError
from capeval.options import takes
from capeval.reporting.formats import form_for
from capeval.reporting.leaderboard.board import Leaderboard, files_of, make_leaderboard
from capeval.reporting.leaderboard.tables import rendered_leaderboard
from capeval.runs.outputs import check_output, write_output
from capeval.scoring.gates import CountOrShare


@takes(LeaderboardOptions)
def leaderboard(o: LeaderboardOptions) -> Leaderboard:
    """Rank all judged runs by overall F1, in sections that share judge, prompts and data.

    Raises
    ------
    InputError, UsageError
        A named run cannot be shown, there is no run at all, or `out` cannot be written.
    """
    folder, coverage = Path(o.runs), _fraction(o.min_coverage)
    form = o.format if o.out is None else form_for(Path(o.out), o.format)
    if o.out is not None:
        check_output(Path(o.out), files_of(o.judged_runs, runs=folder, annotations=o.annotations))
    board = make_leaderboard(
        o.judged_runs,
        runs=folder,
        annotations=o.annotations,
        published=o.published,
        least_coverage=coverage,
    )
    if o.out is not None:
        write_output(Path(o.out), rendered_leaderboard(board, form, by=o.by) + "\n")
    return board


def _fraction(share: str | float) -> float:
    also = "" if isinstance(share, str) else ", or a fraction such as 0.99"
    fits = "%" in share if isinstance(share, str) else 0 <= share <= 1
    if not fits:
        raise UsageError(f"--min-coverage: {share!r} must be a percentage such as 99%{also}")
    return float(CountOrShare.read(share, "--min-coverage").number) / 100

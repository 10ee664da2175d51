"""`capeval.leaderboard`: all judged runs, ranked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from capeval.api import FilePath
from capeval.api.sync_async import awaitable
from capeval.errors import UsageError
from capeval.reporting.formats import Format
from capeval.reporting.leaderboard.board import Leaderboard, files_of, make_leaderboard
from capeval.reporting.leaderboard.tables import By, rendered_leaderboard
from capeval.runs.outputs import check_output, write_output


def leaderboard(
    named: Sequence[FilePath] = (),
    *,
    annotations: str | None = None,
    published: bool = False,
    min_coverage: float = 0.99,
    out: FilePath | None = None,
    form: Format = "table",
    by: By = "overall",
    runs: FilePath = "runs",
) -> Leaderboard:
    """Rank all judged runs by overall F1, in sections that share judge, prompts and data.

    Parameters
    ----------
    named : runs in addition to those under `runs`: folders of runs or of judges
    published : add the 21 models of the TUNA paper, in a section of their own
    min_coverage : fraction of the videos that must be scored for a rank
    annotations, out, runs : see `capeval.api`
    form : format of the file: "table", "markdown", "latex", "csv" or "json"
    by : tables in the file; CSV and JSON contain all

    Raises
    ------
    InputError, UsageError
        A named run cannot be shown, there is no run at all, or `out` cannot be written.
    """
    if not 0 <= min_coverage <= 1:
        raise UsageError(f"--min-coverage must be a percentage from 0% to 100%, not {min_coverage}")
    folder = Path(runs)
    if out is not None:
        check_output(Path(out), files_of(named, runs=folder, annotations=annotations))
    board = make_leaderboard(
        named,
        runs=folder,
        annotations=annotations,
        published=published,
        least_coverage=min_coverage,
    )
    if out is not None:
        write_output(Path(out), rendered_leaderboard(board, form, by=by) + "\n")
    return board


leaderboard_async = awaitable(leaderboard)

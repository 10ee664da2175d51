"""`capeval.mcq_temporal` and `capeval.mcq_leaderboard`: graded runs beside each other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from capeval.api.mcq_diagnostic_options import McqLeaderboardOptions, McqTemporalOptions
from capeval.api.sync_async import awaitable
from capeval.errors import UsageError
from capeval.mcq.find_run import RESPONSES, all_grades, find_grades
from capeval.mcq.graded_run import read_graded_run
from capeval.mcq.temporal_result import TemporalResult
from capeval.options import takes
from capeval.reporting.formats import form_for
from capeval.reporting.mcq_leaderboard.board import McqLeaderboard, make_mcq_leaderboard
from capeval.reporting.mcq_leaderboard.tables import rendered_mcq_leaderboard
from capeval.reporting.temporal_tables import rendered_temporal
from capeval.runs.outputs import check_output, write_output

if TYPE_CHECKING:
    from capeval.api import FilePath
    from capeval.mcq.temporal import Role


@takes(McqTemporalOptions)
def mcq_temporal(o: McqTemporalOptions) -> TemporalResult:
    """Return how much each model's accuracy depends on several frames, and on their order.

    Raises
    ------
    InputError, UsageError
        A run cannot be read, what it showed is not clear, the runs do not fit together, or `out`
        cannot be written.
    """
    from capeval.mcq.temporal_runs import temporal_result

    folder = Path(o.runs)
    given: dict[Role, FilePath | None] = {
        "multi": o.multi,
        "single": o.single,
        "picked": o.picked,
        "shuffled": o.shuffled,
        "blind": o.blind,
    }
    named = {role: find_grades(run, folder) for role, run in given.items() if run is not None}
    files = list(dict.fromkeys(find_grades(run, folder) for run in o.graded_runs))
    inputs = [*files, *named.values()]
    if len({*inputs}) < 2:
        raise UsageError("a comparison takes at least two graded runs; name them")
    form = o.format if o.out is None else form_for(Path(o.out), o.format)
    if o.out is not None:
        check_output(Path(o.out), _read_for(inputs))
    result = temporal_result(
        [read_graded_run(file) for file in files],
        {role: read_graded_run(file) for role, file in named.items()},
        way=o.by,
        draws=o.resamples,
        seed=o.seed,
    )
    if o.out is not None:
        write_output(Path(o.out), rendered_temporal(result, form) + "\n")
    return result


@takes(McqLeaderboardOptions)
def mcq_leaderboard(o: McqLeaderboardOptions) -> McqLeaderboard:
    """Rank graded runs by accuracy, in sections that share questions and strategy.

    Raises
    ------
    InputError, UsageError
        A named run cannot be shown, there is no run at all, or `out` cannot be written.
    """
    folder = Path(o.runs)
    form = o.format if o.out is None else form_for(Path(o.out), o.format)
    named = [find_grades(run, folder) for run in o.graded_runs]
    if o.out is not None:
        check_output(Path(o.out), _read_for([*named, *all_grades(folder)]))
    board = make_mcq_leaderboard(named, runs=folder, by=o.by, published=o.published)
    if o.out is not None:
        write_output(Path(o.out), rendered_mcq_leaderboard(board, form) + "\n")
    return board


def _read_for(grades: list[Path]) -> list[Path]:
    return [file for one in grades for file in (one, one.with_name(RESPONSES))]


mcq_temporal_async = awaitable(mcq_temporal)
mcq_leaderboard_async = awaitable(mcq_leaderboard)

"""`capeval.leaderboard`: judged runs ranked by F1, or graded runs by accuracy."""

from __future__ import annotations

from pathlib import Path

from capeval.api.run_options import LeaderboardOptions
from capeval.files.outputs import check_output, write_output
from capeval.mcq.find_run import RESPONSES, all_grades, find_grades
from capeval.options import takes
from capeval.reporting.caption_board import caption_board
from capeval.reporting.leaderboards import Leaderboard, check_view, rendered_leaderboard
from capeval.reporting.question_board import question_board
from capeval.runs.resolve import find_judges
from capeval.runs.sources import files_read
from capeval.show.formats import form_for


@takes(LeaderboardOptions)
def leaderboard(o: LeaderboardOptions) -> Leaderboard:
    """Rank judged runs by overall F1, or graded runs by accuracy, in sections that can be compared.

    Sections share judge, prompts and data, or questions and how replies were read.

    Raises
    ------
    InputError, UsageError
        A named run cannot be shown, there is no run at all, or `out` cannot be written.
    """
    runs, out = Path(o.runs), None if o.out is None else Path(o.out)
    if o.questions:
        named = [find_grades(run, runs) for run in o.judged_runs]
        if out is not None:
            read = named or all_grades(runs)
            check_output(out, [file for one in read for file in (one, one.with_name(RESPONSES))])
        board = question_board(named, runs=runs, by=o.by, published=o.published)
        by = "overall"
    else:
        by = check_view(o.by or "overall")
        if out is not None:
            folders = [one.path for run in o.judged_runs for one in find_judges(run, runs)]
            check_output(out, files_read(folders, o.annotations, runs))
        board = caption_board(
            o.judged_runs, runs=runs, annotations=o.annotations, published=o.published
        )
    if out is not None:
        write_output(out, rendered_leaderboard(board, form_for(out, "table"), by=by) + "\n")
    return board

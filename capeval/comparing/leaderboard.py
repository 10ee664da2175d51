"""`capeval leaderboard`: judged runs ranked by F1, or graded runs by accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, replace
from pathlib import Path

from capeval.comparing.caption_board import caption_board
from capeval.comparing.question_board import question_board
from capeval.comparing.sections import VIEWS_OF, Leaderboard
from capeval.errors import UsageError
from capeval.files.outputs import check_output
from capeval.mcq.grades import all_grades, find_grades
from capeval.mcq.responses import RESPONSES
from capeval.options import (
    OUTPUT,
    FilePath,
    annotations_option,
    command,
    declares,
    option,
    out_option,
    runs_option,
    takes,
)
from capeval.runs.resolve import find_judges
from capeval.runs.sources import files_read
from capeval.show.result import Output, write


@declares
class LeaderboardOptions:
    """The arguments of `capeval.leaderboard`.

    Parameters
    ----------
    judged_runs : The runs to rank: names, folders of runs or of judges; with questions, graded
        runs. By default all under runs/.
    questions : Rank graded runs of multiple-choice questions by accuracy.
    by : Tables after the overall one: types, characteristics, domain, complexity or all. JSON
        contains them all. With questions, the tag whose groups are the columns.
    published : Add published rows: the TUNA paper's 21 models; with questions, those of TUNA-MCQ,
        TOMATO and a study of answer selection.
    """

    judged_runs: Sequence[FilePath] = option((), positional=True, metavar="RUN")
    _: KW_ONLY
    questions: bool = False
    by: str | None = option(None, metavar="TABLES", panel=OUTPUT)
    published: bool = False
    annotations: FilePath | None = annotations_option()
    out: FilePath | None = out_option()
    runs: FilePath = runs_option()


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
    else:
        by = o.by or "overall"
        if by not in VIEWS_OF:
            raise UsageError(f"--by: {by!r} must be one of {', '.join(VIEWS_OF)}")
        if out is not None:
            folders = [one.path for run in o.judged_runs for one in find_judges(run, runs)]
            check_output(out, files_read(folders, o.annotations, runs))
        board = caption_board(
            o.judged_runs, runs=runs, annotations=o.annotations, published=o.published
        )
        board = replace(board, by=by)
    if out is not None:
        write(board, out, "table")
    return board


@command("leaderboard", "as_json", "form_or_csv", "full", options=LeaderboardOptions)
def leaderboard_command(o: LeaderboardOptions, output: Output) -> Leaderboard:
    """Rank judged runs by overall F1, or graded runs by accuracy.

    It shows the scores of every judge of every run under runs/, or of the runs that are named. Runs
    that differ in judge, prompts, repeats or data are in separate sections. With --questions it
    shows graded runs; runs that differ in questions or in how replies were read are in separate
    sections.

    Runs that cannot be read are left out with a line on stderr, and the exit code is 3.
    """
    by = "all" if output.full and not o.questions else None
    return leaderboard(**{**vars(o), "by": o.by or by})

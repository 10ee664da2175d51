"""`capeval mcq construct`: from annotations to multiple-choice questions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from capeval.cli.options import LONG, declared_by
from capeval.cli.output import Output
from capeval.construct.options import QuestionFilterOptions

if TYPE_CHECKING:
    from capeval.api.long_work import LongWork
    from capeval.construct.indispensability import Filtered

app = typer.Typer(
    help="Make questions: draft, check, filter, review.",
    no_args_is_help=True,
)


@app.command("filter")
@declared_by(QuestionFilterOptions, *LONG, "form")
def filter_questions(declared: dict[str, Any], output: Output) -> None:
    """Keep the questions that a model answers with 16 frames, but not with one frame or none.

    Each is asked with eight orders of its options, without the video first; a question that fails
    is not asked further. Run the same command again to resume.
    """
    from capeval.api.question_filtering import open_filtering
    from capeval.cli.long_command import run_long
    from capeval.reporting.question_filter_tables import print_filtered

    def show(work: LongWork[Filtered], results: list[Filtered]) -> None:
        del work
        for found in results:
            tables = partial(print_filtered, found, output.console, form=output.table_form)
            output.show(found.json(), tables)

    options = QuestionFilterOptions(**declared)
    opening = open_filtering(options, on_notice=output.notice, dry_run=output.dry_run)
    run_long(output, opening, show)

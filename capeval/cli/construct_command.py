"""`capeval mcq construct`: from annotations to multiple-choice questions."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from capeval.cli.annotate_command import print_pages
from capeval.cli.options import LONG, declared_by
from capeval.cli.output import Output
from capeval.construct.options import (
    QuestionCheckOptions,
    QuestionDraftOptions,
    QuestionFilterOptions,
    QuestionReviewOptions,
)

if TYPE_CHECKING:
    from capeval.api.construct_session import Constructed
    from capeval.api.long_work import LongWork
    from capeval.construct.indispensability import Filtered
    from capeval.construct.question_checks import QuestionChecks
    from capeval.schema import Question

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


@app.command()
@declared_by(QuestionDraftOptions, *LONG)
def draft(declared: dict[str, Any], output: Output) -> None:
    """Draft questions of TUNA-MCQ's ten task types from annotations.

    What a video model gets wrong becomes wrong options. Run the same command again to resume.
    """
    from capeval.api.construct_chat import open_construct_draft
    from capeval.cli.long_command import run_long
    from capeval.mcq.questions import question_line
    from capeval.reporting.construct_tables import questions_line

    def show(_: object, results: list[Constructed[tuple[Question, ...]]]) -> None:
        for made in results:
            values = list(map(question_line, made.value))
            output.show(values, partial(output.line, questions_line(made.value)))

    options = QuestionDraftOptions(**declared, on_notice=output.notice)
    run_long(output, open_construct_draft(options, offline=output.dry_run), show)


@app.command()
@declared_by(QuestionCheckOptions, *LONG)
def check(declared: dict[str, Any], output: Output) -> None:
    """Check questions without their videos: options, keys, and shortcuts over the whole set.

    A chat model compares each option with the annotation. Run the same command again to resume.
    """
    from capeval.api.construct_chat import open_construct_check
    from capeval.cli.long_command import run_long
    from capeval.reporting.construct_tables import print_checks

    def show(_: object, results: list[Constructed[QuestionChecks]]) -> None:
        for made in results:
            output.show(asdict(made.value), partial(print_checks, made.value, output.console))

    options = QuestionCheckOptions(**declared, on_notice=output.notice)
    run_long(output, open_construct_check(options, offline=output.dry_run), show)


@app.command()
@declared_by(QuestionReviewOptions)
def review(declared: dict[str, Any], output: Output) -> None:
    """Write pages for reviewers, who keep, mend or drop each question in a browser."""
    from capeval.api import reviewing

    print_pages(reviewing.construct_review(**declared), "question", output)

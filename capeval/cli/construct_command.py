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
    from capeval.construct.question_checks import QuestionChecks
    from capeval.construct.question_filter import Filtered
    from capeval.schema import Question

construct = typer.Typer(
    help="Make questions: draft, check, filter, review.",
    no_args_is_help=True,
)


@construct.command()
@declared_by(QuestionDraftOptions, *LONG[1:-1])
def draft(declared: dict[str, Any], output: Output) -> None:
    """Draft questions of TUNA-MCQ's ten task types from annotations.

    What a video model gets wrong becomes wrong options. Run the same command again to resume.
    """
    from capeval.api.constructing import open_construct_draft
    from capeval.cli.long_command import run_long
    from capeval.reporting.construct_tables import questions_line

    def show(_: object, results: list[tuple[Question, ...]]) -> None:
        for questions in results:
            output.line(questions_line(questions))

    options = QuestionDraftOptions(**declared, on_notice=output.notice)
    run_long(output, open_construct_draft(options, offline=output.dry_run), show)


@construct.command()
@declared_by(QuestionCheckOptions, *LONG[1:])
def check(declared: dict[str, Any], output: Output) -> None:
    """Check questions without their videos: options, keys, and shortcuts over the whole set.

    A chat model compares each option with the annotation. Run the same command again to resume.
    """
    from capeval.api.constructing import open_construct_check
    from capeval.cli.long_command import run_long
    from capeval.reporting.construct_tables import print_checks

    def show(_: object, results: list[QuestionChecks]) -> None:
        for checks in results:
            output.show(asdict(checks), partial(print_checks, checks, output.console))

    options = QuestionCheckOptions(**declared, on_notice=output.notice)
    run_long(output, open_construct_check(options, offline=output.dry_run), show)


@construct.command("filter")
@declared_by(QuestionFilterOptions, *LONG[1:])
def filter_questions(declared: dict[str, Any], output: Output) -> None:
    """Keep the questions that a model answers with 16 frames, but not with one frame or none.

    Each is asked with eight orders of its options, without the video first; a question that fails
    is not asked further. Run the same command again to resume.
    """
    from capeval.api.constructing import open_filtering
    from capeval.cli.long_command import run_long
    from capeval.reporting.construct_tables import print_question_filter

    def show(_: object, results: list[Filtered]) -> None:
        for found in results:
            output.show(found.json(), partial(print_question_filter, found, output.console))

    options = QuestionFilterOptions(**declared)
    opening = open_filtering(options, on_notice=output.notice, dry_run=output.dry_run)
    run_long(output, opening, show)


@construct.command()
@declared_by(QuestionReviewOptions)
def review(declared: dict[str, Any], output: Output) -> None:
    """Write pages for reviewers, who keep, mend or drop each question in a browser."""
    from capeval.api.constructing import construct_review

    print_pages(construct_review(**declared), "question", output)

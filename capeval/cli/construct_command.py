"""`capeval mcq construct`: from annotations to multiple-choice questions."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any

import typer

from capeval.cli.annotate_command import print_review, run_one
from capeval.cli.options import LONG, declared_by
from capeval.construct.options import (
    QuestionCheckOptions,
    QuestionDraftOptions,
    QuestionFilterOptions,
    QuestionReviewOptions,
)
from capeval.show.output import Output

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
    from capeval.reporting.construct_tables import questions_line

    options = QuestionDraftOptions(**declared, on_notice=output.notice)
    opening = open_construct_draft(options, offline=output.dry_run)
    run_one(output, opening, lambda questions: output.line(questions_line(questions)))


@construct.command()
@declared_by(QuestionCheckOptions, *LONG[1:])
def check(declared: dict[str, Any], output: Output) -> None:
    """Check questions without their videos: options, keys, and shortcuts over the whole set.

    A chat model compares each option with the annotation. Run the same command again to resume.
    """
    from capeval.api.constructing import open_construct_check
    from capeval.reporting.construct_tables import print_checks

    options = QuestionCheckOptions(**declared, on_notice=output.notice)
    run_one(
        output,
        open_construct_check(options, offline=output.dry_run),
        lambda found: output.show(asdict(found), partial(print_checks, found, output.console)),
    )


@construct.command("filter")
@declared_by(QuestionFilterOptions, *LONG[1:])
def filter_questions(declared: dict[str, Any], output: Output) -> None:
    """Keep the questions that a model answers with 16 frames, but not with one frame or none.

    Each is asked with eight orders of its options, without the video first; a question that fails
    is not asked further. Run the same command again to resume.
    """
    from capeval.api.constructing import open_filtering
    from capeval.reporting.construct_tables import print_question_filter

    options = QuestionFilterOptions(**declared)
    run_one(
        output,
        open_filtering(options, on_notice=output.notice, dry_run=output.dry_run),
        lambda found: output.show(
            found.json(), partial(print_question_filter, found, output.console)
        ),
    )


@construct.command()
@declared_by(QuestionReviewOptions)
def review(declared: dict[str, Any], output: Output) -> None:
    """Write pages for reviewers, who keep, mend or drop each question in a browser."""
    from capeval.api.constructing import construct_review

    print_review(construct_review(**declared), "question", output)

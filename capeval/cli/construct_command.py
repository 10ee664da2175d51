"""`capeval mcq construct`: from annotations to multiple-choice questions."""

from __future__ import annotations

from typing import Any

import typer

from capeval.cli.annotate_command import print_pages
from capeval.cli.options import declared_by
from capeval.cli.output import Output
from capeval.construct.options import QuestionReviewOptions

app = typer.Typer(
    help="Make questions: draft, check, filter, review.",
    no_args_is_help=True,
)


@app.command()
@declared_by(QuestionReviewOptions)
def review(declared: dict[str, Any], output: Output) -> None:
    """Write pages for reviewers, who keep, mend or drop each question in a browser."""
    from capeval.api import reviewing

    print_pages(reviewing.construct_review(**declared), "question", output)

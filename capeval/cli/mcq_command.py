"""`capeval mcq`: multiple-choice benchmarks."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from capeval.api.mcq_options import GradeOptions
from capeval.cli.generate_command import answer
from capeval.cli.options import LONG, declared_by
from capeval.show.output import Output

if TYPE_CHECKING:
    from capeval.mcq.grades import Grades

mcq = typer.Typer(
    help="Answer and grade multiple-choice questions: TUNA-MCQ, TOMATO, Video-MME, your own.",
    no_args_is_help=True,
)


mcq.command()(answer)


@mcq.command()
@declared_by(GradeOptions, *LONG[1:], "form", "full")
def grade(
    declared: dict[str, Any],
    output: Output,
    *,
    convention: Annotated[
        Literal["tuna", "tomato", "video-mme"] | None,
        typer.Option(
            "--as",
            metavar="BENCHMARK",
            help="Grade as the code of tuna, tomato or video-mme does; --select overrides how.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Turn replies into answers by a named strategy, and count them: grades.json.

    A reply that yields no answer is wrong; a failed call is not counted. Tables show how many
    replies each rule decided, and how many were decided by chance.
    """
    from capeval.api.mcq_grading import open_grading
    from capeval.cli.long_command import run_long
    from capeval.reporting.mcq_tables import print_grades

    options = GradeOptions(**declared, convention=convention)

    def show(_: object, results: list[Grades]) -> None:
        form, full = output.table_form, output.full
        for found in results:
            tables = partial(print_grades, found, output.console, form=form, full=full)
            output.show(found, tables)

    run_long(output, open_grading(options, offline=output.dry_run, on_notice=output.notice), show)

"""`capeval mcq`: multiple-choice benchmarks."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from capeval.api.mcq_diagnostic_options import McqTemporalOptions
from capeval.api.mcq_options import GradeOptions
from capeval.cli.construct_command import construct
from capeval.cli.generate_command import answer
from capeval.cli.options import LONG, declared_by
from capeval.cli.output import Output

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


@mcq.command()
@declared_by(McqTemporalOptions, "as_json", "form_or_csv", "full")
def temporal(declared: dict[str, Any], output: Output) -> None:
    """Check whether the questions need several frames, in order.

    It compares graded runs of the same model and questions: with many frames, with one random
    frame, with one hand-picked frame, and with the many frames shuffled.
    """
    from capeval.api import mcq_diagnosing
    from capeval.reporting.temporal_tables import (
        print_temporal,
        rendered_temporal,
        temporal_headline,
    )

    result = mcq_diagnosing.mcq_temporal(**declared)
    if output.as_json:
        output.json(rendered_temporal(result, "json"))
    elif output.table_form != "table":
        output.text(rendered_temporal(result, output.table_form))
    elif declared["out"] is not None:
        output.line(f"{temporal_headline(result)} Written: {declared['out']}")
    else:
        print_temporal(result, output.console, full=output.full)


mcq.add_typer(construct, name="construct")

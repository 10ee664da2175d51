"""`capeval mcq`: multiple-choice benchmarks."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from capeval.api.mcq_options import ExportOptions, GradeOptions, ImportOptions
from capeval.cli.mcq_answer_command import answer
from capeval.cli.mcq_diagnostics_command import leaderboard, temporal
from capeval.cli.options import Full, Json, Quiet, TableFormat, check_format, declared_by
from capeval.cli.output import Output
from capeval.text import counted

app = typer.Typer(
    help="Answer and grade multiple-choice questions: TUNA-MCQ, TOMATO, Video-MME, your own.",
    no_args_is_help=True,
)


app.command()(answer)


@app.command()
@declared_by(GradeOptions)
def grade(
    declared: dict[str, Any],
    *,
    convention: Annotated[
        Literal["tuna", "tomato", "video-mme"] | None,
        typer.Option(
            "--as",
            metavar="BENCHMARK",
            help="Grade as a benchmark's own code does: tuna, tomato or video-mme. --select "
            "overrides its strategy.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
    form: TableFormat = None,
    full: Full = False,
    quiet: Quiet = False,
) -> None:
    """Turn replies into answers by a named strategy, and count them: grades.json.

    A reply that yields no answer is wrong; a failed call counts nowhere. Every table shows how many
    replies each rule decided, and how many were decided by chance.

    `--select all` compares the strategies.
    """
    import asyncio

    from capeval.api import mcq_grading
    from capeval.reporting.mcq_tables import print_grades

    check_format(form, as_json=as_json)
    output = Output(quiet=quiet)
    found = asyncio.run(
        mcq_grading.mcq_grade_async(**declared, convention=convention, on_notice=output.notice)
    )
    if as_json:
        output.json(found)
    else:
        print_grades(found, output.console, form=form or "table", full=full)
        names = ("responses", "out", "runs")
        file = mcq_grading.grades_path(**{name: declared[name] for name in names})
        if file is not None and form in (None, "table"):
            output.line(str(file))


@app.command(name="import")
@declared_by(ImportOptions)
def import_(declared: dict[str, Any], *, quiet: Quiet = False) -> None:
    """Turn results of TOMATO's code, or a filled template of Video-MME, into responses.jsonl."""
    from capeval.api import mcq_exchange

    output = Output(quiet=quiet)
    found = mcq_exchange.mcq_import(**declared, on_notice=output.notice)
    failed = sum(one.reply is None for one in found.responses)
    output.line(f"{counted(len(found.responses), 'response')}, {failed:,} of them failed calls")
    output.line(f"{found.file}  grade them: capeval mcq grade {found.file}")


@app.command()
@declared_by(ExportOptions)
def export(declared: dict[str, Any], *, quiet: Quiet = False) -> None:
    """Write responses as TOMATO's result files, or as Video-MME's template for submission."""
    from capeval.api import mcq_exchange

    output = Output(quiet=quiet)
    found = mcq_exchange.mcq_export(**declared, on_notice=output.notice)
    output.line(f"{counted(found.responses, 'response')} in {counted(len(found.files), 'file')}")
    for file in found.files:
        output.line(str(file))


app.command()(temporal)
app.command()(leaderboard)

"""`capeval mcq`: multiple-choice benchmarks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from capeval.api.mcq_options import GradeOptions
from capeval.cli.mcq_answer_command import answer
from capeval.cli.mcq_diagnostics_command import temporal
from capeval.cli.options import (
    DryRun,
    Full,
    Json,
    Quiet,
    TableFormat,
    Yes,
    check_format,
    declared_by,
)
from capeval.cli.output import Output, print_json
from capeval.text import counted

if TYPE_CHECKING:
    from capeval.mcq.model_reader import ReadingEstimate

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
    yes: Yes = False,
    dry_run: DryRun = False,
    form: TableFormat = None,
    full: Full = False,
    quiet: Quiet = False,
) -> None:
    """Turn replies into answers by a named strategy, and count them: grades.json.

    A reply that yields no answer is wrong; a failed call is not counted. Every table shows how many
    replies each rule decided, and how many were decided by chance.

    `--select all` compares the strategies.
    """
    from capeval.api.mcq_grading import open_grading
    from capeval.cli.session import DONE, INCOMPLETE, Session, ask, expected_cost
    from capeval.mcq.strategies import MODEL_FAILED
    from capeval.reporting.mcq_tables import print_grades

    check_format(form, as_json=as_json)
    output = Output(quiet=quiet)
    # Other formats are read by programs, as JSON is.
    session = Session(as_json=as_json or form is not None, quiet=quiet)
    options = GradeOptions(**declared, convention=convention)

    async def run() -> int:
        async with open_grading(options, offline=dry_run, on_notice=session.notice) as grading:
            if options.llm is not None or dry_run:
                expected = await grading.estimate()
                calls = expected.usage.calls
                if dry_run and as_json:
                    print_json(_estimate(expected))
                    return DONE
                cost = expected_cost(expected.cost, options.llm or "", options.max_cost)
                about = f"{expected.replies:,} to read by {options.llm or 'a model'}"
                about = f"Replies that rules do not read: {about}, {counted(calls, 'call')}, {cost}"
                if dry_run:
                    session.print(f"{about}; nothing was called")
                    return DONE
                session.notice(about)
                ask(expected.cost, calls, options.llm or "", yes=yes, max_cost=options.max_cost)
            with session.showing() as progress:
                found = await grading.grades(progress)
        if as_json:
            output.json(found)
        else:
            print_grades(found, output.console, form=form or "table", full=full)
            written = [grading.out, options.out if options.layout else None]
            for place in written if form in (None, "table") else ():
                if place is not None:
                    output.line(str(place))
        if grading.asker is not None:
            session.print_spent(grading.asker.meter, options.llm or "")
        if failed := found.decided_by.get(MODEL_FAILED, 0):
            session.lost(
                f"{counted(failed, 'reply', 'replies')} unscored: the model that reads them "
                "failed; repeat the command"
            )
            return INCOMPLETE
        return DONE

    raise typer.Exit(session.until_stopped(run))


def _estimate(expected: ReadingEstimate) -> dict[str, Any]:
    usage = expected.usage
    return {
        "replies": expected.replies,
        "calls": usage.calls,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost": expected.cost,
    }


app.command()(temporal)

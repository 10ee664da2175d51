"""`capeval eval`: what is missing of generate, judge, score and report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from capeval.api.run_options import EvaluateOptions, ReportOptions
from capeval.captioners.generate import GenerateOptions
from capeval.cli.options import LONG, declared_by, step_defaults
from capeval.judging.options import JudgeOptions
from capeval.show.output import Output

if TYPE_CHECKING:
    from capeval.api.evaluating import Evaluated
    from capeval.runs.long_work import LongWork


@declared_by(EvaluateOptions, *LONG)
def eval(declared: dict[str, Any], output: Output) -> None:  # noqa: A001 - the command
    """Generate, judge, score and report, in one command.

    A MODEL is what `capeval generate --model` takes, a run, or a captions file. Runs and captions
    files are not generated. Run the same command again to resume; --dry-run shows each step and
    the cost of all.

    Other options of the steps are those of `capeval generate`, `judge` and `report` in
    capeval.toml.
    """
    from capeval.api.evaluating import open_evaluating
    from capeval.cli.app import app
    from capeval.cli.long_command import run_long
    from capeval.reporting.run_tables import print_evaluated

    commands: Any = typer.main.get_command(app)
    steps: dict[str, Any] = {
        name: step_defaults(commands.commands[step], kind)
        for name, step, kind in (
            ("generating", "generate", GenerateOptions),
            ("judging", "judge", JudgeOptions),
            ("reporting", "report", ReportOptions),
        )
    }
    for name in ("columns", "judge"):  # of other files than captions; that of --judge
        steps["reporting"].pop(name, None)
    options = EvaluateOptions(**declared, **steps)

    def show(work: LongWork[Evaluated], results: list[Evaluated]) -> None:
        if output.as_json:
            output.json({"runs": [_summary(one) for one in results], "cost": work.meter.spent})
        elif results:
            found = {one.name: (one.scores, one.report) for one in results}
            print_evaluated(found, output.console)

    opening = open_evaluating(options, on_notice=output.notice, dry_run=output.dry_run)
    run_long(output, opening, show)


def _summary(one: Evaluated) -> dict[str, Any]:
    scores = one.scores
    return {
        "run": one.name,
        "counts": scores.counts.model_dump() if scores else None,
        "f1": scores.overall.all.f1.model_dump() if scores else None,
        "scores": str(one.file) if one.file else None,
        "report": str(one.report) if one.report else None,
        "left": {left.labels.failed: dict(left.reasons) for left in one.missing if left.reasons},
        "stopped": next((str(left.stopped) for left in one.missing if left.stopped), None),
    }

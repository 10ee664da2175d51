"""`capeval bridge`: scores carried from one judge to another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from capeval.api.bridge_options import (
    BridgeCollectOptions,
    BridgeOptions,
    BridgePlanOptions,
    BridgeShowOptions,
)
from capeval.cli.options import DryRun, Full, Json, Quiet, Yes, declared_by
from capeval.cli.output import Output, print_json
from capeval.options import natural_number
from capeval.text import Loss, counted

if TYPE_CHECKING:
    from capeval.api.bridge_collecting import CollectedRun, Planned
    from capeval.cli.session import Session

_DEFAULT = "build"


class _BuildByDefault(TyperGroup):
    """A group in which `OLD NEW` stands for `build OLD NEW`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Name the default command where the first argument is no command."""
        if args and args[0] not in (*self.commands, "--help"):
            args = [_DEFAULT, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_BuildByDefault,
    help="Carry scores from one judge to another.\n\n`capeval bridge OLD NEW` is short for "
    "`capeval bridge build OLD NEW`.",
    no_args_is_help=True,
)


@app.command()
@declared_by(BridgeOptions)
def build(
    declared: dict[str, Any],
    *,
    as_json: Json = False,
    full: Full = False,
    quiet: Quiet = False,
) -> None:
    """Bridge scores by NEW to the scale of OLD, and store them beside NEW's own.

    A run of which OLD has judged random videos (`capeval bridge collect`) is its own anchor. Others
    are bridged by a line through the runs that both have judged, or refused with reasons.

    The exit code is 4 if no run's F1 could be bridged.
    """
    from capeval.api import bridging
    from capeval.reporting.bridge_tables import print_bridge

    output = Output(quiet=quiet)
    result = bridging.bridge(**declared, on_notice=output.notice)
    if as_json:
        output.json(result)
    else:
        print_bridge(result, output.console, full=full)
        output.line(result.file)
    if result.runs and all(of.overall.all.f1.value is None for of in result.runs.values()):
        raise typer.Exit(4)


@app.command()
@declared_by(BridgePlanOptions)
def plan(declared: dict[str, Any], *, as_json: Json = False, quiet: Quiet = False) -> None:
    """Show how many videos OLD must judge for a bridged F1 of some precision."""
    from capeval.api import bridging
    from capeval.reporting.bridge_plan_table import print_plan

    output = Output(quiet=quiet)
    found = bridging.bridge_plan(**declared, on_notice=output.notice)
    if as_json:
        output.json(found)
    else:
        print_plan(found, output.console)


@app.command()
@declared_by(BridgeShowOptions)
def show(
    declared: dict[str, Any],
    *,
    top: Annotated[
        str,
        typer.Option(metavar="N", help="How many videos, elements and pairs of runs to show."),
    ] = "5",
    as_json: Json = False,
    full: Full = False,
    quiet: Quiet = False,
) -> None:
    """Compare two judges on the runs that both have judged: agreement, shifts, order of runs."""
    from capeval.api import bridging
    from capeval.reporting.bridge_comparison import print_judges_compared

    most = natural_number(top, "--top")
    output = Output(quiet=quiet)
    found = bridging.bridge_show(**declared, on_notice=output.notice)
    if as_json:
        output.json(found)
    else:
        print_judges_compared(found, output.console, full=full, most=most)


@app.command()
@declared_by(BridgeCollectOptions)
def collect(
    declared: dict[str, Any],
    *,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Have OLD judge random videos of every run, and NEW those of them that it has not judged.

    The videos are recorded as a random sample, so that `capeval bridge OLD NEW` can use them. Run
    the same command again to resume where it stopped: nothing is paid for twice.
    """
    from capeval.api.bridge_collecting import Collection
    from capeval.cli.session import DONE, INCOMPLETE, Session, ask, expected_cost
    from capeval.judging.estimate import JudgingEstimate

    session = Session(as_json=as_json, quiet=quiet)
    options = BridgeCollectOptions(**declared, on_notice=session.notice)

    async def run() -> int:
        collection = Collection(options)
        planned = await collection.plan()
        total = sum((part.estimate for part in planned), JudgingEstimate(cost=0.0))
        cost = " + ".join(expected_cost(one.estimate.cost, one.price_name) for one in planned)
        if dry_run:
            if as_json:
                print_json(_planned_json(planned))
            else:
                for line in _planned_lines(planned, cost):
                    session.print(line)
            return DONE
        for line in _planned_lines(planned, cost)[:-1]:
            session.notice(line)
        ask(total.cost, total.usage.calls, yes=yes, max_cost=options.max_cost)
        found: list[CollectedRun] = []
        with session.showing() as progress:
            async for one in collection.results(planned, progress):
                found.append(one)  # noqa: PERF401 - keeps what came before a failure
        _show_collected(session, found, collection.spent, as_json=as_json)
        complete = all(one.judged == one.drawn for one in found)
        if complete:
            old, new = (part.steps[0].folder for part in planned)
            session.notice(f"Next: capeval bridge {old} {new}")
        return DONE if complete else INCOMPLETE

    raise typer.Exit(session.until_stopped(run))


def _planned_lines(planned: Sequence[Planned], cost: str) -> list[str]:
    from capeval.reporting.numbers import thousands

    lines = []
    for part in planned:
        which = "OLD" if part.side == "old" else "NEW"
        lines.append(
            f"{which}, {part.title}: {counted(part.todo, 'caption')} to judge, "
            f"{counted(part.estimate.usage.calls, 'call')}, about "
            f"{thousands(part.estimate.usage.input_tokens)} tokens in, "
            f"{thousands(part.estimate.usage.output_tokens)} out"
        )
        lines += [
            f"  {step.target.name}: {step.todo:,} of {counted(step.drawn.n, 'drawn video')} to "
            f"judge; {step.drawn.N:,} captioned, seed {step.drawn.seed}"
            for step in part.steps
        ]
    return [*lines, f"Expected: {cost}; nothing was called"]


def _planned_json(planned: Sequence[Planned]) -> dict[str, Any]:
    return {
        part.side: {
            "judge": part.title,
            "calls": part.estimate.usage.calls,
            "input_tokens": part.estimate.usage.input_tokens,
            "output_tokens": part.estimate.usage.output_tokens,
            "cost": part.estimate.cost,
            "runs": {
                step.target.name: {
                    "drawn": step.drawn.n,
                    "captioned": step.drawn.N,
                    "seed": step.drawn.seed,
                    "to_judge": step.todo,
                }
                for step in part.steps
            },
        }
        for part in planned
    }


def _show_collected(
    session: Session, found: Sequence[CollectedRun], spent: float, *, as_json: bool
) -> None:
    from capeval.cli.session import next_step
    from capeval.reporting.numbers import money
    from capeval.reporting.score_tables import unscored_lines

    if as_json:
        print_json(
            {
                "spent": spent,
                "runs": [
                    {
                        "run": one.run,
                        "judge": one.judge,
                        "drawn": one.drawn,
                        "judged": one.judged,
                        "new": one.new,
                        "unscored": dict(one.unscored),
                    }
                    for one in found
                ],
            }
        )
    else:
        new = sum(one.new for one in found)
        judged, drawn = sum(one.judged for one in found), sum(one.drawn for one in found)
        session.print(
            f"{judged:,} of {counted(drawn, 'drawn verdict')} collected, {new:,} of them now"
            + (f", {money(spent)}" if spent else "")
            + "."
        )
        for one in found:
            session.print(
                f"  {one.run}, {one.judge}: {one.judged:,} of {one.drawn:,} drawn videos judged"
            )
    for one in found:
        for line in unscored_lines(one.run, one.unscored):
            session.lost(line)
        if one.stopped:
            session.notice(Loss(f"capeval: {one.stopped}"))
    if any(one.judged < one.drawn for one in found):
        stopped = next((one.stopped for one in found if one.stopped), None)
        session.print(next_step(stopped, "videos left"))

"""`capeval metrics`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from capeval.cli.options import (
    DryRun,
    Json,
    MaxFailed,
    Quiet,
    TableFormat,
    Yes,
    check_format,
    declared_by,
)
from capeval.cli.output import print_json
from capeval.metrics.options import MetricsOptions
from capeval.text import counted, one_line

if TYPE_CHECKING:
    from capeval.api.measuring import Measured, MeasuringSession, MetricsEstimate
    from capeval.cli.session import Session


@declared_by(MetricsOptions)
def metrics(
    declared: dict[str, Any],
    *,
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN",
            help="Runs under runs/, or captions files of annotated videos. By default every "
            "run; if there is none, the bundled sample (its name: sample).",
            show_default=False,
        ),
    ] = None,
    list_metrics: Annotated[
        bool, typer.Option("--list", help="List the metrics, and compute nothing.")
    ] = False,
    max_failed: MaxFailed = "0",
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: Json = False,
    form: TableFormat = None,
    quiet: Quiet = False,
) -> None:
    """Compute caption metrics, and write each caption's values to metrics.jsonl.

    The values are those that `capeval correlate` compares with human ratings.

    Run the same command again to resume where it stopped: only what is missing is computed.
    """
    # Heavy modules are imported when the command runs, so that `--help` is fast.
    from capeval.api.measuring import open_measuring
    from capeval.cli.session import (
        DONE,
        INCOMPLETE,
        Session,
        ask,
        unestimated_reasoning,
    )
    from capeval.scoring.gates import CountOrShare

    check_format(form, as_json=as_json)
    session = Session(as_json=as_json, quiet=quiet)
    if list_metrics:
        _list(as_json=as_json)
        return
    allowance = CountOrShare.read(max_failed, "--max-failed")
    options = MetricsOptions(captions=tuple(targets or ()), **declared)

    async def run() -> int:
        async with open_measuring(options, offline=dry_run, on_notice=session.notice) as measuring:
            # Everything is read and checked before anything is called or written.
            expected = measuring.estimate()
            opened = measuring.opened
            if opened:
                session.notice(f"Chat model: {opened.title}")
                if opened.thinks and expected.usage.calls:
                    session.notice(unestimated_reasoning(opened.chat.model))
            if dry_run:
                _show_estimate(
                    session, measuring, expected, as_json=as_json, max_cost=options.max_cost
                )
                return DONE
            model = opened.chat.model if opened else ""
            ask(expected.cost, expected.usage.calls, model, yes=yes, max_cost=options.max_cost)
            session.caches_replies = opened is not None
            with session.showing() as progress:
                found, failure = await session.collected(measuring.results(progress))
            _show(session, found, measuring, as_json=as_json, form=form or "table")
            if failure:
                raise failure
        complete = all(
            not one.stopped and len(one.unscored) <= allowance.of(one.captioned)
            for measured in found
            for one in measured.results
        )
        return DONE if complete else INCOMPLETE

    raise typer.Exit(session.until_stopped(run))


def _list(*, as_json: bool) -> None:
    from capeval.errors import UsageError
    from capeval.metrics.registry import METRICS

    found: dict[str, str] = {}
    for name in METRICS.names():
        try:
            kind = METRICS.load(name)
        except UsageError as error:
            found[name] = str(error)
            continue
        asks = " Asks a chat model." if kind.uses_chat else ""
        found[name] = (kind.__doc__ or "").strip().partition("\n")[0] + asks
    if as_json:
        print_json(found)
        return
    width = max(map(len, found))
    for name, about in found.items():
        sys.stdout.write(f"{one_line(name):<{width}}  {one_line(about)}\n")


def _show(
    session: Session,
    found: list[Measured],
    measuring: MeasuringSession,
    *,
    as_json: bool,
    form: Any,
) -> None:
    from capeval.cli.session import next_step
    from capeval.reporting.metric_tables import print_metrics

    if as_json:
        print_json([one.as_json() for one in found])
    elif found:
        print_metrics(found, session.console, form=form)
    stopped = next((one.stopped for one in found if one.stopped), None)
    left = 0
    for measured in found:
        for one in measured.results:
            name = f"{measured.name} {one.metric.name}"
            session.unscored(name, one.unscored)
            if one.not_reached:
                session.lost(f"{name}: {counted(one.not_reached, 'caption')} not measured")
            left += len(one.unscored) + one.not_reached
    if stopped:
        sys.stderr.write(f"capeval: {stopped}\n")
    if left:
        session.print(next_step(stopped, "unscored"))
    if measuring.opened:
        session.print_spent(measuring.meter, measuring.opened.chat.model)
    if form == "table":
        for file in dict.fromkeys(measured.file for measured in found):
            if file:
                session.print(str(file))


def _show_estimate(
    session: Session,
    measuring: MeasuringSession,
    expected: MetricsEstimate,
    *,
    as_json: bool,
    max_cost: float | None,
) -> None:
    from capeval.cli.session import expected_cost

    usage = expected.usage
    if as_json:
        print_json(
            {
                "runs": expected.todo,
                "calls": usage.calls,
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
                "cost": expected.cost,
            }
        )
        return
    if measuring.opened:
        cost = expected_cost(expected.cost, measuring.opened.chat.model, max_cost)
        test = " and one short test call" if usage.calls else ""
        session.print(f"Expected: {counted(usage.calls, 'call')}{test}, {cost}; nothing was called")
    else:
        session.print("Nothing was computed")
    for name, todo in expected.todo.items():
        for metric, count in todo.items():
            session.print(f"{name}: {counted(count, 'caption')} to measure with {metric}")

"""Long commands: lock, plan, estimate, ask, work, show progress, and say what is left."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, NoReturn, Self, TypeVar

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from capeval.errors import CapevalError, UsageError
from capeval.options import CountOrShare
from capeval.runs.concurrency import in_thread
from capeval.runs.engine import (
    Done,
    Left,
    Locks,
    LongWork,
    Status,
    WorkEstimate,
    failure_lines,
)
from capeval.show.numbers import money, tenths, thousands
from capeval.show.result import Output, emit
from capeval.text import Loss, counted, listed, one_line

_SECONDS_BETWEEN_LINES = 10.0
"""Where there is no terminal."""

# With fewer items, the rate mostly reflects how long a process or a model takes to start.
_STEADY = 10


class ProgressLine:
    """Shows progress within its block: bars on a terminal, else a line now and then."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._stderr = Console(stderr=True)
        self._bars: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._last = 0.0
        # The latest status by name, of all work that is not done and of the latest.
        self._statuses: dict[str, Status] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars:
            self._bars.stop()

    def update(self, status: Status) -> None:
        open_ = {name: one for name, one in self._statuses.items() if one.done < one.total}
        self._statuses = open_ | {status.name: status}
        if not status.total or self._output.quiet:
            return
        if not status.done:
            self._begin(status)
            return
        now = time.monotonic()
        if self._bars:
            task = self._tasks[status.name]
            self._bars.update(task, completed=status.done, note=_note(status))
        elif now - self._last >= _SECONDS_BETWEEN_LINES:
            self._last = now
            is_steady = status.done >= min(_STEADY, status.total / 2)
            left = f", {thousands(status.seconds_left)} s left" if is_steady else ""
            done = f"{thousands(status.done)}/{thousands(status.total)}"
            self._output.notice(f"{status.name}: {done}, {_note(status)}{left}")

    def _begin(self, status: Status) -> None:
        self._last = time.monotonic()
        items = counted(status.total, status.labels.item)
        before = f", {thousands(status.kept)} done before" if status.kept else ""
        self._output.notice(f"{status.name}: {status.labels.doing} {items}{before}")
        if not self._stderr.is_terminal:
            return
        if not self._bars:
            self._bars = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=30),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.fields[note]}", markup=False),
                console=self._stderr,
                transient=True,
            )
            # While it is shown, what is written to stderr appears above it.
            self._bars.start()
        for task in self._bars.tasks:
            if task.finished:
                self._bars.remove_task(task.id)
        name = one_line(status.name, 30)
        self._tasks[status.name] = self._bars.add_task(name, total=status.total, note="")

    def report_stop(self, *, caches_replies: bool) -> None:
        parts: list[str] = []
        for status in self._statuses.values():
            labels = status.labels
            of = f"{thousands(status.done - status.failed)} of {thousands(status.total)}"
            failed = f", {thousands(status.failed)} are {labels.failed}" if status.failed else ""
            of += f" {labels.item}s of {status.name} are {labels.done} and kept"
            parts.append(of + failed)
        if parts and caches_replies:
            parts.append("finished replies are kept")
        done = "; ".join(["stopped", *parts])
        sys.stderr.write(f"capeval: {done}; run the same command to resume\n")


def _note(status: Status) -> str:
    parts = [f"{tenths(status.rate)}/s"]
    if status.spent.tokens:
        parts.append(f"{thousands(status.spent.tokens)} tokens")
    if status.spent.dollars:
        parts.append(money(status.spent.dollars))
    if status.failed:
        parts.append(f"{status.failed} {status.labels.failed}")
    return ", ".join(parts)


T = TypeVar("T")

_DONE, _INCOMPLETE = 0, 3

_ASK_ABOVE = 1.0
"""US dollars; less needs no confirmation."""
_PATIENCE = 600.0
"""Seconds to wait for an answer: the runs stay locked meanwhile."""
_REASONS = (
    "reasons before it answers: its reasoning is billed as output, and is not part of the "
    "expected cost"
)


def run_long(
    output: Output,
    opening: AbstractAsyncContextManager[LongWork[T]],
) -> NoReturn:
    """Do long work, show its result and what is left, and exit.

    Everything is read and checked before anything is called or written. What was finished before a
    failure is shown.
    """
    allowance = CountOrShare.read(output.max_failed, "--max-failed")
    progress = ProgressLine(output)
    caches_replies = False

    async def run() -> int:
        nonlocal caches_replies
        done: list[Done[T]] = []
        failure: CapevalError | None = None
        _stop_on_sigterm()
        async with opening as work:
            with Locks(held=not output.dry_run) as locks:
                expected = await work.prepare(locks)
                for line in (work.title, *work.notices):
                    if line:
                        output.notice(line)
                if work.thinks and expected.calls:
                    output.notice(Loss(f"{work.model} {_REASONS}"))
                if output.dry_run:
                    _show_estimate(output, work, expected)
                    return _DONE
                await _ask(output, work, expected)
                caches_replies = work.caches_replies
                with progress:
                    try:
                        async for one in work.results(progress):
                            done.append(one)  # noqa: PERF401 - keeps what came before a failure
                    except CapevalError as error:
                        failure = error
            left = [lacking for one in done for lacking in one.left]
            if done or not failure:
                if done:
                    emit(work.shown([one.value for one in done]), output)
                _show_left(output, left, work.meter.too_long)
                _show_spent(output, work)
                for line in dict.fromkeys(line for one in done for line in one.files):
                    output.line(line)
            names = {one.name for one in left}
            if done and (never := [one for one in expected.expects if one not in names]):
                output.notice(Loss(f"Not begun: {', '.join(never)}"))
            if failure:
                raise failure
        complete = all(not one.stopped and one.count <= allowance.of(one.of) for one in left)
        return _DONE if complete else _INCOMPLETE

    try:
        code = asyncio.run(run())
    except (KeyboardInterrupt, asyncio.CancelledError):
        progress.report_stop(caches_replies=caches_replies)
        code = 130
    raise typer.Exit(code)


def _stop_on_sigterm() -> None:
    """Let SIGTERM, from a scheduler or `docker stop`, stop the work as Ctrl-C does."""
    task = asyncio.current_task()
    # Only a main thread receives signals, and only where there is SIGTERM.
    with suppress(RuntimeError):
        if task:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)


def _show_estimate(output: Output, work: LongWork[Any], expected: WorkEstimate) -> None:
    calls, usage = expected.calls, expected.usage
    if output.as_json:
        tokens = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
        output.json({**expected.details, "calls": calls, **tokens, "cost": expected.cost})
        return
    if work.model:
        what = f"at most {counted(calls, 'call')} and one short test call" if calls else "0 calls"
        output.line(f"Expected: {what}, {_cost(work, expected)}; no call was made")
    else:
        output.line("Expected: no calls and no cost; nothing was run")
    for line in expected.todo:
        output.line(line)


def _cost(work: LongWork[Any], expected: WorkEstimate) -> str:
    """Return the expected cost in words, and whether the cap allows it."""
    cost, cap = expected.cost, work.meter.cap
    if cost is None:
        models, known = expected.unpriced, expected.known
        rest = f"; the rest costs about {money(known)}" if known else ""
        return f"no price is known for {listed(models)} ({_add_price(models[0])}){rest}"
    if cap is None or cost <= cap:
        return f"about {money(cost)}"
    over = f"more than --max-cost {money(cap)} allows: it would stop before the end"
    return f"about {money(cost)}, {over}"


def _add_price(model: str) -> str:
    return (
        f'add [prices."{model}"] to capeval.toml, with input = and output =, in US dollars per '
        "million tokens"
    )


async def _ask(output: Output, work: LongWork[Any], expected: WorkEstimate) -> None:
    cost, cap = expected.cost, work.meter.cap
    if cap is not None and cost is None:
        model = expected.unpriced[0]
        raise UsageError(f"--max-cost needs the price of {model}; {_add_price(model)}")
    cost = expected.known
    if output.yes or cap is not None or not cost or cost <= _ASK_ABOVE:
        return
    about = f"about {money(cost)} for at most {counted(expected.calls, 'call')}"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(f"this is expected to cost {about}; add --yes or --max-cost")
    typer.echo(f"This is expected to cost {about}. Continue? [y/N]: ", nl=False, err=True)
    if (await _typed()).strip().lower() not in ("y", "yes"):
        raise UsageError("no call was made")


async def _typed() -> str:
    """Return the line that the user types; Ctrl-C works meanwhile."""
    try:
        async with asyncio.timeout(_PATIENCE):
            return await in_thread(sys.stdin.readline)
    except TimeoutError:
        typer.echo(err=True)
        minutes = round(_PATIENCE / 60)
        raise UsageError(f"no answer within {minutes} minutes; no call was made") from None


def _show_left(output: Output, left: Sequence[Left], too_long: int) -> None:
    """Print why items have no result, at most five of each run, and what to do about it.

    Requests that are `too_long` fail again; their reasons say what helps.
    """
    for one in left:
        name, labels = one.name, one.labels
        for line in failure_lines(name, labels.failed, one.reasons):
            output.lost(line)
        if one.not_reached:
            output.lost(f"{name}: {counted(one.not_reached, labels.item)} not {labels.done}")
    stopped = next((one.stopped for one in left if one.stopped), None)
    if stopped:
        output.error(f"capeval: {stopped}")
    missing = next((one for one in left if one.count), None)
    if missing and (stopped or sum(one.count for one in left) > too_long):
        what = f"{missing.labels.failed} {missing.labels.item}"
        again = f"Run the same command again to retry each {what}."
        output.line(stopped.next_step if stopped else again)


def _show_spent(output: Output, work: LongWork[Any]) -> None:
    meter = work.meter
    if not (meter.calls or meter.cached_calls):
        return
    usage, has_price = meter.usage, meter.spent or meter.price(work.model)
    cost = f", {money(meter.spent)}" if has_price else ""
    output.line(
        f"{counted(meter.calls, 'call')} ({thousands(meter.cached_calls)} more from the cache), "
        f"{thousands(usage.input_tokens)} tokens in, {thousands(usage.output_tokens)} out{cost}"
    )
    if meter.guessed:
        report = output.lost if has_price else output.line
        report(
            f"{counted(meter.guessed, 'reply', 'replies')} came without token counts: "
            "the cost is an estimate"
        )

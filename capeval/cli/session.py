"""What long commands that may cost money share: asking, printing, progress and stopping."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from capeval.errors import BudgetReached, CapevalError, ModelDown, UsageError
from capeval.llm.meter import Meter
from capeval.reporting.numbers import money, tenths, thousands
from capeval.runs.engine import Status
from capeval.text import Loss, counted, one_line

T = TypeVar("T")

DONE, INCOMPLETE = 0, 3

_SECONDS_BETWEEN_LINES = 10.0
"""Of progress, where there is no terminal."""

# Below this many US dollars nobody is asked.
_ASK_ABOVE = 1.0


class Session:
    """The output of one command and, on stderr, its progress while it works: done of total, rate,
    time left, tokens and money so far.
    """

    def __init__(self, *, as_json: bool, quiet: bool) -> None:
        # With --json, stdout has the JSON alone.
        self.console = Console(stderr=as_json, quiet=quiet)
        self._stderr = Console(stderr=True)
        self._quiet = quiet
        self._bar: Progress | None = None
        self._status: Status | None = None
        self._last = 0.0
        self.caches_replies = False
        """Whether the work needs several replies of a model for an item, which are cached."""

    def until_stopped(self, run: Callable[[], Coroutine[Any, Any, int]]) -> int:
        """Run the command and return its exit code; on Ctrl-C print how to continue."""
        try:
            return asyncio.run(run())
        except KeyboardInterrupt:
            kept = ""
            if self._status:
                status, labels = self._status, self._status.labels
                of = f"{thousands(status.done)} of {thousands(status.total)}"
                replies = ", as are finished replies" if self.caches_replies else ""
                kept = f"{of} {labels.item}s of {status.name} are {labels.done} and kept{replies}; "
            sys.stderr.write(f"capeval: stopped; {kept}run the same command to resume\n")
            return 130

    @contextmanager
    def showing(self) -> Iterator[Session]:
        """Show progress until the block ends."""
        try:
            yield self
        finally:
            self._stop_bar()

    async def collected(self, results: AsyncIterator[T]) -> tuple[list[T], CapevalError | None]:
        """Return what came before a failure, and the failure: what was finished is shown."""
        found: list[T] = []
        try:
            async for one in results:
                found.append(one)  # noqa: PERF401 - keeps what came
        except CapevalError as failure:
            return found, failure
        return found, None

    def unscored(self, name: str, reasons: Mapping[str, str], left: str = "unscored") -> None:
        """Print the reasons of at most five items without a result, with --quiet too."""
        for index, reason in list(reasons.items())[:5]:
            self.lost(f"{name}: {index} is {left}: {reason}")
        if (more := len(reasons) - 5) > 0:
            self.lost(f"{name}: {more:,} more {'is' if more == 1 else 'are'} {left}")

    def notice(self, text: str) -> None:
        """Print a line on stderr, above the progress; with --quiet only a `Loss`."""
        if self._quiet and not isinstance(text, Loss):
            return
        text = one_line(text, 600)
        if self._bar:
            self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            sys.stderr.write(text + "\n")
            sys.stderr.flush()

    def lost(self, text: str) -> None:
        """Print a line about lost work, with --quiet too."""
        if self._quiet:
            sys.stderr.write(f"capeval: {one_line(text, 600)}\n")
        else:
            self.print(text)

    def print(self, text: str) -> None:
        """Print a line of the result."""
        # Names and reasons are data: no escape sequence in them reaches the terminal.
        self.console.print(Text(one_line(text, 600)), soft_wrap=True)

    def print_spent(self, meter: Meter, model: str) -> None:
        """Print what calls took and cost, if there were any."""
        if not (meter.calls or meter.cached_calls):
            return
        usage = meter.usage
        cost = f", {money(meter.spent)}" if meter.price(model) else ""
        self.print(
            f"{counted(meter.calls, 'call')} ({thousands(meter.cached_calls)} more from the "
            f"cache), {thousands(usage.input_tokens)} tokens in, "
            f"{thousands(usage.output_tokens)} out{cost}"
        )

    def update(self, status: Status) -> None:
        """Show how far the work has got."""
        self._status = status
        if not status.total or self._quiet:
            return
        if not status.done:
            self._begin(status)
            return
        now = time.monotonic()
        if self._bar:
            task = self._bar.task_ids[0]
            self._bar.update(task, completed=status.done, note=_note(status))
        elif now - self._last >= _SECONDS_BETWEEN_LINES:
            self._last = now
            left = f", {thousands(status.seconds_left)} s left"
            self.notice(
                f"{status.name}: {thousands(status.done)}/{thousands(status.total)}, "
                f"{_note(status)}{left if _is_steady(status) else ''}"
            )

    def _begin(self, status: Status) -> None:
        self._stop_bar()
        self._last = time.monotonic()
        labels = status.labels
        items = counted(status.total, labels.item)
        before = f", {thousands(status.kept)} done before" if status.kept else ""
        self.notice(f"{status.name}: {labels.doing} {items}{before}")
        if self._stderr.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=30),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.fields[note]}", markup=False),
                console=self._stderr,
                transient=True,
            )
            self._bar.start()
            self._bar.add_task(one_line(status.name, 30), total=status.total, note="")

    def _stop_bar(self) -> None:
        if self._bar:
            self._bar.stop()
            self._bar = None


# Fewer items say more about how long a process or a model takes to start than about the rate.
_STEADY = 10


def _is_steady(status: Status) -> bool:
    return status.done >= min(_STEADY, status.total / 2)


def next_step(stopped: CapevalError | None, left: str) -> str:
    """Return what to do about videos that are left, such as "unscored", by why the work stopped."""
    if isinstance(stopped, BudgetReached):
        return "Raise --max-cost and run the same command again to finish the rest."
    if isinstance(stopped, ModelDown):
        return "Run the same command again to finish; those that failed come last."
    if stopped is not None:
        return "Run the same command again once the endpoint answers."
    return f"Run the same command again to retry those that are {left}."


def expected_cost(cost: float | None, model: str, max_cost: float | None) -> str:
    """Return the expected cost of a model's calls in words, and whether a cap allows it."""
    if cost is None:
        return f"no price is known for {model} ({_add_price(model)})"
    if max_cost is not None and cost > max_cost:
        cap = money(max_cost)
        return (
            f"about {money(cost)}, more than --max-cost {cap} allows: it would stop before the end"
        )
    return f"about {money(cost)}"


def _add_price(model: str) -> str:
    return (
        f'to add it, write [prices."{model}"] with input = and output =, in US dollars per million '
        "tokens, into capeval.toml"
    )


def unestimated_reasoning(judge: str) -> Loss:
    """Return the notice that a judge's reasoning costs more than was estimated."""
    return Loss(
        f"{judge} reasons before it answers: what it reasons is paid for as output, and is not "
        "part of the expected cost"
    )


def ask(cost: float | None, calls: int, model: str, *, yes: bool, max_cost: float | None) -> None:
    """Ask before spending more than a dollar on calls of a model."""
    if max_cost is not None and cost is None:
        raise UsageError(f"--max-cost needs the price of {model}; {_add_price(model)}")
    if yes or max_cost is not None or not cost or cost <= _ASK_ABOVE:
        return
    about = f"about {money(cost)} for {counted(calls, 'call')}"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(f"this is expected to cost {about}; add --yes or --max-cost")
    if not typer.confirm(f"This is expected to cost {about}. Continue?", err=True):
        raise UsageError("nothing was called")


def _note(status: Status) -> str:
    parts = [f"{tenths(status.rate)}/s"]
    if status.spent.tokens:
        parts.append(f"{thousands(status.spent.tokens)} tokens")
    if status.spent.dollars:
        parts.append(money(status.spent.dollars))
    if status.failed:
        parts.append(f"{status.failed} {status.labels.failed}")
    return ", ".join(parts)

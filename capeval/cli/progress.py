"""Progress of long work on stderr: done of total, rate, time left, tokens and money so far."""

from __future__ import annotations

import sys
import time
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from capeval.runs.engine import Status
from capeval.show.numbers import money, tenths, thousands
from capeval.show.result import Output
from capeval.text import counted, one_line

_SECONDS_BETWEEN_LINES = 10.0
"""Where there is no terminal."""

# Fewer items say more about how long a process or a model takes to start than about the rate.
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
        """Print what Ctrl-C keeps, and how to continue."""
        parts: list[str] = []
        for status in self._statuses.values():
            labels = status.labels
            of = f"{thousands(status.done - status.failed)} of {thousands(status.total)}"
            failed = f", {thousands(status.failed)} are {labels.failed}" if status.failed else ""
            of += f" {labels.item}s of {status.name} are {labels.done} and kept"
            parts.append(of + failed)
        if parts and caches_replies:
            parts[-1] += ", as are finished replies"
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

"""Progress of long work: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from capeval.reporting.numbers import money, thousands
from capeval.runs.engine import Status
from capeval.text import one_line

_SECONDS_BETWEEN_LINES = 10.0


class ProgressDisplay:
    """Done of total, rate, time left, tokens and money so far, on stderr."""

    def __init__(self, *, quiet: bool) -> None:
        self._console = Console(stderr=True)
        self._quiet = quiet
        self._bar: Progress | None = None
        self._status: Status | None = None
        self._last = 0.0

    def kept(self) -> str:
        """Return how much of the current work is done and kept; empty before it began."""
        if self._status is None:
            return ""
        status, labels = self._status, self._status.labels
        of = f"{thousands(status.done)} of {thousands(status.total)}"
        return f"{of} {labels.item}s of {status.name} are {labels.done} and kept"

    def say(self, text: str) -> None:
        """Print one line on stderr."""
        if self._quiet:
            return
        text = one_line(text, 600)
        if self._bar:
            self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            sys.stderr.write(text + "\n")
            sys.stderr.flush()

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
            self.say(
                f"{status.name}: {thousands(status.done)}/{thousands(status.total)}, "
                f"{_note(status)}, {status.seconds_left:.0f} s left"
            )

    def _begin(self, status: Status) -> None:
        self.close()
        self._last = time.monotonic()
        labels = status.labels
        items = f"{thousands(status.total)} {labels.item}{'' if status.total == 1 else 's'}"
        before = f", {thousands(status.kept)} done before" if status.kept else ""
        self.say(f"{status.name}: {labels.doing} {items}{before}")
        if self._console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=30),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.fields[note]}", markup=False),
                console=self._console,
                transient=True,
            )
            self._bar.start()
            self._bar.add_task(one_line(status.name, 30), total=status.total, note="")

    def close(self) -> None:
        """Remove the bar."""
        if self._bar:
            self._bar.stop()
            self._bar = None


def _note(status: Status) -> str:
    parts = [f"{status.rate:.1f}/s"]
    if status.spent.tokens:
        parts.append(f"{thousands(status.spent.tokens)} tokens")
    if status.spent.dollars:
        parts.append(money(status.spent.dollars))
    if status.failed:
        parts.append(f"{status.failed} {status.labels.failed}")
    return ", ".join(parts)

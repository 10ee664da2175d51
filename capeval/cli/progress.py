"""Showing how long work goes: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from capeval.errors import one_line
from capeval.evaluation.judging_run import RunPlan
from capeval.llm import Meter
from capeval.reporting.numbers import money, thousands
from capeval.schema import Judgment, Unscored

__all__ = ["JudgingProgress"]

_SECONDS_BETWEEN_LINES = 10.0


class JudgingProgress:
    """Done of total, rate, time left, tokens and money so far, on stderr."""

    def __init__(self, meter: Meter, *, quiet: bool) -> None:
        self._console = Console(stderr=True)
        self._meter, self._quiet = meter, quiet
        self._bar: Progress | None = None
        self._plan: RunPlan | None = None
        self._done = self._unscored = 0
        self._begun = self._last = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop_bar()

    @property
    def done(self) -> int:
        """Captions done in the run under way."""
        return self._done

    @property
    def plan(self) -> RunPlan | None:
        """The run under way."""
        return self._plan

    def begin(self, plan: RunPlan) -> None:
        """A run is about to be judged."""
        self._stop_bar()
        self._plan, self._done, self._unscored = plan, 0, 0
        self._begun = self._last = time.monotonic()
        if not plan.work or self._quiet:
            return
        captions = "1 caption" if len(plan.work) == 1 else f"{thousands(len(plan.work))} captions"
        kept = f", {thousands(len(plan.kept))} done before" if plan.kept else ""
        self.say(f"{plan.name}: judging {captions}{kept}")
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
            self._bar.add_task(one_line(plan.name, 30), total=len(plan.work), note="")

    def judged(self, judgment: Judgment) -> None:
        """One caption is done."""
        self._done += 1
        self._unscored += isinstance(judgment, Unscored)
        now = time.monotonic()
        if self._bar:
            self._bar.update(self._bar.task_ids[0], completed=self._done, note=self._note(now))
        elif self._plan and not self._quiet and now - self._last >= _SECONDS_BETWEEN_LINES:
            self._last = now
            total = len(self._plan.work)
            left = (now - self._begun) / self._done * (total - self._done)
            self.say(
                f"{self._plan.name}: {thousands(self._done)}/{thousands(total)}, "
                f"{self._note(now)}, {left:.0f} s left"
            )

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

    def _note(self, now: float) -> str:
        meter = self._meter
        parts = [f"{self._done / max(now - self._begun, 1e-9):.1f}/s"]
        tokens = meter.usage.input_tokens + meter.usage.output_tokens
        if tokens:
            parts.append(f"{thousands(tokens)} tokens")
        if meter.spent:
            parts.append(money(meter.spent))
        if self._unscored:
            parts.append(f"{self._unscored} unscored")
        return ", ".join(parts)

    def _stop_bar(self) -> None:
        if self._bar:
            self._bar.stop()
            self._bar = None

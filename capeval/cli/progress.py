"""Showing how long work goes: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from capeval.captioners.plan import GenerationPlan
from capeval.captioners.protocol import Captioned, Uncaptioned
from capeval.judging.run import RunPlan
from capeval.llm import Meter
from capeval.reporting.numbers import money, thousands
from capeval.schema import Judgment, Unscored
from capeval.text import one_line

_SECONDS_BETWEEN_LINES = 10.0


class WorkProgress:
    """Done of total, rate, time left, tokens and money so far, on stderr."""

    _failed_are = _things = _done_is = ""

    def __init__(self, meter: Meter, *, quiet: bool) -> None:
        self._console = Console(stderr=True)
        self._meter, self._quiet = meter, quiet
        self._bar: Progress | None = None
        self._name, self._total = "", 0
        self._done = self._failed = self._tokens = 0
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

    def kept(self) -> str:
        """Say what is done and kept of the run under way; empty before there is one."""
        if not self._name:
            return ""
        of = f"{thousands(self._done)} of {thousands(self._total)}"
        return f"{of} {self._things} of {self._name} are {self._done_is} and kept"

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

    def _begin(self, name: str, total: int, what: str, kept: int) -> None:
        self._stop_bar()
        self._name, self._total = name, total
        self._done = self._failed = self._tokens = 0
        self._begun = self._last = time.monotonic()
        if not total or self._quiet:
            return
        before = f", {thousands(kept)} done before" if kept else ""
        self.say(f"{name}: {what}{before}")
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
            self._bar.add_task(one_line(name, 30), total=total, note="")

    def _advance(self, *, failed: bool) -> None:
        self._done += 1
        self._failed += failed
        now = time.monotonic()
        if self._bar:
            self._bar.update(self._bar.task_ids[0], completed=self._done, note=self._note(now))
        elif self._total and not self._quiet and now - self._last >= _SECONDS_BETWEEN_LINES:
            self._last = now
            left = (now - self._begun) / self._done * (self._total - self._done)
            self.say(
                f"{self._name}: {thousands(self._done)}/{thousands(self._total)}, "
                f"{self._note(now)}, {left:.0f} s left"
            )

    def _note(self, now: float) -> str:
        meter = self._meter
        parts = [f"{self._done / max(now - self._begun, 1e-9):.1f}/s"]
        tokens = self._tokens or meter.usage.input_tokens + meter.usage.output_tokens
        if tokens:
            parts.append(f"{thousands(tokens)} tokens")
        if meter.spent:
            parts.append(money(meter.spent))
        if self._failed:
            parts.append(f"{self._failed} {self._failed_are}")
        return ", ".join(parts)

    def _stop_bar(self) -> None:
        if self._bar:
            self._bar.stop()
            self._bar = None


class JudgingProgress(WorkProgress):
    """How judging goes."""

    _failed_are, _things, _done_is = "unscored", "captions", "judged"

    def begin(self, plan: RunPlan) -> None:
        """A run is about to be judged."""
        count = len(plan.work)
        self._begin(plan.name, count, f"judging {_counted(count, 'caption')}", len(plan.kept))

    def judged(self, judgment: Judgment) -> None:
        """One caption is done."""
        self._advance(failed=isinstance(judgment, Unscored))


class CaptioningProgress(WorkProgress):
    """How generating goes."""

    _failed_are, _things, _done_is = "ungenerated", "videos", "done"

    def begin(self, plan: GenerationPlan) -> None:
        """Videos are about to be captioned."""
        count = len(plan.work)
        shard = f" (shard {plan.wanted.shard})" if plan.wanted.shard else ""
        what = f"captioning {_counted(count, 'video')}"
        self._begin(f"{plan.run.name}{shard}", count, what, len(plan.kept))

    def generated(self, outcome: Captioned | Uncaptioned) -> None:
        """One video is done."""
        if isinstance(outcome, Captioned):
            self._tokens += outcome.usage.input_tokens + outcome.usage.output_tokens
        self._advance(failed=isinstance(outcome, Uncaptioned))


def _counted(count: int, what: str) -> str:
    return f"{thousands(count)} {what}{'' if count == 1 else 's'}"

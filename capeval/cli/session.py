"""What long commands that may cost money have in common: how they ask, speak, and are stopped."""

from __future__ import annotations

import asyncio
import sys
from abc import ABC, abstractmethod
from pathlib import Path

import typer
from rich.console import Console
from rich.text import Text

from capeval.cli.progress import WorkProgress
from capeval.errors import UsageError
from capeval.llm import Meter
from capeval.reporting.numbers import money, thousands
from capeval.text import one_line

DONE, INCOMPLETE = 0, 3
RUNS = Path("runs")

_ASK_ABOVE = 1.0


class Session(ABC):
    """One command from its first line to its last."""

    def __init__(self, *, as_json: bool, quiet: bool) -> None:
        self.progress: WorkProgress | None = None
        self._quiet = quiet
        # With --json stdout carries that alone.
        self.console = Console(stderr=as_json, quiet=as_json and quiet)

    @abstractmethod
    async def run(self) -> int:
        """Do the work and return the exit code."""

    def until_stopped(self) -> int:
        """Do the work and return the exit code; on Ctrl-C say how to go on."""
        try:
            return asyncio.run(self.run())
        except KeyboardInterrupt:
            kept = self.progress.kept() if self.progress else ""
            kept = f"{kept}; " if kept else ""
            sys.stderr.write(f"capeval: stopped; {kept}run the same command to go on\n")
            return 130

    def notice(self, text: str) -> None:
        """Say something on stderr, above the progress."""
        if self.progress:
            self.progress.say(text)
        elif not self._quiet:
            sys.stderr.write(f"{one_line(text, 600)}\n")

    def print(self, text: str) -> None:
        """Print a line of the result."""
        # Names and reasons are data: no escape sequence of theirs reaches the terminal.
        self.console.print(Text(one_line(text, 600)), soft_wrap=True)


def expected_cost(cost: float | None, model: str) -> str:
    """Return what is expected to be spent on a model, in words."""
    return f"no price is known for {model}" if cost is None else f"about {money(cost)}"


def ask(cost: float | None, calls: int, *, yes: bool, max_cost: float | None) -> None:
    """Ask before spending more than a dollar.

    Raises
    ------
    UsageError
        The answer is no, nobody can be asked, or a cap is set on what has no price.
    """
    if max_cost is not None and cost is None:
        raise UsageError(
            "--max-cost needs the model's price: add "
            '[prices."MODEL"] with input and output (US dollars per million tokens) '
            "to capeval.toml"
        )
    if yes or max_cost is not None or not cost or cost <= _ASK_ABOVE:
        return
    about = f"about {money(cost)} for {thousands(calls)} calls"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(f"this is expected to cost {about}; add --yes or --max-cost")
    if not typer.confirm(f"This is expected to cost {about}. Go on?", err=True):
        raise UsageError("nothing was called")


def spent(meter: Meter, model: str) -> str | None:
    """Return what calls took and cost, or None where there was none."""
    if not (meter.calls or meter.cached_calls):
        return None
    usage = meter.usage
    cost = f", {money(meter.spent)}" if meter.price(model) else ""
    return (
        f"{thousands(meter.calls)} calls ({thousands(meter.cached_calls)} more from the cache), "
        f"{thousands(usage.input_tokens)} tokens in, {thousands(usage.output_tokens)} out{cost}"
    )

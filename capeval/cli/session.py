"""What long commands that may cost money share: asking, printing, progress and stopping."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing, contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from capeval.cli.progress import ProgressDisplay
from capeval.errors import UsageError
from capeval.llm import Meter
from capeval.reporting.numbers import money, thousands
from capeval.text import one_line

DONE, INCOMPLETE = 0, 3

# Below this many US dollars nobody is asked.
_ASK_ABOVE = 1.0


class Session:
    """The output of one command, and its progress while it works."""

    def __init__(self, *, as_json: bool, quiet: bool) -> None:
        self._progress: ProgressDisplay | None = None
        self._quiet = quiet
        # With --json, stdout has the JSON alone.
        self.console = Console(stderr=as_json, quiet=quiet)

    def until_stopped(self, run: Callable[[], Coroutine[Any, Any, int]]) -> int:
        """Run the command and return its exit code; on Ctrl-C print how to continue."""
        try:
            return asyncio.run(run())
        except KeyboardInterrupt:
            kept = self._progress.kept() if self._progress else ""
            kept = f"{kept}; " if kept else ""
            sys.stderr.write(f"capeval: stopped; {kept}run the same command to resume\n")
            return 130

    @contextmanager
    def showing(self) -> Iterator[ProgressDisplay]:
        """Show progress until the block ends."""
        with closing(ProgressDisplay(quiet=self._quiet)) as progress:
            self._progress = progress
            yield progress

    def notice(self, text: str) -> None:
        """Print a line on stderr, above the progress."""
        if self._progress:
            self._progress.say(text)
        elif not self._quiet:
            sys.stderr.write(f"{one_line(text, 600)}\n")

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
            f"{thousands(meter.calls)} calls ({thousands(meter.cached_calls)} more from the "
            f"cache), {thousands(usage.input_tokens)} tokens in, "
            f"{thousands(usage.output_tokens)} out{cost}"
        )


def expected_cost(cost: float | None, model: str) -> str:
    """Return the expected cost of a model's calls in words."""
    return f"no price is known for {model}" if cost is None else f"about {money(cost)}"


def ask(cost: float | None, calls: int, *, yes: bool, max_cost: float | None) -> None:
    """Ask before spending more than a dollar."""
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

"""What a command prints: its result on stdout, and notices on stderr, one line each."""

from __future__ import annotations

import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any

from capeval.text import Loss, one_line

if TYPE_CHECKING:
    from rich.console import Console


class Output:
    """Prints for one command; if it is `quiet`, only errors, JSON and each `Loss`."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet

    @cached_property
    def console(self) -> Console:
        """The console for tables, on stdout."""
        from rich.console import Console

        return Console(quiet=self.quiet)

    def line(self, text: str) -> None:
        """Print a line of the result."""
        if not self.quiet:
            # Columns are padded with spaces, which `one_line` would join.
            sys.stdout.write(" ".join(map(_clean, text.split(" "))) + "\n")

    def json(self, value: Any) -> None:
        """Print JSON values or a pydantic model, alone on stdout."""
        if hasattr(value, "model_dump"):
            value = value.model_dump(mode="json")
        print_json(value)

    def notice(self, text: str) -> None:
        """Print a notice on stderr; if the command is quiet, only a `Loss`."""
        if not self.quiet or isinstance(text, Loss):
            self.error(text)

    def warning(self, text: str) -> None:
        """Print a notice on stderr that is marked as a warning."""
        self.notice(type(text)(f"warning: {text}"))

    @staticmethod
    def error(text: str) -> None:
        """Print a line on stderr, even if the command is quiet."""
        sys.stderr.write(_clean(text) + "\n")


def print_json(value: Any) -> None:
    """Print JSON values on stdout; nothing in their texts can act on a terminal."""
    from capeval.files.jsonl import dumps, printable_json

    sys.stdout.write(printable_json(dumps(value, indent=1)) + "\n")


def _clean(text: str) -> str:
    # Names and reasons come from files: none of their control characters reaches the terminal.
    return one_line(text, 600)

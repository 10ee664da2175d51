"""What a command prints: its result on stdout, and notices on stderr, one line each."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from capeval.text import Loss, one_line

if TYPE_CHECKING:
    from rich.console import Console

    from capeval.show.formats import Format


@dataclass(frozen=True)
class Output:
    """Prints for one command as its options say; if `quiet`, only errors, JSON and each `Loss`.

    With --json or --format, stdout has the JSON or the tables alone, and lines go to stderr.
    """

    quiet: bool = False
    as_json: bool = False
    form: Format | None = None
    full: bool = False
    yes: bool = False
    dry_run: bool = False
    max_failed: str = "0"

    @cached_property
    def console(self) -> Console:
        from rich.console import Console

        return Console(quiet=self.quiet)

    def text(self, text: str) -> None:
        if not self.quiet:
            sys.stdout.write(text + "\n")

    def line(self, text: str) -> None:
        if not self.quiet:
            stream = sys.stderr if self.as_json or self.form is not None else sys.stdout
            # Columns are padded with spaces, which `one_line` would join.
            stream.write(" ".join(map(_clean, text.split(" "))) + "\n")

    def lost(self, text: str) -> None:
        """Print a line of the result about money or lost work; if the command is quiet, too."""
        if self.quiet:
            self.error(f"capeval: {text}")
        else:
            self.line(text)

    def json(self, value: Any) -> None:
        """Print JSON values, their text or a pydantic model, alone on stdout.

        Nothing in their texts can act on a terminal.
        """
        from capeval.files.jsonl import dumps, printable_json

        if hasattr(value, "model_dump"):
            value = value.model_dump(mode="json")
        text = value if isinstance(value, str) else dumps(value, indent=1)
        sys.stdout.write(printable_json(text) + "\n")

    def notice(self, text: str) -> None:
        """Print a notice on stderr; if the command is quiet, only a `Loss`."""
        if not self.quiet or isinstance(text, Loss):
            self.error(text)

    def warning(self, text: str) -> None:
        self.notice(type(text)(f"warning: {text}"))

    @staticmethod
    def error(text: str) -> None:
        """Print a line on stderr, even if the command is quiet."""
        sys.stderr.write(_clean(text) + "\n")
        sys.stderr.flush()


def _clean(text: str) -> str:
    # Names and reasons come from files: none of their control characters reaches the terminal.
    return one_line(text, 600)

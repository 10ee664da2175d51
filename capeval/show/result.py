"""Results that show themselves, and `Output`, on which a command prints them."""

from __future__ import annotations

import io
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from rich.console import Console

from capeval.errors import UsageError
from capeval.files.jsonl import dumps, printable_json
from capeval.show.formats import Format, csv_text, one_screen, print_pages, records_of, rendered
from capeval.show.table import Page
from capeval.text import Loss, one_line

# Lines of tables are not broken, as those of rich in a notebook.
_IN_NOTEBOOKS = '<pre style="white-space:pre;overflow-x:auto;line-height:normal">{code}</pre>'


class Result(ABC):
    """What a public function returns and its command shows.

    Attributes
    ----------
    screen : the lines that its tables may fill without --full; None if they are never shortened
    """

    screen: ClassVar[int | None] = None

    @abstractmethod
    def headline(self) -> str:
        """Return the answer in a sentence that can be pasted into a message."""

    def pages(self, *, full: bool = False) -> list[Page]:
        """Return the tables, with what is said about them; everything if `full`."""
        return []

    def records(self) -> list[dict[str, Any]]:
        """Return the values as flat records, nothing rounded."""
        return records_of(self.pages(full=True))

    def as_json(self) -> Any:
        """Return the whole result as JSON values."""
        dump = getattr(self, "model_dump", None)
        return dump(mode="json") if dump else self.records()

    def notices(self) -> Sequence[str]:
        """Return what the user should know about it, one line each."""
        return ()

    def failures(self) -> Sequence[str]:
        """Return why the command has failed although it has a result, one line each."""
        return ()

    def exit_code(self) -> int:
        """Return the exit code of the command."""
        return 0

    def show(self, console: Console, *, full: bool = False) -> None:
        """Print the headline and the tables, not more than a screen unless `full`."""
        pages = self.pages(full=full)
        if self.screen and not full:
            pages = one_screen(pages, lines=self.screen)
        print_pages(pages, console, headline=self.headline())

    def rendered(self, form: Format) -> str:
        """Return everything as text in a format; CSV and JSON have full precision."""
        if form == "json":
            return dumps(self.as_json(), indent=1)
        if form == "csv":
            return csv_text(self.records())
        return rendered(self.pages(full=True), form, headline=self.headline())

    def to_frame(self) -> Any:
        """Return the records as a pandas DataFrame; UsageError if pandas is not installed."""
        try:
            import pandas as pd
        except ModuleNotFoundError:
            raise UsageError("to_frame needs pandas: pip install pandas") from None
        return pd.DataFrame(self.records())

    def __str__(self) -> str:
        return self.headline()

    def _repr_html_(self) -> str:
        console = Console(record=True, file=io.StringIO(), width=120)
        self.show(console)
        return console.export_html(inline_styles=True, code_format=_IN_NOTEBOOKS)


@dataclass(frozen=True)
class Lines(Result):
    """A result that is shown in some lines, the headline first."""

    lines: Sequence[str]
    missing: Sequence[str] = ()
    """What the user should know about it."""

    def headline(self) -> str:
        return "\n".join(self.lines)

    def notices(self) -> Sequence[str]:
        return self.missing


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
        """Print a line about money or lost work, even if the command is quiet."""
        if self.quiet:
            self.error(f"capeval: {text}")
        else:
            self.line(text)

    def json(self, value: Any) -> None:
        """Print JSON values, their text or a pydantic model, alone on stdout.

        Nothing in their texts can act on a terminal.
        """
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


def emit(result: Result, output: Output, out: Path | str | None = None) -> None:
    """Show a result as the options of a command say; `out` is the file that has it."""
    if output.as_json:
        output.json(result.as_json())
    elif output.form not in (None, "table"):
        output.text(result.rendered(output.form))
    else:
        result.show(output.console, full=output.full)
        if out is not None:
            output.line(f"Written: {out}")
    for line in result.notices():
        output.notice(line)
    for line in result.failures():
        output.error(f"capeval: {line}")

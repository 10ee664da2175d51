"""Results that show themselves, in a terminal and as Markdown, LaTeX, CSV and JSON.

Whatever a cell holds, it stays text in each format, and no number is cut.
"""

from __future__ import annotations

import io
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

from rich.cells import cell_len
from rich.console import Console

from capeval.files.jsonl import dumps, printable_json
from capeval.files.tables import csv_of_rows, escape
from capeval.show.table import LONGEST, Page, Row, Shown, Table, as_text, one_screen, print_pages
from capeval.text import Loss, one_line

Format = Literal["table", "markdown", "latex", "csv", "json"]

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
        """Return the tables, with their notes; everything if `full`."""
        return []

    def records(self) -> list[dict[str, Any]]:
        """Return the values as flat records, nothing rounded."""
        return records_of(self.pages(full=True))

    def as_json(self) -> Any:
        dump = getattr(self, "model_dump", None)
        return dump(mode="json") if dump else self.records()

    def notices(self) -> Sequence[str]:
        """Return what the user should know about it, one line each."""
        return ()

    def failures(self) -> Sequence[str]:
        """Return why the command has failed although it has a result, one line each."""
        return ()

    def exit_code(self) -> int:
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
        pages = self.pages(full=True)
        if form == "markdown":
            return "\n\n".join(map(_markdown, pages))
        if form == "latex":
            return as_latex(pages)
        return as_text(pages, headline=self.headline())

    def to_frame(self) -> Any:
        """Return the records as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame(self.records())

    def __str__(self) -> str:
        return self.headline()

    def _repr_html_(self) -> str:
        console = Console(record=True, file=io.StringIO(), width=120)
        self.show(console)
        return console.export_html(inline_styles=True, code_format=_IN_NOTEBOOKS)


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
        """Print JSON values, or their text, alone on stdout.

        Their texts cannot control a terminal.
        """
        text = value if isinstance(value, str) else dumps(value, indent=1)
        sys.stdout.write(printable_json(text) + "\n")

    def notice(self, text: str) -> None:
        """Print a notice on stderr; if the command is quiet, only a `Loss`."""
        if not self.quiet or isinstance(text, Loss):
            self.error(text)

    @staticmethod
    def error(text: str) -> None:
        """Print a line on stderr, even if the command is quiet."""
        sys.stderr.write(_clean(text) + "\n")
        sys.stderr.flush()


def _clean(text: str) -> str:
    # Names and reasons come from files: none of their control characters reaches the terminal.
    return one_line(text, 600)


def emit(result: Result, output: Output, out: Path | str | None = None) -> None:
    """Show a result by the options of a command; `out` is the file that has it."""
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


# ---- Formats -------------------------------------------------------------------------------------


def records_of(pages: Sequence[Page]) -> list[dict[str, Any]]:
    """Return a flat record for each row; of several tables, each record names its own."""
    tables = [table for page in pages for table in page.tables]
    several = len({table.title for table in tables}) > 1
    return [
        {"table": table.title, **record} if several else record
        for table in tables
        for record in table.records()
    ]


def csv_text(found: Sequence[Mapping[str, Any]]) -> str:
    """Return records as CSV, with a column for every key that any of them has.

    Numbers have full precision, None is empty, and no text is a formula.

    >>> csv_text([{"run": "=1+1", "f1": 0.5}, {"run": "b", "f1": None}])
    "run,f1\\n'=1+1,0.5\\nb,"
    """
    named = dict.fromkeys(key for record in found for key in record)
    # A group without values has no keys below its own.
    keys = [key for key in named if not any(other.startswith(f"{key}.") for other in named)]
    rows = ([_csv_cell(record.get(key)) for key in keys] for record in found)
    return csv_of_rows([_csv_cell(key) for key in keys], rows).rstrip("\n")


def _csv_cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    return escape(one_line(str(value), LONGEST))


# ---- Markdown --------------------------------------------------------------------------------


def _markdown(page: Page) -> str:
    blocks = [f"### {_md(page.title)}"] if page.title else []
    blocks += [_md(page.about)] if page.title and page.about else []
    for table in page.tables:
        heads = [
            _md(column.heading) + (f" (n {_md(column.under)})" if column.under and at else "")
            for at, column in enumerate(table.columns)
        ]
        marks = ["---" if column.words else "---:" for column in table.columns]
        lines = [heads, marks, *(_md_row(table, row) for row in table.rows)]
        blocks.append(f"**{_md(table.title)}**")
        blocks.append("\n".join("| " + " | ".join(line) + " |" for line in lines))
        blocks += [_md(table.note)] if table.note else []
    legend = page.explained(page.tables)
    sentences = (*page.remarks.values(), *legend, *page.notes, *page.warnings)
    points = [_md(one_line(line, LONGEST)) for line in sentences]
    points += [_md_code(one_line(line, LONGEST)) for line in page.signatures]
    if points:
        blocks.append("\n".join(f"- {line}" for line in points))
    return "\n\n".join(blocks)


def _md_row(table: Table, row: Row) -> list[str]:
    cells = table.shown(row)
    if len(cells) < len(table.columns):
        return [f"*{_md(str(cells[0]))}*", *[""] * (len(table.columns) - 1)]
    return [
        _md(one.before)
        + (f"**{_md(one.text)}**" if one.place == 1 else _md(one.text))
        + _md(one.after)
        for one in cells
    ]


def _md(text: str) -> str:
    # Besides Markdown's own marks: & begins an entity, @ names a person, an address is a link.
    text = text.replace("\n", " ").replace("&", "&amp;")
    for mark in "\\|*_`<>[]~$":
        text = text.replace(mark, "\\" + mark)
    return text.replace("@", "&#64;").replace("://", ":&#47;/").replace("www.", "www&#46;")


def _md_code(text: str) -> str:
    # A run of backticks in the text cannot close a longer one around it.
    longest = max(map(len, re.findall("`+", text)), default=0)
    pad = " " if longest else ""
    return f"{'`' * (longest + 1)}{pad}{text}{pad}{'`' * (longest + 1)}"


# ---- LaTeX -----------------------------------------------------------------------------------

# Characters that fit the text of a ten-point article (345 points), two for the space of a column.
_TEXT_WIDTH = 69
# A column of longer words is a paragraph of half the text.
_LONGEST_WORDS = 60
# Scales a table down to the width of the text, and never up.
_NO_WIDER = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
_TEX_PLACES = {0: "%s", 1: r"\textbf{%s}", 2: r"\underline{%s}"}

_TEX = {
    "\\": r"\textbackslash{}",
    "–": "--",
    "−": "$-$",
    "†": r"\dag{}",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "→": r"$\rightarrow$",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{mark: "\\" + mark for mark in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "`": r"\textasciigrave{}",
}


def tex(text: str) -> str:
    r"""Return text with all of LaTeX's marks escaped.

    >>> print(tex("<=2 & [a_b]"), tex("[–]"))
    $\leq$2 \& [a\_b] {[}--]
    """
    # Two hyphens would become one dash, and after \\ a bracket or a star belongs to it.
    flat = text.replace("<=", "≤").replace(">=", "≥").replace("--", "-\0-").replace("--", "-\0-")
    shown = "".join(_TEX.get(mark, mark) for mark in flat).replace("\0", "{}")
    return f"{{{shown[0]}}}{shown[1:]}" if shown[:1] in ("[", "*") else shown


def as_latex(pages: Sequence[Page]) -> str:
    return "\n\n".join(map(_latex, pages))


def _latex(page: Page) -> str:
    lines = [page.title, page.about, *page.notes, *page.signatures]
    # A comment ends with its line: nothing in it can become code.
    comments = "\n".join(f"% {one_line(line, LONGEST)}" for line in lines if line)
    return "\n\n".join(filter(None, [comments, *(_latex_table(one, page) for one in page.tables)]))


def _latex_table(table: Table, page: Page) -> str:
    """Return a table; one that may be wider than the text is scaled down (by graphicx)."""
    shown = [table.shown(row) for row in table.rows]
    texts = [
        [column.heading, column.under, *(str(row[at]) for row in shown if len(row) > 1)]
        for at, column in enumerate(table.columns)
    ]
    widths = [max(map(cell_len, "\n".join(of).split("\n"))) for of in texts]
    marks = [
        "r" if not column.words else "l" if width <= _LONGEST_WORDS else r"p{0.5\linewidth}"
        for column, width in zip(table.columns, widths, strict=True)
    ]
    heads = [table.header, [column.under for column in table.columns]]
    lines = []
    for number, row in enumerate(shown):
        if len(row) == 1 < len(marks):
            over = rf"\multicolumn{{{len(marks)}}}{{l}}{{\textit{{{tex(str(row[0]))}}}}}"
            lines.append((r"\addlinespace" + "\n" if number else "") + over + r" \\")
        else:
            lines.append(" & ".join(map(_tex_cell, row, marks)) + r" \\")
    wide = sum(widths) + 2 * len(widths) > _TEXT_WIDTH
    about = f" ({_tex_breakable(one_line(page.about, LONGEST))})" if page.about else ""
    below = (table.note, *page.explained([table]), *page.remarks.values(), *page.warnings)
    notes = [tex(one_line(line.removesuffix("."), LONGEST)) + r".\par" for line in below if line]
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{tex(table.title)}{about}}}",
            *([_NO_WIDER] if wide else []),
            rf"\begin{{tabular}}{{{''.join(marks)}}}",
            r"\toprule",
            *(" & ".join(map(_tex_number, head)) + r" \\" for head in heads if any(head)),
            r"\midrule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}" + ("}" if wide else ""),
            *((r"\par\smallskip", r"\raggedright\footnotesize", *notes) if notes else ()),
            r"\end{table}",
        ]
    )


def _tex_cell(cell: Shown, mark: str) -> str:
    lines = str(cell).split("\n")
    if len(lines) > 1:
        return (
            r" \newline ".join(map(tex, lines))
            if mark.startswith("p")
            else r"\begin{tabular}[t]{@{}l@{}}" + r" \\ ".join(map(tex, lines)) + r"\end{tabular}"
        )
    if not cell.place:
        return _tex_number(str(cell))
    return tex(cell.before) + _TEX_PLACES[cell.place] % tex(cell.text) + tex(cell.after)


def _tex_number(text: str) -> str:
    # A minus sign, where a hyphen stands before a number.
    return re.sub(r"(?<![\w.)-])-(?=\d)", "$-$", tex(text))


def _tex_breakable(text: str) -> str:
    """Return text that TeX may also break after underscores, slashes and @."""
    pieces = re.findall(r"[^_/@]*[_/@]*", text)
    return r"\allowbreak{}".join(tex(piece) for piece in pieces if piece)

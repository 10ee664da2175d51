"""Tables and lines in a terminal: no number is cut, and whatever a cell holds stays text."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from textwrap import wrap

from rich.box import Box
from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.table import Table as RichTable
from rich.text import Text

from capeval.show.table import Page, Shown, Table
from capeval.text import one_line

LONGEST = 2000
"""A longer note or signature is cut: nobody reads more, and it may come from a hostile file."""

_PLACES = {0: "", 1: "bold", 2: "underline"}

# A narrower terminal wraps sentences itself.
_LEAST_SENTENCE = 40

# Words are not broken into lines narrower than this: shorter ones are hard to read.
_LEAST_WORDS = 16

# A rule below the heading, and no other line.
_RULE = Box("\n".join(["    ", "    ", "────", *["    "] * 5]) + "\n")


def print_pages(pages: Sequence[Page], console: Console, *, headline: str = "") -> None:
    """Print a headline, then tables with their notes and signatures."""
    if headline:
        print_line(headline, console)
    for page in pages:
        if headline or page is not pages[0]:
            console.print()
        if page.title:
            print_line(page.title, console, style="bold")
        if page.about:
            print_sentence(page.about, console, style="dim")
        between = bool(page.title or page.about)
        for table in page.tables:
            if between:
                console.print()
            print_table(table, console)
            between = True
        below = [*page.remarks.values(), *page.explained(page.tables), *page.notes]
        if between and (below or page.warnings or page.signatures):
            console.print()
        for line in below:
            print_sentence(line, console)
        for line in page.warnings:
            print_sentence(line, console, style="yellow")
        for line in page.signatures:
            print_line(f"  {one_line(line, 600)}", console, style="dim")


def print_line(text: str, console: Console, *, style: str = "") -> None:
    """Print a line that may be copied: the terminal wraps it, and nothing is cut."""
    console.print(Text(text, style=style), soft_wrap=True)


def print_fields(fields: Mapping[str, object], console: Console) -> None:
    """Print a line for each field that is not None."""
    for name, value in fields.items():
        if value is not None:
            print_line(one_line(f"{name}: {value}", LONGEST), console)


def print_sentence(text: str, console: Console, *, style: str = "") -> None:
    """Print text that is to be read, wrapped at words."""
    room = max(console.width, _LEAST_SENTENCE)
    lines = wrap(one_line(text, LONGEST), room, break_long_words=False, break_on_hyphens=False)
    print_line("\n".join(lines), console, style=style)


def print_table(table: Table, console: Console) -> None:
    """Print a table; the terminal wraps the lines of one that is too wide for it."""
    if table.title:
        print_sentence(table.title, console, style="bold")
    made = _empty(table, console.width, head=any(table.header))
    for number, row in enumerate(table.rows):
        if len(row) > 1 or len(table.columns) == 1:
            made.add_row(*map(_text, table.shown(row)))
            continue
        # rich has no cell over all columns: a heading over rows stands between two tables.
        if made.show_header or made.rows:
            _print(made, console)
        if number:
            console.print()
        print_sentence(str(row[0]), console, style="italic")
        made = _empty(table, console.width, head=False)
    _print(made, console)
    if table.note:
        print_sentence(table.note, console, style="dim")


def _empty(table: Table, room: int, *, head: bool) -> RichTable:
    """Return a table of rich without rows, whose columns are as wide as all rows need."""
    gap = 2 if _total(natural_widths(table), 2) <= room else 1
    widths = _widths(table, room, gap)
    made = RichTable(
        box=_RULE,
        show_edge=False,
        pad_edge=False,
        padding=(0, gap - 1, 0, 0),
        show_header=head,
        # rich would cut numbers to make a table as narrow as the terminal.
        width=_total(widths, gap),
    )
    two = any(column.under for column in table.columns)
    for column, width in zip(table.columns, widths, strict=True):
        heading = Text(f"{column.heading}\n{column.under}" if two else column.heading)
        justify: JustifyMethod = "left" if column.words else "right"
        made.add_column(heading, justify=justify, overflow="fold", width=width)
    return made


def _print(made: RichTable, console: Console) -> None:
    """Print a table of rich without the spaces with which it fills its lines."""
    room = console.options.update_width(made.width or console.width)
    for segments in console.render_lines(made, room):
        line = Text.assemble(*((one.text, one.style or "") for one in segments))
        line.rstrip()
        console.print(line, soft_wrap=True)


def _total(widths: Sequence[int], gap: int) -> int:
    return sum(widths) + gap * (len(widths) - 1)


def _text(cell: Shown) -> Text:
    style = f"{cell.style} {_PLACES[cell.place]}".strip()
    return Text.assemble(cell.before, (cell.text, style), cell.after)


def natural_widths(table: Table) -> list[int]:
    """Return how wide each column is where nothing is broken."""
    rows = [table.shown(row) for row in table.rows if len(row) > 1 or len(table.columns) == 1]
    return [
        max(
            cell_len(line)
            for text in (column.heading, column.under, *(str(row[at]) for row in rows))
            for line in text.split("\n")
        )
        for at, column in enumerate(table.columns)
    ]


def _widths(table: Table, room: int, gap: int) -> list[int]:
    """Return how wide columns are: the widest words are broken to fit, numbers are not."""
    widths = natural_widths(table)
    words = [at for at, column in enumerate(table.columns) if column.words]
    for at in sorted(words, key=lambda at: -widths[at]):
        excess = max(_total(widths, gap) - room, 0)
        widths[at] = min(widths[at], max(_LEAST_WORDS, widths[at] - excess))
    return widths


def one_screen(pages: Sequence[Page], *, lines: int = 40) -> list[Page]:
    """Return pages with as many rows in each table as fill a screen of so many lines.

    A table keeps at least five rows, and needs about four lines for its title, head and notes.
    """
    tables = sum(len(page.tables) for page in pages)
    return [page.shortened(max(5, lines // max(tables, 1) - 4)) for page in pages]


def as_text(pages: Sequence[Page], *, headline: str = "", width: int = 120) -> str:
    """Return what a terminal of a width would show, without colours."""
    out = io.StringIO()
    print_pages(pages, Console(file=out, width=width, color_system=None), headline=headline)
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().split("\n"))

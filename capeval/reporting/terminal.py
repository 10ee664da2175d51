"""Tables in a terminal, as wide as it is. No number is ever cut, and text is never markup."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from textwrap import wrap

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from capeval.reporting.table import Cell, Page, Row, Table, broken, raised
from capeval.text import one_line

_PLACES = {0: "", 1: "bold", 2: "underline"}

# A narrower terminal wraps sentences itself.
_LEAST_SENTENCE = 40


def print_pages(pages: Sequence[Page], console: Console, *, headline: str = "") -> None:
    """Print a headline, then tables with their notes and signatures."""
    if headline:
        print_line(headline, console)
        console.print()
    for page in pages:
        if page.title:
            print_line(page.title, console, style="bold")
        if page.about:
            print_sentence(page.about, console, style="dim")
        if page.title or page.about:
            console.print()
        for table in page.tables:
            print_table(table, console)
            console.print()
        for number, line in enumerate(page.footnotes, start=1):
            if line:
                print_sentence(f"{raised((number,))} {line}", console)
        for line in page.notes:
            print_sentence(line, console)
        for line in page.warnings:
            print_sentence(line, console, style="yellow")
        for line in page.signatures:
            print_line(f"  {one_line(line, 600)}", console, style="dim")
        if page is not pages[-1]:
            console.print()


def print_line(text: str, console: Console, *, style: str = "") -> None:
    """Print a line that may be copied: the terminal wraps it, and nothing is cut."""
    console.print(Text(text, style=style), soft_wrap=True)


def print_sentence(text: str, console: Console, *, style: str = "", indent: int = 0) -> None:
    """Print text that is to be read, wrapped at words."""
    lines = wrap(
        one_line(text, 2000),
        max(console.width, _LEAST_SENTENCE),
        initial_indent=" " * indent,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    print_line("\n".join(lines), console, style=style)


def print_table(table: Table, console: Console, *, indent: int = 0) -> None:
    """Print a table; one that does not fit goes on in further tables with the same rows."""
    room = console.width - indent
    parts = table.split(room, 1)
    for part in parts:
        gap = 2 if part.natural_width(2) <= room else 1
        lines = _lines(part, part.fit(room, gap) or part.widths(), gap, room)
        if part.title:
            print_sentence(part.title, console, style="bold", indent=indent)
        for line in lines:
            shown = Text(" " * indent) + line
            shown.rstrip()
            console.print(shown, soft_wrap=True)
        if part.note:
            print_sentence(part.note, console, style="dim", indent=indent)
        if part is not parts[-1]:
            console.print()


# Lines that fill a screen, and the rows that a table keeps even if it takes more than one.
_SCREEN, _FEWEST_ROWS = 40, 5


def one_screen(
    pages: Sequence[Page], width: int, *, headline: str = "", lines: int = _SCREEN
) -> list[Page]:
    """Return pages with as many rows in each table as fill a screen of a width."""
    longest = max((len(table.rows) for page in pages for table in page.tables), default=0)
    for most in range(min(longest, lines), _FEWEST_ROWS - 1, -1):
        short = [page.shortened(most) for page in pages]
        if fits_screen(short, width, headline=headline, lines=lines):
            return short
    return [page.shortened(_FEWEST_ROWS) for page in pages]


def fits_screen(
    pages: Sequence[Page], width: int, *, headline: str = "", lines: int = _SCREEN
) -> bool:
    """Return whether all of the pages fills no more than a screen of a width."""
    return as_text(pages, headline=headline, width=width).count("\n") < lines


def as_text(pages: Sequence[Page], *, headline: str = "", width: int = 120) -> str:
    """Return what a terminal of a width would show, without colours."""
    out = io.StringIO()
    print_pages(pages, Console(file=out, width=width, color_system=None), headline=headline)
    return out.getvalue().rstrip("\n")


def _lines(table: Table, widths: Sequence[int], gap: int, room: int) -> Iterator[Text]:
    if any(table.header):
        for head in (table.header, [column.under for column in table.columns]):
            if any(head):
                yield from _row(table, head, widths, gap, "bold")
        yield Text("─" * (sum(widths) + gap * (len(widths) - 1)))
    for number, row in enumerate(table.rows):
        if len(row) > 1:
            yield from _row(table, row, widths, gap, "")
            continue
        if number:
            yield Text()
        for line in broken(str(row[0]), room):
            yield Text(line, style="italic")


def _row(table: Table, row: Row, widths: Sequence[int], gap: int, style: str) -> Iterator[Text]:
    cells = [
        _cell(cell, width if column.words else None, style)
        for cell, column, width in zip(row, table.columns, widths, strict=True)
    ]
    for number in range(max(map(len, cells))):
        line = Text()
        for at, (lines, column, width) in enumerate(zip(cells, table.columns, widths, strict=True)):
            text = lines[number] if number < len(lines) else Text()
            blank = " " * (width - cell_len(text.plain))
            line.append(" " * gap if at else "")
            line.append_text(text + Text(blank) if column.words else Text(blank) + text)
        yield line


def _cell(cell: Cell | str, width: int | None, style: str) -> list[Text]:
    """Return the lines of a cell, broken to a width where there is one."""
    if isinstance(cell, str):
        lines = cell.split("\n") if width is None else broken(cell, width)
        return [Text(line, style=style) for line in lines]
    mark = f"{cell.style} {_PLACES[cell.place]}".strip()
    if width is None or cell_len(str(cell)) <= width:
        text = Text.assemble(cell.before, (cell.text, mark), raised(cell.notes), cell.after)
        return [*text.split("\n")]
    return [Text(line, style=mark) for line in broken(str(cell), width)]

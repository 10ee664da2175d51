"""Tables and lines in a terminal: no number is cut, and whatever a cell holds stays text."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from textwrap import wrap

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.text import Text

from capeval.reporting.table import Page, Shown, Table
from capeval.text import one_line

LONGEST = 2000
"""A longer note or signature is cut: nobody reads more, and it may come from a hostile file."""

_PLACES = {0: "", 1: "bold", 2: "underline"}

# A narrower terminal wraps sentences itself.
_LEAST_SENTENCE = 40

# Words are not broken into lines narrower than this: shorter ones are hard to read.
_LEAST_WORDS = 16
_PIECE = re.compile(r"[^\s/_@:-]*[/_@:-]+\s*|[^\s/_@:-]+\s*")


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


def print_sentence(text: str, console: Console, *, style: str = "", indent: int = 0) -> None:
    """Print text that is to be read, wrapped at words."""
    lines = wrap(
        one_line(text, LONGEST),
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
    parts = _split(table, room)
    for part in parts:
        natural = natural_widths(part)
        gap = 2 if _total(natural, 2) <= room else 1
        widths = _fit(part, room, gap) or natural
        if part.title:
            print_sentence(part.title, console, style="bold", indent=indent)
        for line in _lines(part, widths, gap, room):
            shown = Text(" " * indent) + line
            shown.rstrip()
            console.print(shown, soft_wrap=True)
        if part.note:
            print_sentence(part.note, console, style="dim", indent=indent)
        if part is not parts[-1]:
            console.print()


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
    return out.getvalue().rstrip("\n")


def _split(table: Table, room: int) -> list[Table]:
    """Return a table, or several with the same rows where its columns do not fit.

    Each begins with the columns that say what a row is about: all up to the last of words.
    """
    if _fit(table, room, 1) is not None:
        return [table]
    widths, least = natural_widths(table), _least(table)
    lead = max((at for at, column in enumerate(table.columns, 1) if column.words), default=1)
    left = _total(least[:lead], 1)
    groups: list[list[int]] = []
    used = room + 1
    for at in range(lead, len(widths)):
        used += 1 + widths[at]
        if used > room:
            groups.append([])
            used = left + 1 + widths[at]
        groups[-1].append(at)
    parts = [table.only([*range(lead), *group]) for group in groups] or [table]
    titles = [table.title, *[f"{table.title} (continued)"] * (len(parts) - 1)]
    notes = [*[""] * (len(parts) - 1), table.note]
    return [
        replace(part, title=title, note=note)
        for part, title, note in zip(parts, titles, notes, strict=True)
    ]


def _texts(table: Table) -> list[list[str]]:
    """Return the texts of each column: its heading, and the cells."""
    rows = [table.shown(row) for row in table.rows if len(row) > 1]
    return [
        [column.heading, column.under, *(str(row[at]) for row in rows)]
        for at, column in enumerate(table.columns)
    ]


def natural_widths(table: Table) -> list[int]:
    """Return how wide each column is where nothing is broken."""
    return [max(map(cell_len, "\n".join(of).split("\n"))) for of in _texts(table)]


def _least(table: Table) -> list[int]:
    """Return how narrow each column can be: words are broken, numbers are not."""
    least = natural_widths(table)
    for at, (column, texts) in enumerate(zip(table.columns, _texts(table), strict=True)):
        if column.words:
            pieces = [cell_len(p.rstrip()) for text in texts for p in _PIECE.findall(text)]
            least[at] = min(max(pieces, default=0), _LEAST_WORDS)
    return least


def _fit(table: Table, room: int, gap: int) -> list[int] | None:
    """Return how wide columns must be to fit, the widest words broken; None where none can."""
    widths, least = natural_widths(table), _least(table)
    words = [at for at, column in enumerate(table.columns) if column.words]
    for at in sorted(words, key=lambda at: -widths[at]):
        excess = _total(widths, gap) - room
        if excess > 0:
            widths[at] = min(widths[at], max(least[at], widths[at] - excess))
    return widths if _total(widths, gap) <= room else None


def _total(widths: Sequence[int], gap: int) -> int:
    return sum(widths) + gap * (len(widths) - 1)


def _lines(table: Table, widths: Sequence[int], gap: int, room: int) -> Iterator[Text]:
    if any(table.header):
        for head in (table.header, [column.under for column in table.columns]):
            if any(head):
                shown = [Shown(text=text, style="bold") for text in head]
                yield from _row(table, shown, widths, gap)
        yield Text("─" * _total(widths, gap))
    for number, row in enumerate(table.rows):
        if len(row) > 1:
            yield from _row(table, table.shown(row), widths, gap)
            continue
        if number:
            yield Text()
        for line in broken(str(row[0]), room):
            yield Text(line, style="italic")


def _row(table: Table, row: Sequence[Shown], widths: Sequence[int], gap: int) -> Iterator[Text]:
    cells = [
        _cell(cell, width if column.words else None)
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


def _cell(cell: Shown, width: int | None) -> list[Text]:
    """Return the lines of a cell, broken to a width where there is one."""
    style = f"{cell.style} {_PLACES[cell.place]}".strip()
    if width is None or cell_len(str(cell)) <= width:
        return [*Text.assemble(cell.before, (cell.text, style), cell.after).split("\n")]
    return [Text(line, style=style) for line in broken(str(cell), width)]


def broken(text: str, width: int) -> list[str]:
    """Return a text in lines, broken after blanks and the marks - _ / @ and :.

    >>> broken("LLaVA-Video-7B", 8)
    ['LLaVA-', 'Video-7B']
    >>> broken("lexical-2:precision", 16)
    ['lexical-2:', 'precision']
    """
    lines = []
    for line in text.split("\n"):
        lines.append("")
        for piece in _PIECE.findall(line):
            if cell_len(lines[-1] + piece.rstrip()) <= width:
                lines[-1] += piece
                continue
            if not lines[-1]:
                lines.pop()
            lines += chop_cells(piece, width) if cell_len(piece.rstrip()) > width else [piece]
    return [line.rstrip() for line in lines]

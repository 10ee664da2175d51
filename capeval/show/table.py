"""Tables of values: what their columns show, what records they become, how a terminal shows them.

A table's cells are values. Its columns know how to show them, and what a record of them holds. A
terminal, Markdown and LaTeX show the first, CSV and JSON hold the second (`capeval.show.result`).
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from textwrap import wrap
from typing import Any, NamedTuple

from rich.box import Box
from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.table import Table as RichTable
from rich.text import Text

from capeval.show.numbers import (
    NOTHING,
    coefficient,
    ends,
    p_value,
    percent,
    points,
    share,
    signed,
    thousands,
)
from capeval.text import counted, one_line


@dataclass(frozen=True)
class Kind:
    """How the values of a column are shown, and the fields of a record that they become.

    Attributes
    ----------
    show : the part of the text that is marked where it is the best of its column
    before, after : the text around it, such as precision and recall, or an interval
    parts : fields of a record, by the suffix of the column's key
    """

    show: Callable[[Any], str] = str
    before: Callable[[Any], str] = lambda _: ""
    after: Callable[[Any], str] = lambda _: ""
    parts: Callable[[Any], Mapping[str, Any]] = lambda value: {"": value}


def _bounds(of: Any) -> Mapping[str, Any]:
    return {"": of.value, "_low": of.low, "_high": of.high}


def interval_kind(number: Callable[[float | None], str], missing: str = f" [{NOTHING}]") -> Kind:
    """Return the kind of values with `value`, `low` and `high`, as a function shows numbers.

    `missing` is what a value without an interval shows instead.
    """
    after = partial(ends, number, missing=missing)
    return Kind(lambda of: number(of.value), after=after, parts=_bounds)


TEXT = Kind()
LINE = Kind(one_line)
"""Text from files, on one line."""
NAMES = {False: LINE, True: Kind(lambda name: f"{one_line(name)}†")}
"""Names of runs, and of published rows."""
PERCENT = Kind(percent)
COUNT = Kind(thousands)
VALUE = Kind(lambda of: percent(of.value), parts=_bounds)
"""A value without its interval, in percent."""
INTERVAL = interval_kind(percent)
"""A value with its interval, in percent."""
POINTS = Kind(points)
POINTS_INTERVAL = interval_kind(points)
"""A difference with its interval, in points."""
P_VALUE = Kind(p_value)
COEFFICIENT = Kind(coefficient)
BOUNDED = interval_kind(coefficient, missing="")
"""A coefficient with its interval, if it has one."""
SIGNED_BOUNDED = interval_kind(signed, missing="")
"""A difference of coefficients with its interval, if it has one."""
SHARE = Kind(lambda pair: share(*pair), parts=lambda pair: {"": pair[0], "_of": pair[1]})
"""A part and the whole."""
PRF = Kind(
    lambda of: percent(of.f1.value),
    before=lambda of: f"{percent(of.precision.value)}/{percent(of.recall.value)}/",
    parts=lambda of: (
        {
            f".{name}{end}": value
            for name in ("precision", "recall", "f1")
            for end, value in _bounds(getattr(of, name)).items()
        }
        # The number of videos behind a published mean is not known.
        | {".n": of.n or None}
    ),
)
"""Precision, recall and F1 in percent."""
F1 = replace(PRF, before=lambda _: "")
"""Precision, recall and F1, of which only F1 is shown."""


@dataclass(frozen=True)
class Column:
    """A column of numbers, or of words.

    Attributes
    ----------
    words : left-aligned, and broken over lines where there is no room; numbers are never broken
    under : a second line of the heading, such as a number of videos
    key : the name in records; by default the heading
    """

    heading: str
    words: bool = False
    under: str = ""
    kind: Kind = TEXT
    key: str = ""

    def shown(self, cell: object) -> Shown:
        """Return a cell as shown; None is a dash."""
        value, place, style, after = cell, 0, "", ""
        if isinstance(cell, Cell):
            value, place, style, after = cell.value, cell.place, cell.style, cell.after
        if value is None:
            return Shown(text=NOTHING, after=after, style=style)
        kind = self.kind
        before, text, behind = kind.before(value), kind.show(value), kind.after(value) + after
        return Shown(before, text, behind, place, style)


class Shown(NamedTuple):
    """A cell as text; `place` and `style` are those of `text`, between the two others."""

    before: str = ""
    text: str = ""
    after: str = ""
    place: int = 0
    style: str = ""

    def __str__(self) -> str:
        return self.before + self.text + self.after


@dataclass(frozen=True)
class Cell:
    """A cell with more than a value.

    Attributes
    ----------
    after : text behind it
    place : 1 where the number is the best of its column, 2 where it is the second best
    style : of the text in a terminal
    """

    value: Any
    after: str = ""
    place: int = 0
    style: str = ""


Row = Sequence[Any]


@dataclass
class Table:
    """One table.

    Attributes
    ----------
    rows : cells as in `columns`; a row of one cell is a heading for the rows below it
    note : how to read the table; printed below it
    """

    title: str
    columns: Sequence[Column]
    rows: list[Row] = field(default_factory=list)
    note: str = ""

    @property
    def header(self) -> list[str]:
        return [column.heading for column in self.columns]

    def shown(self, row: Row) -> list[Shown]:
        """Return the cells of a row as text; a heading over rows is one cell."""
        if len(row) == 1:
            return [Shown(text=str(row[0]))]
        return [column.shown(cell) for column, cell in zip(self.columns, row, strict=True)]

    def records(self) -> list[dict[str, Any]]:
        """Return the values of each row by the keys of the columns, without heading rows."""
        return [
            {
                (column.key or column.heading) + part: value
                for column, cell in zip(self.columns, row, strict=True)
                for part, value in _parts(column.kind, cell).items()
            }
            for row in self.rows
            if len(row) > 1 or len(self.columns) == 1
        ]

    def only(self, places: Sequence[int]) -> Table:
        rows = [[row[at] for at in places] if len(row) > 1 else row for row in self.rows]
        return replace(self, columns=[self.columns[at] for at in places], rows=rows)

    def known(self) -> Table:
        rows = [[_value(cell) for cell in row] for row in self.rows if len(row) > 1]
        cells = enumerate(zip(*rows, strict=True))
        kept = [at for at, of in cells if any(value is not None for value in of)]
        return self.only(kept)


def _value(cell: Any) -> Any:
    return cell.value if isinstance(cell, Cell) else cell


def _parts(kind: Kind, cell: object) -> Mapping[str, Any]:
    value = _value(cell)
    return {"": None} if value is None else kind.parts(value)


def columns(*headings: str | tuple[str, Kind], words: int = 1) -> list[Column]:
    """Return columns: the first `words` of words, the others of numbers or of a kind.

    >>> [(one.heading, one.words) for one in columns("Run", ("F1", PERCENT))]
    [('Run', True), ('F1', False)]
    """
    pairs = ((one, TEXT) if isinstance(one, str) else one for one in headings)
    return [Column(heading, at < words, kind=kind) for at, (heading, kind) in enumerate(pairs)]


def table_of(title: str, found: Sequence[tuple[Column, Sequence[Any]]], note: str = "") -> Table:
    rows: list[Row] = list(zip(*(cells for _, cells in found), strict=True))
    return Table(title, [column for column, _ in found], rows, note)


def marked(column: Column, values: Sequence[Any], ranked: Sequence[bool]) -> list[Cell]:
    """Return cells of which the best and the second best of the ranked rows are marked.

    Values that are printed alike are equal, and a single row is not marked.
    """
    texts = ["" if value is None else column.shown(value).text for value in values]
    among = {text for text, one in zip(texts, ranked, strict=True) if one} - {"", NOTHING}
    leaders = sorted(among, key=float, reverse=True)[:2] if len(values) > 1 else []
    return [
        Cell(value, place=leaders.index(text) + 1 if one and text in leaders else 0)
        for value, text, one in zip(values, texts, ranked, strict=True)
    ]


@dataclass
class Page:
    """Tables that are read together, with notes on all of them.

    Attributes
    ----------
    title : a heading above them
    about : the measure and its settings; the caption of each LaTeX table repeats it
    remarks : notes on single rows, by their numbers from 0; shown only with their row
    legend : explanations of columns, by key; shown only with these columns
    notes : other notes, in LaTeX as comments
    warnings : what a reader must know; in LaTeX below every table, as are the remarks
    signatures : lines to be copied, which are never wrapped
    """

    tables: list[Table]
    title: str = ""
    about: str = ""
    remarks: Mapping[int, str] = field(default_factory=dict)
    legend: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()
    signatures: Sequence[str] = ()

    def explained(self, tables: Sequence[Table]) -> list[str]:
        """Return the legend of some of the tables, in a line if there is one."""
        keys = {column.key for table in tables for column in table.columns}
        line = " ".join(text for key, text in self.legend.items() if key in keys)
        return [line] if line else []

    def shortened(self, most: int) -> Page:
        """Return a copy with at most `most` rows in each table, and the number left out."""
        tables = []
        for table in self.tables:
            left = len(table.rows) - most
            if left > 0:
                note = with_more(table.note, f"{counted(left, 'more row')}: --full")
                table = replace(table, rows=table.rows[:most], note=note)  # noqa: PLW2901
            tables.append(table)
        remarks = {at: line for at, line in self.remarks.items() if at < most}
        return replace(self, tables=tables, remarks=remarks)


def with_more(note: str, more: str) -> str:
    """Return a note, followed by what was left out."""
    return f"{note.rstrip('.')}. {more}" if note else more


# ---- Terminal --------------------------------------------------------------------------------

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
    """Print prose, wrapped at words."""
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
    """Return an empty rich table whose columns are wide enough for all rows."""
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
    """Print a rich table without the trailing spaces of its lines."""
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
    """Return the width of each column without line breaks."""
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
    """Return the widths of columns: the widest words are broken to fit, numbers are not."""
    widths = natural_widths(table)
    words = [at for at, column in enumerate(table.columns) if column.words]
    for at in sorted(words, key=lambda at: -widths[at]):
        excess = max(_total(widths, gap) - room, 0)
        widths[at] = min(widths[at], max(_LEAST_WORDS, widths[at] - excess))
    return widths


def one_screen(pages: Sequence[Page], *, lines: int = 40) -> list[Page]:
    """Return pages with as many rows in each table as fill a screen of `lines` lines.

    A table keeps at least five rows, and needs about four lines for its title, head and notes.
    """
    tables = sum(len(page.tables) for page in pages)
    return [page.shortened(max(5, lines // max(tables, 1) - 4)) for page in pages]


def as_text(pages: Sequence[Page], *, headline: str = "") -> str:
    """Return what a terminal of 120 columns would show, without colours."""
    return text_of(lambda console: print_pages(pages, console, headline=headline), width=120)


def text_of(show: Callable[[Console], None], *, width: int) -> str:
    """Return what a function prints on a console of a width, without colours."""
    out = io.StringIO()
    show(Console(file=out, width=width, color_system=None))
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().split("\n"))

"""Tables of values, and their only renderer: text, Markdown, LaTeX, CSV and JSON.

A table's cells are values. Its columns know how to show them, and what a record of them holds: the
formats that people read show the first, CSV and JSON hold the second. Whatever a cell holds, it
stays text in each format, and no number is ever cut.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import wrap
from typing import Any, Literal, NamedTuple

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.text import Text

from capeval.errors import UsageError
from capeval.files import csv_formulas
from capeval.files.jsonl import dumps
from capeval.reporting.numbers import (
    NOTHING,
    bounded,
    coefficient,
    p_value,
    percent,
    plain_number,
    points,
    share,
    thousands,
)
from capeval.text import counted, one_line

Format = Literal["table", "markdown", "latex", "csv", "json"]

FORM_OF_SUFFIX: dict[str, Format] = {
    ".csv": "csv",
    ".json": "json",
    ".md": "markdown",
    ".tex": "latex",
    ".txt": "table",
}

# A note or signature that is longer is cut: nobody reads more, and it may come from a hostile file.
_LONGEST = 2000

# ---- Values ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """How the values of a column are shown, and the fields of a record that they become.

    Attributes
    ----------
    show : the part of the text that is marked where it is the best of its column
    before, after : the text around it, such as precision and recall, or an interval
    parts : fields of a record, by what is added to the column's key
    """

    show: Callable[[Any], str] = str
    before: Callable[[Any], str] = lambda _: ""
    after: Callable[[Any], str] = lambda _: ""
    parts: Callable[[Any], Mapping[str, Any]] = lambda value: {"": value}


def _ends(of: Any, number: Callable[[float | None], str] = percent) -> str:
    if of.value is None:
        return ""
    if of.low is None or of.high is None:
        return f" [{NOTHING}]"
    return f" [{number(of.low)}, {number(of.high)}]"


def _bounds(of: Any) -> Mapping[str, Any]:
    return {"": of.value, "_low": of.low, "_high": of.high}


def bounded_kind(number: Callable[[float | None], str]) -> Kind:
    """Return the kind of values with `value`, `low` and `high`, as a function shows numbers."""
    return Kind(lambda of: number(of.value), after=lambda of: _ends(of, number), parts=_bounds)


TEXT = Kind()
PERCENT = Kind(percent)
COUNT = Kind(thousands)
VALUE = Kind(lambda of: percent(of.value), parts=_bounds)
"""A value without its interval, in percent."""
INTERVAL = bounded_kind(percent)
"""A value with its interval, in percent."""
POINTS = Kind(points)
POINTS_INTERVAL = bounded_kind(points)
"""A difference with its interval, in points."""
P_VALUE = Kind(p_value)
COEFFICIENT = Kind(coefficient)
BOUNDED = Kind(lambda of: bounded(of.value, of.low, of.high), parts=_bounds)
"""A coefficient with its interval, if it has one."""
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
        | {".n": of.n}
    ),
)
"""Precision, recall and F1 in percent."""
F1 = replace(PRF, before=lambda _: "")
"""The same of which F1 alone is shown."""


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
        """Return what a cell shows; a value that is None is a dash."""
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
    """A cell that has more than its value.

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
        """The headings."""
        return [column.heading for column in self.columns]

    def shown(self, row: Row) -> list[Shown]:
        """Return the cells of a row as text; a heading over rows is one cell."""
        if len(row) == 1:
            return [Shown(text=str(row[0]))]
        return [column.shown(cell) for column, cell in zip(self.columns, row, strict=True)]

    def records(self) -> list[dict[str, Any]]:
        """Return the values of each row by the keys of the columns, those of headings left out."""
        return [
            {
                (column.key or column.heading) + part: value
                for column, cell in zip(self.columns, row, strict=True)
                for part, value in _parts(column.kind, cell).items()
            }
            for row in self.rows
            if len(row) > 1 or len(self.columns) == 1
        ]

    def widths(self) -> list[int]:
        """Return how wide each column is where nothing is broken."""
        return [max(map(cell_len, "\n".join(of).split("\n"))) for of in self._texts()]

    def fit(self, room: float, gap: float) -> list[int] | None:
        """Return how wide columns must be to fit, the widest words broken; None where none can."""
        widths = self.widths()
        least = self._least()
        words = [at for at, column in enumerate(self.columns) if column.words]
        for at in sorted(words, key=lambda at: -widths[at]):
            excess = _total(widths, gap) - room
            if excess <= 0:
                return widths
            widths[at] = min(widths[at], max(least[at], int(widths[at] - excess)))
        return widths if _total(widths, gap) <= room else None

    def split(self, room: float, gap: float) -> list[Table]:
        """Return this table, or several with the same rows where its columns do not fit.

        Each begins with the columns that say what a row is about: all up to the last of words.
        """
        if self.fit(room, gap) is not None:
            return [self]
        widths, least = self.widths(), self._least()
        lead = max((at for at, column in enumerate(self.columns, 1) if column.words), default=1)
        left = _total(least[:lead], gap)
        groups: list[list[int]] = []
        used = room + 1
        for at in range(lead, len(widths)):
            used += gap + widths[at]
            if used > room:
                groups.append([])
                used = left + gap + widths[at]
            groups[-1].append(at)
        parts = [self.only([*range(lead), *group]) for group in groups]
        for part in parts[1:]:
            part.title += " (continued)"
        for part in parts[:-1]:
            part.note = ""
        return parts or [self]

    def only(self, places: Sequence[int]) -> Table:
        """Return a table of some of the columns."""
        rows = [[row[at] for at in places] if len(row) > 1 else row for row in self.rows]
        return replace(self, columns=[self.columns[at] for at in places], rows=rows)

    def known(self) -> Table:
        """Return the table without columns in which nothing is known."""
        rows = [[_value(cell) for cell in row] for row in self.rows if len(row) > 1]
        cells = enumerate(zip(*rows, strict=True))
        kept = [at for at, of in cells if any(value is not None for value in of)]
        return self.only(kept)

    def _texts(self) -> list[list[str]]:
        """Return the texts of each column: its heading, and the cells."""
        rows = [self.shown(row) for row in self.rows if len(row) > 1]
        return [
            [column.heading, column.under, *(str(row[at]) for row in rows)]
            for at, column in enumerate(self.columns)
        ]

    def _least(self) -> list[int]:
        """Return how narrow each column can be: words are broken, numbers are not."""
        least = self.widths()
        for at, (column, texts) in enumerate(zip(self.columns, self._texts(), strict=True)):
            if column.words:
                pieces = [cell_len(p.rstrip()) for text in texts for p in _PIECE.findall(text)]
                least[at] = min(max(pieces, default=0), _LEAST_WORDS)
        return least


# Words are not broken into lines narrower than this: shorter ones are hard to read.
_LEAST_WORDS = 16
_PIECE = re.compile(r"[^\s/_@:-]*[/_@:-]+\s*|[^\s/_@:-]+\s*")


def _total(widths: Sequence[int], gap: float) -> float:
    return sum(widths) + gap * (len(widths) - 1)


def _value(cell: Any) -> Any:
    return cell.value if isinstance(cell, Cell) else cell


def _parts(kind: Kind, cell: object) -> Mapping[str, Any]:
    value = _value(cell)
    return {"": None} if value is None else kind.parts(value)


def columns(*headings: str | tuple[str, Kind], words: int = 1) -> list[Column]:
    """Return columns of which the first are of words and the others of numbers, or of a kind.

    >>> [(one.heading, one.words) for one in columns("Run", ("F1", PERCENT))]
    [('Run', True), ('F1', False)]
    """
    pairs = ((one, TEXT) if isinstance(one, str) else one for one in headings)
    return [Column(heading, at < words, kind=kind) for at, (heading, kind) in enumerate(pairs)]


def table_of(title: str, found: Sequence[tuple[Column, Sequence[Any]]], note: str = "") -> Table:
    """Return a table from columns with their cells."""
    rows: list[Row] = list(zip(*(cells for _, cells in found), strict=True))
    return Table(title, [column for column, _ in found], rows, note)


def marked(column: Column, values: Sequence[Any], ranked: Sequence[bool]) -> list[Cell]:
    """Return cells of which the best and the second best of the ranked rows are marked.

    What is equal as printed is equal; a row that is alone is not the best.
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
    """Tables that are read together, and what is said about all of them.

    Attributes
    ----------
    title : a heading above them
    about : what was measured; every caption of a LaTeX table repeats it
    remarks : what must be known of a row, by its number from 0; only with this row
    notes : how to read the tables
    warnings : what a reader must know; with the remarks printed below every table in LaTeX
    signatures : lines to be copied, which are never wrapped
    """

    tables: list[Table]
    title: str = ""
    about: str = ""
    remarks: Mapping[int, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()
    signatures: Sequence[str] = ()

    def shortened(self, most: int) -> Page:
        """Return the same with at most so many rows in each table, and the number left out."""
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
    """Return a note with what was left out behind it."""
    return f"{note.rstrip('.')}. {more}" if note else more


# ---- All formats -----------------------------------------------------------------------------


def form_for(path: Path, form: Format) -> Format:
    """Return the format in which a file is written: by its suffix, or the one that was chosen.

    Raises
    ------
    UsageError
        Another format than the suffix's was chosen ("table" is the default, and no choice).
    """
    of_suffix = FORM_OF_SUFFIX.get(path.suffix.lower(), form)
    if form not in ("table", of_suffix):
        raise UsageError(
            f"--out: {path} has the suffix of another format than --format {form}; choose another "
            "name, or omit --format"
        )
    return of_suffix


def rendered(pages: Sequence[Page], form: Format, *, headline: str = "") -> str:
    """Return pages of tables as text in a format; the headline is for a terminal alone."""
    match form:
        case "table":
            return as_text(pages, headline=headline)
        case "markdown":
            return "\n\n".join(map(_markdown, pages))
        case "latex":
            return "\n\n".join(map(_latex, pages))
        case "csv":
            return csv_text(records(pages))
        case "json":
            return dumps(records(pages), indent=1)


def records(pages: Sequence[Page]) -> list[dict[str, Any]]:
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
    keys = dict.fromkeys(key for record in found for key in record)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(_csv_cell, keys))
    writer.writerows([_csv_cell(record.get(key)) for key in keys] for record in found)
    return out.getvalue().rstrip("\n")


def _csv_cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    return csv_formulas.escape(one_line(str(value), _LONGEST))


# ---- Text in a terminal ----------------------------------------------------------------------

_PLACES = {0: "", 1: "bold", 2: "underline"}

# A narrower terminal wraps sentences itself.
_LEAST_SENTENCE = 40

# Lines that fill a screen, and the rows that a table keeps even if it takes more than one.
_SCREEN, _FEWEST_ROWS = 40, 5


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
        for line in (*page.remarks.values(), *page.notes):
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
        one_line(text, _LONGEST),
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
        gap = 2 if _total(part.widths(), 2) <= room else 1
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


def one_screen(
    pages: Sequence[Page], width: int, *, headline: str = "", lines: int = _SCREEN
) -> list[Page]:
    """Return pages with as many rows in each table as fill a screen of a width."""
    rows = [len(table.rows) for page in pages for table in page.tables]
    most = max(rows, default=0)
    bare = _height([page.shortened(0) for page in pages], width, headline)
    if _height(pages, width, headline) < lines:
        return [*pages]
    # Rows take at least a line each; names that are broken, and remarks, take more.
    while most > _FEWEST_ROWS and bare + sum(min(n, most) for n in rows) >= lines:
        most -= 1
    shortened = [page.shortened(most) for page in pages]
    while most > _FEWEST_ROWS and not fits_screen(shortened, width, headline=headline, lines=lines):
        most -= 1
        shortened = [page.shortened(most) for page in pages]
    return shortened


def fits_screen(
    pages: Sequence[Page], width: int, *, headline: str = "", lines: int = _SCREEN
) -> bool:
    """Return whether all of the pages fills no more than a screen of a width."""
    return _height(pages, width, headline) < lines


def _height(pages: Sequence[Page], width: int, headline: str) -> int:
    return as_text(pages, headline=headline, width=width).count("\n")


def as_text(pages: Sequence[Page], *, headline: str = "", width: int = 120) -> str:
    """Return what a terminal of a width would show, without colours."""
    out = io.StringIO()
    print_pages(pages, Console(file=out, width=width, color_system=None), headline=headline)
    return out.getvalue().rstrip("\n")


def _lines(table: Table, widths: Sequence[int], gap: int, room: int) -> Iterator[Text]:
    if any(table.header):
        for head in (table.header, [column.under for column in table.columns]):
            if any(head):
                shown = [Shown(text=text, style="bold") for text in head]
                yield from _row(table, shown, widths, gap)
        yield Text("─" * int(_total(widths, gap)))
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
    >>> broken("lexical-1:precision", 16)
    ['lexical-1:', 'precision']
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
    sentences = (*page.remarks.values(), *page.notes, *page.warnings)
    points = [_md(one_line(line, _LONGEST)) for line in sentences]
    points += [_md_code(one_line(line, _LONGEST)) for line in page.signatures]
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

# Digits that fit the text of a 10-point article (345 points) in a size of type, and how many of
# them the space between two columns takes.
_SIZES = (
    (r"\normalsize", 69, 2.4),
    (r"\footnotesize", 81, 1.5),
    (r"\scriptsize", 86, 1.5),
)
_NARROW_SPACE = r"\setlength{\tabcolsep}{3pt}"
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


def _latex(page: Page) -> str:
    lines = [page.title, page.about, *page.notes, *page.signatures]
    # A comment ends with its line: nothing in it can become code.
    comments = "\n".join(f"% {one_line(line, _LONGEST)}" for line in lines if line)
    _, room, gap = _SIZES[-1]
    parts = [part for table in page.tables for part in table.split(room - gap, gap)]
    return "\n\n".join(filter(None, [comments, *(_latex_table(part, page) for part in parts)]))


def _latex_table(table: Table, page: Page) -> str:
    size, widths, share_of_text = _latex_size(table)

    def shown(width: int, cell: Shown) -> str:
        lines = str(cell).split("\n")
        if max(map(cell_len, lines)) > width:
            text = r"\newline ".join(map(_tex_breakable, lines))
            return (
                rf"\parbox[t]{{{plain_number(round(width * share_of_text, 2))}\linewidth}}"
                rf"{{\raggedright\strut {text}\strut}}"
            )
        if len(lines) > 1:
            return r"\begin{tabular}[t]{@{}l@{}}" + r" \\ ".join(map(tex, lines)) + r"\end{tabular}"
        return _tex_cell(cell)

    heads = [table.header, [column.under for column in table.columns]]
    lines = []
    for number, row in enumerate(table.rows):
        cells = table.shown(row)
        if len(cells) == len(widths):
            lines.append(" & ".join(map(shown, widths, cells)) + r" \\")
            continue
        over = rf"\multicolumn{{{len(widths)}}}{{l}}{{\textit{{{tex(str(cells[0]))}}}}}"
        lines.append((r"\addlinespace" + "\n" if number else "") + over + r" \\")
    about = f" ({_tex_breakable(one_line(page.about, _LONGEST))})" if page.about else ""
    sentences = filter(None, (table.note, *page.remarks.values(), *page.warnings))
    notes = [tex(one_line(line.removesuffix("."), _LONGEST)) + r".\par" for line in sentences]
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{tex(table.title)}{about}}}",
            *(() if size == _SIZES[0][0] else (size, _NARROW_SPACE)),
            rf"\begin{{tabular}}{{{''.join('l' if c.words else 'r' for c in table.columns)}}}",
            r"\toprule",
            *(" & ".join(map(_tex_number, head)) + r" \\" for head in heads if any(head)),
            r"\midrule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
            *((r"\par\smallskip", r"\raggedright\footnotesize", *notes) if notes else ()),
            r"\end{table}",
        ]
    )


def _latex_size(table: Table) -> tuple[str, list[int], float]:
    """Return the size of type, the widths of the columns, and the share of the text of a digit."""
    natural = table.widths()
    for size, room, gap in _SIZES:
        if sum(natural) + gap * len(natural) <= room:
            return size, natural, 1 / room
    size, room, gap = _SIZES[-1]
    return size, table.fit(room - gap, gap) or natural, 1 / room


def _tex_cell(cell: Shown) -> str:
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

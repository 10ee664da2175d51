"""Tables as values: what they say, apart from the format that shows it.

`terminal.py` prints them and `formats.py` writes them as Markdown, LaTeX, CSV or JSON. Every
command builds its tables from these classes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from rich.cells import cell_len, chop_cells

from capeval.text import counted

LEAST_WORDS = 16
"""Words are not broken into lines narrower than this: shorter ones are hard to read."""

_PIECE = re.compile(r"[^\s/_@:-]*[/_@:-]+\s*|[^\s/_@:-]+\s*")


@dataclass(frozen=True)
class Column:
    """A column of numbers, or of words.

    Attributes
    ----------
    words : left-aligned, and broken over lines where there is no room; numbers are never broken
    under : a second line of the heading, such as a number of videos
    """

    heading: str
    words: bool = False
    under: str = ""


@dataclass(frozen=True)
class Cell:
    """A cell that has more than its text.

    Attributes
    ----------
    before, after : text around the part that is marked, such as precision and recall before F1
    place : 1 where the number is the best of its column, 2 where it is the second best
    notes : numbers of footnotes
    style : of the text in a terminal
    """

    text: str
    before: str = ""
    after: str = ""
    place: int = 0
    notes: tuple[int, ...] = ()
    style: str = ""

    def __str__(self) -> str:
        return self.before + self.text + raised(self.notes) + self.after


Row = Sequence[Cell | str]


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

    @property
    def lead(self) -> int:
        """How many columns say what a row is about: all up to the last one of words."""
        return max((at for at, column in enumerate(self.columns, 1) if column.words), default=1)

    def cells(self) -> Iterator[tuple[int, str]]:
        """Yield the number of the column and the text of every heading and cell."""
        for at, column in enumerate(self.columns):
            yield at, column.heading
            yield at, column.under
        for row in self.rows:
            if len(row) > 1:
                yield from ((at, str(cell)) for at, cell in enumerate(row))

    def widths(self) -> list[int]:
        """Return how wide each column is where nothing is broken."""
        widths = [0] * len(self.columns)
        for at, text in self.cells():
            widths[at] = max(widths[at], *map(cell_len, text.split("\n")))
        return widths

    def natural_width(self, gap: float) -> float:
        """Return how wide the table is with gaps between columns and nothing broken."""
        return sum(self.widths()) + gap * (len(self.columns) - 1)

    def fit(self, room: float, gap: float) -> list[int] | None:
        """Return how wide columns must be to fit, the widest words broken; None where none can."""
        widths = self.widths()
        words = [at for at, column in enumerate(self.columns) if column.words]
        for at in sorted(words, key=lambda at: -widths[at]):
            excess = sum(widths) + gap * (len(widths) - 1) - room
            if excess <= 0:
                return widths
            widths[at] = min(widths[at], max(self._least(at), int(widths[at] - excess)))
        return widths if sum(widths) + gap * (len(widths) - 1) <= room else None

    def _least(self, column: int) -> int:
        pieces = (
            cell_len(piece.rstrip())
            for at, text in self.cells()
            if at == column
            for piece in _PIECE.findall(text)
        )
        return min(max(pieces, default=0), LEAST_WORDS)

    def split(self, room: float, gap: float) -> list[Table]:
        """Return this table, or several with the same rows where its columns do not fit."""
        if self.fit(room, gap) is not None:
            return [self]
        widths = self.widths()
        lead = self.lead
        left = sum(
            self._least(at) if self.columns[at].words else widths[at] for at in range(lead)
        ) + gap * (lead - 1)
        groups: list[list[int]] = []
        used = room + 1
        for at in range(lead, len(widths)):
            used += gap + widths[at]
            if used > room:
                groups.append([])
                used = left + gap + widths[at]
            groups[-1].append(at)
        last = len(groups) - 1
        return [
            self._of_columns(
                [*range(lead), *group],
                title=self.title + (" (continued)" if number else ""),
                note=self.note if number == last else "",
            )
            for number, group in enumerate(groups)
        ] or [self]

    def _of_columns(self, places: Sequence[int], *, title: str, note: str) -> Table:
        return Table(
            title,
            [self.columns[at] for at in places],
            [[row[at] for at in places] if len(row) > 1 else row for row in self.rows],
            note,
        )


@dataclass
class Page:
    """Tables that are read together, and what is said about all of them.

    Attributes
    ----------
    title : a heading above them
    about : what was measured; every caption of a LaTeX table repeats it
    footnotes : what the raised numbers in cells mean, from 1
    notes : how to read the tables
    warnings : what a reader must know; printed below every table in LaTeX
    signatures : lines to be copied, which are never wrapped
    """

    tables: list[Table]
    title: str = ""
    about: str = ""
    footnotes: Sequence[str] = ()
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()
    signatures: Sequence[str] = ()

    def shortened(self, most: int) -> Page:
        """Return the same with at most so many rows in each table, and the number left out.

        Footnotes of the rows left out become empty; the others keep their numbers.
        """
        tables = []
        for table in self.tables:
            left = len(table.rows) - most
            if left > 0:
                more = f"{counted(left, 'more row')}: --full"
                note = f"{table.note.rstrip('.')}. {more}" if table.note else more
                table = replace(table, rows=table.rows[:most], note=note)  # noqa: PLW2901
            tables.append(table)
        cells = (cell for table in tables for row in table.rows for cell in row)
        used = {n for cell in cells if isinstance(cell, Cell) for n in cell.notes}
        notes = [line if n in used else "" for n, line in enumerate(self.footnotes, start=1)]
        return replace(self, tables=tables, footnotes=notes)


def columns(*headings: str, words: int = 1) -> list[Column]:
    """Return columns of which the first are of words and the others of numbers.

    >>> [(one.heading, one.words) for one in columns("Run", "F1")]
    [('Run', True), ('F1', False)]
    """
    return [Column(heading, at < words) for at, heading in enumerate(headings)]


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


def raised(notes: Sequence[int]) -> str:
    """Return the numbers of footnotes, raised.

    >>> raised((1, 12))
    '¹,¹²'
    """
    return ",".join(map(str, notes)).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))

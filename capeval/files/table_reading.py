"""Reading tables that people keep: CSV with any usual delimiter, JSON lines or a JSON list."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, overload

import numpy as np

from capeval.errors import InputError
from capeval.files.reading import parse_json, read_text
from capeval.files.tables import CONTROL, Table
from capeval.text import nearest, shown

_CHUNK = 1 << 16


def read_table(path: Path | str) -> Table:
    """Read a table; JSON is told by its first character, the delimiter of CSV by its header.

    Raises
    ------
    InputError
        The file cannot be read, or a row has not the header's fields.
    """
    path = Path(path)
    text = read_text(path)
    return _of_json(path, text) if text.lstrip()[0] in "{[" else _of_text(path, text)


def _of_text(path: Path, text: str) -> Table:
    delimiter = delimiter_of(text)
    simple = _plain(path, text, delimiter)
    if simple is not None:
        return simple
    header: list[str] | None = None
    at = 1
    columns: list[list[str]] = []
    lines: list[int] = []
    with long_cells(text):
        for chunk in rows_of(path, text, delimiter):
            rows, numbers = chunk
            if header is None:
                first = next((n for n, row in enumerate(rows) if any(row)), None)
                if first is None:
                    continue
                header, at = [name.strip() for name in rows[first]], numbers[first]
                _distinct(header, path, at)
                columns = [[] for _ in header]
                rows, numbers = rows[first + 1 :], numbers[first + 1 :]
            if not (set(map(len, rows)) <= {len(header)} and all(row[0].strip() for row in rows)):
                rows, numbers = _whole_rows(path, (rows, numbers), len(header))
            # By columns at once: a million small lists would be walked by every garbage collection.
            for column, cells in zip(columns, zip(*rows, strict=True), strict=False):
                column.extend(cells)
            lines.extend(numbers)
    if header is None or not lines:
        raise InputError("holds a header and no rows", file=path)
    return Table(path, dict(zip(header, columns, strict=True)), lines, at)


def _plain(path: Path, text: str, delimiter: str) -> Table | None:
    """Return a table without quotes, blank or ragged lines, a million rows a second; or None."""
    if '"' in text:
        return None
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    header_line = first_line(text)
    if "\r" in text or not text.startswith(header_line):
        return None
    text = text.rstrip("\n") + "\n"
    header = [name.strip() for name in header_line.split(delimiter)]
    width = len(header)
    columns: list[list[str]] = [[] for _ in header]
    at = len(header_line) + 1
    # So few lines at a time that their cells are still at hand when they are dealt out.
    while at < len(text):
        end = text.find("\n", at + _CHUNK) + 1 or len(text)
        some = text[at:end]
        if not _is_grid(some, width, delimiter):
            return None
        cells = some.replace("\n", delimiter).split(delimiter)
        for number, column in enumerate(columns):
            column.extend(cells[number:-1:width])
        at = end
    # A row may be blank only where its first cell is.
    if not columns[0] or not all(map(str.strip, columns[0])):
        return None
    _distinct(header, path, 1)
    return Table(path, dict(zip(header, columns, strict=True)), range(2, len(columns[0]) + 2))


def _is_grid(lines: str, width: int, delimiter: str) -> bool:
    """Say whether each line, of which the last is ended too, has `width` cells."""
    data = np.frombuffer(lines.encode("utf-8"), dtype=np.uint8)
    marks = data[(data == ord(delimiter)) | (data == ord("\n"))]
    if len(marks) % width:
        return False
    ends = (marks == ord("\n")).reshape(-1, width)
    return bool(ends[:, -1].all() and not ends[:, :-1].any())


def _whole_rows(path: Path, some: Rows, width: int) -> Rows:
    """Return the rows that are not blank; all must be as wide as the header."""
    rows, lines = some
    kept = [at for at, row in enumerate(rows) if any(cell.strip() for cell in row)]
    for at in kept:
        if len(rows[at]) != width:
            raise InputError(
                f"has {len(rows[at])} fields where the header has {width}",
                file=path,
                where=f"line {lines[at]}",
            )
    return [rows[at] for at in kept], [lines[at] for at in kept]


def _distinct(header: Sequence[str], path: Path, line: int) -> None:
    for name in header:
        what = ""
        if not name:
            what = "the header has an unnamed column"
        elif header.count(name) > 1:
            what = f"the column {shown(name)} stands twice"
        elif CONTROL.search(name):
            what = f"the column {shown(name)} has a control character in its name"
        if what:
            raise InputError(what, file=path, where=f"line {line}")


def _of_json(path: Path, text: str) -> Table:
    lines: Sequence[int]
    if text.lstrip()[0] == "[":
        records = parse_json(text, file=path)
        lines = _ListLines(text, len(records))
    else:
        found = _json_lines(path, text)
        records, lines = [record for _, record in found], [line for line, _ in found]
    if not records:
        raise InputError("holds no records", file=path)
    names: dict[str, None] = {}
    for row, record in enumerate(records):
        if not isinstance(record, dict):
            raise InputError(
                f"must be a JSON object, not {shown(record)}", file=path, where=f"line {lines[row]}"
            )
        names.update(dict.fromkeys(record))
    columns = {name: [record.get(name) for record in records] for name in names}
    return Table(path, columns, lines, None)


def _json_lines(path: Path, text: str) -> list[tuple[int, Any]]:
    found: list[tuple[int, Any]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            found.append((number, parse_json(line, file=path, line=number)))
        except InputError:
            if not found:
                _refuse_one_object(path, text)
            raise
    return found


def _refuse_one_object(path: Path, text: str) -> None:
    """Say so where a file is no JSON lines because it is one object over many."""
    try:
        parse_json(text, file=path)
    except InputError:
        return
    raise InputError(
        "is one JSON object over several lines; records must be JSON lines, a JSON list or CSV",
        file=path,
    )


@dataclass(frozen=True)
class _ListLines(Sequence[int]):
    """The lines that the entries of a JSON list begin on, looked for when they are asked for."""

    text: str
    size: int

    @overload
    def __getitem__(self, row: int) -> int: ...

    @overload
    def __getitem__(self, row: slice) -> Sequence[int]: ...

    def __getitem__(self, row: int | slice) -> int | Sequence[int]:
        return self._lines[row]

    def __len__(self) -> int:
        return self.size

    @cached_property
    def _lines(self) -> list[int]:
        decoder = json.JSONDecoder()
        lines: list[int] = []
        at, line, counted = self.text.index("[") + 1, 1, 0
        while len(lines) < self.size:
            while self.text[at] in " \t\r\n,":
                at += 1
            line += self.text.count("\n", counted, at)
            counted = at
            lines.append(line)
            at = decoder.raw_decode(self.text, at)[1]
        return lines


_ROWS_AT_ONCE = 20_000
_QUOTED = re.compile(r'"[^"]*"')
_LINE = re.compile(r"[^\r\n]+")

Rows = tuple[list[list[str]], Sequence[int]]
"""Some rows, and the line from 1 that each begins on; blank lines are rows without cells."""

_FAULTS = {
    "unexpected end of data": "a quote that opens here is never closed",
    "expected after": "a quote inside a quoted cell must stand twice",
}


def delimiter_of(text: str) -> str:
    r"""Return the delimiter of a table, of comma, semicolon and tab that which its header has most.

    >>> delimiter_of("a;b\n1,5;2"), delimiter_of('"a;b;c",d'), delimiter_of("a")
    (';', ',', ',')
    """
    header = _QUOTED.sub("", first_line(text))
    return max(",;\t", key=header.count)


def first_line(text: str) -> str:
    r"""Return the first line that is not empty, without a copy of all the others.

    >>> first_line("\n\na,b\n1,2"), first_line("a,b\r1,2")
    ('a,b', 'a,b')
    """
    found = _LINE.search(text)
    return found[0] if found else ""


@contextmanager
def long_cells(text: str) -> Iterator[None]:
    """Let a cell be as long as the text; the usual limit is the interpreter's, and put back."""
    limit = csv.field_size_limit(len(text) + 1)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def rows_of(path: Path, text: str, delimiter: str) -> Iterator[Rows]:
    """Yield the rows, many at a time; to be used within `long_cells`.

    Raises
    ------
    InputError
        A quote is not right; the line is that on which its row begins.
    """
    # Kept as it is: a line break inside quotes belongs to its cell.
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    one_line_each = '"' not in text
    while True:
        start = reader.line_num + 1
        numbers: Sequence[int]
        fault = None
        if one_line_each:
            rows = list(islice(reader, _ROWS_AT_ONCE))
            numbers = range(start, start + len(rows))
        else:
            rows, numbers, fault = _numbered(path, reader)
        if rows:
            yield rows, numbers
        # What is wrong further up is told first.
        if fault:
            raise fault
        if not rows:
            return


def _numbered(path: Path, reader: Any) -> tuple[list[list[str]], list[int], InputError | None]:
    rows: list[list[str]] = []
    numbers: list[int] = []
    start = reader.line_num + 1
    try:
        for row in islice(reader, _ROWS_AT_ONCE):
            rows.append(row)
            numbers.append(start)
            start = reader.line_num + 1
    except csv.Error as fault:
        told = next((told for part, told in _FAULTS.items() if part in str(fault)), str(fault))
        where = f"line {start}"
        return rows, numbers, InputError(f"is not CSV ({told})", file=path, where=where)
    return rows, numbers, None


def read_spreadsheet(
    path: Path | str, needed: Sequence[str], optional: Sequence[str] = ()
) -> Table:
    """Read a table that has been through a spreadsheet.

    Unlike `capeval.files.table_reading.read_table` it lowers headers, fills up rows that end
    early, and lets other columns be; there may be no rows.

    Parameters
    ----------
    needed : columns that must be there, once
    optional : columns that may be there, once

    Raises
    ------
    InputError
        The file is no CSV, or a needed column is missing or doubled.
    """
    path = Path(path)
    text = read_text(path)
    rows: list[list[str]] = []
    lines: list[int] = []
    with long_cells(text):
        for some, numbers in rows_of(path, text, delimiter_of(text)):
            for row, line in zip(some, numbers, strict=True):
                if any(cell.strip() for cell in row):
                    rows.append(row)
                    lines.append(line)
    names = [name.strip().lower() for name in rows[0]]
    for name in (*needed, *optional):
        if names.count(name) > 1 or (name in needed and name not in names):
            message = (
                f"the column {shown(name)} stands twice"
                if name in names
                else f"the column {shown(name)} is missing{nearest(name, names)}"
            )
            raise InputError(message, file=path, where=f"line {lines[0]}")
    columns = {
        name: [row[at] if at < len(row) else "" for row in rows[1:]]
        for at, name in enumerate(names)
    }
    return Table(path, columns, lines[1:], lines[0])

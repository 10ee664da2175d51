"""Read a table: CSV with any usual delimiter, TSV, XLSX, JSON lines or a JSON list."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from capeval.errors import InputError
from capeval.files.reading import json_lines, parse_json, read_text
from capeval.files.tables import InputTable
from capeval.files.workbook import is_workbook, read_sheet
from capeval.text import shown

# Characters that are split at once: their cells are still in the processor's cache when they are
# distributed to the columns.
_CHUNK = 1 << 16
# Rows that the csv module reads at once: enough to make the work for each chunk negligible.
_ROWS_AT_ONCE = 20_000

_QUOTED = re.compile(r'"[^"]*"')
_LINE = re.compile(r"[^\r\n]+")

_OF_WMT = {"SYS", "SID", "RAW.SCR"}

_QUOTE_ERRORS = {
    "unexpected end of data": "a quote that opens here is never closed",
    "expected after": "a quote inside a quoted cell must be doubled",
}

_Rows = tuple[list[list[str]], Sequence[int]]
"""Some rows, and the line from 1 that each begins on; blank lines are rows without cells."""


def read_table(
    path: Path | str, fits: Callable[[Collection[str]], bool] | None = None
) -> InputTable:
    """Read a table: a workbook, JSON if its first character is JSON's, else CSV.

    Of several sheets of a workbook, it reads the one whose header `fits`.
    """
    path = Path(path)
    if is_workbook(path):
        table = _of_workbook(path, fits)
        if not table:
            raise table.error("has no rows below its header")
        return table
    text = read_text(path)
    if text.lstrip()[0] in "{[":
        return _of_json(path, text)
    delimiter = _delimiter_of(text)
    plain = _of_plain_text(path, text, delimiter)
    return _of_text(path, text, delimiter) if plain is None else plain


def read_spreadsheet(
    path: Path | str, needed: Collection[str], optional: Collection[str] = ()
) -> InputTable:
    """Read the `needed` and `optional` columns of CSV that was edited in a spreadsheet.

    Unlike `read_table`, it ignores the case of column names, pads rows that end early, and accepts
    a table without rows.
    """
    path = Path(path)
    read = {*needed, *optional}
    if is_workbook(path):
        table = _of_workbook(path, lambda header: read & {*map(str.lower, header)} >= {*needed})
        names = [name.lower() for name in table.columns]
        if len({*names}) < len(names):
            twice = {name for name in names if names.count(name) > 1}
            table = replace(table, duplicated=table.duplicated | twice)
        columns = dict(zip(names, table.columns.values(), strict=True))
        table = replace(table, columns=columns)
        table.check_header(read)
        for name in read & columns.keys():
            for row, value in enumerate(columns[name]):
                table.check_readable(value, row, name)
    else:
        text = read_text(path)
        table = _of_text(path, text, _delimiter_of(text), read)
    table.require(needed)
    return table


def _of_workbook(path: Path, fits: Callable[[Collection[str]], bool] | None) -> InputTable:
    sheet = read_sheet(path, fits)
    return InputTable(
        path,
        dict(zip(sheet.header, sheet.columns, strict=True)),
        sheet.rows,
        sheet.header_row,
        sheet=sheet.name,
        duplicated=_duplicated(sheet.header),
        unnamed=sheet.unnamed,
        ignored=sheet.ignored,
    )


def _duplicated(header: Sequence[str]) -> frozenset[str]:
    return frozenset(name for name, count in Counter(header).items() if count > 1)


def _of_text(
    path: Path, text: str, delimiter: str, edited: Collection[str] | None = None
) -> InputTable:
    """Read any CSV; `edited` are the columns that are read of one edited in a spreadsheet."""
    header: list[str] | None = None
    at = 1
    columns: list[list[str]] = []
    lines: list[int] = []
    with _long_cells(text):
        for chunk in _rows_of(path, text, delimiter):
            rows, numbers = chunk
            if header is None:
                full = (any(row if edited is None else map(str.strip, row)) for row in rows)
                first = next((n for n, is_full in enumerate(full) if is_full), None)
                if first is None:
                    continue
                header, at = [name.strip() for name in rows[first]], numbers[first]
                if edited is not None:
                    header = [name.lower() for name in header]
                columns = [[] for _ in header]
                rows, numbers = rows[first + 1 :], numbers[first + 1 :]
            rows, numbers = _fitted(path, (rows, numbers), len(header), pad=edited is not None)
            # By columns at once: a million small lists would be walked by every garbage collection.
            for column, cells in zip(columns, zip(*rows, strict=True), strict=False):
                column.extend(cells)
            lines.extend(numbers)
    if header is None or not (lines or edited is not None):
        raise InputError("has no rows below its header", file=path)
    table = _of_columns(path, header, columns, lines, at)
    if edited is not None:
        table.check_header(edited)
    return table


def _of_plain_text(path: Path, text: str, delimiter: str) -> InputTable | None:
    """Read CSV without quotes and blank or ragged lines, a million rows a second; else None."""
    if '"' in text:
        return None
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    header_line = _first_line(text)
    if "\r" in text or not text.startswith(header_line):
        return None
    text = text.rstrip("\n") + "\n"
    header = [name.strip() for name in header_line.split(delimiter)]
    width = len(header)
    columns: list[list[str]] = [[] for _ in header]
    at = len(header_line) + 1
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
    return _of_columns(path, header, columns, range(2, len(columns[0]) + 2), 1)


def _is_grid(lines: str, width: int, delimiter: str) -> bool:
    """Return whether each line, including the last, ends in a line break and has `width` cells."""
    data = np.frombuffer(lines.encode("utf-8"), dtype=np.uint8)
    marks = data[(data == ord(delimiter)) | (data == ord("\n"))]
    if len(marks) % width:
        return False
    ends = (marks == ord("\n")).reshape(-1, width)
    return bool(ends[:, -1].all() and not ends[:, :-1].any())


def _fitted(path: Path, some: _Rows, width: int, *, pad: bool) -> _Rows:
    """Return the rows that are not blank, all as wide as the header: padded and cut, or refused."""
    rows, lines = some
    if set(map(len, rows)) <= {width} and all(row[0].strip() for row in rows):
        return some
    kept = [at for at, row in enumerate(rows) if any(map(str.strip, row))]
    numbers = [lines[at] for at in kept]
    if pad:
        return [(rows[at] + [""] * width)[:width] for at in kept], numbers
    for at in kept:
        if len(rows[at]) != width:
            raise InputError(
                f"has {len(rows[at])} fields where the header has {width}",
                file=path,
                where=f"line {lines[at]}",
            )
    return [rows[at] for at in kept], numbers


def _of_columns(
    path: Path, header: Sequence[str], columns: Sequence[list[str]], lines: Sequence[int], at: int
) -> InputTable:
    """Return a table of the columns that have a name."""
    found = dict(zip(header, columns, strict=True))
    unnamed = any(
        not name and any(map(str.strip, cells)) for name, cells in zip(header, columns, strict=True)
    )
    found.pop("", None)
    return InputTable(path, found, lines, at, duplicated=_duplicated(header), unnamed=unnamed)


def _of_json(path: Path, text: str) -> InputTable:
    lines: Sequence[int]
    if text.lstrip()[0] == "[":
        records = parse_json(text, file=path)
        lines = _ListLines(text, len(records))
    else:
        try:
            found = list(json_lines(text, file=path))
        except InputError:
            _refuse_single_object(path, text)
            raise
        records, lines = [record for _, record in found], [line for line, _ in found]
    if not records:
        raise InputError("has no records", file=path)
    names: dict[str, None] = {}
    for row, record in enumerate(records):
        if not isinstance(record, dict):
            raise InputError(
                f"must be a JSON object, not {shown(record)}", file=path, where=f"line {lines[row]}"
            )
        names.update(dict.fromkeys(record))
    columns = {name: [record.get(name) for record in records] for name in names}
    return InputTable(path, columns, lines, None)


def _refuse_single_object(path: Path, text: str) -> None:
    """Raise if the text is not JSON lines because it is one object over several lines."""
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
    """The lines that the entries of a JSON list begin on; only an error message needs them."""

    text: str
    size: int

    def __getitem__(self, row: Any) -> Any:
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


def _delimiter_of(text: str) -> str:
    r"""Return the delimiter: of comma, semicolon and tab the most frequent one in the header.

    WMT publishes direct assessments with spaces.

    >>> _delimiter_of("a;b\n1,5;2"), _delimiter_of('"a;b;c",d'), _delimiter_of("a")
    (';', ',', ',')
    """
    header = _QUOTED.sub("", _first_line(text))
    if {*header.split(" ")} >= _OF_WMT:
        return " "
    return max(",;\t", key=header.count)


def _first_line(text: str) -> str:
    r"""Return the first line that is not empty, without copying the rest.

    >>> _first_line("\n\na,b\n1,2"), _first_line("a,b\r1,2")
    ('a,b', 'a,b')
    """
    found = _LINE.search(text)
    return found[0] if found else ""


@contextmanager
def _long_cells(text: str) -> Iterator[None]:
    """Let a cell be as long as the text; restores the interpreter's limit."""
    limit = csv.field_size_limit(len(text) + 1)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def _rows_of(path: Path, text: str, delimiter: str) -> Iterator[_Rows]:
    """Yield the rows, many at a time; must run within `_long_cells`."""
    # Kept as it is: a line break inside quotes belongs to its cell.
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    while True:
        rows: list[list[str]] = []
        lines: list[int] = []
        error = None
        start = reader.line_num + 1
        try:
            for row in islice(reader, _ROWS_AT_ONCE):
                rows.append(row)
                lines.append(start)
                start = reader.line_num + 1
        except csv.Error as fault:
            why = str(fault)
            why = next((better for part, better in _QUOTE_ERRORS.items() if part in why), why)
            error = InputError(f"is not CSV ({why})", file=path, where=f"line {start}")
        if rows:
            yield rows, lines
        # Mistakes in the rows above are reported first.
        if error:
            raise error
        if not rows:
            return

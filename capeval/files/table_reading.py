"""Reading tables that people keep: CSV with any usual delimiter, JSON lines or a JSON list."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import numpy as np

from capeval.errors import InputError
from capeval.files.delimited import Rows, delimiter_of, first_line, long_cells, rows_of
from capeval.files.tables import CONTROL, Table
from capeval.files.text import parse_json, read_text
from capeval.files.validation import shown

__all__ = ["read_table"]

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

"""Tables that people keep: CSV, TSV or JSON lines, as columns, with the place of every row."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capeval.errors import InputError
from capeval.files.text import parse_json, read_text
from capeval.files.validation import nearest, shown

__all__ = ["Table", "read_table"]

_CHUNK = 20_000


@dataclass(frozen=True)
class Table:
    """A file's columns by name; `lines` are the rows' line numbers from 1."""

    file: Path
    columns: dict[str, list[Any]]
    lines: Sequence[int]

    def __len__(self) -> int:
        return len(self.lines)

    def fault(self, message: str, *, row: int | None = None, column: str = "") -> InputError:
        """Return the error that names this file, the line of a row and a column."""
        where = "line 1" if row is None else f"line {self.lines[row]}"
        return InputError(message, file=self.file, where=where, field=column)

    def only(self, known: Collection[str], needed: Collection[str], hint: str = "") -> None:
        """Refuse columns that are not `known`, and the lack of any `needed`.

        Raises
        ------
        InputError
            Names the column and the nearest that there is.
        """
        for name in self.columns:
            if name not in known:
                near = nearest(name, [n for n in known if n not in self.columns])
                raise self.fault(f"the column {shown(name)} is unknown{near}{hint}")
        for name in needed:
            if name not in self.columns:
                raise self.fault(
                    f"the column {shown(name)} is missing{nearest(name, list(self.columns))}"
                )

    def names(self, column: str) -> list[str]:
        """Return a column of names, without the blanks around them.

        Raises
        ------
        InputError
            A name is empty or no string.
        """
        values = self.columns[column]
        try:
            found = list(map(str.strip, values))
        except TypeError:
            found = [_name(value) for value in values]
        if not all(found):
            row = found.index("")
            value = values[row]
            message = (
                "is empty" if isinstance(value, str) else f"must be a name, not {shown(value)}"
            )
            raise self.fault(message, row=row, column=column)
        return found

    def numbers(self, column: str, *, gaps: bool = False) -> NDArray[np.float64]:
        """Return a column of finite numbers; with `gaps` an empty cell is NaN.

        Raises
        ------
        InputError
            A cell is no number, infinite, or empty.
        """
        values = self.columns[column]
        try:
            # float() takes 1_000 for a number.
            if "_" in "".join(values):
                raise ValueError
            found = np.fromiter(map(float, values), np.float64, len(values))
        except (TypeError, ValueError):
            found = np.array(
                [self._number(value, row, column, gaps) for row, value in enumerate(values)],
                dtype=np.float64,
            )
        else:
            odd = np.flatnonzero(~np.isfinite(found))
            if len(odd):
                self._number(values[odd[0]], int(odd[0]), column, gaps)
        return found

    def _number(self, value: Any, row: int, column: str, gaps: bool) -> float:
        if value is None or (isinstance(value, str) and not value.strip()):
            if gaps:
                return float("nan")
            raise self.fault("is empty", row=row, column=column)
        number = None
        if isinstance(value, str) and "_" not in value:
            try:
                number = float(value)
            except ValueError:
                number = None
        elif isinstance(value, int | float) and not isinstance(value, bool):
            number = float(value)
        if number is None or np.isnan(number):
            raise self.fault(f"{shown(value)} is not a number", row=row, column=column)
        if np.isinf(number):
            raise self.fault(f"{shown(value)} is not finite", row=row, column=column)
        return number

    def unique(self, keys: Sequence[Any], columns: str) -> None:
        """Refuse rows of the same key.

        Raises
        ------
        InputError
            Names both lines.
        """
        if len(set(keys)) == len(keys):
            return
        first: dict[Any, int] = {}
        for row, key in enumerate(keys):
            if key in first:
                told = ", ".join(str(part) for part in key if part is not None)
                raise self.fault(
                    f"{told} stands twice (line {self.lines[first[key]]} and this)",
                    row=row,
                    column=columns,
                )
            first[key] = row


def _name(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def read_table(path: Path | str) -> Table:
    """Read a table; JSON is told by its first character, TSV by a tab in its header.

    Raises
    ------
    InputError
        The file cannot be read, or a row has not the header's fields.
    """
    path = Path(path)
    text = read_text(path)
    return _of_json(path, text) if text.lstrip()[0] in "{[" else _of_text(path, text)


def _of_text(path: Path, text: str) -> Table:
    header_line = text.lstrip("\r\n").split("\n", 1)[0]
    delimiter = "\t" if "\t" in header_line else ","
    if text.startswith(header_line):
        plain = _plain(path, text, header_line, delimiter)
        if plain is not None:
            return plain
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        header = [name.strip() for name in next(row for row in reader if any(row))]
        _distinct(header, path)
        columns: list[list[str]] = [[] for _ in header]
        lines: list[int] = []
        for chunk in _chunks(reader, one_line_each='"' not in text):
            ragged = set(map(len, chunk[0])) != {len(header)}
            rows, numbers = _whole_rows(path, *chunk, len(header)) if ragged else chunk
            # By columns at once: a million small lists would be walked by every garbage collection.
            for column, cells in zip(columns, zip(*rows, strict=True), strict=False):
                column.extend(cells)
            lines.extend(numbers)
    except csv.Error as fault:
        raise InputError(str(fault), file=path, where=f"line {reader.line_num}") from None
    if not lines:
        raise InputError("holds a header and no rows", file=path)
    return Table(path, dict(zip(header, columns, strict=True)), lines)


def _plain(path: Path, text: str, header_line: str, delimiter: str) -> Table | None:
    """Return a table without quotes, blank or ragged lines, a million rows a second; or None."""
    if '"' in text or "\r" in text:
        return None
    text = text.rstrip("\n") + "\n"
    data = np.frombuffer(text.encode("utf-8"), dtype=np.uint8)
    marks = data[(data == ord(delimiter)) | (data == ord("\n"))]
    header = [name.strip() for name in header_line.split(delimiter)]
    width = len(header)
    if len(marks) % width or len(marks) == width:
        return None
    ends = (marks == ord("\n")).reshape(-1, width)
    if not ends[:, -1].all() or ends[:, :-1].any():
        return None
    _distinct(header, path)
    cells = text.replace("\n", delimiter).split(delimiter)
    rows = len(ends)
    columns = {name: cells[width + at : width * rows : width] for at, name in enumerate(header)}
    if width == 1 and not all(map(str.strip, columns[header[0]])):
        return None
    return Table(path, columns, range(2, rows + 1))


_Rows = tuple[list[list[str]], Sequence[int]]


def _chunks(reader: Any, *, one_line_each: bool) -> Iterator[_Rows]:
    while True:
        start = reader.line_num
        if one_line_each:
            rows = list(islice(reader, _CHUNK))
            numbers: Sequence[int] = range(start + 1, start + 1 + len(rows))
        else:
            told = [(row, reader.line_num) for row in islice(reader, _CHUNK)]
            rows, numbers = [row for row, _ in told], [line for _, line in told]
        if not rows:
            return
        yield rows, numbers


def _whole_rows(path: Path, rows: list[list[str]], lines: Sequence[int], width: int) -> _Rows:
    """Return the rows that are not blank; all must be as wide as the header."""
    kept = [at for at, row in enumerate(rows) if any(cell.strip() for cell in row)]
    for at in kept:
        if len(rows[at]) != width:
            raise InputError(
                f"has {len(rows[at])} fields where the header has {width}",
                file=path,
                where=f"line {lines[at]}",
            )
    return [rows[at] for at in kept], [lines[at] for at in kept]


def _distinct(header: Sequence[str], path: Path) -> None:
    for name in header:
        if not name:
            raise InputError("the header has an unnamed column", file=path, where="line 1")
        if header.count(name) > 1:
            raise InputError(f"the column {shown(name)} stands twice", file=path, where="line 1")


def _of_json(path: Path, text: str) -> Table:
    records: list[tuple[int, Any]]
    if text.lstrip()[0] == "[":
        records = list(enumerate(parse_json(text, file=path), start=1))
    else:
        records = [
            (number, parse_json(line, file=path, line=number))
            for number, line in enumerate(text.split("\n"), start=1)
            if line.strip()
        ]
    if not records:
        raise InputError("holds no records", file=path)
    names: dict[str, None] = {}
    for line, record in records:
        if not isinstance(record, dict):
            raise InputError(
                f"must be a JSON object, not {shown(record)}", file=path, where=f"line {line}"
            )
        names.update(dict.fromkeys(record))
    return Table(
        path,
        {name: [record.get(name) for _, record in records] for name in names},
        [line for line, _ in records],
    )

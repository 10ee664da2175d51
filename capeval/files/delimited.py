"""Rows of CSV, as people and spreadsheets save it, each with the line that it begins on."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from capeval.errors import InputError

__all__ = ["Rows", "delimiter_of", "first_line", "long_cells", "rows_of"]

_CHUNK = 20_000
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
            rows = list(islice(reader, _CHUNK))
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
        for row in islice(reader, _CHUNK):
            rows.append(row)
            numbers.append(start)
            start = reader.line_num + 1
    except csv.Error as fault:
        told = next((told for part, told in _FAULTS.items() if part in str(fault)), str(fault))
        where = f"line {start}"
        return rows, numbers, InputError(f"is not CSV ({told})", file=path, where=where)
    return rows, numbers, None

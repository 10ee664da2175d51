"""CSV as spreadsheets save it: commas, semicolons or tabs, headers in any case, rows cut short."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from capeval.errors import InputError
from capeval.files.tables import Table
from capeval.files.text import read_text
from capeval.files.validation import nearest, shown

__all__ = ["read_spreadsheet"]


def read_spreadsheet(path: Path | str, needed: Sequence[str]) -> Table:
    """Read a table that has been through a spreadsheet.

    Unlike `capeval.files.tables.read_table` it takes semicolons, lowers headers, fills up rows that
    end early, and lets other columns be; there may be no rows.

    Parameters
    ----------
    needed : columns that must be there, once

    Raises
    ------
    InputError
        The file is no CSV, or a needed column is missing or doubled.
    """
    path = Path(path)
    text = read_text(path)
    delimiter = max(",;\t", key=text.lstrip().split("\n", 1)[0].count)
    rows: list[list[str]] = []
    lines: list[int] = []
    # A caption may be longer than the module's limit; that is the interpreter's, so it is put back.
    limit = csv.field_size_limit(len(text) + 1)
    line = 1
    try:
        # Kept as it is: a line break inside quotes belongs to its cell.
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        for row in reader:
            if any(cell.strip() for cell in row):
                rows.append(row)
                lines.append(line)
            line = reader.line_num + 1
    except csv.Error as fault:
        raise InputError(f"is not CSV ({fault})", file=path, where=f"line {line}") from None
    finally:
        csv.field_size_limit(limit)
    names = [name.strip().lower() for name in rows[0]]
    for name in needed:
        if names.count(name) != 1:
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
    return Table(path, columns, lines[1:])

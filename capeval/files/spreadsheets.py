"""CSV as spreadsheets save it: commas, semicolons or tabs, headers in any case, rows cut short."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from capeval.errors import InputError
from capeval.files.delimited import delimiter_of, long_cells, rows_of
from capeval.files.tables import Table
from capeval.files.text import read_text
from capeval.files.validation import nearest, shown

__all__ = ["read_spreadsheet"]


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

"""TRECVID Video-to-Text's human scores (`SYS,SID,RAW.SCR,Z.SCR,N,HIT`), as ratings of captions.

Direct assessment as of 2017 (Graham, Awad and Smeaton 2018): `RAW.SCR`, from 0 to 100, is the mean
of `N` raters. `SID` is a line of the system's file, from 1, and so the number of the video; a row
with line 0 rates no line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from capeval.files.tables import Table
from capeval.text import cut, shown

_NAMES = {"SID": "video_id", "SYS": "system", "RAW.SCR": "score"}
_COLUMNS = (*_NAMES, "Z.SCR", "N", "HIT")


def is_direct_assessment(table: Table) -> bool:
    """Say whether a table has the layout, told by its header."""
    return table.columns.keys() >= _NAMES.keys()


def ratings_of(table: Table, metric_columns: Sequence[str] = ()) -> tuple[Table, tuple[str, ...]]:
    """Return `video_id, system, score` and warnings of rows with line number 0, which are skipped.

    Parameters
    ----------
    metric_columns : columns that are kept as well

    Raises
    ------
    InputError
        A column is unknown, a line is no number, or no row rates a line.
    """
    table.only({*_COLUMNS, *metric_columns}, list(_NAMES))
    lines = table.names("SID")
    for row, line in enumerate(lines):
        if not re.fullmatch(r"[0-9]{1,9}", line):
            raise table.fault(f"{shown(line)} is not a line number", row=row, column="SID")
    systems = table.names("SYS")
    kept = [row for row, line in enumerate(lines) if int(line)]
    if not kept:
        raise table.fault("no row has a line number above 0", column="SID")
    warnings = tuple(
        f"{table.file}: line {table.lines[row]}: SID is 0 and lines count from 1, so this row of "
        f"{cut(systems[row])} rates no caption: skipped"
        for row, line in enumerate(lines)
        if not int(line)
    )
    columns = {
        _NAMES.get(name, name): [cells[row] for row in kept]
        for name, cells in table.columns.items()
        if name in _NAMES or name in metric_columns
    }
    # A line number is a number: 07 and 7 are one video.
    columns["video_id"] = [str(int(lines[row])) for row in kept]
    kept_lines = [table.lines[row] for row in kept]
    return Table(table.file, columns, kept_lines, table.header), warnings

"""Human scores of TRECVID Video-to-Text (`SYS,SID,RAW.SCR,Z.SCR,N,HIT`) as ratings of captions.

Direct assessment as of 2017 (Graham, Awad and Smeaton 2018): `RAW.SCR`, from 0 to 100, is the mean
of `N` raters. `SID` is the line of the system's file, from 1, which is the number of the video. A
row with line 0 does not belong to a caption.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from capeval.files.tables import InputTable
from capeval.text import cut, shown

_NAMES = {"SID": "video_id", "SYS": "system", "RAW.SCR": "score"}
_COLUMNS = (*_NAMES, "Z.SCR", "N", "HIT")


def is_direct_assessment(table: InputTable) -> bool:
    """Return whether the header of a table is that of this layout."""
    return table.columns.keys() >= _NAMES.keys()


def ratings_of(
    table: InputTable, metric_columns: Sequence[str] = ()
) -> tuple[InputTable, tuple[str, ...]]:
    """Return `video_id, system, score` and `metric_columns`, and warnings about skipped rows."""
    table.check_columns({*_COLUMNS, *metric_columns}, list(_NAMES))
    lines = table.names("SID")
    for row, line in enumerate(lines):
        if not re.fullmatch(r"[0-9]{1,9}", line):
            raise table.error(f"{shown(line)} is not a line number", row=row, column="SID")
    systems = table.names("SYS")
    kept = [row for row, line in enumerate(lines) if int(line)]
    if not kept:
        raise table.error("no row has a line number above 0", column="SID")
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
    # 07 and 7 are the same line and so the same video.
    columns["video_id"] = [str(int(lines[row])) for row in kept]
    kept_lines = [table.lines[row] for row in kept]
    return InputTable(table.file, columns, kept_lines, table.header), warnings

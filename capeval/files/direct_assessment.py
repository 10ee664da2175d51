"""Human scores of TRECVID Video-to-Text (`SYS,SID,RAW.SCR,Z.SCR,N,HIT`) as ratings of captions.

Direct assessment as of 2017 (Graham, Awad and Smeaton 2018): `RAW.SCR`, from 0 to 100, is the mean
of `N` raters. `SID` is the line of the system's file, from 1, which is the number of the video. A
row with line 0 does not belong to a caption.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from capeval.files.columns import Choice, Chosen, choose
from capeval.files.tables import InputTable
from capeval.text import cut, shown

_NAMES = {"video_id": "SID", "system": "SYS", "score": "RAW.SCR"}
_RAW, _STANDARDISED = "RAW.SCR", "Z.SCR"
IGNORED = (_RAW, _STANDARDISED, "N", "HIT")
"""Columns of this layout that need not be named as ignored."""
USUAL = tuple(_NAMES.values())
"""Columns that are always read by capeval's names."""


def is_direct_assessment(table: InputTable, mapped: Mapping[str, str] | None = None) -> bool:
    """Return whether the header of a table is that of this layout, and not mapped otherwise."""
    keys = {role: name for role, name in (mapped or {}).items() if role != "score"}
    return table.columns.keys() >= {*_NAMES.values()} and keys.items() <= _NAMES.items()


def ratings_of(
    table: InputTable,
    metric_columns: Sequence[str] = (),
    mapped: Mapping[str, str] | None = None,
    *,
    standardised: bool = False,
) -> tuple[Chosen, tuple[str, ...]]:
    """Return the columns that are read of the rows that rate a caption, and warnings about others.

    `standardised` reads Z.SCR, the mean of ratings that were standardised by rater.

    Raises
    ------
    InputError
        A row is not valid; or `standardised`, and there are only raw scores.
    """
    columns = {**_NAMES, **(mapped or {})}
    if standardised and "score" not in (mapped or {}):
        columns["score"] = _STANDARDISED
    if standardised and (columns["score"] == _RAW or _STANDARDISED not in table.columns):
        use = "; omit --columns score=RAW.SCR" if _STANDARDISED in table.columns else ""
        raise table.error(
            "has the mean of several raters, so --raters zmean cannot standardise each rater's "
            f"ratings; it needs the column Z.SCR{use}, or use --raters mean"
        )
    chosen = choose(table, ["video_id", "system", "score"], [], Choice(columns), metric_columns)
    renamed = chosen.read()
    lines = renamed.names("video_id")
    for row, line in enumerate(lines):
        if not re.fullmatch(r"[0-9]{1,9}", line):
            raise renamed.error(f"{shown(line)} is not a line number", row=row, column="video_id")
    systems = renamed.names("system")
    kept = [row for row, line in enumerate(lines) if int(line)]
    if not kept:
        raise renamed.error("no row has a line number above 0", column="video_id")
    warnings = tuple(
        f"{table.file}: {table.place(row)}: SID is 0 and lines count from 1, so this row of "
        f"{cut(systems[row])} rates no caption: skipped"
        for row, line in enumerate(lines)
        if not int(line)
    )
    # 07 and 7 are the same line and so the same video.
    numbers = [str(int(line)) for line in lines]
    videos = {**table.columns, chosen.columns["video_id"]: numbers}
    kept_table = replace(table, columns=videos).take(kept)
    return replace(chosen, table=kept_table), warnings

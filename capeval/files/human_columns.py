"""Which columns of a human file are read, and which of its rows are rated."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from capeval.files.columns import (
    Choice,
    Chosen,
    folded,
    is_unrated,
    may_be,
    numbered_columns,
)
from capeval.files.tables import InputTable
from capeval.text import counted, shown

WIDE = re.compile(r"human(_[0-9]+)?")
_WIDE_FOLDED = re.compile(r"human([0-9]*)")

ROLES = ("video_id", "system", "rater", "score", "element_id", "label")
"""The columns of human files; a file with a column for each rater has human, human_2, …"""

IfMissing = Literal["error", "drop"]
"""What to do with rows without a rating, and with captions without a score of a metric."""

_KEYS = ("video_id", "system", "rater")
HINT = " (to read one as a metric: --metric-columns COLUMN)"
_DROP = "; leave unrated rows out with --missing drop"
# A metric's column could have the same name as one of capeval's.
METRIC = "metric "


@dataclass(frozen=True)
class HumanRequest:
    """What `load_human` was asked for."""

    metric_columns: Sequence[str]
    choice: Choice
    missing: IfMissing
    standardised: bool
    also_read: Sequence[str] = ()


def has_labels(table: InputTable, mapped: Mapping[str, str]) -> bool:
    """Return whether a human file has labels of elements, not ratings of captions."""
    names = [*table.columns]
    own, labels = {*names} & {*ROLES}, {"element_id", "label"}
    if labels <= own or any(mapped.get(name) in names for name in labels):
        return True
    if "score" in own or mapped.get("score") in names or any(map(WIDE.fullmatch, names)):
        return False
    found = {role for role in labels for name in names if may_be(name, role)}
    return found == labels or bool(own & labels)


def may_be_human(names: Collection[str]) -> bool:
    """Return whether a sheet with these columns, some of them by capeval's name, may be meant."""
    return any(may_be(name, "video_id") for name in names) and any(
        may_be(name, role) or folded(name) in ("human", "rawscr", "rater1", "annotator1")
        for name in names
        for role in ("score", "label")
    )


def rated_rows(
    table: InputTable, asked: HumanRequest, columns: Sequence[str]
) -> tuple[InputTable, tuple[str, ...]]:
    """Return the rows that are rated in a column, and a warning about the others."""
    cells = [table.columns[name] for name in columns]
    if any(not _has_unrated(column) for column in cells):
        return table, ()
    rated = [not all(map(is_unrated, row)) for row in zip(*cells, strict=True)]
    if all(rated):
        return table, ()
    first = rated.index(False)
    kept = [row for row, is_rated in enumerate(rated) if is_rated]
    names = [shown(table.named.get(name, name)) for name in columns]
    if not kept:
        are = f"column {names[0]} is" if len(names) == 1 else f"columns {', '.join(names)} are"
        raise table.error(f"the {are} empty in every row")
    if asked.missing == "error":
        value = cells[0][first]
        empty = value is None or not str(value).strip()
        text = "is empty" if empty else f"{shown(value)} is not a rating"
        raise table.error(f"{text}{_DROP}", row=first, column=", ".join(columns))
    left = len(rated) - len(kept)
    warning = (
        f"{table.file}: {counted(left, 'row')} without a rating {'is' if left == 1 else 'are'} "
        f"left out (the first is {table.place(first)})"
    )
    return table.take(kept), (warning,)


def _has_unrated(cells: Sequence[Any]) -> bool:
    """Return whether a column has a cell without a rating; each repeated value is checked once."""
    try:
        return any(map(is_unrated, set(cells)))
    except TypeError:  # a JSON list, which the column's own check refuses
        return True


def read_columns(chosen: Chosen, asked: HumanRequest) -> InputTable:
    """Return the columns that are read, with those of metrics."""
    _check_metric_columns(chosen, asked.metric_columns)
    table = chosen.read()
    chosen.table.check_header(asked.metric_columns)
    metrics = {METRIC + name: chosen.table.columns[name] for name in asked.metric_columns}
    return replace(
        table,
        columns={**table.columns, **metrics},
        named={**table.named, **{METRIC + name: name for name in asked.metric_columns}},
    )


def _check_metric_columns(chosen: Chosen, metric_columns: Sequence[str]) -> None:
    read = {name: role for role, name in chosen.columns.items()}
    for name in metric_columns:
        role = read.get(name, "")
        has = "human ratings" if role == "score" or WIDE.fullmatch(role) else ""
        has = "names" if role in _KEYS else has
        if has:
            raise chosen.table.error(
                f"the column {shown(name)} has {has}; --metric-columns takes columns with the "
                "scores of metrics"
            )


def wide_columns(table: InputTable, asked: HumanRequest) -> dict[str, str]:
    """Return the columns that have the ratings of one rater each, by human, human_2, …"""
    mapped = asked.choice.mapped
    names = {role: name for role, name in mapped.items() if WIDE.fullmatch(role)}
    if names:
        return {role: name for role, name in names.items() if name in table.columns}
    if "score" in mapped and mapped["score"] in table.columns:
        return {}
    if "score" in table.columns and not any(map(WIDE.fullmatch, table.columns)):
        return {}
    found: dict[str, str] = {}
    for name in table.columns:
        match = _WIDE_FOLDED.fullmatch(folded(name))
        if match and (name == "human" or WIDE.fullmatch(name) or name not in asked.metric_columns):
            role = name if WIDE.fullmatch(name) else "_".join(filter(None, ("human", match[1])))
            found.setdefault(role, name)
    return found or numbered_columns(table, asked.metric_columns)

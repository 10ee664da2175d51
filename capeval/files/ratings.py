"""Human files: ratings of captions (long or wide) or labels of elements; the header decides."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count, repeat
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from capeval.files.columns import (
    Choice,
    Chosen,
    check_all_found,
    check_mapped,
    choose,
    folded,
    is_unrated,
    may_be,
    numbered_columns,
)
from capeval.files.direct_assessment import IGNORED, USUAL, is_direct_assessment, ratings_of
from capeval.files.table_reading import read_table
from capeval.files.tables import InputTable
from capeval.files.workbook import place
from capeval.schema import COVERAGES, RELATIONS, LabelScale
from capeval.text import counted, nearest, shown

Key = tuple[str, str | None]
"""Video and system; None in a file without systems."""


def caption_name(key: Key) -> str:
    """Return the name of a caption in messages.

    >>> caption_name(("v1", "model")), caption_name(("v1", None))
    ('v1 of model', 'v1')
    """
    return key[0] if key[1] is None else f"{key[0]} of {key[1]}"


_WIDE = re.compile(r"human(_[0-9]+)?")
_WIDE_FOLDED = re.compile(r"human([0-9]*)")
_Z_SCORES = ("zscr", "zscore", "z")
_BINARY = dict(zip(("1", "0"), COVERAGES, strict=True))


@dataclass(frozen=True)
class Keys:
    """Keys as columns: a million pairs would be a million small objects.

    `systems` is None for a file without systems.
    """

    videos: Sequence[str]
    systems: Sequence[str] | None

    @classmethod
    def of(cls, keys: Iterable[Key]) -> Keys:
        """Return given keys as columns; there must be at least one."""
        videos, systems = zip(*keys, strict=True)
        return cls(videos, None if systems[0] is None else systems)

    @classmethod
    def of_table(cls, table: InputTable, videos: str = "video_id") -> Keys:
        """Return the key of each row: the column `videos`, and `system` if there is one."""
        systems = table.names("system") if "system" in table.columns else None
        return cls(table.names(videos), systems)

    def __getitem__(self, row: int) -> Key:
        return self.videos[row], None if self.systems is None else self.systems[row]

    def __len__(self) -> int:
        return len(self.videos)

    def __iter__(self) -> Iterator[Key]:
        return zip(self.videos, self.systems or repeat(None), strict=False)

    def take(self, rows: Iterable[int]) -> Keys:
        """Return the keys of some rows, in the order given."""
        rows = list(rows)
        systems = None if self.systems is None else [self.systems[row] for row in rows]
        return Keys([self.videos[row] for row in rows], systems)

    @cached_property
    def video(self) -> NDArray[np.int64]:
        """The number of each key's video, from 0 in the order of first appearance: (n,)."""
        return _numbers(self.videos)

    @cached_property
    def system(self) -> NDArray[np.int64]:
        """The number of each key's system, from 0 in the order of first appearance: (n,)."""
        if self.systems is None:
            return np.zeros(len(self), dtype=np.int64)
        return _numbers(self.systems)

    def check_unique(self, table: InputTable) -> None:
        """Refuse a table in which two rows have the same key."""
        cells = np.sort(self.video * (self.system.max(initial=0) + 1) + self.system)
        if (cells[1:] == cells[:-1]).any():
            table.check_unique(list(self), "video_id, system")


def _numbers(names: Sequence[Hashable]) -> NDArray[np.int64]:
    number: dict[Hashable, int] = defaultdict(count().__next__)
    return np.fromiter(map(number.__getitem__, names), np.int64, len(names))


@dataclass(frozen=True)
class RatingTable:
    """Ratings of captions.

    Attributes
    ----------
    keys : (captions,)
    raters : (raters,) names
    ratings : (raters, captions), NaN for a caption that a rater did not rate
    metrics : the columns that were named as metrics, (captions,) each; NaN for an empty cell
    warnings : what is wrong with the data, and what was left out
    notices : which columns are read by another name, and which are ignored
    columns : the file's own column by the name that capeval has for it
    header : the names of all columns of the file
    name : the kind of human score: "score" for ratings; "covered", "recall", "precision" or "f1"
        if computed from labels
    """

    file: Path
    keys: Keys
    raters: tuple[str, ...]
    ratings: NDArray[np.float64]
    metrics: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    header: tuple[str, ...] = ()
    name: str = "score"


@dataclass(frozen=True)
class LabelTable:
    """Labels of elements, (n,) each; `rater` has positions in `raters`, which are names.

    `warnings`, `notices`, `columns` and `header` are as in `RatingTable`; `sheet` is that of a
    workbook, of which `lines` are the numbers of the rows.
    """

    file: Path
    keys: Keys
    elements: Sequence[str]
    rater: Sequence[int]
    raters: tuple[str, ...]
    labels: Sequence[str]
    scale: LabelScale
    lines: Sequence[int]
    warnings: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    header: tuple[str, ...] = ()
    sheet: str | None = None

    def place(self, row: int) -> str:
        """Return the place of a label in messages."""
        return place(self.sheet, self.lines[row])


ROLES = ("video_id", "system", "rater", "score", "element_id", "label")
"""The columns of human files; a file with a column for each rater has human, human_2, …"""

IfMissing = Literal["error", "drop"]
"""What to do with rows without a rating, and with captions without a score of a metric."""

_KEYS = ("video_id", "system", "rater")
_HINT = " (name those with metrics' scores with --metric-columns)"
_DROP = "; leave unrated rows out with --missing drop"
# A metric's column could have the same name as one of capeval's.
_METRIC = "metric "


@dataclass(frozen=True)
class _Request:
    """What `load_human` was asked for."""

    metric_columns: Sequence[str]
    choice: Choice
    missing: IfMissing
    standardised: bool


def load_human(
    path: Path | str,
    metric_columns: Sequence[str] = (),
    *,
    choice: Choice | None = None,
    missing: IfMissing = "error",
    standardised: bool = False,
    others: bool = False,
) -> RatingTable | LabelTable:
    """Read a human file.

    Parameters
    ----------
    metric_columns : columns with scores of metrics
    choice : which columns are meant, where their names differ from capeval's
    missing : whether a row without a rating is an error, or left out with a warning
    standardised : read the Z-scores of direct assessments instead of the raw scores
    others : whether a mapped column may be absent, because another file may have it

    Raises
    ------
    InputError, UsageError
        The file or the mapping of its columns is not valid.
    """
    asked = _Request(metric_columns, choice or Choice(), missing, standardised)
    mapped = asked.choice.mapped
    check_mapped(mapped, ROLES)
    table = read_table(path, lambda header: _may_be_human({*header, *mapped}))
    if not others:
        check_all_found(mapped, {table.file: table.columns})
    are_labels = _has_labels(table, mapped)
    header = tuple(table.columns)
    if are_labels:
        if metric_columns:
            raise table.error("has labels of elements; --metric-columns needs ratings of captions")
        return replace(_labels(table, asked), header=header)
    table.require(metric_columns, typed=True)
    if is_direct_assessment(table, mapped):
        return replace(_direct_assessment(table, asked), header=header)
    wide = _wide_columns(table, asked)
    found = _wide(table, asked, wide) if wide else _long(table, asked)
    return replace(found, header=header)


def _has_labels(table: InputTable, mapped: Mapping[str, str]) -> bool:
    names = [*table.columns]
    own, labels = {*names} & {*ROLES}, {"element_id", "label"}
    if labels <= own or any(mapped.get(name) in names for name in labels):
        return True
    if "score" in own or mapped.get("score") in names or any(map(_WIDE.fullmatch, names)):
        return False
    found = {role for role in labels for name in names if may_be(name, role)}
    return found == labels or bool(own & labels)


def _may_be_human(names: Collection[str]) -> bool:
    """Return whether a sheet with these columns, some of them by capeval's name, may be meant."""
    return any(may_be(name, "video_id") for name in names) and any(
        may_be(name, role) or folded(name) in ("human", "rawscr", "rater1", "annotator1")
        for name in names
        for role in ("score", "label")
    )


def _warned(
    table: InputTable, asked: _Request, columns: Sequence[str]
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


def _read(chosen: Chosen, asked: _Request) -> InputTable:
    """Return the columns that are read, with those of metrics."""
    _check_metric_columns(chosen, asked.metric_columns)
    table = chosen.read()
    chosen.table.check_header(asked.metric_columns)
    metrics = {_METRIC + name: chosen.table.columns[name] for name in asked.metric_columns}
    return replace(
        table,
        columns={**table.columns, **metrics},
        named={**table.named, **{_METRIC + name: name for name in asked.metric_columns}},
    )


def _check_metric_columns(chosen: Chosen, metric_columns: Sequence[str]) -> None:
    read = {name: role for role, name in chosen.columns.items()}
    for name in metric_columns:
        role = read.get(name, "")
        has = "human ratings" if role == "score" or _WIDE.fullmatch(role) else ""
        has = "names" if role in _KEYS else has
        if has:
            raise chosen.table.error(
                f"the column {shown(name)} has {has}; --metric-columns takes columns with the "
                "scores of metrics"
            )


def _wide_columns(table: InputTable, asked: _Request) -> dict[str, str]:
    """Return the columns that have the ratings of one rater each, by human, human_2, …"""
    mapped = asked.choice.mapped
    names = {role: name for role, name in mapped.items() if _WIDE.fullmatch(role)}
    if names:
        return {role: name for role, name in names.items() if name in table.columns}
    if "score" in mapped and mapped["score"] in table.columns:
        return {}
    if "score" in table.columns and not any(map(_WIDE.fullmatch, table.columns)):
        return {}
    found: dict[str, str] = {}
    for name in table.columns:
        match = _WIDE_FOLDED.fullmatch(folded(name))
        if match and (name == "human" or _WIDE.fullmatch(name) or name not in asked.metric_columns):
            role = name if _WIDE.fullmatch(name) else "_".join(filter(None, ("human", match[1])))
            found.setdefault(role, name)
    return found or numbered_columns(table, asked.metric_columns)


def _wide(table: InputTable, asked: _Request, wide: Mapping[str, str]) -> RatingTable:
    choice = replace(asked.choice, mapped={**asked.choice.mapped, **wide})
    humans = [*wide]
    chosen = choose(table, ["video_id", *humans], ["system"], choice, asked.metric_columns)
    renamed = _read(chosen, asked)
    table, warnings = _warned(renamed, asked, humans)
    keys = Keys.of_table(table)
    keys.check_unique(table)
    if asked.missing == "drop":
        gapless = {
            name: [None if is_unrated(cell) else cell for cell in table.columns[name]]
            for name in humans
        }
        table = replace(table, columns={**table.columns, **gapless})
    ratings = np.stack([table.numbers(name, gaps=len(humans) > 1) for name in humans])
    rated = [at for at, given in enumerate(ratings) if not np.isnan(given).all()]
    names = [table.named.get(name, name) for name in humans]
    left_out = [
        f"{table.file}: the column {shown(name)} is empty in every row: this rater is left out"
        for at, name in enumerate(names)
        if at not in rated
    ]
    return RatingTable(
        table.file,
        keys,
        tuple(names[at] for at in rated),
        ratings if len(rated) == len(humans) else ratings[rated],
        {name: table.numbers(_METRIC + name, gaps=True) for name in asked.metric_columns},
        (*warnings, *left_out),
        chosen.notices(_HINT, asked.metric_columns),
        chosen.columns,
    )


def _long(table: InputTable, asked: _Request) -> RatingTable:
    chosen = choose(
        table, ["video_id", "score"], ["system", "rater"], asked.choice, asked.metric_columns
    )
    table, warnings = _warned(_read(chosen, asked), asked, ["score"])
    found = _ratings(table, asked)
    if asked.standardised and len(found.raters) == 1:
        ignored = [name for name in chosen.table.columns if folded(name) in _Z_SCORES]
        use = f"; to use {shown(ignored[0])}: --columns score={ignored[0]}" if ignored else ""
        warning = (
            f"{table.file}: --raters zmean needs the ratings of several raters; here one score of "
            f"each caption is standardised as a whole, which changes no correlation{use}"
        )
        warnings = (*warnings, warning)
    return replace(
        found,
        warnings=warnings,
        notices=chosen.notices(_HINT, asked.metric_columns),
        columns=chosen.columns,
    )


def _direct_assessment(table: InputTable, asked: _Request) -> RatingTable:
    mapped = asked.choice.mapped
    chosen, warnings = ratings_of(
        table, asked.metric_columns, mapped, standardised=asked.standardised
    )
    read, unrated = _warned(_read(chosen, asked), asked, ["score"])
    return replace(
        _ratings(read, asked),
        warnings=(*warnings, *unrated),
        notices=chosen.notices(_HINT, [*asked.metric_columns, *IGNORED], USUAL),
        columns=chosen.columns,
    )


def _ratings(table: InputTable, asked: _Request) -> RatingTable:
    """Return the ratings of a table with a row for each."""
    keys = Keys.of_table(table)
    scores = table.numbers("score")
    if "rater" not in table.columns:
        keys.check_unique(table)
        values = {name: table.numbers(_METRIC + name, gaps=True) for name in asked.metric_columns}
        return RatingTable(table.file, keys, ("human",), scores[None], values)
    raters = table.names("rater")
    table.check_unique(list(zip(keys, raters, strict=True)), "video_id, system, rater")
    places, names = dict.fromkeys(keys), tuple(dict.fromkeys(raters))
    ratings = np.full((len(names), len(places)), np.nan)
    column = _numbers(list(keys))
    ratings[_numbers(raters), column] = scores
    return RatingTable(
        table.file,
        Keys.of(places),
        names,
        ratings,
        {
            name: _metric_by_caption(table, _METRIC + name, column, len(places))
            for name in asked.metric_columns
        },
    )


def _metric_by_caption(
    table: InputTable, name: str, column: NDArray[np.int64], size: int
) -> NDArray[np.float64]:
    """Return a metric's score of each caption, from a table with a row for each rater."""
    values = table.numbers(name, gaps=True)
    result = np.full(size, np.nan)
    result[column[::-1]] = values[::-1]
    differ = np.flatnonzero(~((result[column] == values) | np.isnan(values)))
    if len(differ):
        row = int(differ[0])
        raise table.error(
            f"{shown(float(values[row]))} differs from an earlier score of the same caption",
            row=row,
            column=name,
        )
    return result


def _labels(table: InputTable, asked: _Request) -> LabelTable:
    chosen = choose(table, ["video_id", "element_id", "label"], ["system", "rater"], asked.choice)
    table, warnings = _warned(chosen.read(), asked, ["label"])
    keys = Keys.of_table(table)
    elements = table.names("element_id")
    rated = "rater" in table.columns
    raters = table.names("rater") if rated else ["human"] * len(table)
    columns = "video_id, system, element_id" + (", rater" if rated else "")
    table.check_unique(
        [(*key, e, r) for key, e, r in zip(keys, elements, raters, strict=True)], columns
    )
    given = [_label_text(value) for value in table.columns["label"]]
    scale: LabelScale = "binary" if given[0] in _BINARY else "three-way"
    valid = tuple(_BINARY) if scale == "binary" else RELATIONS
    for row, label in enumerate(given):
        if label not in valid:
            if label in (*_BINARY, *RELATIONS):
                message = f"{shown(label)} is on another scale than {shown(given[0])} above"
            else:
                valid_names = ", ".join((*RELATIONS, *_BINARY))
                near = nearest(label, RELATIONS)
                message = f"{shown(label)} is unknown; one of {valid_names}{near}"
            raise table.error(message, row=row, column="label")
    return LabelTable(
        table.file,
        keys,
        elements,
        _numbers(raters).tolist(),
        tuple(dict.fromkeys(raters)),
        [_BINARY[label] for label in given] if scale == "binary" else given,
        scale,
        table.lines,
        warnings,
        chosen.notices(),
        chosen.columns,
        sheet=table.sheet,
    )


def _label_text(value: Any) -> str:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return shown(value)

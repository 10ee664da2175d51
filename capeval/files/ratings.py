"""Human files: ratings of captions (long or wide) or labels of elements; the header decides."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count, repeat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capeval.files.columns import (
    Choice,
    check_all_found,
    check_mapped,
    choose,
    folded,
    is_unrated,
)
from capeval.files.direct_assessment import IGNORED, USUAL, is_direct_assessment, ratings_of
from capeval.files.human_columns import (
    HINT,
    METRIC,
    ROLES,
    HumanRequest,
    IfMissing,
    has_labels,
    may_be_human,
    rated_rows,
    read_columns,
    wide_columns,
)
from capeval.files.table_reading import read_table
from capeval.files.tables import InputTable
from capeval.files.workbook import place
from capeval.schema import COVERAGES, RELATIONS, LabelScale
from capeval.text import nearest, shown

Key = tuple[str, str | None]
"""Video and system; None in a file without systems."""


def caption_name(key: Key) -> str:
    """Return the name of a caption in messages.

    >>> caption_name(("v1", "model")), caption_name(("v1", None))
    ('v1 of model', 'v1')
    """
    return key[0] if key[1] is None else f"{key[0]} of {key[1]}"


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


STRATUM_COLUMNS = ("stratum", "stratum_videos", "stratum_sampled")
"""The group of videos that a video was sampled from, the number of videos in it, and how many of
their captions by this system were sampled.
"""


@dataclass(frozen=True)
class LabelTable:
    """Labels of elements, (n,) each; `rater` has positions in `raters`, which are names.

    `strata` are the values of `STRATUM_COLUMNS`, None in a file that does not have them.
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
    strata: Sequence[tuple[str, int, int]] | None = None
    warnings: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    header: tuple[str, ...] = ()
    sheet: str | None = None

    def place(self, row: int) -> str:
        """Return the place of a label in messages."""
        return place(self.sheet, self.lines[row])


def load_human(
    path: Path | str,
    metric_columns: Sequence[str] = (),
    *,
    choice: Choice | None = None,
    missing: IfMissing = "error",
    standardised: bool = False,
    others: bool = False,
    also_read: Sequence[str] = (),
) -> RatingTable | LabelTable:
    """Read a human file.

    Parameters
    ----------
    metric_columns : columns with scores of metrics
    choice : which columns are meant, where their names differ from capeval's
    missing : whether a row without a rating is an error, or left out with a warning
    standardised : read the Z-scores of direct assessments instead of the raw scores
    others : whether a mapped column may be absent, because another file may have it
    also_read : columns that are read as something else, so that no notice says they are ignored

    Raises
    ------
    InputError, UsageError
        The file or the mapping of its columns is not valid.
    """
    asked = HumanRequest(metric_columns, choice or Choice(), missing, standardised, also_read)
    mapped = asked.choice.mapped
    check_mapped(mapped, ROLES)
    table = read_table(path, lambda header: may_be_human(_renamed(header, mapped)))
    if not others:
        check_all_found(mapped, {table.file: table.columns})
    header = tuple(table.columns)
    if has_labels(table, mapped):
        if metric_columns:
            raise table.error("has labels of elements; --metric-columns needs ratings of captions")
        return replace(_labels(table, asked), header=header)
    table.require(metric_columns, typed=True)
    if is_direct_assessment(table, mapped):
        return replace(_direct_assessment(table, asked), header=header)
    wide = wide_columns(table, asked)
    found = _wide(table, asked, wide) if wide else _long(table, asked)
    found = replace(found, header=header)
    more = _not_standardised(found) if standardised else ()
    return replace(found, warnings=(*found.warnings, *more))


def _renamed(header: Collection[str], mapped: Mapping[str, str]) -> set[str]:
    """Return the columns of a sheet, and capeval's names of those among them that are mapped."""
    return {*header, *(role for role, name in mapped.items() if name in header)}


def _wide(table: InputTable, asked: HumanRequest, wide: Mapping[str, str]) -> RatingTable:
    choice = replace(asked.choice, mapped={**asked.choice.mapped, **wide})
    humans = [*wide]
    chosen = choose(table, ["video_id", *humans], ["system"], choice, asked.metric_columns)
    renamed = read_columns(chosen, asked)
    table, warnings = rated_rows(renamed, asked, humans)
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
        {name: table.numbers(METRIC + name, gaps=True) for name in asked.metric_columns},
        (*warnings, *left_out),
        chosen.notices(HINT, [*asked.metric_columns, *asked.also_read]),
        chosen.columns,
    )


def _long(table: InputTable, asked: HumanRequest) -> RatingTable:
    chosen = choose(
        table, ["video_id", "score"], ["system", "rater"], asked.choice, asked.metric_columns
    )
    table, warnings = rated_rows(read_columns(chosen, asked), asked, ["score"])
    return replace(
        _ratings(table, asked),
        warnings=warnings,
        notices=chosen.notices(HINT, [*asked.metric_columns, *asked.also_read]),
        columns=chosen.columns,
    )


def _not_standardised(found: RatingTable) -> tuple[str, ...]:
    """Return a warning that there are no raters whose ratings could be standardised."""
    if len(found.raters) > 1:
        return ()
    names = [name for name in found.header if folded(name) in _Z_SCORES]
    use = f"; to use {shown(names[0])}: --columns score={names[0]}" if names else ""
    warning = (
        f"{found.file}: --raters zmean needs the ratings of several raters; here one score of "
        f"each caption is standardised as a whole, which changes no correlation{use}"
    )
    return (warning,)


def _direct_assessment(table: InputTable, asked: HumanRequest) -> RatingTable:
    mapped = asked.choice.mapped
    chosen, warnings = ratings_of(
        table, asked.metric_columns, mapped, standardised=asked.standardised
    )
    read, unrated = rated_rows(read_columns(chosen, asked), asked, ["score"])
    return replace(
        _ratings(read, asked),
        warnings=(*warnings, *unrated),
        notices=chosen.notices(HINT, [*asked.metric_columns, *asked.also_read, *IGNORED], USUAL),
        columns=chosen.columns,
    )


def _ratings(table: InputTable, asked: HumanRequest) -> RatingTable:
    """Return the ratings of a table with a row for each."""
    keys = Keys.of_table(table)
    scores = table.numbers("score")
    if "rater" not in table.columns:
        keys.check_unique(table)
        values = {name: table.numbers(METRIC + name, gaps=True) for name in asked.metric_columns}
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
            name: _metric_by_caption(table, METRIC + name, column, len(places))
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


def _labels(table: InputTable, asked: HumanRequest) -> LabelTable:
    needed = ["video_id", "element_id", "label"]
    if stratified := any(name in table.columns for name in STRATUM_COLUMNS):
        needed += STRATUM_COLUMNS
    chosen = choose(table, needed, ["system", "rater"], asked.choice)
    table, warnings = rated_rows(chosen.read(), asked, ["label"])
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
        strata_of(table, keys) if stratified else None,
        warnings,
        chosen.notices(also_read=asked.also_read),
        chosen.columns,
        sheet=table.sheet,
    )


def strata_of(table: InputTable, keys: Keys) -> list[tuple[str, int, int]]:
    """Return the stratum of each row with its sizes, which must agree wherever they are given.

    Raises
    ------
    InputError
        A number is none, more are sampled than there are, more captions are there than were
        sampled, or two rows contradict each other.
    """
    name, *counts = STRATUM_COLUMNS
    videos, sampled = ([_count(table, of, row) for row in range(len(table))] for of in counts)
    strata = list(zip(table.names(name), videos, sampled, strict=True))
    sizes: dict[tuple[str | None, str], tuple[int, int]] = {}
    of_key: dict[Key, str] = {}
    there: Counter[tuple[str | None, str]] = Counter()
    for row, (key, (stratum, *size)) in enumerate(zip(keys, strata, strict=True)):
        if size[1] > size[0]:
            raise table.error(
                f"{size[1]:,} are sampled of {size[0]:,} videos", row=row, column=counts[1]
            )
        there[key[1], stratum] += key not in of_key
        if of_key.setdefault(key, stratum) != stratum:
            message = f"{shown(stratum)} differs from the stratum of the same caption above"
            raise table.error(message, row=row, column=name)
        if sizes.setdefault((key[1], stratum), (size[0], size[1])) != tuple(size):
            raise table.error(
                f"differs from an earlier row of the stratum {shown(stratum)}",
                row=row,
                column=", ".join(counts),
            )
        if there[key[1], stratum] > size[1]:
            raise table.error(
                f"this is caption {size[1] + 1:,} of the stratum {shown(stratum)}, of which "
                f"{size[1]:,} {'was' if size[1] == 1 else 'were'} sampled",
                row=row,
                column=counts[1],
            )
    return strata


def _count(table: InputTable, column: str, row: int) -> int:
    value = table.columns[column][row]
    text = str(value).strip()
    if isinstance(value, bool) or not re.fullmatch("[1-9][0-9]{0,8}", text):
        raise table.error(f"{shown(value)} is no whole number above 0", row=row, column=column)
    return int(text)


def _label_text(value: Any) -> str:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return shown(value)

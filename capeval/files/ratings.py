"""Human files: ratings of captions (long or wide) or labels of elements; the header decides."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count, repeat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capeval.files.direct_assessment import is_direct_assessment, ratings_of
from capeval.files.table_reading import read_table
from capeval.files.tables import InputTable
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


_WIDE = re.compile(r"human(_[0-9]+)?")
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
    name : the kind of human score: "score" for ratings; "covered", "recall", "precision" or "f1"
        if computed from labels
    """

    file: Path
    keys: Keys
    raters: tuple[str, ...]
    ratings: NDArray[np.float64]
    metrics: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    name: str = "score"


STRATUM_COLUMNS = ("stratum", "stratum_videos", "stratum_sampled")
"""The group of videos that a video was sampled from, the number of videos in it, and how many of
their captions by this system were sampled.
"""


@dataclass(frozen=True)
class LabelTable:
    """Labels of elements, (n,) each; `rater` has positions in `raters`, which are names.

    `strata` are the values of `STRATUM_COLUMNS`, None in a file that does not have them.
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


def load_human(path: Path | str, metric_columns: Sequence[str] = ()) -> RatingTable | LabelTable:
    """Read a human file; `metric_columns` have scores of metrics."""
    table = read_table(path)
    if "element_id" in table.columns or "label" in table.columns:
        if metric_columns:
            raise table.error("has labels of elements; --metric-columns needs ratings of captions")
        return _labels(table)
    warnings: tuple[str, ...] = ()
    if is_direct_assessment(table):
        table, warnings = ratings_of(table, metric_columns)
    table.require(metric_columns, typed=True)
    _check_metric_columns(table, metric_columns)
    if any(_WIDE.fullmatch(name) for name in table.columns):
        return _wide(table, metric_columns)
    found = _long(table, metric_columns)
    return replace(found, warnings=(*warnings, *found.warnings))


_HINT = (
    "; remove it, or name it with --metric-columns if it has a metric's scores",
    "; remove them, or name them with --metric-columns if they have metrics' scores",
)
_KEYS = ("video_id", "system", "rater")
# Suggested for a misspelt column, because they belong to other layouts.
_OF_OTHER_LAYOUTS = ("human", "element_id", "label")


def _check_metric_columns(table: InputTable, metric_columns: Sequence[str]) -> None:
    for name in metric_columns:
        has = "human ratings" if name == "score" or _WIDE.fullmatch(name) else ""
        has = "names" if name in _KEYS else has
        if has:
            raise table.error(
                f"the column {shown(name)} has {has}; --metric-columns takes columns with the "
                "scores of metrics"
            )


def _wide(table: InputTable, metric_columns: Sequence[str]) -> RatingTable:
    humans = [name for name in table.columns if _WIDE.fullmatch(name)]
    table.check_columns(
        {"video_id", "system", *humans, *metric_columns}, ["video_id"], _HINT, _OF_OTHER_LAYOUTS
    )
    keys = Keys.of_table(table)
    keys.check_unique(table)
    ratings = np.stack([table.numbers(name, gaps=len(humans) > 1) for name in humans])
    rated = [at for at, given in enumerate(ratings) if not np.isnan(given).all()]
    if not rated:
        raise table.error(f"the columns {', '.join(map(shown, humans))} are empty in every row")
    return RatingTable(
        table.file,
        keys,
        tuple(humans[at] for at in rated),
        ratings if len(rated) == len(humans) else ratings[rated],
        {name: table.numbers(name, gaps=True) for name in metric_columns},
        tuple(
            f"{table.file}: the column {shown(name)} is empty in every row: this rater is left out"
            for at, name in enumerate(humans)
            if at not in rated
        ),
    )


def _long(table: InputTable, metric_columns: Sequence[str]) -> RatingTable:
    table.check_columns(
        {*_KEYS, "score", *metric_columns}, ["video_id", "score"], _HINT, _OF_OTHER_LAYOUTS
    )
    keys = Keys.of_table(table)
    scores = table.numbers("score")
    if "rater" not in table.columns:
        keys.check_unique(table)
        values = {name: table.numbers(name, gaps=True) for name in metric_columns}
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
        {name: _metric_by_caption(table, name, column, len(places)) for name in metric_columns},
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


def _labels(table: InputTable) -> LabelTable:
    needed = ["video_id", "element_id", "label"]
    if any(name in table.columns for name in STRATUM_COLUMNS):
        needed += STRATUM_COLUMNS
    table.check_columns({*_KEYS, "element_id", "label", *STRATUM_COLUMNS}, needed)
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
        strata_of(table, keys) if "stratum" in table.columns else None,
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

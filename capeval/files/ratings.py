"""Human files: ratings of captions (long or wide) or labels of elements; the header decides.

Direct assessments are read as TRECVID Video-to-Text publishes them (`SYS,SID,RAW.SCR,Z.SCR,…`;
Graham, Awad and Smeaton 2018): `RAW.SCR` is the mean of several raters, and `SID` the line of the
system's file, from 1, which is the number of the video. A row with line 0 rates no caption.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from itertools import count, repeat
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from capeval.errors import UsageError
from capeval.files.tables import FileTable, ignored_columns, is_missing, read_table
from capeval.schema import COVERAGES, RELATIONS, LabelScale
from capeval.text import counted, cut, listed, nearest, shown

Key = tuple[str, str | None]
"""Video and system; None in a file without systems."""

IfMissing = Literal["error", "drop"]
"""What to do with rows without a rating, and with captions without a score of a metric."""

ROLES = ("video_id", "system", "rater", "score", "element_id", "label")
"""The columns of human files; a file with a column for each rater has human, human_2, …"""

_HUMAN = re.compile(r"human(_[0-9]+)?")
_ASSESSED = {"video_id": "SID", "system": "SYS", "score": "RAW.SCR"}
_BINARY = dict(zip(("1", "0"), COVERAGES, strict=True))


def caption_name(key: Key) -> str:
    """Return the name of a caption in messages.

    >>> caption_name(("v1", "model")), caption_name(("v1", None))
    ('v1 of model', 'v1')
    """
    return key[0] if key[1] is None else f"{key[0]} of {key[1]}"


@dataclass(frozen=True)
class Keys:
    """Keys as columns; `systems` is None for a file without systems."""

    videos: Sequence[str]
    systems: Sequence[str] | None

    @classmethod
    def of(cls, keys: Iterable[Key]) -> Keys:
        """Return given keys as columns; there must be at least one."""
        videos, systems = zip(*keys, strict=True)
        return cls(videos, None if systems[0] is None else systems)

    @classmethod
    def of_table(cls, table: FileTable, columns: Mapping[str, str]) -> Keys:
        """Return the key of each row; `columns` are the file's for `video_id` and `system`."""
        systems = table.names(columns["system"]) if "system" in columns else None
        return cls(table.ids(columns["video_id"]), systems)

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
        return _numbers(self.systems or [""] * len(self))


def _numbers(names: Iterable[Hashable]) -> NDArray[np.int64]:
    number: dict[Hashable, int] = defaultdict(count().__next__)
    return np.array([number[name] for name in names], dtype=np.int64)


@dataclass(frozen=True)
class _HumanFile:
    """What a human file is, and how it was read.

    Attributes
    ----------
    keys : of each caption, or of each label
    warnings : what is wrong with the data, and what was left out
    columns : the file's own column by the name that capeval has for it
    header : the names of all columns of the file
    """

    file: Path
    keys: Keys
    raters: tuple[str, ...]
    _: KW_ONLY
    warnings: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    header: tuple[str, ...] = ()

    @property
    def notices(self) -> tuple[str, ...]:
        """A notice of the columns that are not read, if there are any."""
        return ignored_columns(self.file, self.header, self.columns.values())


@dataclass(frozen=True)
class RatingTable(_HumanFile):
    """Ratings of captions.

    Attributes
    ----------
    ratings : (raters, captions), NaN for a caption that a rater did not rate
    metrics : the columns that were named as metrics, (captions,) each; NaN for an empty cell
    name : the kind of human score: "score" for ratings; "covered", "recall", "precision" or "f1"
        if computed from labels
    """

    ratings: NDArray[np.float64]
    metrics: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    name: str = "score"

    def take(self, rows: Sequence[int]) -> RatingTable:
        """Return the ratings of some of the captions, and the raters who rated one of them."""
        ratings = self.ratings[:, rows]
        # Without any rating left, the error of an empty file is clearer than that of no rater.
        rated = np.flatnonzero((~np.isnan(ratings)).any(axis=1)).tolist() or range(len(ratings))
        return replace(
            self,
            keys=self.keys.take(rows),
            raters=tuple(self.raters[rater] for rater in rated),
            ratings=ratings[list(rated)],
            metrics={name: values[rows] for name, values in self.metrics.items()},
        )


@dataclass(frozen=True)
class LabelTable(_HumanFile):
    """Labels of elements, (n,) each; `rater` has positions in `raters`, which are names.

    `places` are the labels' places in messages.
    """

    elements: Sequence[str]
    rater: Sequence[int]
    labels: Sequence[str]
    scale: LabelScale
    places: Sequence[str]

    def binary(self) -> LabelTable:
        """Return labels that say only whether an element is covered."""
        if self.scale == "binary":
            return self
        labels = [COVERAGES[0] if one == "entailment" else COVERAGES[1] for one in self.labels]
        return replace(self, labels=labels, scale="binary")

    def take(self, rows: Sequence[int]) -> LabelTable:
        used = sorted({self.rater[row] for row in rows})
        return replace(
            self,
            keys=self.keys.take(rows),
            elements=[self.elements[row] for row in rows],
            rater=[used.index(self.rater[row]) for row in rows],
            raters=tuple(self.raters[number] for number in used),
            labels=[self.labels[row] for row in rows],
            places=[self.places[row] for row in rows],
        )


def load_human(
    path: Path | str,
    metric_columns: Sequence[str] = (),
    *,
    columns: Mapping[str, str] | None = None,
    missing: IfMissing = "error",
    others: bool = False,
) -> RatingTable | LabelTable:
    """Read a human file.

    Parameters
    ----------
    metric_columns : columns with scores of metrics
    columns : the file's columns by capeval's names, where they differ
    missing : whether a row without a rating is an error, or left out with a warning
    others : whether a mapped column may be absent, because another file may have it

    InputError or UsageError if the file or the mapping of its columns is not valid.
    """
    mapped = dict(columns or {})
    check_mapped(mapped)
    table = read_table(path)
    if not others:
        check_all_found(mapped, {table.file: table.columns})
    for name in metric_columns:
        if name not in table.columns:
            near = nearest(name, [*table.columns])
            names = listed(map(shown, table.columns), 10)
            raise table.error(f"has no column {shown(name)}{near}; it has {names}")
    if table.find("element_id", mapped) and table.find("label", mapped):
        if metric_columns:
            raise table.error(
                "has labels of elements; a metric can be a column of ratings of captions only"
            )
        return _labels(table, mapped, missing)
    warnings: tuple[str, ...] = ()
    left: FileTable = table
    if table.columns.keys() >= {*_ASSESSED.values()} and not {*mapped} - {"score"}:
        left, warnings = _assessments(table)
        mapped = {**_ASSESSED, **mapped}
    if wide := _wide_columns(table, mapped):
        chosen = table.choose(["video_id", *wide], ["system"], {**mapped, **wide})
    else:
        chosen = table.choose(["video_id", "score"], ["system", "rater"], mapped)
    left, unrated = _rated(left, [chosen[name] for name in wide or ("score",)], missing)
    read = _wide if wide else _long
    found = read(left, chosen, metric_columns)
    return replace(
        found,
        warnings=(*warnings, *unrated, *found.warnings),
        columns=chosen,
        header=tuple(table.columns),
    )


def check_mapped(mapped: Mapping[str, str]) -> None:
    """Refuse a mapping of names that capeval does not have, or of one column to two names."""
    for role in mapped:
        if role not in ROLES and not _HUMAN.fullmatch(role):
            raise UsageError(
                f"--columns: {shown(role)} is not a column that capeval reads; one of "
                f"{', '.join(ROLES)}, human, human_2, … as in system=COLUMN{nearest(role, ROLES)}"
            )
    for name, times in Counter(mapped.values()).items():
        if times > 1:
            raise UsageError(f"--columns: {shown(name)} is mapped twice")


def check_all_found(mapped: Mapping[str, str], headers: Mapping[Any, Collection[str]]) -> None:
    """Refuse a mapping of a column that is in none of some files; `headers` are by file."""
    names = list(dict.fromkeys(name for header in headers.values() for name in header))
    for role, name in mapped.items():
        if name not in names:
            raise UsageError(
                f"--columns {role}={cut(name)}: no such column in "
                f"{' or '.join(map(str, headers))}; found {listed(map(shown, names), 10)}"
                f"{nearest(name, names)}"
            )


def _wide_columns(table: FileTable, mapped: Mapping[str, str]) -> dict[str, str]:
    """Return the columns that have the ratings of one rater each, by human, human_2, …"""
    names = {role: name for role, name in mapped.items() if _HUMAN.fullmatch(role)}
    if names or mapped.get("score") in table.columns:
        return {role: name for role, name in names.items() if name in table.columns}
    return {name: name for name in table.columns if _HUMAN.fullmatch(name)}


def _rated(
    table: FileTable, columns: Sequence[str], missing: IfMissing
) -> tuple[FileTable, tuple[str, ...]]:
    """Return the rows that are rated in one of the columns, and a warning about the others."""
    cells = zip(*(table.columns[name] for name in columns), strict=True)
    rated = [not all(map(is_missing, row)) for row in cells]
    if all(rated):
        return table, ()
    if not any(rated):
        raise table.error(f"no row has a rating in {listed(map(shown, columns))}")
    first = rated.index(False)
    if missing == "error":
        raise table.error(
            f"{table.empty}; leave unrated rows out with --missing drop",
            row=first,
            column=", ".join(columns),
        )
    left = rated.count(False)
    warning = (
        f"{table.file}: {counted(left, 'row')} without a rating {'is' if left == 1 else 'are'} "
        f"left out (the first is {table.places[first]})"
    )
    return table.take([row for row, is_rated in enumerate(rated) if is_rated]), (warning,)


def _wide(
    table: FileTable, chosen: Mapping[str, str], metric_columns: Sequence[str]
) -> RatingTable:
    """Return the ratings of a table with a column for each rater."""
    keys = Keys.of_table(table, chosen)
    table.check_unique(list(keys), "video_id, system")
    given = {
        column: table.numbers(column) for name, column in chosen.items() if _HUMAN.fullmatch(name)
    }
    rated = {column: ratings for column, ratings in given.items() if not np.isnan(ratings).all()}
    warnings = tuple(
        f"{table.file}: the column {shown(column)} is empty in every row: this rater is left out"
        for column in given
        if column not in rated
    )
    metrics = {name: table.numbers(name) for name in metric_columns}
    ratings = np.stack([*rated.values()])
    return RatingTable(table.file, keys, tuple(rated), ratings, metrics, warnings=warnings)


def _long(
    table: FileTable, chosen: Mapping[str, str], metric_columns: Sequence[str]
) -> RatingTable:
    """Return the ratings of a table with a row for each rating."""
    keys = Keys.of_table(table, chosen)
    scores = table.numbers(chosen["score"])
    metrics = {name: table.numbers(name) for name in metric_columns}
    if "rater" not in chosen:
        table.check_unique(list(keys), "video_id, system")
        return RatingTable(table.file, keys, ("human",), scores[None], metrics)
    raters = table.names(chosen["rater"])
    of_row = [(*key, rater) for key, rater in zip(keys, raters, strict=True)]
    table.check_unique(of_row, "video_id, system, rater")
    captions, names = dict.fromkeys(keys), tuple(dict.fromkeys(raters))
    caption = _numbers(keys)
    ratings = np.full((len(names), len(captions)), np.nan)
    ratings[_numbers(raters), caption] = scores
    return RatingTable(
        table.file,
        Keys.of(captions),
        names,
        ratings,
        {name: _by_caption(table, name, of, caption) for name, of in metrics.items()},
    )


def _by_caption(
    table: FileTable, name: str, values: NDArray[np.float64], caption: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return a metric's score of each caption, from a table with a row for each rating."""
    result = np.full(int(caption.max()) + 1, np.nan)
    result[caption[::-1]] = values[::-1]
    differ = np.flatnonzero(~((result[caption] == values) | np.isnan(values)))
    if len(differ):
        row = int(differ[0])
        message = f"{values[row]:g} differs from an earlier score of the same caption"
        raise table.error(message, row=row, column=name)
    return result


def _assessments(table: FileTable) -> tuple[FileTable, tuple[str, ...]]:
    """Return the rows of a direct assessment that rate a caption, and warnings about others."""
    given = table.names(_ASSESSED["video_id"])
    for row, number in enumerate(given):
        if not (number.isascii() and number.isdigit()):
            message = f"{shown(number)} is not a line number"
            raise table.error(message, row=row, column=_ASSESSED["video_id"])
    # 07 and 7 are the same line and so the same video.
    lines = [int(number) for number in given]
    kept = [row for row, line in enumerate(lines) if line]
    systems = table.names(_ASSESSED["system"])
    warnings = tuple(
        f"{table.file}: {table.places[row]}: SID is 0 and lines count from 1, so this row of "
        f"{cut(systems[row])} rates no caption: skipped"
        for row, line in enumerate(lines)
        if not line
    )
    columns = {**table.columns, _ASSESSED["video_id"]: [str(line) for line in lines]}
    return replace(table, columns=columns).take(kept), warnings


def _labels(table: FileTable, mapped: Mapping[str, str], missing: IfMissing) -> LabelTable:
    chosen = table.choose(("video_id", "element_id", "label"), ["system", "rater"], mapped)
    table, warnings = _rated(table, [chosen["label"]], missing)
    keys = Keys.of_table(table, chosen)
    elements = table.names(chosen["element_id"])
    # An event of ten elements or more: the number 1.10 has become 1.1.
    if chosen["element_id"] in table.fractions and any(re.search(r"\.\d\d", e) for e in elements):
        message = "has numbers, and 1.10 is not 1.1; format the column as text, or save it as CSV"
        raise table.error(message, column=chosen["element_id"])
    raters = table.names(chosen["rater"]) if "rater" in chosen else ["human"] * len(table)
    of_row = [(*key, e, r) for key, e, r in zip(keys, elements, raters, strict=True)]
    table.check_unique(of_row, "video_id, system, element_id, rater")
    labels = table.names(chosen["label"])
    scale: LabelScale = "binary" if labels[0] in _BINARY else "three-way"
    valid = tuple(_BINARY) if scale == "binary" else RELATIONS
    for row, label in enumerate(labels):
        if label not in valid:
            every = (*RELATIONS, *_BINARY)
            problem = f"{shown(label)} is unknown; one of {', '.join(every)}"
            if label in every:
                problem = f"{shown(label)} is on another scale than {shown(labels[0])} above"
            raise table.error(problem + nearest(label, RELATIONS), row=row, column=chosen["label"])
    return LabelTable(
        table.file,
        keys,
        tuple(dict.fromkeys(raters)),
        elements,
        _numbers(raters).tolist(),
        [_BINARY[label] for label in labels] if scale == "binary" else labels,
        scale,
        table.places,
        warnings=warnings,
        columns=chosen,
        header=tuple(table.columns),
    )

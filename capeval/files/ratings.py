"""Human files and scores of metrics made elsewhere; the header decides what a file has.

A human file has ratings of captions (long or wide) or labels of elements. A file of metrics is a
table of `video_id,system?,score`, or a `metrics.jsonl`.

Direct assessments are read as TRECVID Video-to-Text publishes them (`SYS,SID,RAW.SCR,Z.SCR,…`;
Graham, Awad and Smeaton 2018): `RAW.SCR` is the mean of several raters, and `SID` the line of the
system's file, from 1, which is the number of the video. A row with line 0 rates no caption.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import count, repeat
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from capeval.errors import UsageError
from capeval.files.tables import FileTable, check_all_found, ignored_columns, is_missing, read_table
from capeval.schema import COVERAGES, RELATIONS, LabelScale
from capeval.text import counted, cut, listed, nearest, shown

Key = tuple[str, str | None]
"""Video and system; None in a file without systems."""

IfMissing = Literal["error", "drop"]
"""Whether rows without a rating, and captions without a score, are an error or left out."""

ROLES = ("video_id", "system", "rater", "score", "element_id", "label", "caption_hash")
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


def _keys(table: FileTable, columns: Mapping[str, str]) -> list[Key]:
    table.check_whole(columns["video_id"])
    systems = table.names(columns["system"]) if "system" in columns else repeat(None)
    return [*zip(table.names(columns["video_id"]), systems, strict=False)]


def _hashes(table: FileTable, columns: Mapping[str, str], keys: Sequence[Key]) -> dict[Key, str]:
    column, found = columns.get("caption_hash", ""), dict[Key, str]()
    given = {row: str(n) for row, n in enumerate(table.cells(column)) if not is_missing(n)}
    for row, text in given.items():
        what = ""
        if not re.fullmatch("[0-9a-f]{12}", text):
            what = f"{shown(text)} is not the hash of a caption; format the column as text"
        elif found.setdefault(keys[row], text) != text:
            what = "differs from an earlier row of this caption; keep the rows of one text"
        if what:
            raise table.error(what, row=row, column=column)
    return found


def differ(one: str | None, other: str | None) -> bool:
    """Return whether two hashes are of different captions; None is an unknown caption."""
    return None not in (one, other) and one != other


def numbered(names: Iterable[Hashable]) -> NDArray[np.int64]:
    """Return the number of each name, from 0 in the order of first appearance: (n,)."""
    number: dict[Hashable, int] = defaultdict(count().__next__)
    return np.array([number[name] for name in names], dtype=np.int64)


@dataclass(frozen=True)
class _HumanFile:
    """Common to human files: the `keys` of captions or labels, and the columns.

    `columns` has the file's own columns by capeval's names, `hashes` the hash of each caption's
    text where the file has it.
    """

    file: Path
    keys: Sequence[Key]
    raters: tuple[str, ...]
    _: KW_ONLY
    warnings: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    header: tuple[str, ...] = ()
    hashes: Mapping[Key, str] = field(default_factory=dict)

    @property
    def video(self) -> NDArray[np.int64]:
        """The number of each key's video, from 0 in the order of first appearance: (n,)."""
        return numbered(video for video, _ in self.keys)

    @property
    def notices(self) -> tuple[str, ...]:
        return ignored_columns(self.file, self.header, self.columns.values())


@dataclass(frozen=True)
class RatingTable(_HumanFile):
    """Ratings of captions, (raters, captions); NaN for a caption that a rater did not rate.

    `metrics` are the columns that were named as metrics, (captions,) each. `name` is "score", or
    "covered", "recall", "precision" or "f1" where the ratings were computed from labels.
    """

    ratings: NDArray[np.float64]
    metrics: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    name: str = "score"


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
        if self.scale == "binary":
            return self
        labels = [COVERAGES[0] if one == "entailment" else COVERAGES[1] for one in self.labels]
        return replace(self, labels=labels, scale="binary")

    def take(self, rows: Sequence[int]) -> LabelTable:
        used = sorted({self.rater[row] for row in rows})
        return replace(
            self,
            keys=[self.keys[row] for row in rows],
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
    """Read a human file; `columns` are its columns by capeval's names, where they differ.

    With `others`, a mapped column may be absent, because another file may have it. InputError or
    UsageError if the file or the mapping is not valid.
    """
    mapped = dict(columns or {})
    _check_mapped(mapped)
    table = read_table(path)
    if not others:
        check_all_found(mapped, {table.file: table.header})
    for name in metric_columns:
        if name not in table.header:
            near = nearest(name, [*table.header])
            names = listed(map(shown, table.header), 10)
            raise table.error(f"has no column {shown(name)}{near}; it has {names}")
    if table.find("element_id", mapped) and table.find("label", mapped):
        if metric_columns:
            raise table.error(
                "has labels of elements; only a file with ratings can have columns of metrics"
            )
        return _labels(table, mapped, missing)
    warnings: list[str] = []
    if {*table.header} >= {*_ASSESSED.values()} and not {*mapped} - {"score"}:
        table, warnings = _assessments(table)
        mapped = {**_ASSESSED, **mapped}
    wide = _wide_columns(table, mapped)
    optional = ["system", "caption_hash", *([] if wide else ["rater"])]
    chosen = table.choose(["video_id", *(wide or ["score"])], optional, {**mapped, **wide})
    table, unrated = _rated(table, [chosen[name] for name in wide or ["score"]], missing)
    warnings += unrated
    keys: Sequence[Key] = _keys(table, chosen)
    hashes = _hashes(table, chosen, keys)
    metrics = {name: table.numbers(name) for name in metric_columns}
    if "rater" in chosen:
        raters, keys, ratings, metrics = _by_caption(table, chosen, keys, metrics)
    else:
        table.check_unique(keys, "video_id, system")
        given = {wide.get(name, "human"): table.numbers(chosen[name]) for name in wide or ["score"]}
        rated = {rater: scores for rater, scores in given.items() if not np.isnan(scores).all()}
        warnings += (
            f"{table.file}: the column {shown(rater)} is empty in every row: this rater is left out"
            for rater in given
            if rater not in rated
        )
        raters, ratings = tuple(rated), np.stack([*rated.values()])
    return RatingTable(
        table.file,
        keys,
        raters,
        ratings,
        metrics,
        warnings=tuple(warnings),
        columns=chosen,
        header=tuple(table.header),
        hashes=hashes,
    )


def _check_mapped(mapped: Mapping[str, str]) -> None:
    for role in mapped:
        if role not in ROLES and not _HUMAN.fullmatch(role):
            raise UsageError(
                f"--columns: {shown(role)} is not a column that capeval reads; name "
                f"{', '.join(ROLES)}, human, human_2, … as in system=COLUMN{nearest(role, ROLES)}"
            )
    for name, times in Counter(mapped.values()).items():
        if times > 1:
            raise UsageError(f"--columns: {shown(name)} is mapped twice")


def _wide_columns(table: FileTable, mapped: Mapping[str, str]) -> dict[str, str]:
    names = {role: name for role, name in mapped.items() if _HUMAN.fullmatch(role)}
    if names or mapped.get("score") in table.header:
        return {role: name for role, name in names.items() if name in table.header}
    return {name: name for name in table.header if _HUMAN.fullmatch(name)}


def _rated(
    table: FileTable, columns: Sequence[str], missing: IfMissing
) -> tuple[FileTable, list[str]]:
    """Return the rows that are rated in one of the columns, and a warning about the others."""
    rated = [not all(is_missing(row.get(name)) for name in columns) for row in table.rows]
    if all(rated):
        return table, []
    if not any(rated):
        raise table.error(f"no row has a rating in {listed(map(shown, columns))}")
    first = rated.index(False)
    if missing == "error":
        message = "is empty; leave unrated rows out with --missing drop"
        raise table.error(message, row=first, column=", ".join(columns))
    left = rated.count(False)
    warning = (
        f"{table.file}: {counted(left, 'row')} without a rating {'is' if left == 1 else 'are'} "
        f"left out (the first is {table.places[first]})"
    )
    return table.take([row for row, is_rated in enumerate(rated) if is_rated]), [warning]


def _by_caption(
    table: FileTable,
    chosen: Mapping[str, str],
    keys: Sequence[Key],
    metrics: Mapping[str, NDArray[np.float64]],
) -> tuple[tuple[str, ...], Sequence[Key], NDArray[np.float64], dict[str, NDArray[np.float64]]]:
    raters = table.names(chosen["rater"])
    of_row = [(*key, rater) for key, rater in zip(keys, raters, strict=True)]
    table.check_unique(of_row, "video_id, system, rater")
    captions, names = dict.fromkeys(keys), tuple(dict.fromkeys(raters))
    caption = numbered(keys)
    ratings = np.full((len(names), len(captions)), np.nan)
    ratings[numbered(raters), caption] = table.numbers(chosen["score"])
    found = {}
    for name, values in metrics.items():
        found[name] = of_caption = np.full(len(captions), np.nan)
        of_caption[caption[::-1]] = values[::-1]
        differ = np.flatnonzero(~((of_caption[caption] == values) | np.isnan(values)))
        if len(differ):
            row = int(differ[0])
            message = f"{values[row]:g} differs from an earlier score of the same caption"
            raise table.error(message, row=row, column=name)
    return names, [*captions], ratings, found


def _assessments(table: FileTable) -> tuple[FileTable, list[str]]:
    video, system = _ASSESSED["video_id"], _ASSESSED["system"]
    rows, kept, warnings = [], [], []
    for row, (given, of) in enumerate(zip(table.names(video), table.names(system), strict=True)):
        if not (given.isascii() and given.isdigit()):
            raise table.error(f"{shown(given)} is not a line number", row=row, column=video)
        # 07 and 7 are the same line and so the same video.
        rows.append({**table.rows[row], video: str(int(given))})
        if int(given):
            kept.append(row)
        else:
            warnings.append(
                f"{table.file}: {table.places[row]}: SID is 0 and lines count from 1, so this row "
                f"of {cut(of)} rates no caption: skipped"
            )
    return replace(table, rows=rows).take(kept), warnings


def _labels(table: FileTable, mapped: Mapping[str, str], missing: IfMissing) -> LabelTable:
    optional = ("system", "rater", "caption_hash")
    chosen = table.choose(("video_id", "element_id", "label"), optional, mapped)
    table, warnings = _rated(table, [chosen["label"]], missing)
    keys: Sequence[Key] = _keys(table, chosen)
    elements = table.names(chosen["element_id"])
    # Of an event with ten elements or more, the number 1.10 has become 1.1.
    if any(re.search(r"\.\d\d", element) for element in elements):
        table.check_whole(chosen["element_id"])
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
        numbered(raters).tolist(),
        [_BINARY[label] for label in labels] if scale == "binary" else labels,
        scale,
        table.places,
        warnings=tuple(warnings),
        columns=chosen,
        header=tuple(table.header),
        hashes=_hashes(table, chosen, keys),
    )


# ---- Metrics -----------------------------------------------------------------------------------


@dataclass
class MetricScores:
    """The scores of one metric by caption; `missing` has the reason for each unscored caption.

    `measure` is "precision", "recall" or "f1" for a judge's scores, None for any other metric;
    `own` is the name that a metrics.jsonl gives it, and `found` whether it was found in a run and
    not named by the user; `captions` are the hashes of the captions that it says it measured.
    """

    name: str
    scores: dict[Key, float] = field(default_factory=dict)
    missing: dict[Key, str] = field(default_factory=dict)
    sources: list[str] = field(default_factory=list)
    signatures: list[str] = field(default_factory=list)
    measure: str | None = None
    own: str | None = None
    found: bool = False
    captions: dict[Key, str] = field(default_factory=dict)

    @property
    def keys(self) -> set[Key]:
        return {*self.scores, *self.missing}

    @property
    def source_name(self) -> str:
        """The judge whose measure this is, or the metric's own name."""
        return self.name if self.measure is None else self.name.removesuffix(f":{self.measure}")

    def of_system(self, system: str | None) -> MetricScores:
        return replace(
            self,
            scores={(video, system): score for (video, _), score in self.scores.items()},
            missing={(video, system): reason for (video, _), reason in self.missing.items()},
            captions={(video, system): text for (video, _), text in self.captions.items()},
        )

    def leave_out_others(self, hashes: Mapping[Key, str], reason: str) -> None:
        """Treat scores of other captions than those of these hashes as missing."""
        for key, text in self.captions.items():
            if differ(text, hashes.get(key)) and self.scores.pop(key, None) is not None:
                self.missing[key] = reason


@dataclass(frozen=True)
class MetricFile:
    """The metrics of a file, the names of all its columns, and the used columns."""

    metrics: list[MetricScores]
    header: tuple[str, ...]
    read: frozenset[str]


def load_metrics(
    path: Path | str,
    name: str,
    columns: Mapping[str, str] | None = None,
) -> MetricFile:
    """Read a file of metric scores, with the file's `columns` by capeval's names.

    A table has one metric, called `name`: the column of that name, else `score`. A metrics.jsonl
    can have several: `name:metric` each.
    """
    table = read_table(path)
    stored = {"metric", "value"} <= {*table.header}
    chosen = _metric_columns(table, name, dict(columns or {}), stored=stored)
    keys: Sequence[Key] = _keys(table, chosen)
    metrics = table.names("metric") if stored else [name] * len(table)
    keyed = [(*key, metric) for key, metric in zip(keys, metrics, strict=True)]
    table.check_unique(keyed, "video_id, system, metric")
    values = table.numbers(chosen["score"]).tolist()
    reasons, signatures, hashes = (
        table.cells(chosen.get(column, "")) for column in ("reason", "signature", "caption_hash")
    )
    no_reason = "no value" if stored else "no score in the file"
    found = {metric: MetricScores(metric, sources=[str(path)]) for metric in dict.fromkeys(metrics)}
    for metric, key, value, reason, signature, caption in zip(
        metrics, keys, values, reasons, signatures, hashes, strict=True
    ):
        scores = found[metric]
        if math.isnan(value):
            scores.missing[key] = str(reason or no_reason)
        else:
            scores.scores[key] = value
        if signature and str(signature) not in scores.signatures:
            scores.signatures.append(str(signature))
        if caption:
            scores.captions[key] = str(caption)
    for metric, scores in found.items():
        scores.own = metric if stored else None
        scores.name = name if len(found) == 1 else f"{name}:{metric}"
    return MetricFile([*found.values()], tuple(table.header), frozenset(chosen.values()))


def _metric_columns(
    table: FileTable, name: str, mapped: dict[str, str], *, stored: bool
) -> dict[str, str]:
    if not table.find("video_id", mapped):
        mapped.setdefault("video_id", "index")
    if stored:
        mapped["score"] = "value"
        more = ("system", "reason", "signature", "caption_hash")
        return {**table.choose(["video_id", "score"], more, mapped), "metric": "metric"}
    if mapped.get("score") not in table.header and name in table.header:
        mapped["score"] = name
    return table.choose(["video_id", "score"], ["system"], mapped)

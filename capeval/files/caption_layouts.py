"""Captions files in any layout: capeval's, a table's, or another program's.

What another program wrote is recognised by its fields and joined to the annotated videos:

- VLMEvalKit's predictions have `video` and `prediction`; their `index` is the number of a row.
- lmms-eval's logs have `doc_id` and replies in `filtered_resps` or `resps`, nested or (since 0.7)
  flat; version 0.2 wrote one object with a list `logs`.
- TUNA's converter of predictions writes `{row number: caption}` where its evaluation expects
  `{index: caption}`, and NaN for a missing caption.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from capeval.errors import InputError, UsageError
from capeval.files.captions import are_lines, load_captions
from capeval.files.ratings import check_all_found
from capeval.files.reading import json_lines, parse_json, read_bytes, read_text
from capeval.files.tables import is_binary_table, is_missing, read_table
from capeval.files.validation import validated_records
from capeval.files.videos import SUFFIXES
from capeval.schema import Annotation, Caption
from capeval.text import Loss, counted, listed, shown

COLUMNS = ("index", "caption", "model")
"""What `--columns` can name in files of captions; the model is optional."""

# What these programs write in place of a caption. A caption that only quotes it is one.
_FAILED = ("Failed to obtain answer", "[LMMS_EVAL_REQUEST_FAILED")
# A cell of a workbook has at most 32,767 characters, and loses blanks at its ends where it is read.
_LONGEST_CELL = 32_700
_MOST_KEYS = 12
_OWN = {"index", "caption"}


@dataclass(frozen=True)
class CaptionsFile:
    """The captions of a file, and what a user should know about how it was read."""

    captions: tuple[Caption, ...]
    notices: tuple[str, ...] = ()


def read_captions(
    path: Path | str,
    annotations: Sequence[Annotation],
    columns: Mapping[str, str] | None = None,
) -> CaptionsFile:
    """Return the captions of a file, in its order.

    Parameters
    ----------
    annotations : the videos to which captions of other programs are joined; may be none
    columns : the file's own names for `COLUMNS`

    Raises
    ------
    InputError
        No layout fits, a record is malformed, or captions cannot be joined to videos.
    """
    path = Path(path)
    is_workbook = is_binary_table(path)
    if not is_workbook and read_bytes(path)[:1] == b"\x80":
        raise InputError(
            "is a pickle, which can run any program when it is read; save the predictions as "
            "xlsx, tsv or json",
            file=path,
        )
    known, notices = _Known(annotations), list[str]()
    if not columns and not is_workbook and read_text(path).lstrip()[0] in "{[":
        layout, rows = _of_json(path, known)
    else:
        layout, rows = _recognised(path, _table_records(path, columns), known)
    if rows is None:
        captions = load_captions(path)
        given = [one for one in captions if not _is_missing(one.caption)]
        missing, captions = len(captions) - len(given), tuple(given)
    else:
        left = [row for row in rows if not _is_missing(row[1]["caption"])]
        if not left:
            raise InputError("has no caption", file=path)
        missing, captions = len(rows) - len(left), validated_records(Caption, left, file=path)
    if layout:
        notices.append(f"{path}: {layout}")
    if missing:
        what = f"{counted(missing, 'video')} without a caption; counted as not captioned"
        notices.append(f"{path}: {what}")
    found = {caption.index: known.find(caption.index) for caption in captions}
    named = {name: index for name, index in found.items() if index not in (None, name)}
    if named:
        notices.append(f"{path}: {counted(len(named), 'index', 'indexes')} joined as file names")
        captions = tuple(
            c.model_copy(update={"index": named.get(c.index, c.index)}) for c in captions
        )
    if len(captions) > 2 and len({c.caption for c in captions}) == 1:
        notices.append(Loss(f"{path}: all {len(captions):,} captions are the same text"))
    if is_workbook and (long := [c.index for c in captions if len(c.caption) >= _LONGEST_CELL]):
        what = "as long as a cell of a workbook can be, and may be cut"
        notices.append(Loss(f"{path}: the caption of {listed(long)} is {what}"))
    return CaptionsFile(captions, tuple(notices))


Records = Sequence[tuple[str, dict[str, Any]]]
"""The place and the fields of each record."""


def _is_missing(caption: Any) -> bool:
    return caption is None or (isinstance(caption, str) and caption.startswith(_FAILED))


def _table_records(path: Path, columns: Mapping[str, str] | None) -> Records:
    """Return the rows of a table; an empty cell, which any missing caption leaves, is None."""
    table = read_table(path, nan=True)
    if unknown := [name for name in columns or () if name not in COLUMNS]:
        what = f"--columns: {shown(unknown[0])} is not a column of captions"
        raise UsageError(f"{what}; name {', '.join(COLUMNS)}, as in index=COLUMN")
    check_all_found(columns or {}, {path: table.columns})
    names = {name: name for name in table.columns}
    names |= {name: own for name in COLUMNS if (own := table.find(name, columns)) is not None}
    if columns:
        table.choose(COLUMNS[:2], mapped=columns)
        # What the user has not named says nothing about whose captions these are.
        names.pop("prediction", None)
    rows = [
        (place, {name: None if is_missing(row[own]) else row[own] for name, own in names.items()})
        for place, row in table.records()
    ]
    for _, row in rows:
        if type(row.get("index")) is int:
            row["index"] = str(row["index"])
    return rows


def _of_json(path: Path, known: _Known) -> tuple[str, Records | None]:
    """Return the layout of JSON and its records; None if they are capeval's own captions."""
    text = read_text(path)
    if are_lines(text):
        first = next(value for _, value in json_lines(text, file=path, nan=True))
        if first.keys() >= _OWN:
            return "", None
        records = [(f"line {n}", value) for n, value in json_lines(text, file=path, nan=True)]
    else:
        whole = parse_json(text, file=path, nan=True)
        if isinstance(whole, dict) and isinstance(whole.get("logs"), list):
            whole = whole["logs"]
        if isinstance(whole, dict) and not whole.keys() & {"caption", "doc_id"}:
            return _of_mapping(path, whole, known)
        values = whole if isinstance(whole, list) else [whole]
        records = [(f"entry {n}", value) for n, value in enumerate(values, start=1)]
    if not records or any(not isinstance(value, dict) for _, value in records):
        return "", None
    return ("", None) if records[0][1].keys() >= _OWN else _recognised(path, records, known)


def _of_mapping(path: Path, texts: Mapping[str, Any], known: _Known) -> tuple[str, Records]:
    """Return the captions of `{index: caption}`, or of what TUNA's converter makes of it."""
    pairs = enumerate(texts.items(), start=1)
    records = [(f"entry {n}", {"index": name, "caption": text}) for n, (name, text) in pairs]
    numbers = {str(number) for number in range(len(texts))}
    named = sum(known.find(name) is not None for name in texts)
    if not known or texts.keys() != numbers or named == len(texts):
        return "", records
    what = "names videos by their row number, as TUNA's converter of predictions does"
    if named or len(known) != len(texts):
        raise InputError(
            f"{what}; its {counted(len(texts), 'row')} cannot be joined to "
            f"{counted(len(known), 'annotated video')}, and the benchmark's own evaluation "
            "skips what it does not know; give the predictions from which it was converted",
            file=path,
        )
    for (_, record), index in zip(records, known.in_order(range(len(texts))) or (), strict=True):
        record["index"] = index
    return f"{what}; joined in the order of the annotations", records


class _Known:
    """The annotated videos, in order, under all names that other programs may have for them."""

    def __init__(self, annotations: Sequence[Annotation]) -> None:
        self._annotations = annotations
        self._order = {one.index: n for n, one in enumerate(annotations)}

    @cached_property
    def _by_stem(self) -> dict[str, set[tuple[tuple[str, ...], str]]]:
        """By the last part of a name: the whole names, with their folders, and their indexes."""
        found: dict[str, set[tuple[tuple[str, ...], str]]] = {}
        for one in self._annotations:
            for name in (one.index, one.video or one.index):
                parts = _parts(name)
                found.setdefault(parts[-1], set()).add((parts, one.index))
        return found

    def __len__(self) -> int:
        return len(self._order)

    def find(self, name: Any) -> str | None:
        """Return the index of the one video that a name or a path means.

        Where both have folders, these must agree as far as both name them.
        """
        if name in self._order:
            return str(name)
        asked = _parts(str(name))
        there = self._by_stem.get(asked[-1], set())
        exact = {index for parts, index in there if parts == asked}
        near = {index for parts, index in there if all(map(str.__eq__, parts[::-1], asked[::-1]))}
        found = exact or near
        return found.pop() if len(found) == 1 else None

    def in_order(self, numbers: Iterable[Any]) -> list[str] | None:
        """Return the index for each row number, from 0, if they count all annotated videos."""
        found = {str(number): index for index, number in self._order.items()}
        texts = [*map(str, numbers)]
        return [found[text] for text in texts] if {*texts} == found.keys() else None


def _parts(name: str) -> tuple[str, ...]:
    """Return the folders and the name of a path, without the suffix of a video."""
    path = PurePosixPath(name.replace("\\", "/"))
    path = path.with_suffix("") if path.suffix.lower() in SUFFIXES else path
    return tuple(part for part in path.parts if part not in ("/", "..")) or (name,)


def _recognised(path: Path, records: Records, known: _Known) -> tuple[str, Records]:
    """Return the layout's name, and the place, index and caption of each record."""
    keys = records[0][1].keys()
    if {"video", "prediction"} <= keys:
        names = [row.get("video") for _, row in records]
        texts = [row.get("prediction") for _, row in records]
        # Tables show a missing prediction as an empty one; JSON is read alike.
        texts = [None if isinstance(text, str) and not text.strip() else text for text in texts]
        found = [known.find(name) or name for name in names]
        return "VLMEvalKit's predictions, joined by video", _joined(records, found, texts)
    by_index = "index" in keys and (
        "video" not in keys or any(known.find(row.get("index")) for _, row in records)
    )
    if "caption" in keys and by_index:
        return "", records
    if {"video", "caption"} <= keys:
        return "", [(place, {**row, "index": row.get("video")}) for place, row in records]
    if "doc_id" in keys and {"resps", "filtered_resps"} & keys:
        return _of_lmms_eval(path, records, known)
    raise InputError(
        f"has no captions in a known layout; it has {listed(map(shown, keys), _MOST_KEYS)}; name "
        "the columns of the video and the caption with --columns index=NAME,caption=NAME",
        file=path,
    )


def _joined(records: Records, indexes: Sequence[Any], captions: Sequence[Any]) -> Records:
    return [
        (place, {"index": index, "caption": caption})
        for (place, _), index, caption in zip(records, indexes, captions, strict=True)
    ]


def _of_lmms_eval(path: Path, records: Records, known: _Known) -> tuple[str, Records]:
    replies = [_first(row.get("filtered_resps", row.get("resps"))) for _, row in records]
    fields = [_texts(row) for _, row in records]
    matched = {
        name: [known.find(texts[name]) if name in texts else None for texts in fields]
        for name in fields[0]
    }
    best = max(matched, key=lambda name: len({*matched[name]} - {None}), default=None)
    if best is not None and any(matched[best]):
        named = [one or texts.get(best) for one, texts in zip(matched[best], fields, strict=True)]
        return f"lmms-eval's log, joined by {best}", _joined(records, named, replies)
    found = known.in_order([row.get("doc_id") for _, row in records])
    if found is None:
        raise InputError(
            f"lmms-eval's log has no field with the names of the annotated videos, and its doc_id "
            f"is not each number from 0 to {len(known) - 1}; log the video's name with each sample",
            file=path,
        )
    how = "joined by doc_id in the order of the annotations"
    return f"lmms-eval's log, {how}", _joined(records, found, replies)


def _first(replies: Any) -> Any:
    """Return the first reply of a nested list."""
    while isinstance(replies, list):
        replies = replies[0] if replies else None
    return replies


def _texts(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields with text, and those of nested objects: the document, or a metric."""
    found: dict[str, str] = {}
    for name, value in row.items():
        inner = value if isinstance(value, dict) else {"": value}
        for part, text in inner.items():
            if isinstance(text, str):
                found[f"{name}.{part}".rstrip(".")] = text
    return found

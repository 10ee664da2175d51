"""Captions: files in any layout, texts in memory, and the lines that capeval writes.

Files of other programs are recognised by their fields and joined to the annotated videos:

- VLMEvalKit's predictions have `index`, `video` and `prediction`; the index numbers the rows.
- lmms-eval's logs have `doc_id` and replies in `filtered_resps` or `resps`, nested or (since 0.7)
  flat.
- TUNA's converter of predictions writes `{row number: caption}` where its evaluation expects
  `{index: caption}`, and NaN for a missing caption.

In all other files, `COLUMNS` says which column is which.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter, ne
from pathlib import Path
from typing import Any

from capeval.errors import InputError, ReplyError, UsageError
from capeval.files.annotations import KnownVideos, hint_of, look_alike, path_parts
from capeval.files.jsonl import (
    json_object,
    json_values,
    lines_hash,
    numbered_lines,
    validated_records,
)
from capeval.files.tables import (
    FileTable,
    check_all_found,
    folded,
    is_missing,
    table_or_json,
)
from capeval.language import after_thinking
from capeval.schema import Annotation, Caption, Video, id_text
from capeval.text import Loss, counted, listed, nearest, shown

COLUMNS = {
    "index": ("index", "video_id", "id", "video"),
    "caption": ("caption", "prediction", "response", "text", "output", "pred"),
    "model": ("model",),
}
"""The roles that `--columns` can name, and the known names of their columns.

The index is the first that names annotated videos, the caption the only one present; the model is
optional.
"""

# VLMEvalKit and lmms-eval record a failed call like this; a caption may quote it.
_FAILED = ("Failed to obtain answer", "[LMMS_EVAL_REQUEST_FAILED")
# Spreadsheet programs turn a caption that begins with =, +, - or @ into one of these.
_BROKEN_FORMULAS = {"#NAME?", "#VALUE!", "#REF!", "#NULL!", "#NUM!", "#DIV/0!", "#ERROR!"}
_MOST_KEYS = 12


@dataclass(frozen=True)
class CaptionsFile:
    """The captions of a file, and notices about how it was read."""

    captions: tuple[Caption, ...]
    notices: tuple[str, ...] = ()


Records = Sequence[tuple[str, dict[str, Any]]]
"""The place and the fields of each record."""


def read_captions(
    path: Path | str,
    annotations: Sequence[Video],
    columns: Mapping[str, str] | None = None,
) -> CaptionsFile:
    """Return the captions of a file, in its order, joined to `annotations`, which may be none.

    `columns` are the file's own names for `COLUMNS`. InputError if no layout fits, a record is
    malformed, or captions cannot be joined to videos.
    """
    path, columns = Path(path), dict(columns or {})
    if unknown := [name for name in columns if name not in COLUMNS]:
        what = f"--columns: {shown(unknown[0])} is not a column of captions"
        raise UsageError(f"{what}; name {', '.join(COLUMNS)}, as in index=COLUMN")
    if path.suffix == ".pkl":
        what = "is a pickle, which can run any program when it is read"
        raise InputError(f"{what}; save the predictions as xlsx, tsv or json", file=path)
    known = KnownVideos(annotations)
    content = table_or_json(path)
    if isinstance(content, str):
        table, (how, records) = None, _json_records(path, content, columns, known)
    else:
        table, how, records = content, "", [*content.records()]
    header = {name for _, row in records for name in row}
    has_blanks = table is not None
    if not columns and "doc_id" in header and {"resps", "filtered_resps"} & header:
        how, records = _of_lmms_eval(path, records, known)
    elif not columns and {"index", "video", "prediction"} <= header:
        how, has_blanks = "VLMEvalKit's predictions, joined by video", True
        columns = {"index": "video", "caption": "prediction"}
    notices, rows = _joined(path, records, known, columns, table)
    if has_blanks:
        rows = [(p, row | {"caption": _cell(row.get("caption"))}) for p, row in rows]
    found = _usable(path, rows)
    notices = [f"{path}: {notice}" for notice in ([how] if how else notices)]
    texts = [one.caption for one in found.captions]
    if len(texts) > 2 and len({*texts}) == 1:
        notices.append(Loss(f"{path}: all {len(texts):,} captions are the same text"))
    return CaptionsFile(found.captions, (*notices, *found.notices))


def captions_in_memory(
    captions: Mapping[str, Any] | Sequence[Caption], name: Path | str = "captions"
) -> CaptionsFile:
    """Return captions given as objects, or as texts by index; `name` is theirs in messages."""
    given: list[dict[str, Any]]
    if isinstance(captions, Mapping):
        given = [{"index": index, "caption": text} for index, text in captions.items()]
    else:
        given = [dict(one) for one in captions]
    records = [(f"caption {n}", record) for n, record in enumerate(given, start=1)]
    return _usable(Path(name), records) if records else CaptionsFile(())


def _usable(file: Path, records: Records) -> CaptionsFile:
    left: list[tuple[str, Any]] = []
    unclear: list[str] = []
    cleaned = 0
    for place, record in records:
        text = record.get("caption", "")
        if isinstance(text, str):
            if text.strip() in _BROKEN_FORMULAS:
                raise InputError(
                    f"{text.strip()} is a spreadsheet program's error; save the captions as JSON "
                    "lines or text",
                    file=file,
                    where=place,
                    field="caption",
                )
            if text.startswith(_FAILED) or (text.strip() and is_missing(text)):
                continue
            try:
                caption = caption_in(text)
            except ReplyError:
                unclear.append(str(record.get("index")))
                continue
            if caption and is_missing(caption):
                continue
            if caption != text.strip():
                cleaned += 1
                text = caption
        elif is_missing(text):
            continue
        left.append((place, {**record, "caption": text} if "caption" in record else record))
    notices = []
    if missing := len(records) - len(left) - len(unclear):
        what = f"{counted(missing, 'video')} without a caption; counted as not captioned"
        notices.append(f"{file}: {what}")
    if cleaned:
        what = f"the model's reasoning was removed from {counted(cleaned, 'caption')}"
        notices.append(f"{file}: {what}")
    if unclear:
        what = "has unfinished reasoning, or no caption after it; counted as not captioned"
        notices.append(Loss(f"{file}: {listed(unclear)} {what}"))
    if not left:
        raise InputError("has no caption", file=file)
    return CaptionsFile(validated_records(Caption, left, file=file), tuple(notices))


def _cell(value: Any) -> Any:
    return None if is_missing(value) else value


def _json_records(
    path: Path, text: str, columns: Mapping[str, str], known: KnownVideos
) -> tuple[str, Records]:
    """Return a notice on how JSON was read, if needed, and its records.

    JSON lines, a list, one record, and `{index: caption}` are read.
    """
    places, whole = json_values(path, text, nan=True)
    if isinstance(whole, dict) and not _is_record(whole, path, columns):
        how, names = _names_of(path, [*whole], known)
        pairs = zip(names, whole.values(), strict=True)
        return how, [
            (f"entry {n}", {"index": name, "caption": caption})
            for n, (name, caption) in enumerate(pairs, start=1)
        ]
    if not places:
        raise InputError("has no records", file=path)
    return "", [(place, json_object(value, file=path, where=place)) for place, value in places]


def _is_record(whole: Mapping[str, Any], path: Path, columns: Mapping[str, str]) -> bool:
    # In a .jsonl file, `index` names the video of a line; in another, it may be a video's name.
    names_caption = path.suffix == ".jsonl" or whole.keys() & {*COLUMNS["caption"]}
    names_video = names_caption and whole.keys() & {*COLUMNS["index"]}
    return bool(whole.keys() & {"caption", "doc_id", *columns.values()} or names_video)


def _names_of(path: Path, names: Sequence[str], known: KnownVideos) -> tuple[str, Sequence[str]]:
    """Return the names of `{index: caption}`; TUNA's converter has row numbers in their place."""
    missed = [known.find(name, "index") for name in names].count(None)
    if not known or not missed or {*names} != {str(number) for number in range(len(names))}:
        return "", names
    what = "names videos by their row number, as TUNA's converter of predictions does"
    if missed < len(names) or len(known) != len(names):
        raise InputError(
            f"{what}; its {counted(len(names), 'row')} cannot be joined to "
            f"{counted(len(known), 'annotated video')}, and the benchmark's own evaluation "
            "skips unknown names; give the predictions from which it was converted",
            file=path,
        )
    return f"{what}; joined in the order of the annotations", known.in_order(names) or names


def _of_lmms_eval(path: Path, records: Records, known: KnownVideos) -> tuple[str, Records]:
    fields = [_texts(row) for _, row in records]
    matched = {
        name: [known.find(texts[name], name) if name in texts else None for texts in fields]
        for name in fields[0]
    }
    best = max(matched, key=lambda name: len({*matched[name]} - {None}), default=None)
    named: Sequence[Any] | None
    if best is not None and any(matched[best]):
        how = best
        named = [one or texts.get(best) for one, texts in zip(matched[best], fields, strict=True)]
    else:
        how = "doc_id in the order of the annotations"
        named = known.in_order([row.get("doc_id") for _, row in records])
    if named is None:
        raise InputError(
            f"lmms-eval's log has no field with the names of the annotated videos, and its doc_id "
            f"is not each number from 0 to {len(known) - 1}; log the video's name with each sample",
            file=path,
        )
    return f"lmms-eval's log, joined by {how}", [
        (
            place,
            {"index": name, "caption": recorded_reply(row.get("filtered_resps", row.get("resps")))},
        )
        for (place, row), name in zip(records, named, strict=True)
    ]


def _joined(
    path: Path,
    records: Records,
    known: KnownVideos,
    columns: Mapping[str, str],
    table: FileTable | None,
) -> tuple[list[str], Records]:
    """Return notices, and the records with the annotated videos as `index`, by `COLUMNS`."""
    header = [*dict.fromkeys(name for _, row in records for name in row)]
    found = _roles(path, header, columns)
    (caption,), model = found["caption"], next(iter(found["model"]), "")
    for name in (model, *(name for name in header if folded(name) == "system")):
        models = {str(row[name]) for _, row in records if not is_missing(row.get(name))}
        if len(models) > 1:
            what = f"has captions of {counted(len(models), 'model')} ({listed(sorted(models))})"
            raise InputError(f"{what}; give each its own file", file=path, field=name)
    index, named = _indexes(path, records, found["index"], known)
    if table:
        table.check_whole(index)
    given = [id_text(row.get(index)) for _, row in records]
    indexes = [one or name for one, name in zip(named, given, strict=True)]
    notices = []
    is_own = (folded(index), folded(caption)) == ("index", "caption")
    if not is_own and {"index", "caption"} - {*columns}:
        notices.append(f"the index is {shown(index)}, the caption {shown(caption)}")
    if changed := sum(map(ne, indexes, given)):
        notices.append(f"{counted(changed, 'index', 'indexes')} joined as file names")
    rows = []
    for (place, row), one in zip(records, indexes, strict=True):
        keeps_fields = is_own and not columns and table is None
        fields = {**(row if keeps_fields else {"model": _cell(row.get(model))}), "index": one}
        rows.append((place, fields | ({"caption": row[caption]} if caption in row else {})))
    return notices, rows


def _roles(path: Path, header: Sequence[str], columns: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the columns for each role, in the order of `COLUMNS`; exactly one is the caption."""
    check_all_found(columns, {path: header})
    found = {
        role: [columns[role]]
        if role in columns
        else [own for name in names for own in header if folded(own) == name]
        for role, names in COLUMNS.items()
    }
    captions = found["caption"]
    if "events" in header and "caption" not in columns and {*captions} <= {"caption"}:
        what = "has annotated events, and its captions are the references"
        raise InputError(
            f"{what}; give it as --annotations, and name a model's captions", file=path
        )
    if missing := [role for role in ("index", "caption") if not found[role]]:
        known = [name for role in missing for name in COLUMNS[role]]
        near = next(filter(None, (nearest(name, header) for name in known)), "")
        mapped = ",".join(f"{role}=NAME" for role in missing)
        names = " or ".join(f"{role} ({', '.join(COLUMNS[role])})" for role in missing)
        raise InputError(
            f"has no captions in a known layout: no column of the {names}; it has "
            f"{listed(map(shown, header), _MOST_KEYS)}; name it with --columns {mapped}{near}",
            file=path,
        )
    if len(captions) > 1:
        raise InputError(
            f"{listed(map(shown, captions))} can each be the caption, and one may be the "
            f"reference; choose the model's, as in --columns caption={captions[1]}",
            file=path,
        )
    return found


def _indexes(
    path: Path, records: Records, columns: Sequence[str], known: KnownVideos
) -> tuple[str, list[str | None]]:
    """Return the index's column, and the video it names in each record; all columns must agree."""
    found: dict[str, list[str | None]] = {name: [] for name in columns}
    for place, row in records:
        given = {name: id_text(row.get(name)) for name in columns}
        names = {name: one for name, one in given.items() if isinstance(one, str)}
        videos = {name: known.find(value, folded(name)) for name, value in names.items()}
        meant = videos if known else {name: path_parts(str(one))[-1] for name, one in names.items()}
        if len({*meant.values()} - {None}) > 1:
            what = " and ".join(f"{name} {shown(names[name])}" for name in meant if meant[name])
            raise InputError(
                f"{what} name different videos; choose one, as in --columns index={columns[0]}",
                file=path,
                where=place,
            )
        for name in columns:
            found[name].append(videos.get(name))
    index = next((name for name in columns if any(found[name])), columns[0])
    return index, found[index]


def recorded_reply(replies: Any) -> Any:
    """Return the reply, or the first of a list, that another program recorded; None without one."""
    while isinstance(replies, list):
        replies = replies[0] if replies else None
    is_failed = isinstance(replies, str) and replies.startswith(_FAILED)
    return None if is_failed or is_missing(replies) else replies


def _texts(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields with text, and those of nested objects: the document, or a metric."""
    found: dict[str, str] = {}
    for name, value in row.items():
        inner = value if isinstance(value, dict) else {"": value}
        for part, text in inner.items():
            column = f"{name}.{part}".rstrip(".")
            is_id = isinstance(text, int) and column.rpartition(".")[2] in COLUMNS["index"]
            if isinstance(text, str) or is_id:
                found[column] = str(id_text(text))
    return found


# ---- The caption in a model's reply --------------------------------------------------------------

REASONING_REMOVED = "the model's reasoning in front of the caption was removed"

# GLM's models put their answer between these.
_ANSWER = re.compile(
    r"<answer>(?P<tag>.*?)(?:</answer>)?|<\|begin_of_box\|>(?P<box>.*?)(?:<\|end_of_box\|>)?",
    re.DOTALL,
)


def caption_in(text: str) -> str:
    """Return the caption in a reply, without the reasoning that some servers leave in front of it.

    Raises `ReplyError` if there is nothing else, or if it is not clear where the reasoning ends.

    >>> caption_in("<think>A dog?</think> A dog runs.")
    'A dog runs.'
    >>> caption_in("<think>A dog?</think><answer>A dog runs.</answer>")
    'A dog runs.'
    """
    caption = after_thinking(text)
    if caption is None:
        raise ReplyError("it is not clear where the reasoning ends and the caption begins")
    if text.strip() and not caption.strip():
        raise ReplyError("the reply has reasoning and no caption")
    caption = caption.strip()
    if answer := _ANSWER.fullmatch(caption):
        return str(answer["tag"] or answer["box"] or "").strip()
    return caption


def has_reasoning(text: str) -> bool:
    """Return whether `caption_in` removes reasoning, even if empty, from a reply."""
    return after_thinking(text) != text.lstrip()


# ---- The captions of a run, and their annotations ----------------------------------------------


def load_captions(path: Path) -> tuple[Caption, ...]:
    """Return the captions of a run's file, in its order, without an incomplete last line."""
    return validated_records(Caption, numbered_lines(path), file=path)


def known_captions(
    captions: Sequence[Caption],
    annotations: Sequence[Annotation],
    *,
    file: Path | str,
    ignore_unknown: bool = False,
) -> tuple[Caption, ...]:
    """Return the captions that have an annotation, in the order of the annotations.

    InputError if a caption has no annotation (unless `ignore_unknown`), if none has, or if there
    are no captions or no annotations.
    """
    if not captions or not annotations:
        what = "annotations" if captions else "captions"
        raise InputError(f"there are no {what}", file=file)
    order = {annotation.index: n for n, annotation in enumerate(annotations)}
    indexes = [caption.index for caption in captions]
    check_known(indexes, order, "annotations", file=file, ignore_unknown=ignore_unknown)
    known = (caption for caption in captions if caption.index in order)
    return tuple(sorted(known, key=lambda caption: order[caption.index]))


def check_known(
    captions: Sequence[str],
    known: Collection[str],
    option: str,
    *,
    file: Path | str,
    ignore_unknown: bool = False,
) -> None:
    """Raise `InputError` if an index of captions is not in `known`, given as --OPTION.

    With `ignore_unknown`, only if none is.
    """
    unknown = [index for index in captions if index not in known]
    if not unknown:
        return
    hint = hint_of(look_alike(unknown, known))
    if len(unknown) == len(captions):
        raise InputError(
            f"no caption is in the {option} (captions: {shown(unknown[0])}…; {option}: "
            f"{shown(next(iter(known)))}…)"
            + (hint or f"; name the matching --{option}, or the columns with --columns index=…"),
            file=file,
        )
    if not ignore_unknown:
        more = f" ({len(unknown)} captions)" if len(unknown) > 1 else ""
        hint = hint or f"{nearest(unknown[0], list(known))}; correct it"
        raise InputError(
            f"is not in the {option}{more}{hint}, or skip such captions: judge "
            "--ignore-unknown, or ignore_unknown in capeval.toml",
            file=file,
            where=f"index {shown(unknown[0])}",
            field="index",
        )


def captions_hash(captions: Sequence[Caption]) -> str:
    """Return the SHA-256 (hex) of the indexes and texts; their order does not matter."""
    return lines_hash([one.index, one.caption] for one in sorted(captions, key=attrgetter("index")))

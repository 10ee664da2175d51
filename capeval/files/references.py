"""Candidates and references of videos without annotations: JSON, JSON lines, or lines of text.

`lines:PATH` reads a text file with one caption per line; the number of the line, from 1, is the
video's index. A folder has one such file for each system, as TRECVID Video-to-Text publishes them.

DREAM-1K's references are read as the Tarsier repository publishes them, one conversation per video:
the reference is in the assistant's message, the events are in `extra_info`, the subset in
`dataset` and the video's number in `idx`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from capeval.errors import InputError
from capeval.files.annotations import split_format
from capeval.files.captions import CaptionsFile, captions_in_memory, read_captions
from capeval.files.jsonl import json_values, read_bytes, validated_records
from capeval.schema import Reference, Video

LINES = "lines"


def _json_references(path: Path) -> Iterator[tuple[str, Any]]:
    records, whole = json_values(path)
    names = {"reference", "references"}
    if (
        path.suffix == ".json"
        and isinstance(whole, dict)
        and not ("index" in whole and names & whole.keys())
    ):
        for n, (index, value) in enumerate(whole.items(), start=1):
            yield f"entry {n}", {"index": index, "references": value}
        return
    for place, record in records:
        if isinstance(record, dict) and {"messages", "dataset", "idx"} <= record.keys():
            yield place, _of_dream(record)
        else:
            yield place, record


def _of_dream(record: dict[str, Any]) -> dict[str, Any]:
    """Return DREAM-1K's index, references, events and group; validation names missing ones."""
    found = {"index": record["idx"], "group": record["dataset"]}
    with suppress(AttributeError, KeyError, TypeError):
        found["references"] = [
            part["reference"]
            for message in record["messages"]
            if message["role"] == "assistant"
            for part in message["content"]
            if part.get("reference") is not None
        ]
        found["events"] = record["extra_info"].get("events")
    return found


def _text_lines(path: Path) -> dict[str, str]:
    # Published files of captions are not always UTF-8.
    lines = read_bytes(path).decode("utf-8", "replace").splitlines()
    return {str(number): line.strip() for number, line in enumerate(lines, start=1)}


def load_references(path: Path | str) -> tuple[Reference, ...]:
    """Return the references of a file, `lines:PATH` or JSON, in its order; raises `InputError`."""
    name, file = split_format(path, (LINES,))
    records: Iterable[tuple[str, Any]] = _json_references(file)
    if name == LINES:
        lines = _text_lines(file).items()
        records = [(f"line {n}", {"index": n, "references": [text]}) for n, text in lines if text]
    return validated_records(Reference, records, file=file)


def load_candidates(
    path: Path | str,
    *,
    known: Iterable[str] = (),
    columns: Mapping[str, str] | None = None,
) -> list[tuple[str, CaptionsFile]]:
    """Return the captions of a file, or of each file of a folder, with the name of their system.

    `known` are the indexes of the references, and `columns` the file's own names.

    The name is the `model` that all lines of a file name, else the file's stem; of text files whose
    names have dots, the part after the last, such as "DCU" of "vtt.en-en.DCU".
    """
    name, file = split_format(path, (LINES,))
    if name == LINES:
        is_folder = file.is_dir()
        files = sorted(one for one in file.iterdir() if one.is_file()) if is_folder else [file]
        if not files:
            raise InputError("is an empty folder", file=file)
        names = [f.stem if f.suffix in ("", ".txt") else f.suffix[1:] for f in files]
        found = [captions_in_memory(_text_lines(one), one) for one in files]
        return [*zip(names, found, strict=True)]
    of_file = read_captions(file, [Video(index=index) for index in known], columns)
    models = {caption.model for caption in of_file.captions}
    only = models.pop() if len(models) == 1 else None
    return [(only or file.stem, of_file)]

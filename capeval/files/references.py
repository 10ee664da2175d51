"""Candidates and references of videos without annotations: JSON, JSON lines, or lines of text.

`lines:PATH` reads a text file with one caption per line; the number of the line, from 1, is the
video's index. A folder has one such file for each system, as TRECVID Video-to-Text publishes them.
DREAM-1K's file is read as it is published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from capeval.errors import InputError
from capeval.files.annotations import split_format
from capeval.files.captions import load_captions
from capeval.files.dream1k import as_reference, is_dream
from capeval.files.reading import json_records, parse_json, read_bytes, read_text, why_missing
from capeval.files.validation import validated
from capeval.plugins import Registry
from capeval.schema import Caption
from capeval.schema.reference import Reference
from capeval.text import shown

LINES = "lines"


def _json_references(path: Path) -> Iterator[tuple[str, Any]]:
    text = read_text(path)
    if path.suffix == ".json" and text.lstrip().startswith("{"):
        whole = parse_json(text, file=path)
        is_record = "index" in whole and {"reference", "references"} & whole.keys()
        if not is_record:
            for n, (index, value) in enumerate(whole.items(), start=1):
                yield f"entry {n}", {"index": index, "references": value}
            return
    for place, record in json_records(path):
        if is_dream(record):
            record = as_reference(record)  # noqa: PLW2901
        elif isinstance(record, dict) and "references" not in record and "reference" in record:
            record = {**record, "references": record["reference"]}  # noqa: PLW2901
            del record["reference"]
        yield place, record


def _lines_of(path: Path) -> Iterator[tuple[str, Any]]:
    # Published files of captions are not always UTF-8.
    text = read_bytes(path).decode("utf-8", "replace")
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            yield f"line {number}", {"index": str(number), "references": [line.strip()]}


REFERENCE_FORMATS: Registry[Callable[[Path], Iterable[tuple[str, Any]]]] = Registry(
    "capeval.references",
    "format of references",
    {
        "json": "capeval.files.references:_json_references",
        LINES: "capeval.files.references:_lines_of",
    },
    lambda found: None if callable(found) else "it must be a function that takes a path",
)


def load_references(path: Path | str) -> tuple[Reference, ...]:
    """Return the references of a file, `FORMAT:PATH` or JSON, in its order; raises `InputError`."""
    name, file = split_format(path, REFERENCE_FORMATS)
    if not file.exists():
        raise InputError(why_missing(file), file=file)
    seen: dict[str, str] = {}
    found: list[Reference] = []
    for place, value in REFERENCE_FORMATS.load(name or "json")(file):
        index = value.get("index") if isinstance(value, dict) else None
        where = f"{place}: index {shown(index)}" if isinstance(index, str) else place
        one = validated(Reference, value, file=file, where=where)
        if one.index in seen:
            raise InputError(
                f"is duplicated ({seen[one.index]} and {place}); list all references of a video in "
                "one record",
                file=file,
                where=f"index {shown(one.index)}",
                field="index",
            )
        seen[one.index] = place
        found.append(one)
    if not found:
        raise InputError("has no references", file=file)
    return tuple(found)


def load_candidates(
    path: Path | str, system: str | None = None
) -> list[tuple[str | None, tuple[Caption, ...]]]:
    """Return the captions of a file, or of each file of a folder, with the name of their system.

    The name is `system`, else the `model` that all lines of a file name, else the file's stem; of
    text files whose names have dots, the part after the last, such as "DCU" of "vtt.en-en.DCU".
    """
    name, file = split_format(path, REFERENCE_FORMATS)
    if not file.exists():
        raise InputError(why_missing(file), file=file)
    if name == LINES:
        if not file.is_dir():
            return [(system or _system_of(file), _lines_as_captions(file))]
        files = sorted(entry for entry in file.iterdir() if entry.is_file())
        if not files:
            raise InputError("is an empty folder", file=file)
        if system and len(files) > 1:
            raise InputError(f"has {len(files)} systems; omit --system", file=file)
        return [(system or _system_of(one), _lines_as_captions(one)) for one in files]
    captions = load_captions(file)
    models = {caption.model for caption in captions}
    only = models.pop() if len(models) == 1 else None
    return [(system or only or file.stem, captions)]


def _system_of(file: Path) -> str:
    return file.stem if file.suffix in ("", ".txt") else file.suffix[1:]


def _lines_as_captions(path: Path) -> tuple[Caption, ...]:
    text = read_bytes(path).decode("utf-8", "replace")
    return tuple(
        Caption(index=str(number), caption=line.strip())
        for number, line in enumerate(text.splitlines(), start=1)
    )

"""Captions: JSON lines, a JSON list of the same, or the submission layout `{index: caption}`."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from capeval.errors import InputError
from capeval.files.annotations import records
from capeval.files.jsonl import dumps, whole_lines
from capeval.files.reading import parse_json, read_text
from capeval.files.validation import validated_once
from capeval.schema import Annotation, Caption
from capeval.text import nearest, shown


def load_captions(path: Path | str, *, unfinished: bool = False) -> tuple[Caption, ...]:
    """Return the captions of a file, in its order.

    `unfinished` passes over a last line that a killed process left torn, in a file of our own.

    Raises
    ------
    InputError
        Names the file, the line or index, and the field of the first fault.
    """
    path = Path(path)
    entries = _whole_entries(path) if unfinished else _entries(path)
    return validated_once(Caption, entries, file=path)


def _whole_entries(path: Path) -> Iterable[tuple[str, Any]]:
    return ((f"line {n}", value) for n, value in enumerate(whole_lines(path), start=1))


def _entries(path: Path) -> Iterable[tuple[str, Any]]:
    text = read_text(path)
    if text.lstrip()[0] == "{":
        try:
            whole = parse_json(text, file=path)
        except InputError:
            # Several objects on lines of their own: JSON lines, told line by line below.
            if "\n" not in text.strip():
                raise
            if not _first_line_is_object(text):
                raise
        else:
            if "caption" in whole:
                return [("line 1", whole)]
            if not whole:
                raise InputError("holds no captions", file=path)
            return [
                (f"entry {n}", {"index": index, "caption": caption})
                for n, (index, caption) in enumerate(whole.items(), start=1)
            ]
    return records(path)


def _first_line_is_object(text: str) -> bool:
    first = text.lstrip().split("\n", 1)[0].rstrip()
    return first.startswith("{") and first.endswith("}")


def known_captions(
    captions: Sequence[Caption],
    annotations: Sequence[Annotation],
    *,
    file: Path | str,
    ignore_unknown: bool = False,
) -> tuple[Caption, ...]:
    """Return the captions whose index the annotations know, in the annotations' order.

    Raises
    ------
    InputError
        A caption is unknown to the annotations (unless `ignore_unknown`), or all of them are;
        there are no captions or no annotations; an index stands twice.
    """
    if not captions or not annotations:
        what = "annotations" if captions else "captions"
        raise InputError(f"there are no {what}", file=file)
    twice = [index for index, n in Counter(c.index for c in captions).items() if n > 1]
    if twice:
        raise InputError("stands twice", file=file, where=f"index {shown(twice[0])}", field="index")
    order = {annotation.index: n for n, annotation in enumerate(annotations)}
    unknown = [caption.index for caption in captions if caption.index not in order]
    if len(unknown) == len(captions):
        raise InputError(
            f"none of its {len(captions)} captions has an annotation "
            f"(captions: {shown(unknown[0])}…; annotations: {shown(annotations[0].index)}…); "
            "name the matching --annotations",
            file=file,
        )
    if unknown and not ignore_unknown:
        more = f" ({len(unknown)} such)" if len(unknown) > 1 else ""
        raise InputError(
            f"is unknown to the annotations{nearest(unknown[0], list(order))}{more}; "
            "correct it, or skip such captions with --ignore-unknown",
            file=file,
            where=f"index {shown(unknown[0])}",
            field="index",
        )
    known = (caption for caption in captions if caption.index in order)
    return tuple(sorted(known, key=lambda caption: order[caption.index]))


def captions_hash(captions: Sequence[Caption]) -> str:
    """Return the SHA-256 (hex) of the indexes and texts, whatever their order in the file."""
    digest = hashlib.sha256()
    for caption in sorted(captions, key=lambda caption: caption.index):
        digest.update(dumps([caption.index, caption.caption]).encode("utf-8") + b"\n")
    return digest.hexdigest()

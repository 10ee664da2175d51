"""Annotations: a JSON list or JSON lines in the layout that the TUNA benchmark publishes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from capeval.errors import InputError
from capeval.files.jsonl import dumps
from capeval.files.reading import parse_json, read_text
from capeval.files.validation import validated_once
from capeval.schema import Annotation


def records(path: Path) -> Iterable[tuple[str, Any]]:
    """Yield `(place, value)` of every record of a JSON list or of JSON lines.

    Raises
    ------
    InputError
        The file cannot be read, is not JSON, or holds no records.
    """
    text = read_text(path)
    found = False
    if text.lstrip()[0] == "[":
        for position, value in enumerate(parse_json(text, file=path), start=1):
            found = True
            yield f"entry {position}", value
    else:
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                found = True
                yield f"line {number}", parse_json(line, file=path, line=number)
    if not found:
        raise InputError("holds no records", file=path)


def load_annotations(path: Path | str) -> tuple[Annotation, ...]:
    """Return the annotated videos of a file, in its order.

    Raises
    ------
    InputError
        Names the file, the line or index, and the field of the first fault.
    """
    path = Path(path)
    return validated_once(Annotation, records(path), file=path)


def annotations_hash(annotations: Sequence[Annotation]) -> str:
    """Return the SHA-256 (hex) of what is judged: index, tags, events, elements; not the layout."""
    digest = hashlib.sha256()
    for annotation in annotations:
        digest.update(
            dumps(annotation.model_dump(exclude={"video", "question"})).encode("utf-8") + b"\n"
        )
    return digest.hexdigest()

"""Judgments: JSON lines, one line per video."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from capeval.errors import InputError
from capeval.files.jsonl import dumps, numbered_lines, write_jsonl
from capeval.schema import JUDGMENT, Annotation, Caption, Judgment, Scored, Unscored
from capeval.text import complaint, nearest, shown


def judgment_line(judgment: Judgment) -> dict[str, Any]:
    """Return a judgment as its line in the file."""
    return judgment.model_dump(mode="json")


def unknown_video(index: str, known: Collection[str], *, file: Path, place: str = "") -> InputError:
    """Return the error about a verdict on a video that is not annotated."""
    return InputError(
        f"is unknown to the annotations{nearest(index, list(known))}; "
        "name the matching --annotations, or skip it with --ignore-unknown",
        file=file,
        where=f"{place}index {shown(index)}",
    )


def load_judgments(path: Path, *, in_run: bool = True) -> dict[str, Judgment]:
    """Return the judgments by index; if a video has several lines, the last one is used.

    A video that was judged again has its newer line further down. Outside a run, two verdicts on a
    video are refused: they may be of two runs.
    """
    found: dict[str, Judgment] = {}
    for one in judgment_lines(path):
        if not in_run and isinstance(one, Scored) and isinstance(found.get(one.index), Scored):
            where = f"index {shown(one.index)}"
            raise InputError("has two verdicts; keep those of one run", file=path, where=where)
        found[one.index] = one
    return found


def judgment_lines(path: Path) -> Iterator[Judgment]:
    """Yield every judgment of a file, in its order."""
    for _, value in numbered_lines(path, JUDGMENT.validate_json):
        if isinstance(value, Scored | Unscored):
            yield value
            continue
        index = value.get("index") if isinstance(value, dict) else value
        if isinstance(value, dict) and "status" not in value:
            raise InputError(
                "has no judgments (they have a status); name a judgments.jsonl, a judged run, "
                "or a TUNA result file",
                file=path,
            )
        try:
            yield JUDGMENT.validate_python(value)
        except ValidationError as faults:
            field, message = complaint(faults)
            raise InputError(
                message,
                file=path,
                where=f"index {shown(index)}",
                # The path of a field in a union begins with the name of the variant.
                field=re.sub(r"^(un)?scored(\.|$)", "", field),
            ) from None


def write_judgments(path: Path, judgments: Sequence[Judgment]) -> None:
    """Write the whole file atomically."""
    write_jsonl(path, (judgment_line(judgment) for judgment in judgments))


def caption_hash(caption: Caption) -> str:
    """Return a short hash of a caption's text."""
    return short_hash(caption.caption)


@lru_cache(maxsize=20_000)  # many runs are of one set
def reference_hash(annotation: Annotation) -> str:
    """Return a short hash of the annotated events and elements."""
    return short_hash(
        [[e.event, *(v.content for v in e.visual_elements)] for e in annotation.events]
    )


def short_hash(value: object) -> str:
    """Return a short hash of a value's canonical JSON."""
    return hashlib.sha256(dumps(value).encode("utf-8")).hexdigest()[:12]

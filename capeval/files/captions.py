"""Captions as capeval writes them, JSON lines, and the videos that captions must be of."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

from capeval.errors import InputError
from capeval.files.jsonl import dumps, numbered_lines
from capeval.files.label_matching import hint_of, look_alike
from capeval.files.reading import json_records, validated_records
from capeval.schema import Annotation, Caption
from capeval.text import nearest, shown


def load_captions(path: Path | str, *, unfinished: bool = False) -> tuple[Caption, ...]:
    """Return the captions of a file that capeval wrote, in its order.

    `unfinished` ignores an incomplete last line, which a killed process leaves in a run's file.
    """
    path = Path(path)
    records = json_records(path)
    if unfinished:
        values = numbered_lines(path, Caption.model_validate_json)
        records = ((f"line {n}", value) for n, value in values)
    return validated_records(Caption, records, file=path)


def known_captions(
    captions: Sequence[Caption],
    annotations: Sequence[Annotation],
    *,
    file: Path | str,
    ignore_unknown: bool = False,
) -> tuple[Caption, ...]:
    """Return the captions that have an annotation, in the order of the annotations.

    InputError if a caption has no annotation (unless `ignore_unknown`), if none has, if there are
    no captions or no annotations, or if an index is duplicated.
    """
    if not captions or not annotations:
        what = "annotations" if captions else "captions"
        raise InputError(f"there are no {what}", file=file)
    repeated = [index for index, n in Counter(c.index for c in captions).items() if n > 1]
    if repeated:
        raise InputError(
            "is duplicated", file=file, where=f"index {shown(repeated[0])}", field="index"
        )
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
    """Raise `InputError` where captions have an index that others, given as --OPTION, lack.

    With `ignore_unknown`, only if all of them do.
    """
    unknown = [index for index in captions if index not in known]
    if not unknown:
        return
    hint = hint_of(look_alike(unknown, known))
    if len(unknown) == len(captions):
        raise InputError(
            f"no caption is known to the {option} (captions: {shown(unknown[0])}…; {option}: "
            f"{shown(next(iter(known)))}…){hint or f'; name the matching --{option}'}",
            file=file,
        )
    if not ignore_unknown:
        more = f" ({len(unknown)} captions)" if len(unknown) > 1 else ""
        hint = hint or f"{nearest(unknown[0], list(known))}; correct it"
        raise InputError(
            f"is unknown to the {option}{more}{hint}, or skip such captions with --ignore-unknown",
            file=file,
            where=f"index {shown(unknown[0])}",
            field="index",
        )


def captions_hash(captions: Sequence[Caption]) -> str:
    """Return the SHA-256 (hex) of the indexes and texts; their order does not matter."""
    digest = hashlib.sha256()
    for caption in sorted(captions, key=lambda caption: caption.index):
        digest.update(dumps([caption.index, caption.caption]).encode("utf-8") + b"\n")
    return digest.hexdigest()

"""Annotations: the layout that the TUNA benchmark publishes, and the formats of plugins."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import Strict

from capeval.errors import InputError
from capeval.files.jsonl import dumps, numbered_lines
from capeval.files.reading import OnFault, validated_records, why_missing
from capeval.files.tuna_benchmark import annotation_records
from capeval.files.videos import VideoFolder
from capeval.plugins import Registry, blaming
from capeval.schema import Annotation, Video
from capeval.text import counted, describe, shown

AnnotationReader = Callable[[Path], Iterable[tuple[str, Any]]]
"""Reads a file or a folder of annotations and yields `(place, record)`.

The place is shown in error messages, such as "line 3". A record is an `Annotation` or a dict with
its fields.
"""


FORMATS: Registry[AnnotationReader] = Registry(
    "capeval.formats",
    "annotation format",
    {"tuna": "capeval.files.tuna_benchmark:annotation_records"},
    lambda reader: None if callable(reader) else "it must be a function that takes a path",
)


def load_annotations(path: Path | str) -> tuple[Annotation, ...]:
    """Return the annotated videos of a file, in its order.

    `path` is JSON in TUNA's layout, a folder with the benchmark's files, or `NAME:PATH`, where NAME
    is a format of `FORMATS`; UsageError if that cannot be loaded.
    """
    file, records = annotation_records_of(path)
    return validated_records(Annotation, records, file=file)


VIDEO_LIST = "videos.jsonl"
"""A folder's videos that are not annotated yet, one a line; see `capeval annotate filter`."""


class _Listed(Video):
    keep: Annotated[bool, Strict()] = True


def load_video_list(path: Path, *, kept: bool = True) -> tuple[Video, ...]:
    """Return the videos that a list, or that of a folder, keeps, or all of them, in its order."""
    file = path if path.name == VIDEO_LIST else path / VIDEO_LIST
    VideoFolder(file.parent)  # it exists
    if not file.exists():
        how = f"capeval annotate filter {file.parent}"
        raise InputError(f"does not exist; to make it: {how}", file=file)
    records = ((f"line {number}", line) for number, line in numbered_lines(file))
    videos: tuple[_Listed, ...] = validated_records(_Listed, records, file=file)
    found = tuple(video for video in videos if video.keep or not kept)
    if not found:
        raise InputError(f"keeps none of its {counted(len(videos), 'video')}; see keep", file=file)
    return found


def annotation_records_of(
    path: Path | str, on_fault: OnFault | None = None
) -> tuple[Path, Iterator[tuple[str, Any]]]:
    """Return the file that a path of annotations means, and its records with their places.

    `on_fault` receives the errors of lines that are not JSON, instead of the first being raised.
    """
    name, file = split_format(path)
    if name in (None, "tuna"):
        return file, annotation_records(file, on_fault)
    read = FORMATS.load(str(name))
    if not file.exists():
        raise InputError(why_missing(file), file=file)
    return file, _of_format(f"the annotation format {shown(name)}", read, file)


def _of_format(where: str, read: AnnotationReader, file: Path) -> Iterator[tuple[str, Any]]:
    def refused(error: BaseException) -> InputError:
        return InputError(f"{where} cannot read it: {describe(error)}", file=file)

    with blaming(refused):
        entries: Iterable[Any] = read(file)
        for entry in entries:
            if not (isinstance(entry, tuple) and len(entry) == 2):
                message = f"{where} must yield (place, record), not {shown(entry)}"
                raise InputError(message, file=file)
            place, record = entry
            yield str(place), record.model_dump() if isinstance(record, Annotation) else record


def split_format(path: Path | str, formats: Container[str] = FORMATS) -> tuple[str | None, Path]:
    """Return the format that `NAME:PATH` names, or None, and the path itself.

    What exists is a path, whatever its name. Otherwise the text before a colon is a format if it
    is one of `formats`, or if the text after the colon exists.

    >>> split_format("tuna:videos.json")[0], split_format("other:videos.json")[0]
    ('tuna', None)
    """
    name, _, rest = str(path).partition(":")
    try:
        if rest and not Path(path).exists() and (name in formats or Path(rest).exists()):
            return name, Path(rest)
    except (OSError, ValueError):
        pass  # No file can have this name; reading it will say so.
    return None, Path(path)


_UNJUDGED: dict[str, Any] = {
    **dict.fromkeys(("video", "question", "drafted_by"), True),
    "events": {"__all__": {"start"}},
}


@lru_cache(maxsize=1)  # many runs are of one set
def annotations_hash(annotations: tuple[Video, ...]) -> str:
    """Return the SHA-256 (hex) of what is judged: index, tags, events, elements; not the layout."""
    digest = hashlib.sha256()
    for annotation in annotations:
        digest.update(dumps(annotation.model_dump(exclude=_UNJUDGED)).encode("utf-8") + b"\n")
    return digest.hexdigest()

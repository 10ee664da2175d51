"""Annotations: JSON, TUNA-1K as it is published, and the formats of plugins.

TUNA-1K has annotations and questions in parquet, and an archive of videos. The benchmark's own code
reads `video`, `visual_characteristic`, `domain` and `question` of `tuna_cap`. How `events` are
stored is not documented: lists, lists in columns as the `datasets` library stores them, and JSON in
text are read. Without `index`, `video` is the index.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
import zlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from filelock import FileLock
from pydantic import Strict

from capeval.config import Registry, blaming
from capeval.errors import InputError, needing
from capeval.files.jsonl import (
    OnFault,
    dumps,
    json_records,
    numbered_lines,
    reading,
    validated_records,
    why_missing,
)
from capeval.files.tables import read_table
from capeval.files.videos import VideoFolder
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
    {"tuna": "capeval.files.annotations:annotation_records"},
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

    An existing file is a path, whatever its name. Otherwise the text before a colon is a format if
    it is one of `formats`, or if the text after the colon exists.

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
    """Return the SHA-256 (hex) of the judged parts: index, tags, events, elements."""
    digest = hashlib.sha256()
    for annotation in annotations:
        digest.update(dumps(annotation.model_dump(exclude=_UNJUDGED)).encode("utf-8") + b"\n")
    return digest.hexdigest()


# ---- TUNA-1K -----------------------------------------------------------------------------------

DATASET = "friedrichor/TUNA-Bench"
"""The data set on the Hugging Face hub."""

ANNOTATIONS, QUESTIONS = "tuna", "tuna-mcq"
"""The names that mean the benchmark's annotations and questions, wherever a path is expected."""

_PARTS = {ANNOTATIONS: "tuna_cap", QUESTIONS: "tuna_mcq"}

_ARCHIVE = "videos.zip"
VIDEOS = "video"


def benchmark_folder(name: str) -> Path:
    """Return the downloaded folder with the files of `ANNOTATIONS` or `QUESTIONS`."""
    return _downloaded(f"{_PARTS[name]}/*.parquet")


def _downloaded(pattern: str) -> Path:
    """Return the folder of the data set, with the files of a pattern.

    They are downloaded once into the cache that all programs share for the hub, and resumed there.
    InputError if that fails; MissingExtra without huggingface_hub.
    """
    with needing("downloading TUNA-1K needs huggingface_hub", "data"):
        from huggingface_hub import snapshot_download

    problem = f"the data set has no {pattern}"
    # A copy in the cache is used as it is: all runs of a project should read the same annotations.
    for is_local in (True, False):
        try:
            folder = snapshot_download(
                DATASET, repo_type="dataset", allow_patterns=[pattern], local_files_only=is_local
            )
        except Exception as fault:  # the hub's client raises errors of several HTTP libraries
            problem = describe(fault, 120)
            continue
        if any(Path(folder).glob(pattern)):
            return Path(folder)
    raise InputError(
        f"cannot be downloaded: get {pattern} of https://huggingface.co/datasets/{DATASET} and "
        f"name the folder that it is in ({problem})",
        file=DATASET,
    )


def is_benchmark(folder: Path) -> bool:
    """Return whether a folder has the benchmark's files."""
    return any((folder / part).is_dir() for part in _PARTS.values())


def tables_of(folder: Path, name: str) -> list[Path]:
    """Return the parquet files of `ANNOTATIONS` or `QUESTIONS` in a folder with the benchmark's."""
    with reading():
        files = sorted((folder / _PARTS[name]).glob("*.parquet"))
    if not files:
        raise InputError(f"has no {_PARTS[name]}/*.parquet", file=folder)
    return files


def annotation_records(path: Path, on_fault: OnFault | None = None) -> Iterator[tuple[str, Any]]:
    """Yield the place and the record of each annotation of JSON, or of the benchmark's folder.

    `on_fault` is that of `json_records`.
    """
    if not is_benchmark(path):
        yield from json_records(path, on_fault)
        return
    for table in map(read_table, tables_of(path, ANNOTATIONS)):
        table.choose(["video", "events"])
        for place, row in table.records():
            index = row["index"] if isinstance(row.get("index"), str) else row["video"]
            yield place, {**row, "index": index, "events": _nested(row["events"])}


def _nested(value: Any) -> Any:
    """Return lists of objects that a table stores as JSON in text, or with a list per field."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return value
    if isinstance(value, Mapping) and all(isinstance(part, list) for part in value.values()):
        parts = zip(*value.values(), strict=False)
        value = [dict(zip(value, part, strict=True)) for part in parts]
    if isinstance(value, list):
        return [_event(one) for one in value]
    return value


def _event(value: Any) -> Any:
    if isinstance(value, dict) and "visual_elements" in value:
        return {**value, "visual_elements": _nested(value["visual_elements"])}
    return value


def videos_of(folder: Path) -> Path:
    """Return the folder of the benchmark's videos; its archive is downloaded and unpacked first.

    It is unpacked whole or not at all. InputError if there is none, or if it is damaged.
    """
    videos, archive = folder / VIDEOS, folder / _ARCHIVE
    if videos.is_dir():
        return videos
    if not archive.is_file() and folder.parent.name == "snapshots":  # the hub's cache
        archive = _downloaded(_ARCHIVE) / _ARCHIVE
    if not archive.is_file():
        raise InputError(f"has neither {VIDEOS}/ nor {_ARCHIVE}", file=folder)
    unpacked = folder / f".{VIDEOS}.unpacking"
    # Another process may need the videos too, and a killed one leaves a part of them.
    with reading(), FileLock(folder / f".{VIDEOS}.lock"):
        if videos.is_dir():
            return videos
        shutil.rmtree(unpacked, ignore_errors=True)
        try:
            with zipfile.ZipFile(archive) as opened:
                opened.extractall(unpacked)  # also writes nothing outside of its folder
            (unpacked / VIDEOS if (unpacked / VIDEOS).is_dir() else unpacked).rename(videos)
        # A RuntimeError says that the archive is encrypted, or compressed in an unknown way.
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as fault:
            message = f"is damaged: download it again ({describe(fault)})"
            raise InputError(message, file=archive) from None
        finally:
            shutil.rmtree(unpacked, ignore_errors=True)
    return videos

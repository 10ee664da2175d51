"""TUNA-1K as it is published: annotations and questions in parquet, and an archive of videos.

The benchmark's own code reads `video`, `visual_characteristic`, `domain` and `question` of
`tuna_cap`. How `events` are stored is not documented: lists, lists in columns as the `datasets`
library stores them, and JSON in text are read. Without `index`, `video` is the index.
"""

from __future__ import annotations

import json
import shutil
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from filelock import FileLock

from capeval.errors import InputError, MissingExtra
from capeval.files.reading import OnFault, json_records, reading
from capeval.files.tables import read_table
from capeval.text import describe, listed, shown

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
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise MissingExtra("downloading TUNA-1K needs huggingface_hub", "data") from None

    problem = f"the data set has no {pattern}"
    # What is there is used as it is: all runs of a project should read the same annotations.
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
        if "events" not in table.columns or "video" not in table.columns:
            has = listed(map(shown, table.columns), 12)
            raise table.error(f"needs the columns video and events, and has {has}")
        rows = [(place, dict(row), _nested(row["events"])) for place, row in table.records()]
        if missing := [str(row["video"]) for _, row, events in rows if not events]:
            raise table.error(f"no events are given for {listed(missing)}", column="events")
        for place, row, events in rows:
            name = row["video"]
            index = row["index"] if isinstance(row.get("index"), str) else name
            yield place, {**row, "index": index, "events": events}


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

    It is unpacked whole or not at all. InputError if there is none, or if it is damaged or names
    files outside of its folder.
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
                for name in opened.namelist():
                    path = PurePosixPath(name.replace("\\", "/"))
                    if path.is_absolute() or ".." in path.parts or ":" in name:
                        what = f"has a file outside of its folder ({shown(name)})"
                        raise InputError(f"{what}; nothing was unpacked", file=archive)
                opened.extractall(unpacked)
            (unpacked / VIDEOS if (unpacked / VIDEOS).is_dir() else unpacked).rename(videos)
        # A RuntimeError says that the archive is encrypted, or compressed in an unknown way.
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as fault:
            message = f"is damaged: download it again ({describe(fault)})"
            raise InputError(message, file=archive) from None
        finally:
            shutil.rmtree(unpacked, ignore_errors=True)
    return videos

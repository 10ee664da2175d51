"""Annotated videos: annotations in JSON, TUNA-1K and formats of plugins; names and files of videos.

TUNA-1K has annotations and questions in parquet, and an archive of videos. The benchmark's own code
reads `video`, `visual_characteristic`, `domain` and `question` of `tuna_cap`. How `events` are
stored is not documented: lists, lists in columns as the `datasets` library stores them, and JSON in
text are read. Without `index`, `video` is the index.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import zipfile
import zlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path, PurePosixPath
from typing import Annotated, Any
from unicodedata import normalize
from urllib.parse import quote

from filelock import FileLock
from pydantic import Strict

from capeval.config import Registry, blaming
from capeval.errors import InputError, VideoError, needing
from capeval.files.jsonl import (
    OnFault,
    json_records,
    lines_hash,
    numbered_lines,
    validated_records,
    why_missing,
)
from capeval.files.tables import read_table
from capeval.schema import Annotation, Video, id_text
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
"""A folder's videos not annotated yet, one per line; see `capeval annotate filter`."""


class _Listed(Video):
    keep: Annotated[bool, Strict()] = True


def load_video_list(path: Path) -> tuple[Video, ...]:
    """Return the kept videos of a list, or of a folder's list, in its order."""
    file = path if path.name == VIDEO_LIST else path / VIDEO_LIST
    VideoFolder(file.parent)  # it exists
    if not file.exists():
        how = f"capeval annotate filter {file.parent}"
        raise InputError(f"does not exist; to make it: {how}", file=file)
    videos: tuple[_Listed, ...] = validated_records(_Listed, numbered_lines(file), file=file)
    found = tuple(video for video in videos if video.keep)
    if not found:
        every = counted(len(videos), "video")
        raise InputError(f"keeps none of its {every}; set keep to true in some", file=file)
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
    if rest and not Path(path).exists() and (name in formats or Path(rest).exists()):
        return name, Path(rest)
    return None, Path(path)


_UNJUDGED: dict[str, Any] = {
    **dict.fromkeys(("video", "question", "drafted_by"), True),
    "events": {"__all__": {"start"}},
}


@lru_cache(maxsize=1)  # many runs share one set
def annotations_hash(annotations: tuple[Video, ...]) -> str:
    """Return the SHA-256 (hex) of the judged parts: index, tags, events, elements."""
    return lines_hash(annotation.model_dump(exclude=_UNJUDGED) for annotation in annotations)


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

    They are downloaded once into the shared hub cache, where downloads resume. InputError if that
    fails; MissingExtra without huggingface_hub.
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
        f"cannot be downloaded: get {pattern} from https://huggingface.co/datasets/{DATASET} "
        f"yourself, and name the folder instead of 'tuna' ({problem})",
        file=DATASET,
    )


def is_benchmark(folder: Path) -> bool:
    return any((folder / part).is_dir() for part in _PARTS.values())


def tables_of(folder: Path, name: str) -> list[Path]:
    """Return the parquet files of `ANNOTATIONS` or `QUESTIONS` in a folder with the benchmark's."""
    files = sorted((folder / _PARTS[name]).glob("*.parquet"))
    if not files:
        raise InputError(f"has no {_PARTS[name]}/*.parquet", file=folder)
    return files


def annotation_records(path: Path, on_fault: OnFault | None = None) -> Iterator[tuple[str, Any]]:
    """Yield the place and the record of each annotation of JSON, or of the benchmark's folder.

    `on_fault` is as in `json_records`.
    """
    if not is_benchmark(path):
        yield from json_records(path, on_fault=on_fault)
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
    with FileLock(folder / f".{VIDEOS}.lock"):
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


# ---- Names of videos: the files that annotations name, and the video that a name means -----------

SUFFIXES = frozenset(
    {
        *(".mp4", ".mkv", ".webm", ".mov", ".avi", ".m4v", ".mpg", ".mpeg", ".ts", ".mts"),
        *(".m2ts", ".flv", ".wmv", ".ogv", ".3gp", ".gif"),
    }
)


def none_found(reasons: Mapping[str, str]) -> str:
    """Describe what is wrong with a folder of videos, by the messages of `find` by index."""
    index, reason = next(iter(reasons.items()))
    which = index if len(reasons) == 1 else f"any of the {len(reasons):,} videos, such as {index}"
    return f"has no usable file for {which}: {reason}"


def relative_url(file: Path, folder: Path) -> str:
    """Return the URL of a file for a page in `folder`."""
    path = Path(os.path.relpath(file.resolve(), folder.resolve())).as_posix()
    # Without the dot, a file a:b.mp4 would be read as a URL with the scheme a.
    return "./" + quote(path)


@dataclass(frozen=True)
class VideoFolder:
    """The videos in a folder and its subfolders."""

    path: Path

    def __post_init__(self) -> None:
        if not self.path.is_dir():
            what = "is not a folder" if self.path.exists() else why_missing(self.path)
            raise InputError(f"{what}; name the folder of the videos", file=self.path)

    def find(self, name: str) -> Path:
        """Return the file of a `video` field: a name or a path, with or without its suffix.

        Names in another Unicode form, as a Mac writes them, are the same names.

        VideoError if no file or several have the name, or if the path leads out of the folder.
        """
        asked = PurePosixPath(name)
        if asked.is_absolute() or ".." in asked.parts or "\\" in name or "\0" in name or not name:
            raise VideoError("the annotation's path leads out of the folder of the videos")
        first = asked.parts[0]
        if asked.parts[1:] and first == self.path.name and not (self.path / first).is_dir():
            # Relative to the annotations, next to which is the folder of the videos.
            asked = asked.relative_to(first)
        file = self.path / asked
        with suppress(OSError):  # no file can have so long a name
            # A broken link is found, too: the reader's error shows its target.
            if file.is_file() or (file.is_symlink() and not file.exists()):
                return file
        # A name with a folder means that folder; a bare name any folder, this one first.
        folder = normalize("NFC", str(asked.parent))
        everywhere = self._by_name.get(normalize("NFC", asked.name), [])
        found = [one for one in everywhere if normalize("NFC", str(one.parent)) == folder]
        if not found and not asked.parts[1:]:
            found = everywhere
        if len(found) == 1:
            return self.path / found[0]
        if found:
            named = ", ".join(sorted(map(str, found))[:3])
            raise VideoError(f"{len(found)} files have this name ({named})", file=self.path)
        stem = normalize("NFC", asked.stem)
        other = self._by_name.get(stem, []) if asked.suffix.lower() in SUFFIXES else []
        hint = f"; there is {other[0]}" if other else ""
        raise VideoError(f"has no video {name}{hint}", file=self.path)

    def find_all(
        self, annotations: Iterable[Annotation]
    ) -> tuple[dict[str, Path], dict[str, VideoError]]:
        """Return the file of each annotated video, and why others have none, both by index."""
        files: dict[str, Path] = {}
        missing: dict[str, VideoError] = {}
        for annotation in annotations:
            try:
                files[annotation.index] = self.find(annotation.video or annotation.index)
            except VideoError as error:
                missing[annotation.index] = error
        return files, missing

    @cached_property
    def files(self) -> list[PurePosixPath]:
        found = []
        for folder, folders, names in os.walk(self.path):
            folders.sort()
            inside = PurePosixPath(Path(folder).relative_to(self.path).as_posix())
            paths = [inside / name for name in sorted(names) if not name.startswith(".")]
            found += [path for path in paths if path.suffix.lower() in SUFFIXES]
        return found

    @cached_property
    def _by_name(self) -> dict[str, list[PurePosixPath]]:
        """The videos by their names with and without suffix, in the Unicode form NFC."""
        found: dict[str, list[PurePosixPath]] = {}
        for path in self.files:
            for name in (path.name, path.stem):
                found.setdefault(normalize("NFC", name), []).append(path)
        return found


# These name a video by its annotation's index first; other fields by its file's name first.
_OF_INDEXES = {"index", "video_id", "id"}

_Names = dict[str, set[tuple[tuple[str, ...], str]]]


class KnownVideos:
    """The annotated videos, in order, under all names that other programs may have for them."""

    def __init__(self, annotations: Sequence[Video]) -> None:
        self._annotations = annotations
        self._order = {one.index: n for n, one in enumerate(annotations)}

    @cached_property
    def _by_stem(self) -> tuple[_Names, _Names]:
        indexes, files = _Names(), _Names()
        for one in self._annotations:
            for names, name in ((indexes, one.index), (files, one.video)):
                if name is not None:
                    parts = path_parts(name)
                    names.setdefault(parts[-1], set()).add((parts, one.index))
        return indexes, files

    def __len__(self) -> int:
        return len(self._order)

    def find(self, name: Any, column: str) -> str | None:
        """Return the index of the one video that a name or a path in a column means.

        Where both have folders, these must agree as far as both name them.
        """
        text = str(id_text(name))
        is_index = column.rpartition(".")[2] in _OF_INDEXES
        if is_index and text in self._order:
            return text
        asked = path_parts(text)
        # "3.mp4" is a file, although there may be an index "3".
        is_file = PurePosixPath(text.replace("\\", "/")).suffix.lower() in SUFFIXES
        for names in self._by_stem[::-1] if is_file or not is_index else self._by_stem:
            there = names.get(asked[-1], set())
            exact = {index for parts, index in there if parts == asked}
            near = {
                index for parts, index in there if all(map(str.__eq__, parts[::-1], asked[::-1]))
            }
            if found := exact or near:
                return found.pop() if len(found) == 1 else None
        # pandas writes numbers like this if a cell is empty.
        whole = text.removesuffix(".0")
        return self.find(whole, column) if whole.isdigit() and whole != text else None

    def in_order(self, numbers: Iterable[Any]) -> list[str] | None:
        """Return the index for each row number, from 0, if they count all annotated videos."""
        found = {str(number): index for index, number in self._order.items()}
        texts = [*map(str, numbers)]
        return [found[text] for text in texts] if {*texts} == found.keys() else None


def path_parts(name: str) -> tuple[str, ...]:
    """Return the folders and the name of a path, without the suffix of a video."""
    path = PurePosixPath(name.replace("\\", "/"))
    path = path.with_suffix("") if path.suffix.lower() in SUFFIXES else path
    return tuple(part for part in path.parts if part not in ("/", "..")) or (name,)


# ---- Names that only look alike ----------------------------------------------------------------

_MADE_OF_VIDEO = re.compile(r"\.(json|txt|jpe?g|png)$|(?<=\d)\.0$")
_ZEROS = re.compile(r"(?<![0-9.])0+(?=[0-9])")


def _simplest(name: str) -> str:
    name = " ".join(path_parts(name)[-1].casefold().split())
    return _ZEROS.sub("", _MADE_OF_VIDEO.sub("", name))


def look_alike(lacking: Iterable[str], available: Iterable[str]) -> tuple[str, str] | None:
    """Return the first id that another side has in another form, and that form.

    The forms differ in spaces, folder, suffix, case, leading zeros or a zero after the point.

    >>> look_alike(["clip_07"], ["CLIP_7.mp4", "clip_8.mp4"])
    ('clip_07', 'CLIP_7.mp4')
    >>> look_alike(["clip_7"], ["clip_77"]) is None
    True
    """
    forms = {_simplest(name): name for name in available}
    for name in lacking:
        other = forms.get(_simplest(name), name)
        if other != name:
            return name, other
    return None


def hint_of(pair: tuple[str, str] | None) -> str:
    """Return the advice on a pair of ids, to append to a message; empty without one.

    >>> hint_of(("a", "a.mp4"))
    '; "a" and "a.mp4" look alike: write the ids alike in both files'
    >>> hint_of(("7", "007"))
    '; "7" and "007" look alike: leading zeros were lost; store the ids as text'
    """
    if pair is None:
        return ""
    how = "write the ids alike in both files"
    if all(map(str.isdigit, pair)) and int(pair[0]) == int(pair[1]):
        how = "leading zeros were lost; store the ids as text"
    return f'; "{pair[0]}" and "{pair[1]}" look alike: {how}'

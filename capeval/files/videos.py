"""Names of videos: the files that annotations name, and the annotated video that a name means."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any
from unicodedata import normalize
from urllib.parse import quote

from capeval.errors import InputError, VideoError
from capeval.files.jsonl import why_missing
from capeval.schema import Annotation, Video
from capeval.schema.annotation import id_text

SUFFIXES = frozenset(
    {
        *(".mp4", ".mkv", ".webm", ".mov", ".avi", ".m4v", ".mpg", ".mpeg", ".ts", ".mts"),
        *(".m2ts", ".flv", ".wmv", ".ogv", ".3gp", ".gif"),
    }
)


def none_found(reasons: Mapping[str, str]) -> str:
    """Return what is wrong with a folder of videos, given the messages of `find` by index."""
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
            # A link that leads nowhere is found, too: the reader's error says where it leads.
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
            raise VideoError(f"{len(found)} files could be meant ({named})", file=self.path)
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
        # pandas writes a column of numbers with an empty cell so.
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
    """Return what to do about a pair of ids, to be added to a message; nothing without one.

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

"""The annotated video that a name in another file means."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from capeval.files.videos import SUFFIXES
from capeval.schema import Video
from capeval.schema.ids import id_text

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
        """By the last part of an index, and of a file: the names with folders, and the indexes."""
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
        for names in self._by_stem if is_index else self._by_stem[::-1]:
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

"""The files of a run that is being generated: as a whole, or split over several machines."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from capeval.errors import InputError, UsageError
from capeval.files.jsonl import whole_lines
from capeval.text import shown

_SHARD = re.compile(r"([1-9]\d{0,5})/([1-9]\d{0,5})", re.ASCII)
_FILE = re.compile(r"(?:captions|ungenerated)\.(\d+)-of-(\d+)\.jsonl", re.ASCII)


@dataclass(frozen=True, order=True)
class Shard:
    """Part `number` (from 1) of `count`: every `count`-th video of the annotations."""

    number: int
    count: int

    @classmethod
    def read(cls, text: str) -> Self:
        """Read `2/4`."""
        found = _SHARD.fullmatch(text.strip())
        if not found or int(found[1]) > int(found[2]):
            raise UsageError(f"--shard: {text!r} must be I/N with I from 1 to N, such as 2/4")
        return cls(int(found[1]), int(found[2]))

    def holds(self, position: int) -> bool:
        """Return whether the video at `position` (from 0) is in this shard."""
        return position % self.count == self.number - 1

    @property
    def label(self) -> str:
        """The shard as it is in file names."""
        return f"{self.number}-of-{self.count}"

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


@dataclass(frozen=True)
class Part:
    """The two files that grow while captions are generated."""

    folder: Path
    shard: Shard | None = None

    @property
    def captions(self) -> Path:
        """The captions."""
        return self._path("captions")

    @property
    def ungenerated(self) -> Path:
        """`{index, reason}` of every video without a caption."""
        return self._path("ungenerated")

    @property
    def lock(self) -> str:
        """The name of this part's lock; empty for the run's own."""
        return self.shard.label if self.shard else ""

    def _path(self, name: str) -> Path:
        return self.folder / (f"{name}.{self.shard.label}.jsonl" if self.shard else f"{name}.jsonl")


def parts_of(folder: Path) -> list[Part]:
    """Return the shards whose files are in a run's folder."""
    if not folder.is_dir():
        return []
    found = {_FILE.fullmatch(entry.name) for entry in folder.iterdir()}
    shards = {Shard(int(match[1]), int(match[2])) for match in found if match}
    return [Part(folder, shard) for shard in sorted(shards)]


def lines_by_index(path: Path) -> dict[str, dict[str, Any]]:
    """Return the lines of a file by index; a killed process may have left a torn last line.

    Of several lines with one index, the last counts.
    """
    lines: dict[str, dict[str, Any]] = {}
    for value in whole_lines(path):
        if not isinstance(value, dict) or not isinstance(value.get("index"), str):
            raise InputError(f"has a line without an index: {shown(value)}", file=path)
        lines[value["index"]] = value
    return lines

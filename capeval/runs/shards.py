"""The files of a run that grow: `NAME.jsonl`, and for each shard `NAME.I-of-N.jsonl`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from capeval.errors import UsageError

_SHARD = re.compile(r"([1-9]\d{0,5})/([1-9]\d{0,5})", re.ASCII)
_FILE = re.compile(r"[a-z]+\.(\d+)-of-(\d+)\.jsonl", re.ASCII)


@dataclass(frozen=True, order=True)
class Shard:
    """Part `number` (from 1) of `count`: every `count`-th video or question."""

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
        """Return whether what is at `position` (from 0) is in this shard."""
        return position % self.count == self.number - 1

    @property
    def label(self) -> str:
        """The shard as it is in file names."""
        return f"{self.number}-of-{self.count}"

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


def shards_in(folder: Path) -> list[Shard]:
    """Return the shards whose files are in a run's folder."""
    if not folder.is_dir():
        return []
    found = {_FILE.fullmatch(entry.name) for entry in folder.iterdir()}
    return sorted({Shard(int(match[1]), int(match[2])) for match in found if match})


def file_of(folder: Path, name: str, shard: Shard | None) -> Path:
    """Return the file `name` of a run, or of a shard of it."""
    return folder / (f"{name}.{shard.label}.jsonl" if shard else f"{name}.jsonl")

"""Shards and the files of a run that is being generated."""

from __future__ import annotations

from pathlib import Path

import pytest

from capeval.errors import UsageError
from capeval.runs.shards import Shard, shards_in


def test_every_position_is_of_one_shard() -> None:
    shards = [Shard.read(f"{number}/7") for number in range(1, 8)]
    for position in range(100):
        assert sum(shard.holds(position) for shard in shards) == 1


@pytest.mark.parametrize("text", ["", "1", "0/2", "3/2", "1/0", "a/b", "1/2/3", "-1/2", "1.5/2"])
def test_what_is_no_shard_is_told(text: str) -> None:
    with pytest.raises(UsageError, match="must be I/N"):
        Shard.read(text)


def test_shards_are_found_by_their_files(tmp_path: Path) -> None:
    for name in ("captions.2-of-3.jsonl", "ungenerated.1-of-3.jsonl", "captions.jsonl", "x.jsonl"):
        (tmp_path / name).touch()
    assert shards_in(tmp_path) == [Shard(1, 3), Shard(2, 3)]
    assert shards_in(tmp_path / "none") == []

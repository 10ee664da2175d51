"""Shards and the files of a run that is being generated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import capeval
from capeval.errors import InputError, UsageError
from capeval.files.packaged import sample_folder
from capeval.runs.folder import RunFolder, Shard, shards_in


@pytest.mark.parametrize("text", ["", "1", "0/2", "3/2", "1/0", "a/b", "1/2/3", "-1/2", "1.5/2"])
def test_an_invalid_shard_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="must be I/N"):
        Shard.read(text)


def test_shards_are_found_by_their_files(tmp_path: Path) -> None:
    for name in ("captions.2-of-3.jsonl", "ungenerated.1-of-3.jsonl", "captions.jsonl", "x.jsonl"):
        (tmp_path / name).touch()
    assert shards_in(tmp_path) == [Shard(1, 3), Shard(2, 3)]
    assert shards_in(tmp_path / "none") == []


def test_captions_of_copied_shards_are_judged_and_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of the whole; a shard may lack captions, or have later ones than another file."""
    monkeypatch.chdir(tmp_path)
    lines = (sample_folder() / "captions" / "terse.jsonl").read_text("utf-8").splitlines(True)
    parts = {"parts": (lines[::2], lines[1::2]), "less": (lines[::2], [*lines[:2], lines[1][:20]])}
    for name, shards in parts.items():
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        for number, part in enumerate(shards, start=1):
            (folder / f"captions.{number}-of-2.jsonl").write_text("".join(part), "utf-8")
    (tmp_path / "whole.jsonl").write_text("".join(lines), "utf-8")
    names = ("whole.jsonl", "parts", "less")
    whole, joined, less = (capeval.judge(name, "sample", judge="lexical") for name in names)
    assert joined == whole
    assert less.counts.captioned == len(lines[::2]) + 1
    (measured,) = capeval.measure("parts", annotations="sample", metric="length")
    assert measured.results[0].scored == len(lines)
    assert not RunFolder(tmp_path / "runs" / "parts").captions.exists()
    assert {run.name for run in RunFolder.all(tmp_path / "runs")} == {"whole", "parts", "less"}
    assert capeval.score("parts") == whole


def test_shards_of_other_settings_are_refused_and_empty_ones_passed_over(tmp_path: Path) -> None:
    for number, settings in ((1, "a"), (2, "b")):
        line = {"index": str(number), "caption": "A dog.", "settings": settings}
        (tmp_path / f"captions.{number}-of-3.jsonl").write_text(json.dumps(line) + "\n")
    (tmp_path / "captions.3-of-3.jsonl").write_text('{"index": "3", "capt')
    with pytest.raises(InputError, match=r"2-of-3.jsonl: was generated with other settings"):
        RunFolder(tmp_path).read_captions()
    (tmp_path / "captions.2-of-3.jsonl").unlink()
    assert [one.index for one in RunFolder(tmp_path).read_captions()] == ["1"]

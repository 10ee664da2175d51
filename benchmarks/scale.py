"""Memory and time of a million captions: one large set, and many runs of 1,000 videos."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.data import make_captions, make_set
from benchmarks.judging import Row
from capeval.llm.cache import TABLE, ReplyCache

__all__ = ["measure"]

_BLOCK = 1_000
_EVENTS, _ELEMENTS, _WORDS = 4, 20, 150
_MEMORY, _RESUME, _SCORE = 500, 60, 120
_LOOK_UPS = 20_000
_REQUEST, _REPLY = "x" * 2_000, "x" * 500


@dataclass(frozen=True)
class _Used:
    """Processor time in seconds and peak memory in MB of one command."""

    seconds: float
    memory: float

    def row(self, what: str, *, seconds: float | None = None, memory: float | None = None) -> Row:
        limits = [
            *([f"<= {seconds:g} s"] if seconds is not None else []),
            *([f"<= {memory:g} MB"] if memory is not None else []),
        ]
        is_met = (seconds is None or self.seconds <= seconds) and (
            memory is None or self.memory <= memory
        )
        measured = f"{self.memory:,.0f} MB peak, {self.seconds:,.1f} s of processor time"
        return Row(what, measured, ", ".join(limits), is_met)


def measure(folder: Path, *, captions: int) -> Iterator[Row]:
    """Yield the rows one by one; `folder` is for scratch files.

    The set's texts repeat after 1,000 videos. The verdicts on all but the last 1,000 are copied
    from those that the lexical judge gave on the same texts.
    """
    folder = folder / "scale"
    folder.mkdir()
    yield from _one_set(folder, captions)
    yield from _many_runs(folder, captions // _BLOCK)
    shutil.rmtree(folder / "runs")
    yield _cache(folder, 3 * captions)
    shutil.rmtree(folder)


def _one_set(folder: Path, captions: int) -> Iterator[Row]:
    annotations = make_set(_BLOCK, events=_EVENTS, elements=_ELEMENTS)
    make_captions(annotations, folder / "block.jsonl", words=_WORDS)
    block = [json.loads(line) for line in (folder / "block.jsonl").open()]
    _repeat(annotations, folder / "annotations.jsonl", captions)
    _repeat(block, folder / "set.jsonl", captions)
    judge = ("judge", "set.jsonl", "--annotations", "annotations.jsonl", "--judge", "lexical")
    yield _run(folder, *judge, "--dry-run").row(
        f"plan judging a set of {captions:,} captions", memory=_MEMORY
    )
    _run(folder, *judge, "--limit", str(_BLOCK))
    (file,) = (folder / "runs" / "set").glob("*/judgments.jsonl")
    _repeat([json.loads(line) for line in file.open()], file, captions - _BLOCK)
    yield _run(folder, *judge).row(
        f"judge the last {_BLOCK:,} of them by lexical, and score all", memory=_MEMORY
    )
    yield _run(folder, *judge).row("the same again: nothing left", seconds=_RESUME, memory=_MEMORY)
    yield _run(folder, "score", "set").row(
        "score them with all intervals", seconds=_SCORE, memory=_MEMORY
    )
    shutil.rmtree(folder / "runs")


def _many_runs(folder: Path, runs: int) -> Iterator[Row]:
    _repeat(make_set(_BLOCK, events=_EVENTS, elements=_ELEMENTS), folder / "few.jsonl", _BLOCK)
    lexical = ("--judge", "lexical")
    _run(folder, "judge", "block.jsonl", "--annotations", "few.jsonl", *lexical)
    for number in range(1, runs):
        shutil.copytree(folder / "runs" / "block", folder / "runs" / f"block-{number}")
    what = f"{runs:,} runs of {_BLOCK:,} videos"
    yield _run(folder, "judge", *lexical, "--dry-run").row(f"plan judging {what}", memory=_MEMORY)
    yield _run(folder, "judge", *lexical).row(
        f"judge {what}: nothing left", seconds=_RESUME, memory=_MEMORY
    )
    yield _run(folder, "leaderboard").row(f"leaderboard of {what}", seconds=_SCORE, memory=_MEMORY)


def _repeat(records: list[dict[str, object]], file: Path, count: int) -> None:
    """Write records over and over, each under an index of its own."""
    with file.open("w", encoding="utf-8") as stream:
        for number in range(count):
            record = records[number % len(records)] | {"index": f"video_{number:04d}"}
            stream.write(json.dumps(record, ensure_ascii=False) + "\n")


def _run(folder: Path, *arguments: str) -> _Used:
    command = [sys.executable, "-m", "capeval", *arguments, "--quiet"]
    with (folder / "out.log").open("w") as log:
        child = subprocess.Popen(command, cwd=folder, stdout=log)
        _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{' '.join(arguments)}: exit code {child.returncode}")
    return _Used(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def _cache(folder: Path, replies: int) -> Row:
    path = folder / "replies.sqlite"
    reply = {"text": _REPLY, "finish_reason": "stop", "model": "m", "fingerprint": None}
    text = json.dumps(reply | {"left_off": [], "usage": {"calls": 1, "input_tokens": 500}})
    # Spread over all keys in ascending order, which fills the index fastest.
    keys = (f"{number * (16**60 // replies):064x}" for number in range(replies))
    with sqlite3.connect(path, isolation_level=None) as db:
        db.execute(TABLE)
        db.execute("BEGIN")
        rows = ((key, "validated", "m", _REQUEST, text) for key in keys)
        db.executemany("INSERT INTO replies VALUES (?, ?, ?, ?, ?)", rows)
        db.execute("COMMIT")
    db.close()
    size = path.stat().st_size / 2**30
    rng = random.Random(0)
    asked = [f"{rng.randrange(replies) * (16**60 // replies):064x}" for _ in range(_LOOK_UPS)]
    cache = ReplyCache(path)
    began = time.perf_counter()
    found = sum(cache.get(key) is not None for key in asked)
    each = (time.perf_counter() - began) / _LOOK_UPS
    cache.close()
    if found != _LOOK_UPS:
        raise SystemExit(f"the cache has {found} of {_LOOK_UPS} replies")
    return Row(
        f"look-up in a cache of {replies:,} replies, {size:.1f} GiB, at random",
        f"{each * 1e6:.0f} µs",
        "",
        met=True,
    )

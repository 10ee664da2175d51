"""How fast a report is made and how large it is, against the targets that the project set."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.data import make_captions, make_set
from benchmarks.judging import Row

__all__ = ["measure"]

_SECONDS = 3.0
_MEGABYTES = 15.0


def measure(folder: Path, *, videos: int) -> Iterator[Row]:
    """Yield the rows one by one; `folder` is for scratch files."""
    place = folder / "reporting"
    place.mkdir()
    annotations = make_set(videos)
    (place / "annotations.json").write_text(json.dumps(annotations))
    make_captions(annotations, place / "bench.jsonl")
    _judge(place, "bench.jsonl")
    seconds = _seconds(place, "bench")
    yield Row(
        f"capeval report of {videos} videos, the whole command (median of 5)",
        f"{seconds:.2f} s",
        f"<= {_SECONDS:g} s",
        seconds <= _SECONDS,
    )
    size = (place / "report.html").stat().st_size / 1e6
    yield Row(
        "the size of that report, without thumbnails",
        f"{size:.1f} MB",
        f"< {_MEGABYTES:g} MB",
        size < _MEGABYTES,
    )
    with (place / "shorter.jsonl").open("w") as stream:
        for line in (place / "bench.jsonl").read_text().splitlines():
            record = json.loads(line)
            record["caption"] = record["caption"][: len(record["caption"]) // 2]
            stream.write(json.dumps(record) + "\n")
    _judge(place, "shorter.jsonl")
    seconds = _seconds(place, "bench", "shorter")
    yield Row(
        f"capeval report of two runs of {videos} videos, with their paired differences",
        f"{seconds:.2f} s",
        f"<= {2 * _SECONDS:g} s",
        seconds <= 2 * _SECONDS,
    )


def _judge(place: Path, captions: str) -> None:
    _capeval(
        place,
        *("judge", captions, "--annotations", "annotations.json"),
        *("--judge", "lexical", "--quiet"),
    )


def _seconds(place: Path, *runs: str) -> float:
    times = []
    for _ in range(5):
        began = time.perf_counter()
        _capeval(place, "report", *runs, "--out", "report.html", "--frames", "0")
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def _capeval(folder: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "capeval", *arguments]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)

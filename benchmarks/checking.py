"""How fast a set of annotations is checked, and whether memory stays flat."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.data import make_set
from benchmarks.judging import Row

__all__ = ["measure"]

_FEW, _MANY = 1_000, 100_000
_GROWTH = 60.0
_CHECK = """
import resource, sys, time
from capeval.evaluating.check import check_annotations
began = time.perf_counter()
found = check_annotations(sys.argv[1])
print(found.total.videos, time.perf_counter() - began)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def measure(folder: Path) -> Iterator[Row]:
    """Yield the rows one by one; `folder` is for scratch files."""
    few, _ = _checked(folder, _FEW)
    many, rate = _checked(folder, _MANY)
    yield Row(f"check, {_MANY:,} annotated videos", f"{rate:,.0f} videos/s", "", met=True)
    yield Row(
        f"the peak memory of that, over that of {_FEW:,} videos",
        f"{many:.0f} MB, {many - few:.0f} MB more",
        f"<= {_GROWTH:g} MB more",
        many - few <= _GROWTH,
    )


def _checked(folder: Path, videos: int) -> tuple[float, float]:
    """Return the peak memory in MB, and the videos that are checked per second."""
    file = folder / f"{videos}.jsonl"
    blocks = make_set(_FEW)
    with file.open("w", encoding="utf-8") as stream:
        for number in range(videos):
            record = blocks[number % _FEW] | {"index": f"video_{number:06d}"}
            stream.write(json.dumps(record) + "\n")
    command = [sys.executable, "-c", _CHECK, str(file)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    count, seconds, memory = map(float, done.stdout.split())
    file.unlink()
    return memory, count / seconds

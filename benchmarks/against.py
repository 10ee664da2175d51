"""This version of the judge against an older checkout, turn by turn on the same machine."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.data import make_captions, make_set
from benchmarks.judging import Row, serve

__all__ = ["measure"]

_ROOT = Path(__file__).resolve().parent.parent
_CONCURRENCY, _TURNS = 64, 5

# Only what every version has. Prints the seconds and, in MB, the most memory.
_CODE = """
import json, resource, subprocess, sys, time
from pathlib import Path
row, annotations, captions, url, name = sys.argv[1:]
if row == "lexical":
    from capeval.files.annotations import load_annotations
    from capeval.judging.lexical import LexicalJudge
    videos = load_annotations(Path(annotations))
    texts = [json.loads(line)["caption"] for line in open(captions)]
    judge = LexicalJudge()
    judged = getattr(judge, "verdict", None) or judge.judge
    began = time.perf_counter()
    for video, text in zip(videos, texts):
        judged(video, text)
elif row == "command":
    began = time.perf_counter()
    command = ["judge", captions, "--annotations", annotations, "--judge", "bench-judge"]
    command += ["--base-url", url, "--run", name, "--quiet"]
    subprocess.run([sys.executable, "-m", "capeval", *command], check=True)
else:
    import capeval
    began = time.perf_counter()
    capeval.judge(captions, annotations, judge="bench-judge", base_url=url, run=name,
                  cache=f"{name}.sqlite", max_concurrency=64)
who = resource.RUSAGE_CHILDREN if row == "command" else resource.RUSAGE_SELF
print(json.dumps([time.perf_counter() - began, resource.getrusage(who).ru_maxrss / 1024]))
"""


@dataclass(frozen=True)
class _Load:
    what: str
    videos: int
    latency_ms: int
    ideal: float = 0.0
    """Seconds that no version can save: only what exceeds them is compared."""


_LOADS = {
    "calls": _Load("LLM judge, 0 ms latency", 1000, 0),
    "latency": _Load(
        "LLM judge, 200 ms latency: beyond the ideal", 1000, 200, 3000 * 0.2 / _CONCURRENCY
    ),
    "command": _Load("capeval judge, 50 ms latency, from start to end", 100, 50),
    "lexical": _Load("lexical judge", 1000, 0),
}


def measure(folder: Path, older: Path) -> Iterator[Row]:
    """Yield a row for each load; `older` is the root of another checkout."""
    for name, load in _LOADS.items():
        annotations = make_set(load.videos)
        files = (folder / f"{name}.json", folder / f"{name}.jsonl")
        files[0].write_text(json.dumps(annotations))
        make_captions(annotations, files[1])
        measured: dict[str, list[tuple[float, float]]] = {"new": [], "old": []}
        with serve(folder, load.latency_ms) as url:
            for turn in range(_TURNS):
                for version, runs in measured.items():
                    run, root = f"{name}-{turn}-{version}", _ROOT if version == "new" else older
                    runs.append(_one(folder, root, name, *map(str, files), url, run))
        (new, new_peak), (old, old_peak) = (
            map(statistics.median, zip(*runs, strict=True)) for runs in measured.values()
        )
        new, old = new - load.ideal, old - load.ideal
        yield Row(
            f"{load.what}, {load.videos} videos (median of {_TURNS})",
            f"{new / old:.2f} x ({new:.2f} s, {new_peak:.0f} MB; "
            f"older: {old:.2f} s, {old_peak:.0f} MB)",
            "",
            True,
        )


def _one(folder: Path, version: Path, *arguments: str) -> tuple[float, float]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(version),
        "XDG_CACHE_HOME": str(folder / arguments[-1]),
    }
    done = subprocess.run(
        [sys.executable, "-c", _CODE, *arguments],
        cwd=folder,
        env=environment,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    took, peak = json.loads(done.stdout.splitlines()[-1])
    return took, peak

"""How fast `capeval correlate` is, against the targets that the project set.

`python -m benchmarks.correlation NAME [command]` runs one load alone and prints its seconds and
peak memory: so each is measured in a process of its own.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.judging import Row
from capeval.correlation.joining import Joined
from capeval.correlation.video_level import Analysis, analyse, protocol
from capeval.stats.values import Floats, GroupingName

__all__ = ["measure"]

_MEGABYTES = 1_000
_TURNS = 3


@dataclass(frozen=True)
class _Load:
    what: str
    videos: int
    systems: int
    metrics: int
    seconds: float
    """The most that the analysis may take."""
    grouping: tuple[GroupingName, ...] = ()

    def scores(self) -> tuple[list[tuple[str, str]], dict[str, Floats]]:
        """Return the keys of captions, human scores and those of metrics."""
        rng = np.random.default_rng(0)
        videos, systems = range(self.videos), range(self.systems)
        keys = [(f"v{video:05d}", f"s{system:02d}") for video in videos for system in systems]
        human = rng.random(len(keys))
        metrics = {
            f"m{n}": human + (1 + n / 4) * rng.random(len(keys)) for n in range(self.metrics)
        }
        return keys, {"score": human, **metrics}


_LOADS = {
    "study": _Load("40 videos, 5 metrics, everything", 40, 1, 5, 0.5),
    "grid": _Load("160 videos x 11 systems, 6 metrics, everything", 160, 11, 6, 15.0),
    "systems": _Load(
        "10,000 videos x 12 systems, 12 metrics, by system means", 10_000, 12, 12, 5.0, ("system",)
    ),
}


def _analysis(load: _Load) -> float:
    keys, scores = load.scores()
    human = scores.pop("score")
    both = Joined("score", keys, ("rater",), human[None], scores)
    settings = Analysis(protocol(None, (), load.grouping))
    began = time.perf_counter()
    analyse(both, settings)
    return time.perf_counter() - began


def _command(load: _Load) -> float:
    keys, scores = load.scores()
    with tempfile.TemporaryDirectory(prefix="capeval-bench-") as folder:
        path = Path(folder) / "human.csv"
        rows = zip(
            keys, zip(*(values.tolist() for values in scores.values()), strict=True), strict=True
        )
        with path.open("w", encoding="utf-8") as file:
            print("video_id", "system", *scores, sep=",", file=file)
            for key, values in rows:
                print(*key, *(f"{value:.6f}" for value in values), sep=",", file=file)
        typed = ["correlate", "--human", str(path)]
        typed += [f"--metric={name}={path}" for name in scores if name != "score"]
        typed += [f"--grouping={name}" for name in load.grouping]
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "capeval", *typed], check=True, capture_output=True)
        return time.perf_counter() - began


def _alone(name: str, command: bool) -> None:
    seconds = (_command if command else _analysis)(_LOADS[name])
    who = resource.RUSAGE_CHILDREN if command else resource.RUSAGE_SELF
    print(json.dumps({"seconds": seconds, "peak": resource.getrusage(who).ru_maxrss / 1024}))


def measure() -> Iterator[Row]:
    """Yield the rows one by one."""
    for name, load in _LOADS.items():
        for command in ([], ["command"]):
            typed = [sys.executable, "-m", "benchmarks.correlation", name, *command]
            done = [
                subprocess.run(typed, check=True, capture_output=True, text=True)
                for _ in range(_TURNS)
            ]
            found = min((json.loads(one.stdout) for one in done), key=lambda one: one["seconds"])
            met = found["seconds"] <= load.seconds and found["peak"] <= _MEGABYTES
            yield Row(
                f"{load.what}{', the whole command' if command else ''} (best of {_TURNS})",
                f"{found['seconds']:.2f} s, {found['peak']:.0f} MB peak",
                "" if command else f"<= {load.seconds:g} s, <= 1 GB",
                bool(command) or met,
            )


if __name__ == "__main__":
    _alone(sys.argv[1], "command" in sys.argv)

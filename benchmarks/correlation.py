"""How fast the statistics of `capeval correlate` are, against the targets that the project set.

`python -m benchmarks.correlation NAME` runs one load alone and prints its seconds and peak memory:
so each is measured in a process of its own.
"""

from __future__ import annotations

import atexit
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.judging import Row
from capeval.correlation.joining import Joined
from capeval.correlation.protocols import EVERYTHING
from capeval.correlation.video_level import Settings, analyse
from capeval.files.ratings import Keys
from capeval.stats.comparison import compare
from capeval.stats.design import Design
from capeval.stats.intervals import interval
from capeval.stats.pair import Pair
from capeval.stats.pairwise import calibrate
from capeval.stats.statistic import STATISTICS
from capeval.stats.values import Floats, GroupingName, Missing

__all__ = ["measure"]

_MEGABYTES = 1_000


@dataclass(frozen=True)
class _Load:
    what: str
    seconds: float
    """The most that it may take; 0 for no target."""
    prepare: Callable[[], Callable[[], object]]
    who: int = resource.RUSAGE_SELF
    """Whose memory is measured."""


def _scores(rows: int, levels: int = 0) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(0)
    x = rng.random(rows)
    y = x + 2 * rng.random(rows)
    return (x, y) if not levels else ((x * levels).round(), (y * levels).round())


def _one_each(rows: int) -> Design:
    return Design(np.arange(rows), np.zeros(rows, dtype=np.int64))


def _grid(systems: int, videos: int) -> Design:
    return Design(np.repeat(np.arange(videos), systems), np.tile(np.arange(systems), videos))


def _jackknife() -> Callable[[], object]:
    x, y = _scores(1_000_000)
    design = _one_each(1_000_000)
    return lambda: interval(Pair.of(x, y, design).by("kendall_b", "pooled"))


def _estimates() -> Callable[[], object]:
    x, y = _scores(1_000_000, levels=50)
    design = _one_each(1_000_000)

    def work() -> object:
        pair = Pair.of(x, y, design)
        return [interval(pair.by(name, "pooled"), ci="analytic") for name in STATISTICS]

    return work


def _bootstrap() -> Callable[[], object]:
    x, y = _scores(687)
    design = _one_each(687)
    return lambda: interval(Pair.of(x, y, design).by("kendall_b", "pooled"), draws=10_000)


def _tied_bootstrap() -> Callable[[], object]:
    x, y = _scores(687, levels=10)
    design = _one_each(687)
    return lambda: interval(Pair.of(x, y, design).by("kendall_b", "pooled"), draws=10_000)


def _two_metrics(grouping: GroupingName) -> Callable[[], object]:
    x, y = _scores(2_500)
    other = x + np.random.default_rng(1).random(2_500)
    design = _grid(5, 500)

    def work() -> object:
        pairs = [Pair.of(scores, y, design) for scores in (x, other)]
        return compare(pairs, ["kendall_b"], grouping, draws=1_000)

    return work


def _permutation() -> Callable[[], object]:
    return _two_metrics("item")


def _pooled_permutation() -> Callable[[], object]:
    return _two_metrics("pooled")


def _systems() -> Callable[[], object]:
    """Twelve metrics of 120,000 captions, compared by the means of five systems."""
    x, y = _scores(120_000)
    noise = np.random.default_rng(1).random((12, 120_000))
    design = _grid(5, 24_000)

    def work() -> object:
        pairs = [Pair.of(x + (1 + n) * own / 4, y, design) for n, own in enumerate(noise)]
        return compare(pairs, list(STATISTICS), "system", draws=6_600)

    return work


def _six_metrics() -> Callable[[], object]:
    """Six metrics of 1,760 captions: 110 of each of 16 systems, on 1,650 videos."""
    rng = np.random.default_rng(0)
    video = np.concatenate([rng.choice(1_650, 110, replace=False) for _ in range(16)])
    keys = [(f"v{v:04d}", f"s{n // 110:02d}") for n, v in enumerate(video.tolist())]
    y = rng.random(len(keys))
    metrics = {f"m{n}": y + (1 + n / 4) * rng.random(len(keys)) for n in range(6)}
    design = Design.of([v for v, _ in keys], [s for _, s in keys])
    both = Joined("score", Keys.of(keys), ("rater",), y[None], metrics, design, ())
    return lambda: analyse(both, Settings(EVERYTHING))


def _grid_of_six() -> Callable[[], object]:
    """Six metrics of 1,760 captions: a complete grid of 160 videos and 11 systems."""
    rng = np.random.default_rng(0)
    keys = [(f"v{v:04d}", f"s{s:02d}") for v in range(160) for s in range(11)]
    y = rng.random(len(keys))
    metrics = {f"m{n}": y + (1 + n / 4) * rng.random(len(keys)) for n in range(6)}
    both = Joined("score", Keys.of(keys), ("rater",), y[None], metrics, _grid(11, 160), ())
    return lambda: analyse(both, Settings(EVERYTHING))


def _calibration() -> Callable[[], object]:
    x, y = _scores(5_000)
    design, rounded = _one_each(5_000), y.round()
    return lambda: calibrate(Pair.of(x, rounded, design), "pooled")


def _command() -> Callable[[], object]:
    """Five captions of each of 200,000 videos, with every statistic and grouping."""
    folder = Path(tempfile.mkdtemp(prefix="capeval-bench-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "human.csv"
    x, y = _scores(1_000_000)
    with path.open("w", encoding="utf-8") as file:
        file.write("video_id,system,score,a\n")
        for row, (score, human) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
            file.write(f"video_{row // 5:06d},model_{row % 5},{human:.4f},{score:.4f}\n")
    typed = [sys.executable, "-m", "capeval", "correlate", "--human", str(path)]
    return lambda: subprocess.run(
        [*typed, "--metric-columns", "a"], check=True, capture_output=True
    )


_LOADS = {
    "command": _Load(
        "1,000,000 pairs from CSV to table, all statistics and groupings",
        5.0,
        _command,
        resource.RUSAGE_CHILDREN,
    ),
    "jackknife": _Load("tau-b of 1,000,000 pairs with its jackknife interval", 5.0, _jackknife),
    "estimates": _Load(
        "all five statistics of 1,000,000 tied pairs with jackknife intervals", 0.0, _estimates
    ),
    "bootstrap": _Load("tau-b, n = 687: 10,000 bootstrap resamples", 1.5, _bootstrap),
    "tied-bootstrap": _Load("the same of tied scores", 1.5, _tied_bootstrap),
    "permutation": _Load(
        "two metrics compared by tau-b within item, 5 x 500, 1,000 permutations", 0.5, _permutation
    ),
    "pooled-permutation": _Load("the same pooled", 0.0, _pooled_permutation),
    "systems": _Load(
        "12 metrics of 120,000 captions compared by system means, 6,600 resamples", 0.0, _systems
    ),
    "six-metrics": _Load(
        "6 metrics of 1,760 captions of 1,650 videos, all statistics and groupings",
        0.0,
        _six_metrics,
    ),
    "grid": _Load(
        "6 metrics of 160 videos x 11 systems, all statistics and groupings", 0.0, _grid_of_six
    ),
    "calibration": _Load(
        "acc_eq of 5,000 captions calibrated in-sample and cross-fitted", 0.0, _calibration
    ),
}


def _alone(name: str) -> None:
    work = _LOADS[name].prepare()
    times = []
    for _ in range(3):
        began = time.perf_counter()
        found = work()
        times.append(time.perf_counter() - began)
        if isinstance(found, Missing):
            raise SystemExit(f"{name}: {found.reason}")
    peak = resource.getrusage(_LOADS[name].who).ru_maxrss / 1024
    print(json.dumps({"seconds": statistics.median(times), "peak": peak}))


def _told(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 0.1 else f"{1000 * seconds:.1f} ms"


def measure() -> Iterator[Row]:
    """Yield the rows one by one."""
    for name, load in _LOADS.items():
        command = [sys.executable, "-m", "benchmarks.correlation", name]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        found = json.loads(done.stdout)
        target = f"<= {load.seconds:g} s, " if load.seconds else ""
        yield Row(
            f"{load.what} (median of 3)",
            f"{_told(found['seconds'])}, {found['peak']:.0f} MB peak",
            f"{target}<= 1 GB",
            (not load.seconds or found["seconds"] <= load.seconds) and found["peak"] <= _MEGABYTES,
        )


if __name__ == "__main__":
    _alone(sys.argv[1])

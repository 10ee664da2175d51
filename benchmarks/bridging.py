"""How fast `capeval bridge` is, against the target that the project set.

`python -m benchmarks.bridging` runs the load from memory alone and prints its seconds.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.judging import Row
from capeval.runs.folder import JudgeFolder, RunFolder
from capeval.runs.judged_run import JudgedRun
from tests.bridged_runs import World, write_world

__all__ = ["measure"]

_ROOT = Path(__file__).resolve().parent.parent
_SYSTEMS, _VIDEOS = 10, 1_000
_NAMES = [f"system-{n}" for n in range(_SYSTEMS + 1)]


def _world() -> World:
    # The last system is the one that only the new judge has judged.
    return World([-1.2 + 0.24 * n for n in range(_SYSTEMS)] + [0.1], _VIDEOS, seed=1)


def _prepare() -> Callable[[], object]:
    from capeval.scoring import AnnotationArrays
    from capeval.trust.bridge_build import build_bridge
    from capeval.trust.bridge_pairs import JudgeNames, RunPair, judged_videos
    from capeval.trust.bridge_scores import bridged_scores

    world = _world()

    def judged(judge: str, system: int) -> JudgedRun:
        name = _NAMES[system]
        return JudgedRun(
            name=name,
            file=Path(name),
            run=None,
            annotations=tuple(world.annotations),
            annotations_path="",
            captions={},
            judgments={one.index: one for one in world.judgments(judge, system)},
            captioned=_VIDEOS,
        )

    runs = {
        judge: [judged(judge, system) for system in range(count)]
        for judge, count in (("old", _SYSTEMS), ("new", _SYSTEMS + 1))
    }

    def work() -> object:
        reference = AnnotationArrays(world.annotations)
        sides = {
            judge: [
                judged_videos(one, JudgeFolder(Path(judge)), f"{judge}{one.name}", reference)
                for one in of
            ]
            for judge, of in runs.items()
        }
        pairs = [
            RunPair(
                run=RunFolder(Path(_NAMES[system])),
                data="",
                reference=reference,
                new=new,
                old=sides["old"][system] if system < _SYSTEMS else None,
                drawn=None,
            )
            for system, new in enumerate(sides["new"])
        ]
        bridge = build_bridge(JudgeNames("old", "new"), pairs)
        return bridged_scores(bridge, pairs[-1])

    return work


def _alone() -> None:
    work = _prepare()
    times = []
    for _ in range(3):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    print(json.dumps(statistics.median(times)))


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        check=True,
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
    )
    return done.stdout


def measure(folder: Path) -> Iterator[Row]:
    """Yield the rows one by one; files go under `folder`."""
    seconds = float(_run(["-m", "benchmarks.bridging"], _ROOT))
    yield Row(
        f"bridge of {_SYSTEMS} systems x {_VIDEOS:,} videos by both judges, all measures and "
        "types, and the scores of one more system (median of 3)",
        f"{seconds:.2f} s",
        "≤ 2 s",
        seconds <= 2.0,
    )
    base = folder / "bridging"
    write_world(_world(), base / "runs", _NAMES, old=_NAMES[:-1])
    times = []
    for _ in range(3):
        began = time.perf_counter()
        _run(["-m", "capeval", "bridge", "old", "new", "--json"], base)
        times.append(time.perf_counter() - began)
    yield Row(
        "capeval bridge of the same from its 21 files of verdicts, the whole command (median of 3)",
        f"{statistics.median(times):.2f} s",
        "",
        True,
    )


if __name__ == "__main__":
    _alone()

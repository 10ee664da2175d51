"""How fast `capeval compare` is, against the target that the project set.

`python -m benchmarks.comparing NAME` runs one load alone and prints its seconds and peak memory.
"""

from __future__ import annotations

import json
import os
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.data import make_set
from benchmarks.judging import Row
from capeval.files.judgments import write_judgments
from capeval.schema import RELATIONS, Annotation, Provenance, Relation, Scored, Verdict
from capeval.scoring.judged_run import JudgedRun

__all__ = ["measure"]

_ROOT = Path(__file__).resolve().parent.parent
_VIDEOS = 1_000
_BY = Provenance(judge="bench", prompts="bench@1")


def _relations(video: Annotation, rng: random.Random) -> tuple[tuple[Relation, ...], ...]:
    return tuple(
        tuple(rng.choice(RELATIONS) for _ in event.visual_elements) for event in video.events
    )


def _judgments(videos: list[Annotation], *, repeats: int, seed: int) -> list[Scored]:
    rng = random.Random(seed)

    def verdict(video: Annotation) -> Verdict:
        # Every event is mentioned: one that nothing matches may only be lacking.
        matches = tuple(range(1, len(video.events) + 1))
        return Verdict(
            candidate_events=("Told.",) * len(matches),
            matches=matches,
            relations=_relations(video, rng),
        )

    return [
        Scored(
            **dict(verdict(video)),
            index=video.index,
            repeats=tuple(verdict(video) for _ in range(repeats)) if repeats > 1 else (),
            provenance=_BY,
        )
        for video in videos
    ]


def _videos() -> list[Annotation]:
    """Annotations that fall into buckets of every way, as TUNA-1K's do."""
    rng = random.Random(0)
    result = []
    for made in make_set(_VIDEOS):
        video = Annotation.model_validate(made)
        events = video.events * rng.choice([1, 1, 1, 2, 3])
        events = tuple(
            replace(event, visual_elements=event.visual_elements[: rng.randint(2, 6)])
            for event in events
        )
        result.append(video.model_copy(update={"events": events}))
    return result


def _run(name: str, videos: list[Annotation], judgments: list[Scored]) -> JudgedRun:
    return JudgedRun(
        name=name,
        file=Path(name),
        run=None,
        annotations=tuple(videos),
        annotations_path="",
        captions={},
        judgments={judgment.index: judgment for judgment in judgments},
        captioned=len(videos),
    )


def _compared(runs: int, repeats: int = 1) -> Callable[[], object]:
    from capeval.comparing.compare import compare_judged

    videos = _videos()
    judged = {
        f"run {n}": _run(f"run {n}", videos, _judgments(videos, repeats=repeats, seed=n))
        for n in range(runs)
    }
    return lambda: compare_judged(judged)


@dataclass(frozen=True)
class _Load:
    what: str
    seconds: float
    """The most that it may take; 0 for no target."""
    prepare: Callable[[], Callable[[], object]]


_LOADS = {
    "two": _Load(
        "compare of 1,000 videos, 10,000 sign flips, all types and buckets",
        2.0,
        lambda: _compared(2),
    ),
    "repeats": _Load("the same with 3 repeats of the judge", 0.0, lambda: _compared(2, 3)),
    "ten": _Load(
        "matrix of 10 runs of 1,000 videos, 10,000 sign flips", 0.0, lambda: _compared(10)
    ),
}


def _alone(name: str) -> None:
    work = _LOADS[name].prepare()
    times, busy = [], []
    for _ in range(3):
        began, spent = time.perf_counter(), time.process_time()
        work()
        times.append(time.perf_counter() - began)
        busy.append(time.process_time() - spent)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    result = {"seconds": statistics.median(times), "cpu": statistics.median(busy), "peak": peak}
    print(json.dumps(result))


def _command(folder: Path) -> Row:
    """Type `capeval compare` on two stored runs."""
    videos = _videos()
    folder.mkdir()
    (folder / "annotations.json").write_text(
        json.dumps([video.model_dump(mode="json") for video in videos]), encoding="utf-8"
    )
    for n, name in enumerate(("old", "new")):
        judge = folder / "runs" / name / "bench@1"
        judge.mkdir(parents=True)
        lines = ({"index": video.index, "caption": "Told."} for video in videos)
        captions = "".join(json.dumps(line) + "\n" for line in lines)
        (judge.parent / "captions.jsonl").write_text(captions, encoding="utf-8")
        manifest = {"annotations": {"path": "annotations.json"}}
        (judge.parent / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
        judgments = _judgments(videos, repeats=1, seed=n)
        write_judgments(judge / "judgments.jsonl", judgments)
    times = []
    for _ in range(3):
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "capeval", "compare", "old", "new", "--json"],
            check=True,
            cwd=folder,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": str(_ROOT)},
        )
        times.append(time.perf_counter() - began)
    return Row(
        "capeval compare of the same from its files, the whole command (median of 3)",
        f"{statistics.median(times):.2f} s",
        "",
        True,
    )


def measure(folder: Path) -> Iterator[Row]:
    """Yield the rows one by one; files go under `folder`."""
    for name, load in _LOADS.items():
        command = [sys.executable, "-m", "benchmarks.comparing", name]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        found = json.loads(done.stdout)
        yield Row(
            f"{load.what} (median of 3)",
            f"{found['seconds']:.2f} s ({found['cpu']:.2f} s of processor), "
            f"{found['peak']:.0f} MB peak",
            f"<= {load.seconds:g} s" if load.seconds else "",
            not load.seconds or found["seconds"] <= load.seconds,
        )
    yield _command(folder / "comparing")


if __name__ == "__main__":
    _alone(sys.argv[1])

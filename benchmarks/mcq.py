"""How fast `capeval mcq grade` is, against the target that the project set.

`python -m benchmarks.mcq FILE` grades a file alone and prints its seconds and peak memory.
"""

from __future__ import annotations

import json
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.judging import Row

__all__ = ["measure"]

_REPLIES = 100_000
_SECONDS = 5.0
_ROOT = Path(__file__).resolve().parent.parent

_WORDS = ["apples", "candles", "berries", "ribbons", "lanterns", "bells", "stars", "angels"]
# Two thirds are a letter with or without its text, as most models answer; the others are what
# `exact` takes longest to read.
_STYLES = [
    *["{letter}"] * 8,
    "{letter}.",
    "({letter})",
    "{letter}. {text}",
    "The answer is {letter}.",
    "Based on the frames, the correct answer is {letter}. {text}",
    "The video shows a tree with {text} and other things, so I would choose {letter}.",
    "It is unclear which of the decorations has the largest number in this video.",
    "First, there are some {text}. Then more of them follow. The answer is {letter}.",
]


def write_responses(file: Path, replies: int, *, videos: int = 900) -> None:
    """Write responses to different questions about the same videos."""
    rng = random.Random(0)
    with file.open("w", encoding="utf-8") as stream:
        for number in range(replies):
            options = rng.sample(_WORDS, 4)
            at = rng.randrange(4)
            line = {
                "id": f"{number % videos}-{number // videos}",
                "benchmark": "video-mme",
                "video": str(number % videos),
                "question": f"Which decoration has the largest number in part {number}?",
                "options": options,
                "answer": rng.choice("ABCD"),
                "reply": rng.choice(_STYLES).format(letter="ABCD"[at], text=options[at]),
                "reason": None,
                "frames": {"indices": [0, 1, 2, 3]},
                "likelihood": None,
                "duration": rng.choice(["short", "medium", "long"]),
                "domain": f"domain {rng.randrange(6)}",
                "sub_category": f"sub-category {rng.randrange(30)}",
                "task_type": f"task {rng.randrange(12)}",
            }
            stream.write(json.dumps(line) + "\n")


def _alone(file: str) -> None:
    from capeval.mcq.grade import mcq_grade

    times, processor = [], []
    for _ in range(3):
        began, used = time.perf_counter(), time.process_time()
        mcq_grade(file)
        times.append(time.perf_counter() - began)
        processor.append(time.process_time() - used)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = {"seconds": statistics.median(times), "cpu": statistics.median(processor)}
    print(json.dumps(found | {"peak": peak}))


def measure(folder: Path) -> Iterator[Row]:
    """Yield the rows one by one; files go under `folder`."""
    file = folder / "responses.jsonl"
    write_responses(file, _REPLIES)
    command = [sys.executable, "-m", "benchmarks.mcq", str(file)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=_ROOT)
    found = json.loads(done.stdout)
    yield Row(
        f"capeval mcq grade of {_REPLIES:,} replies, read from their file (median of 3)",
        f"{found['seconds']:.1f} s ({found['cpu']:.1f} s of processor time), "
        f"{found['peak']:.0f} MB peak",
        f"<= {_SECONDS:g} s",
        found["seconds"] <= _SECONDS,
    )


if __name__ == "__main__":
    _alone(sys.argv[1])

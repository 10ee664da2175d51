"""Responses, and graded runs made of numbers, for the tests of what grades and compares them."""

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import capeval
from tests.world import write_lines

KINDS = ("rotation", "direction", "count")
# What `capeval mcq answer` stores of the frames it showed.
FRAMES: Mapping[str, Mapping[str, Any]] = {
    "multi": {"policy": "16", "indices": [0, 10, 20, 30]},
    "single": {"policy": "single random", "single": "random", "indices": [20]},
    "picked": {"policy": "single column:best", "single": "column:best", "indices": [30]},
    "shuffled": {"policy": "16", "order": "shuffled", "indices": [20, 0, 30, 10]},
    "blind": {"policy": "none"},
}


def line(number: int, reply: str | None, answer: str = "C", **more: Any) -> dict[str, Any]:
    made = {
        "id": str(number),
        "benchmark": "own",
        "video": f"video {number}",
        "question": "Which decoration has the largest number?",
        "options": ["Apples.", "Candles.", "Berries.", "Ribbons."],
        "answer": answer,
        "reply": reply,
        "reason": None if reply is not None else "the endpoint failed",
        "frames": {"indices": [0, 8, 16]},
        "likelihood": None,
    }
    return made | more


def write_responses(
    folder: Path,
    correct: Sequence[bool | None],
    frames: Mapping[str, Any],
    *,
    per_video: int = 3,
    benchmark: str = "tomato",
) -> Path:
    """Write responses.jsonl; None is a failed call."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for at, right in enumerate(correct):
        kind = KINDS[at % len(KINDS)]
        about = {
            "id": f"{kind}/{at}",
            "benchmark": benchmark,
            "video": f"human/{at // per_video:04}",
            "options": ["left", "right", "up"],
            "frames": dict(frames),
            "reasoning_type": kind,
        }
        reply = None if right is None else "B" if right else "C"
        lines.append(line(at, reply, "B", **about))
    return write_lines(folder / "responses.jsonl", lines)


def grade(
    folder: Path,
    correct: Sequence[bool | None],
    frames: Mapping[str, Any],
    *,
    model: str | None = None,
    select: str = "exact",
    **more: Any,
) -> Path:
    responses = write_responses(folder, correct, frames, **more)
    file = folder / "grades.json"
    capeval.mcq_grade(responses, select=select, model=model, out=file, resamples=200)
    return file


def edit(file: Path, **changes: Any) -> None:
    value = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**value, **changes}), encoding="utf-8")


def paired(seed: int, *shares: float, questions: int = 60) -> list[list[bool | None]]:
    """Return answers of runs with these accuracies, where hard questions are hard for all."""
    rng = random.Random(seed)
    hardness = [rng.random() for _ in range(questions)]
    return [[0.7 * h + 0.3 * rng.random() < share for h in hardness] for share in shares]

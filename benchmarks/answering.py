"""How fast `capeval mcq answer` asks an endpoint, and how fast `capeval mcq temporal` compares."""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import capeval
from benchmarks.judging import Row
from tests.server import LoopbackServer, completion
from tests.video.clips import make_clip

__all__ = ["measure_answering", "measure_temporal"]

_QUESTIONS = 1_000
_VIDEOS = 20
_AT_ONCE = 64
_LATENCY = 0.2

_IDLE = 0.25
"""The most that a run with nothing left to ask may take of the time of the first run."""
_OVERHEAD = 3.0
"""The most that a run may take of the time in which the endpoint alone answers as many calls."""
_TEMPORAL_SECONDS = 5.0


def measure_answering(folder: Path) -> Iterator[Row]:
    """Yield the rows one by one; files go under `folder`."""
    place = folder / "answering"
    place.mkdir()
    for number in range(_VIDEOS):
        make_clip(place / f"clip-{number}.mp4", 48)
    file = place / "questions.jsonl"
    with file.open("w", encoding="utf-8") as stream:
        for number in range(_QUESTIONS):
            question = {
                "id": f"q{number}",
                "video": f"clip-{number * _VIDEOS // _QUESTIONS}",
                "question": f"Where does ball {number} roll?",
                "options": ["left", "right", "up"],
                "answer": "ABC"[number % 3],
            }
            stream.write(json.dumps(question) + "\n")
    blind, again, frames = asyncio.run(_answer(place, file))
    ideal = _QUESTIONS / _AT_ONCE * _LATENCY
    yield Row(
        f"{_QUESTIONS:,} questions without the video, {_AT_ONCE} calls of {1000 * _LATENCY:.0f} ms "
        "at a time, against the calls alone",
        f"{_QUESTIONS / blind:.0f} questions/s, {blind / ideal:.1f} times as long",
        f"<= {_OVERHEAD:g} times",
        blind <= _OVERHEAD * ideal,
    )
    yield Row(
        "the same command again, with nothing left to ask, against the first run",
        f"{again:.2f} s, {again / blind:.2f} times as long",
        f"<= {_IDLE:g} times",
        again <= _IDLE * blind,
    )
    yield Row(
        f"{_QUESTIONS:,} questions with 8 frames of {_VIDEOS} videos, the endpoint in this process",
        f"{_QUESTIONS / frames:.0f} questions/s",
        "",
        True,
    )


async def _answer(place: Path, file: Path) -> tuple[float, float, float]:
    def reply(_: dict[str, Any]) -> dict[str, Any]:
        return completion("A", prompt_tokens=100, completion_tokens=1)

    async with LoopbackServer(reply, latency=_LATENCY, models=["bench"]) as server:
        options: dict[str, Any] = {
            "model": "bench",
            "questions": file,
            "base_url": server.url,
            "runs": place / "runs",
            "cache": place / "cache.sqlite",
            "max_concurrency": _AT_ONCE,
        }
        times = []
        for more in ({"blind": True}, {"blind": True}, {"frames": "8"}):
            began = time.perf_counter()
            await capeval.mcq_answer_async(**options, **more)
            times.append(time.perf_counter() - began)
    first, again, frames = times
    return first, again, frames


def measure_temporal(folder: Path) -> Iterator[Row]:
    """Yield the row; files go under `folder`."""
    place = folder / "temporal"
    shown: dict[str, dict[str, Any]] = {
        "many": {"policy": "16", "indices": list(range(16))},
        "one": {"single": "random", "indices": [7]},
        "picked": {"single": "column:best", "indices": [9]},
        "shuffled": {"policy": "16", "order": "shuffled", "indices": list(range(16))[::-1]},
    }
    # As many questions, videos and reasoning types as TOMATO has.
    rng = random.Random(0)
    files = {}
    for share, (name, frames) in enumerate(shown.items(), start=1):
        run = place / name
        run.mkdir(parents=True)
        with (run / "responses.jsonl").open("w", encoding="utf-8") as stream:
            for number in range(1_484):
                line = {
                    "id": f"q{number}",
                    "benchmark": "tomato",
                    "video": f"clip-{number % 1_397}",
                    "question": "Where does the ball roll?",
                    "options": ["left", "right", "up", "down"],
                    "answer": "A",
                    "reply": "A" if rng.random() < 0.6 / share**0.5 else "B",
                    "frames": frames,
                    "reasoning_type": f"type {number % 6}",
                }
                stream.write(json.dumps(line) + "\n")
        capeval.mcq_grade(run / "responses.jsonl", out=run / "grades.json", resamples=200)
        files[name] = run / "grades.json"
    times = []
    for _ in range(3):
        began = time.perf_counter()
        capeval.mcq_temporal(
            multi=files["many"],
            single=files["one"],
            picked=files["picked"],
            shuffled=files["shuffled"],
        )
        times.append(time.perf_counter() - began)
    seconds = statistics.median(times)
    yield Row(
        "capeval mcq temporal of 4 graded runs of 1,484 questions, 10,000 resamples (median of 3)",
        f"{seconds:.1f} s",
        f"<= {_TEMPORAL_SECONDS:g} s",
        seconds <= _TEMPORAL_SECONDS,
    )

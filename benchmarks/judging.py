"""How fast judging, rescoring and starting are, against the targets that the project set."""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import capeval
from benchmarks.data import make_captions, make_set
from capeval.files.annotations import load_annotations
from capeval.judging.lexical import LexicalJudge
from capeval.scoring.judged_run import load_judged

__all__ = ["Row", "machine", "measure", "serve"]

_ROOT = Path(__file__).resolve().parent.parent
_CONCURRENCY = 64
_ALONE = 30
_SERVER = """
import asyncio, sys
from tests.judge_responder import answer
from tests.server import LoopbackServer

async def serve():
    async with LoopbackServer(answer, latency=float(sys.argv[1]), keep=False) as server:
        print(server.url, flush=True)
        await asyncio.Event().wait()

asyncio.run(serve())
"""


@dataclass(frozen=True)
class Row:
    """One measured figure and the target that it is held against."""

    what: str
    measured: str
    target: str
    met: bool


def machine() -> str:
    """Return the machine in words."""
    model = ""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        names = [line for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0].split(":", 1)[1].strip() if names else ""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{os.cpu_count()} cores {model or platform.machine()}, {memory:.0f} GiB, "
        f"{platform.system()}, Python {platform.python_version()}"
    )


@contextmanager
def serve(folder: Path, latency_ms: int) -> Iterator[str]:
    """Run the tests' endpoint in a process of its own; yield its base URL."""
    command = [sys.executable, "-c", _SERVER, str(latency_ms / 1000)]
    environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment, cwd=folder
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def _judge(folder: Path, url: str, name: str, *, concurrency: int, limit: int | None) -> float:
    began = time.perf_counter()
    scores = capeval.judge(
        folder / "captions.jsonl",
        folder / "annotations.json",
        judge="bench-judge",
        base_url=url,
        run=name,
        runs=folder / "runs",
        cache=folder / f"{name}.sqlite",
        max_concurrency=concurrency,
        limit=limit,
    )
    seconds = time.perf_counter() - began
    if scores.counts.scored != (limit or scores.counts.captioned):
        raise SystemExit(f"{name}: {scores.counts.unscored} captions stayed unscored")
    return seconds


def _llm(folder: Path, videos: int) -> Iterator[Row]:
    with serve(folder, 200) as url:
        together = _judge(folder, url, "together", concurrency=_CONCURRENCY, limit=None)
        alone = _judge(folder, url, "alone", concurrency=1, limit=_ALONE)
    speedup = (videos / together) / (_ALONE / alone)
    ideal = 3 * videos * 0.2 / _CONCURRENCY
    yield Row(
        f"LLM judge, 200 ms latency, {videos} videos, concurrency {_CONCURRENCY}, "
        f"against one call at a time ({_ALONE} videos)",
        f"{speedup:.1f} x throughput",
        ">= 50 x",
        speedup >= 50,
    )
    yield Row(
        f"the same against the ideal 3 x {videos} x 0.2 / {_CONCURRENCY} = {ideal:.2f} s",
        f"{together:.2f} s, {together / ideal:.2f} x ideal",
        "<= 1.35 x",
        together <= 1.35 * ideal,
    )
    with serve(folder, 0) as url:
        seconds = _judge(folder, url, "instant", concurrency=_CONCURRENCY, limit=None)
    rate = 3 * videos / seconds
    yield Row(
        "LLM judge, 0 ms latency: validated, cached calls a second",
        f"{rate:.0f}/s",
        ">= 400/s",
        rate >= 400,
    )
    began = time.perf_counter()
    _judge(folder, url, "instant", concurrency=_CONCURRENCY, limit=None)
    yield Row(
        "the same again: nothing left to judge, scored from the stored verdicts",
        f"{time.perf_counter() - began:.2f} s",
        "",
        True,
    )


def _command(folder: Path) -> Iterator[Row]:
    times = []
    with serve(folder, 50) as url:
        for number in range(3):
            command = [sys.executable, "-m", "capeval", "judge", "captions.jsonl", "--quiet"]
            command += ["--annotations", "annotations.json", "--judge", "bench-judge"]
            command += ["--base-url", url, "--limit", "100", "--run", f"command-{number}"]
            cache = {"XDG_CACHE_HOME": str(folder / f"command-{number}")}
            began = time.perf_counter()
            subprocess.run(command, cwd=folder, check=True, env={**os.environ, **cache})
            times.append(time.perf_counter() - began)
    yield Row(
        f"capeval judge, 50 ms latency, 100 videos, concurrency {_CONCURRENCY}, the whole command "
        "(median of 3)",
        f"{statistics.median(times):.2f} s",
        "<= 2.6 s",
        statistics.median(times) <= 2.6,
    )


def _lexical(folder: Path, videos: int) -> Iterator[Row]:
    annotations = load_annotations(folder / "annotations.json")
    captions = [json.loads(line)["caption"] for line in (folder / "captions.jsonl").open()]
    times = []
    for _ in range(3):
        judge = LexicalJudge()
        began = time.perf_counter()
        for annotation, caption in zip(annotations, captions, strict=True):
            judge.verdict(annotation, caption)
        times.append(time.perf_counter() - began)
    seconds = statistics.median(times)
    yield Row(
        f"lexical judge, {videos} videos, 17 elements, 200 words (median of 3)",
        f"{seconds:.2f} s",
        "<= 2 s",
        seconds <= 2,
    )
    judged = folder / "runs" / "together"
    times = []
    for _ in range(3):
        stored = next(entry for entry in judged.iterdir() if entry.is_dir())
        began = time.perf_counter()
        _ = load_judged(stored, annotations=annotations).scores
        times.append(time.perf_counter() - began)
    seconds = statistics.median(times)
    yield Row(
        f"rescoring {videos} videos from their file, with all intervals (median of 3)",
        f"{seconds:.2f} s",
        "<= 1 s",
        seconds <= 1,
    )


def _many_files(folder: Path, files: int) -> Iterator[Row]:
    annotations = make_set(1000)
    paths = []
    for number in range(files):
        paths.append(folder / f"many_{number:03d}.jsonl")
        make_captions(annotations, paths[-1], seed=number)
    command = [
        *(sys.executable, "-m", "capeval", "judge", *map(str, paths)),
        *("--annotations", str(folder / "annotations.json"), "--judge", "lexical", "--quiet"),
    ]
    began = time.perf_counter()
    with (folder / "many.log").open("w") as log:
        subprocess.run(command, cwd=folder, check=True, stdout=log)
    seconds = time.perf_counter() - began
    # The largest child so far; the server before it is smaller.
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    yield Row(
        f"{files} caption files of 1,000 videos judged by lexical in one command",
        f"{peak:.0f} MB peak, {seconds:.0f} s",
        "<= 208 MB",
        peak <= 208,
    )


def _start() -> Iterator[Row]:
    times = []
    for _ in range(7):
        began = time.perf_counter()
        command = [sys.executable, "-m", "capeval", "--help"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - began)
    seconds = statistics.median(times)
    yield Row("capeval --help (median of 7)", f"{seconds:.2f} s", "<= 0.25 s", seconds <= 0.25)


def measure(folder: Path, *, videos: int, files: int) -> Iterator[Row]:
    """Yield the rows one by one; `folder` is for scratch files."""
    annotations = make_set(videos)
    (folder / "annotations.json").write_text(json.dumps(annotations))
    make_captions(annotations, folder / "captions.jsonl")
    yield from _start()
    yield from _llm(folder, videos)
    yield from _command(folder)
    yield from _lexical(folder, videos)
    yield from _many_files(folder, files)

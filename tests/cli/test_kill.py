"""kill -9 at twenty random moments: nothing is lost and nothing is paid for twice."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.cli.conftest import Workspace, end_of, start_server, stop_server

VIDEOS = 40
CONCURRENCY = 4
# Two runs are killed side by side: starting a process takes one of two cores for a second.
RUNS = 2
KILLS_EACH = 10
FILES = ("judgments.jsonl", "scores.json", "judge.json")


def stored(work: Workspace) -> tuple[int, int]:
    """Sizes that grow with every reply that is kept."""
    folder = work.cache / "capeval"
    paths = (folder / "replies.sqlite", folder / "replies.sqlite-wal")
    first, second = (path.stat().st_size if path.exists() else 0 for path in paths)
    return first, second


def arguments(work: Workspace) -> tuple[str, ...]:
    return (*work.judging("--max-concurrency", str(CONCURRENCY)), "--json")


def killed(work: Workspace, rng: random.Random) -> bool:
    """Start judging and kill it at some moment; say whether it was still at it."""
    process = work.start(*arguments(work))
    assert process.stderr is not None
    for line in process.stderr:
        if "judging" in line:
            break
    if rng.random() < 0.3:
        # Before the first reply, while the cache is opened, or a little later.
        time.sleep(rng.uniform(0.0, 0.7))
    else:
        before = stored(work)
        while stored(work) == before and process.poll() is None:
            time.sleep(0.001)
        time.sleep(rng.uniform(0.0, 0.15))
    alive = process.poll() is None
    process.kill()
    process.communicate()
    return alive


def killed_and_resumed(work: Workspace, seed: int) -> tuple[int, dict[str, bytes]]:
    rng = random.Random(seed)
    kills = sum(killed(work, rng) for _ in range(KILLS_EACH))
    ran = end_of(work.start(*arguments(work)))
    assert ran.code == 0, ran.err
    return kills, files_of(work)


def files_of(work: Workspace) -> dict[str, bytes]:
    files = {name: (work.judged / name).read_bytes() for name in FILES}
    left = {path.name for path in work.judged.iterdir() if not path.name.endswith(".tmp")}
    assert left == set(FILES)
    return files | {"captions.jsonl": (work.judged.parent / "captions.jsonl").read_bytes()}


def test_twenty_kills_lose_nothing_and_pay_nothing_twice(tmp_path: Path) -> None:
    server = start_server(tmp_path / "server", "flaky", latency_ms=25)
    try:
        works = [Workspace(tmp_path / name, server.url) for name in ("whole", "one", "two")]
        for work in works:
            work.fill(VIDEOS)
        ran = end_of(works[0].start(*arguments(works[0])))
        assert ran.code == 0, ran.err
        needed = server.calls()
        # A judge that always answers well would prove less.
        assert needed > 3 * VIDEOS
        assert b"asked again" in files_of(works[0])["judgments.jsonl"]

        with ThreadPoolExecutor(RUNS) as pool:
            resumed = list(pool.map(killed_and_resumed, works[1:], (1, 2)))
        kills = sum(count for count, _ in resumed)
        assert kills >= RUNS * KILLS_EACH * 3 // 4, "most kills came too late to matter"
        for _, files in resumed:
            assert files == files_of(works[0])
        again = server.calls() - needed - RUNS * needed
        assert 0 <= again <= kills * CONCURRENCY
    finally:
        stop_server(server)

"""kill -9 at random moments: nothing is lost and nothing is paid for twice."""

from __future__ import annotations

import random
import time
from pathlib import Path

from capeval.judging.selection import captions_at_once
from tests.cli.conftest import Workspace, end_of, start_server, stop_server

VIDEOS = 24
CONCURRENCY = 4
KILLS = 2
FILES = ("judge.json", "judgments.jsonl", "scores.json")


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


def kill_and_resume(work: Workspace, seed: int) -> list[dict[str, bytes]]:
    """Kill some times and finish; return the files of every run that came to its end."""
    rng, kills, ended = random.Random(seed), 0, 0
    runs = [work]
    while kills < KILLS:
        if killed(runs[-1], rng):
            kills += 1
        else:
            # It was faster than the killer: its end counts, and the next kills are for another.
            ended += 1
            runs.append(Workspace(work.folder.with_name(f"{work.folder.name}-{ended}"), work.url))
            runs[-1].fill(VIDEOS)
    ran = end_of(runs[-1].start(*arguments(runs[-1])))
    assert ran.code == 0, ran.err
    return [files_of(run) for run in runs]


def files_of(work: Workspace) -> dict[str, bytes]:
    files = {name: (work.judged / name).read_bytes() for name in FILES}
    left = {path.name for path in work.judged.iterdir() if not path.name.endswith(".tmp")}
    assert left == set(FILES)
    return files | {"captions.jsonl": (work.judged.parent / "captions.jsonl").read_bytes()}


def test_kills_lose_nothing_and_pay_nothing_twice(tmp_path: Path) -> None:
    server = start_server(tmp_path / "server", "flaky", latency_ms=25)
    try:
        whole, killed_one = (Workspace(tmp_path / name, server.url) for name in ("whole", "one"))
        for work in (whole, killed_one):
            work.fill(VIDEOS)
        ran = end_of(whole.start(*arguments(whole)))
        assert ran.code == 0, ran.err
        needed = server.calls()
        # A judge that always answers well would prove less.
        assert needed > 3 * VIDEOS
        assert b"asked again" in files_of(whole)["judgments.jsonl"]
        resumed = kill_and_resume(killed_one, seed=1)
        assert all(files == files_of(whole) for files in resumed)
        again = server.calls() - needed - len(resumed) * needed
        # Of each caption under way, one reply may be on its way here or into the file.
        assert 0 <= again <= KILLS * captions_at_once(CONCURRENCY)
    finally:
        stop_server(server)

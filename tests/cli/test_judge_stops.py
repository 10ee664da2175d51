"""What stops `capeval judge` before its start or on its way, and how a later command goes on."""

import asyncio
import json
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from capeval.judging.judges import captions_at_once
from tests.cli.conftest import (
    Endpoint,
    Workspace,
    caption_lines,
    end_of,
    serving,
    wait_until,
)
from tests.cli.test_judge import VIDEOS, Runs, complaint, repeats
from tests.judge_responder import answer, flaky
from tests.server import LoopbackServer, failure
from tests.world import ROOT


def test_a_refused_judge_leaves_nothing_and_corrected_captions_are_accepted(
    work: Workspace,
) -> None:
    url, work.url = work.url, "http://127.0.0.1:9/v1"
    refused = work.judge("--judge", "m")
    assert refused.code == 2
    assert "cannot reach http://127.0.0.1:9/v1: ConnectionRefused" in refused.lines[-1]
    assert not (work.folder / "runs").exists()
    work.url = url
    corrected = caption_lines(12)
    corrected[0]["caption"] = "A corrected caption of a dog."
    work.write("captions.jsonl", "".join(json.dumps(line) + "\n" for line in corrected))
    assert work.judge().code == 0
    # A second judge that is refused is no judge of the run.
    before = sorted(path.name for path in work.judged.parent.iterdir())
    refused = work.run("judge", "captions", "--base-url", "http://127.0.0.1:9/v1", "--judge", "m")
    assert refused.code == 2, refused.err
    assert sorted(path.name for path in work.judged.parent.iterdir()) == before
    assert work.run("score", "captions").code == 0


def test_a_refused_generate_leaves_no_run_and_no_lock(work: Workspace) -> None:
    run = work.folder / "runs" / "m"
    run.mkdir(parents=True)
    (run / "ungenerated.jsonl").write_text('{"index": "sample_01", "reason": "filtered"}\n')
    before = sorted(work.folder.rglob("*"))
    refused = work.run(
        *("generate", "--model", "m", "--base-url", "http://127.0.0.1:9/v1", "--limit", "2"),
        *("--frames", "2", "--shard", "2/2"),
    )
    assert refused.code == 2, refused.err
    assert [path for path in sorted(work.folder.rglob("*")) if "cache" not in str(path)] == before


# In blocks of 1,024 bytes, as a full disk would: the captions fit, and the first verdict does not.
@pytest.mark.parametrize(
    ("blocks", "left"),
    [(0, []), (1, ["captions.jsonl", "judge.json", "judgments.jsonl", "manifest.json"])],
)
def test_a_full_disk_leaves_a_run_that_can_go_on(
    work: Workspace, blocks: int, left: list[str]
) -> None:
    work.fill(1)
    text = " ".join(f"Dog number {number} barks." for number in range(35))
    work.write("captions.jsonl", json.dumps({"index": "V0", "caption": text}))
    command = "judge captions.jsonl --annotations annotations.json --judge lexical"
    full = subprocess.run(
        ["bash", "-c", f"ulimit -f {blocks}; exec {sys.executable} -m capeval {command}"],
        cwd=work.folder,
        env=work.env(PYTHONPATH=str(ROOT), PYTHONDONTWRITEBYTECODE="1"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert full.returncode == 2, full
    assert full.stderr.splitlines()[-1].endswith("File too large")
    files = [path for path in (work.folder / "runs").rglob("*") if path.is_file()]
    assert sorted(path.name for path in files) == left
    assert (work.folder / "runs").exists() == bool(left)
    assert work.run(*command.split()).code == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
async def test_two_runs_that_are_stopped_together_both_go_on(
    work: Workspace, number: signal.Signals, code: int
) -> None:
    is_stopped = False

    async def hold(name: str, number: int) -> None:
        if not is_stopped and ((name, number) == ("a", 5) or (name == "b" and number > 1)):
            await asyncio.Event().wait()

    runs = Runs(work, hold)
    async with runs.server:
        process = work.start(*runs.judging())
        await asyncio.to_thread(
            wait_until, lambda: [len(runs.judged(name)) for name in "ab"] == [5, 2]
        )
        process.send_signal(number)
        stopped = await asyncio.to_thread(end_of, process)
        assert stopped.code == code
        if number == signal.SIGINT:
            assert "run the same command to resume" in stopped.err
            for kept in ("5 of 6 captions of a are judged", "2 of 6 captions of b are judged"):
                assert kept in stopped.err
        is_stopped = True
        again = await runs.judge("--json")
    assert (again.code, list(again.json)) == (0, ["a", "b", "c"]), again.err
    assert [runs.judged(name) for name in "abc"] == [VIDEOS[:6]] * 3
    assert set(runs.answered.values()) == {1}


async def test_calls_under_way_are_kept_when_the_account_ends(work: Workspace) -> None:
    work.fill(8)
    fails = [failure(429, "no credit", code="insufficient_quota")]

    async def slow(request: dict[str, Any]) -> Any:
        if "Man 7 " in str(request["messages"]) and fails:
            await asyncio.sleep(0.1)
            return fails.pop()
        if "JSON object" not in str(request["messages"])[:80]:
            await asyncio.sleep(0.4)
        return answer(request)

    async with LoopbackServer(slow, keep=True) as server:
        work.url = server.url
        first = await asyncio.to_thread(work.judge, "-q")
        assert len(complaint(first)) < 300
        made = server.calls
        again = await asyncio.to_thread(work.judge, "-q")
        assert (again.code, again.err) == (0, "")
        # The preflight of each run, three calls for a caption, and the one that was refused.
        assert server.calls == 2 + 3 * 8 + 1, made


def test_repeats_that_are_stopped_leave_the_earlier_ones(
    work: Workspace, endpoint: Endpoint
) -> None:
    assert work.judge().code == 0
    endpoint.mood = {"401": ["Man 6 "]}
    again = ("captions", "--repeats", "2", "--max-concurrency", "1")
    assert work.judge(*again).code == 2
    asked, scored = repeats(work)
    assert asked == "2"
    assert 2 < scored < 12
    assert repeats(work, "--repeats", "1") == ("1", 12)
    endpoint.mood = {}
    assert work.judge(*again).code == 0
    assert repeats(work) == ("2", 12)
    assert endpoint.work == 2 * 36 + 1


def files_of(work: Workspace) -> dict[str, bytes]:
    left = {path.name for path in work.judged.iterdir() if not path.name.endswith(".tmp")}
    assert left == {"judge.json", "judgments.jsonl", "scores.json"}
    files = {name: (work.judged / name).read_bytes() for name in left}
    return files | {"captions.jsonl": (work.judged.parent / "captions.jsonl").read_bytes()}


def has_worked(server: Endpoint, calls: int) -> bool:
    return server.work >= calls


def test_kills_lose_nothing_and_pay_nothing_twice(tmp_path: Path) -> None:
    with serving(Endpoint(flaky, latency=0.025)) as server:
        whole, killed = (Workspace(tmp_path / name, server.url) for name in ("whole", "killed"))
        for work in (whole, killed):
            work.fill(12)
        asking = (*whole.judging("--max-concurrency", "4"), "--json")
        ran = whole.run(*asking)
        assert ran.code == 0, ran.err
        needed = server.work
        # A judge that always answers well would prove less.
        assert needed > 3 * 12
        assert b"asked again" in files_of(whole)["judgments.jsonl"]
        kills = (1, 8, 17)  # after so many calls
        for calls in kills:
            process, before = killed.start(*asking), server.work
            wait_until(partial(has_worked, server, before + calls))
            process.kill()
            process.communicate()
        ran = killed.run(*asking)
        assert ran.code == 0, ran.err
        assert files_of(killed) == files_of(whole)
        # Of each caption under way, one reply may be on its way here or into the file.
        assert 0 <= server.work - 2 * needed <= len(kills) * captions_at_once(4)

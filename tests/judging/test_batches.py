"""`capeval judge --batch` and `--batch-files`: a live run's verdicts, each request sent once."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.batch_api import Fault
from tests.cli.conftest import Workspace
from tests.cli_runs import capeval, environment
from tests.judge_responder import answer, flaky
from tests.server import LoopbackServer, failure, unauthorized
from tests.typed import Said

VIDEOS = 8
PAUSES = {
    "capeval.llm.collecting.QUIET_SECONDS": 0.2,
    "capeval.llm.batches.POLL_SECONDS": 0.02,
    "capeval.llm.batches.SETTLE_SECONDS": 3.0,
}


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in PAUSES.items():
        monkeypatch.setattr(name, seconds)


@pytest.fixture
async def server() -> AsyncIterator[LoopbackServer]:
    async with LoopbackServer(flaky) as found:
        found.batch.seconds = 0.05
        yield found


def workspace(folder: Path, server: LoopbackServer, videos: int = VIDEOS) -> Workspace:
    work = Workspace(folder, server.url)
    work.fill(videos)
    return work


async def judged(work: Workspace, *more: str) -> Said:
    return await capeval(work.folder, *work.judging("--yes", *more))


def verdicts(work: Workspace) -> bytes:
    return (work.judged / "judgments.jsonl").read_bytes()


async def live(folder: Path, server: LoopbackServer, videos: int = VIDEOS) -> tuple[bytes, int]:
    """The verdicts of a live run, and how many calls it needs."""
    before, work = server.calls, workspace(folder, server, videos)
    ran = await judged(work)
    assert ran.code == 0, ran.err
    return verdicts(work), server.calls - before - 1


async def test_a_batch_for_each_stage_gives_the_verdicts_of_a_live_run_at_half_the_price(
    tmp_path: Path, server: LoopbackServer
) -> None:
    server.responder = answer
    expected, calls = await live(tmp_path / "live", server)
    work = workspace(tmp_path / "batch", server)
    priced = ("--judge", "gpt-4.1", "--dry-run", "--json")
    half, whole = [(await judged(work, *priced, *more)).json for more in (["--batch"], [])]
    assert half["cost"] == pytest.approx(whole["cost"] / 2)
    assert "(batch price)" in (await judged(work, *priced[:3], "--batch")).out
    before = server.calls
    ran = await judged(work, "--batch")
    assert (ran.code, verdicts(work)) == (0, expected), ran.err
    assert len(server.batch.batches) == 3
    assert set(server.batch.sent.values()) == {1}
    assert len(server.batch.sent) == calls
    # The preflight finds out what the endpoint takes.
    assert server.calls == before + 1
    assert (await judged(work, "--batch")).code == 0
    assert len(server.batch.batches) == 3


def fails_once() -> Callable[[dict[str, Any]], bool]:
    """Let every third request fail at first."""
    met: set[str] = set()

    def is_broken(body: dict[str, Any]) -> bool:
        text = json.dumps(body)
        is_new = text not in met
        met.add(text)
        return is_new and len(text) % 3 == 0

    return is_broken


def page(_: web.Response) -> web.Response:
    """What a proxy answers instead."""
    return web.Response(text="<p>Please sign in", content_type="text/html")


def cut(answer: web.Response) -> web.Response:
    assert isinstance(answer.body, bytes)
    return web.Response(body=answer.body[: len(answer.body) // 3])


def absent(_: web.Response) -> web.Response:
    return failure(404, "No such batch")


def without_replies(answer: web.Response) -> web.Response:
    return web.json_response(json.loads(answer.text or "") | {"output_file_id": None})


def busy(_: web.Response) -> web.Response:
    return failure(503)


@pytest.mark.parametrize(
    ("faults", "settings", "more"),
    [
        (["expire"], {}, ()),
        (["expire", None, "expire"], {}, ("--finish", "live")),
        # The endpoint has made the batch, its answer is lost, and the list shows it later.
        (["lose", None, "lose"], {"hidden": 0.3}, ()),
        (["token_limit", None, "token_limit"], {}, ()),
        (["tear", None, "tear"], {}, ()),
        ([], {"broken": fails_once(), "most_listed": 1}, ()),
        ([], {"queue": 5}, ()),
        ([], {"spoiled": {"upload": [page], "create": [page], "retrieve": [absent, page]}}, ()),
        ([], {"spoiled": {"list": [busy, page], "download": [page, cut, busy, cut]}}, ()),
        ([], {"spoiled": {"retrieve": 3 * [without_replies]}, "seconds": 0.0}, ()),
    ],
)
async def test_faulty_batches_lose_nothing(
    tmp_path: Path,
    server: LoopbackServer,
    faults: list[Fault | None],
    settings: dict[str, Any],
    more: tuple[str, ...],
) -> None:
    expected, _ = await live(tmp_path / "live", server)
    server.batch.faults = deque(faults)
    for name, value in settings.items():
        setattr(server.batch, name, value)
    work = workspace(tmp_path / "batch", server)
    ran = await judged(work, "--batch", *more)
    assert (ran.code, verdicts(work)) == (0, expected), ran.err
    if "lose" in faults or "token_limit" in faults or "spoiled" in settings:
        assert set(server.batch.sent.values()) == {1}
    if "list" in settings.get("spoiled", {}):
        assert "does not answer (503: it broke); trying again" in ran.err


async def test_a_batch_that_the_endpoint_has_no_longer_is_sent_again(
    tmp_path: Path, server: LoopbackServer
) -> None:
    expected, _ = await live(tmp_path / "live", server)
    first = iter(["created"])

    def forget(what: str) -> None:
        if what == "created" and next(first, ""):
            server.batch.batches.clear()

    server.batch.reached = forget
    work = workspace(tmp_path / "batch", server)
    ran = await judged(work, "--batch")
    assert (ran.code, verdicts(work)) == (0, expected), ran.err
    assert "has no batch batch-0 any more" in ran.err


async def test_replies_that_the_endpoint_has_no_longer_are_asked_for_again(
    tmp_path: Path, server: LoopbackServer
) -> None:
    expected, _ = await live(tmp_path / "live", server)
    server.batch.spoiled["download"] = [absent]
    work = workspace(tmp_path / "batch", server)
    ran = await judged(work, "--batch")
    assert (ran.code, verdicts(work)) == (0, expected), ran.err
    assert "has no replies of batch batch-0 any more" in ran.err
    assert set(server.batch.sent.values()) == {1, 2}


async def test_a_queue_that_others_fill_is_waited_for(
    tmp_path: Path, server: LoopbackServer
) -> None:
    server.responder = answer
    server.batch.queue, server.batch.seconds = VIDEOS, 1000.0

    def end(listed: web.Response) -> web.Response:
        server.batch.seconds = 0.0
        return listed

    server.batch.spoiled["list"] = [lambda listed: listed] * 3 + [end]
    server.batch.batches["other"] = {
        "id": "other",
        "object": "batch",
        "created_at": int(time.time()),
        "metadata": None,
        "lines": ["a request"],
        "fault": None,
        "begun": time.monotonic(),
        "files": ([], []),
    }
    ran = await judged(workspace(tmp_path, server), "--batch")
    assert ran.code == 0, ran.err
    assert "waiting until one of 1 batch in progress has ended" in ran.err
    assert [len(one["lines"]) for one in server.batch.batches.values()] == [1, *4 * [VIDEOS]]


async def test_the_key_that_is_refused_later_is_named_as_elsewhere(
    tmp_path: Path, server: LoopbackServer
) -> None:
    server.batch.spoiled["retrieve"] = [lambda _: unauthorized()]
    ran = await judged(workspace(tmp_path, server), "--batch")
    assert ran.code == 2
    assert "needs a key: set OPENAI_API_KEY (401" in ran.err


async def test_what_fails_in_every_batch_is_left_unscored(
    tmp_path: Path, server: LoopbackServer
) -> None:
    server.responder = answer
    server.batch.broken = lambda body: "unit003" in json.dumps(body)
    work = workspace(tmp_path, server)
    ran = await judged(work, "--batch")
    assert ran.code == 3
    assert "V003 is unscored: split: it failed in 3 batches" in ran.out
    assert work.scores()["counts"]["scored"] == VIDEOS - 1


async def test_an_unscored_caption_is_asked_again_and_not_answered_by_an_old_batch(
    tmp_path: Path, server: LoopbackServer
) -> None:
    server.responder = lambda body: "no" if "unit003" in json.dumps(body) else answer(body)
    work = workspace(tmp_path, server)
    # The second run sends what a batch of the third would have in common with it.
    for _ in range(2):
        assert (await judged(work, "--batch")).code == 3
    server.responder = answer
    assert (await judged(work, "--batch")).code == 0


@pytest.mark.parametrize(
    ("fault", "code", "message"),
    [
        ("cancel", 3, "batch-0 was cancelled"),
        ("fail", 2, "did not accept batch batch-0: it has invalid_file"),
    ],
)
async def test_a_refused_or_cancelled_batch_stops_the_run_and_the_next_goes_on(
    tmp_path: Path, server: LoopbackServer, fault: Fault, code: int, message: str
) -> None:
    expected, _ = await live(tmp_path / "live", server)
    server.batch.faults = deque([fault])
    work = workspace(tmp_path / "batch", server)
    ran = await judged(work, "--batch")
    assert ran.code == code
    assert message in ran.err
    assert len(server.batch.batches) == 1
    assert (await judged(work, "--batch")).code == 0
    assert verdicts(work) == expected
    assert set(server.batch.sent.values()) == {1} if fault == "fail" else {1, 2}


async def start(work: Workspace, most_requests: int = 1000) -> asyncio.subprocess.Process:
    """Start `capeval judge --batch` in a process of its own, with the pauses of these tests."""
    lines = [f"import {name.rpartition('.')[0]}; {name} = {s}" for name, s in PAUSES.items()]
    lines += [f"capeval.llm.batches.BatchClient.most_requests = {most_requests}"]
    code = "\n".join([*lines, "from capeval.cli import main; main()"])
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code, *work.judging("--batch")),
        cwd=work.folder,
        env=environment(work.folder),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


def kill_at(moment: str, process: asyncio.subprocess.Process, reached: str) -> None:
    if reached == moment:
        process.kill()


async def test_kills_at_any_moment_send_nothing_twice(
    tmp_path: Path, server: LoopbackServer
) -> None:
    videos, rng = 300, random.Random(1)
    expected, calls = await live(tmp_path / "live", server, videos)
    server.batch.seconds, server.batch.hidden = 0.3, 0.3
    work = workspace(tmp_path / "batch", server, videos)
    kills = 0
    while True:
        moment = rng.choice(["upload", "create", "created", "download", "time", "time"])
        # Several small batches for a stage: more moments between two of them.
        process = await start(work, 60)
        server.batch.reached = partial(kill_at, moment, process)
        try:
            seconds = rng.uniform(0.5, 2.0) if moment == "time" and kills < 20 else 60
            _, err = await asyncio.wait_for(process.communicate(), seconds)
        except TimeoutError:
            process.kill()
            await process.wait()
        if process.returncode == 0:
            break
        assert process.returncode == -9, err.decode()
        kills += 1
    assert kills >= 20
    assert verdicts(work) == expected
    assert set(server.batch.sent.values()) == {1}
    assert len(server.batch.sent) == calls


async def test_ctrl_c_leaves_the_batch_running(tmp_path: Path, server: LoopbackServer) -> None:
    expected, _ = await live(tmp_path / "live", server)
    server.batch.seconds = 3.0
    work = workspace(tmp_path / "batch", server)
    sent = asyncio.Event()
    server.batch.reached = lambda what: sent.set() if what == "created" else None
    process = await start(work)
    await sent.wait()
    await asyncio.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, err = await process.communicate()
    server.batch.seconds = 0.05
    assert process.returncode == 130
    assert "1 batch not finished" in err.decode()
    assert "same command" in err.decode()
    sent_already = f"{VIDEOS} requests in batches at {server.url}"
    assert f"{sent_already}: --batch reads" in (await judged(work, "--dry-run", "-q")).err
    assert f"{sent_already} already" in (await judged(work, "--dry-run", "--batch")).err
    assert (await judged(work, "--batch")).code == 0
    assert verdicts(work) == expected
    assert set(server.batch.sent.values()) == {1}


async def test_another_program_answers_files_of_requests(
    tmp_path: Path, server: LoopbackServer
) -> None:
    expected, _ = await live(tmp_path / "live", server)
    work = workspace(tmp_path / "files", server)
    folder, answered = work.folder / "batch", 0
    command = ("--batch-files", "batch", "--judge", "judge-model")
    before = server.calls
    planned = await judged(work, *command, "--dry-run")
    assert f"Expected: {3 * VIDEOS} requests in files, in several rounds" in planned.out
    while (ran := await judged(work, *command)).code == 3:
        (new,) = [
            one for one in folder.glob("requests-*") if not (folder / f"of-{one.name}").exists()
        ]
        assert f"vllm run-batch -i batch/{new.name}" in ran.out
        assert answered != 1 or "; 1 line cut off or not a result" in ran.err
        assert "none of" not in ran.out
        requests = [json.loads(line) for line in new.read_text("utf-8").splitlines()]
        assert {(one["method"], one["url"]) for one in requests} == {
            ("POST", "/v1/chat/completions")
        }
        (folder / f"of-{new.name}").write_bytes(results(requests))
        answered += 1
    assert (ran.code, verdicts(work)) == (0, expected), ran.err
    assert answered >= 3
    assert server.calls == before


async def test_a_file_s_final_failure_is_not_written_again(
    tmp_path: Path, server: LoopbackServer
) -> None:
    server.responder = answer
    work = workspace(tmp_path, server)
    folder, too_long = work.folder / "batch", "maximum context length is 100 tokens"
    for _ in range(4):
        ran = await judged(work, "--batch-files", "batch", "--judge", "judge-model")
        for file in folder.glob("requests-*"):
            lines = []
            for line in file.read_text("utf-8").splitlines():
                one = json.loads(line)
                is_bad = "unit003" in line
                body = {"error": {"message": too_long}} if is_bad else answer(one["body"])
                response = {"status_code": 400 if is_bad else 200, "body": body}
                lines.append(json.dumps({"custom_id": one["custom_id"], "response": response}))
            (folder / f"of-{file.name}").write_text("\n".join(lines), "utf-8")
    assert ran.code == 3
    assert f"V003 is unscored: split: 400: {too_long}" in ran.out
    assert work.scores()["counts"]["scored"] == VIDEOS - 1
    assert len(list(folder.glob("requests-*"))) == 3


def results(requests: list[dict[str, Any]]) -> bytes:
    """Results in reverse order, one twice, one failed, and the last line torn."""
    lines = [
        {
            "id": "vllm-1",
            "custom_id": one["custom_id"],
            "response": {"status_code": 200, "body": flaky(one["body"])},
            "error": None,
        }
        for one in reversed(requests)
    ]
    torn = []
    if len(lines) > 3:
        failed = {
            "custom_id": lines[1]["custom_id"],
            "response": {"status_code": 500, "body": None},
        }
        lines[1] = failed | {"error": {"message": "out of memory"}}
        torn = [lines.pop()]
        lines.append(lines[0])
    written = "".join(json.dumps(line) + "\n" for line in lines)
    return (written + "".join(json.dumps(line)[:-30] for line in torn)).encode()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--batch", "--batch-files", "x"), "--batch and --batch-files exclude each other"),
        (("--batch", "--service-tier", "flex"), "--batch and --service-tier exclude each other"),
        (("--finish", "live"), "--finish is about batches; add --batch"),
        (("--batch-files", "x"), "--batch-files needs --judge MODEL"),
        (("--batch-files", "captions.jsonl", "--judge", "m"), "captions.jsonl: --batch-files: "),
    ],
)
async def test_options_that_do_not_fit(
    tmp_path: Path, server: LoopbackServer, options: tuple[str, ...], message: str
) -> None:
    ran = await judged(workspace(tmp_path, server), *options)
    assert ran.code == 2
    assert message in ran.err
    assert not server.requests


async def test_an_endpoint_without_batches_is_refused(tmp_path: Path) -> None:
    async with LoopbackServer(answer) as server:
        server.batch.exists = False
        ran = await judged(workspace(tmp_path, server), "--batch")
    assert ran.code == 2
    assert "refuses batches" in ran.err
    assert "omit --batch or use --batch-files" in ran.err

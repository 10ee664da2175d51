"""Processes that share a cache make each call once, whatever becomes of one of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from capeval.llm.claims import open_claims

ROOT = Path(__file__).resolve().parents[2]
CALLS = 40
KEYS = [f"{n:064x}" for n in (1 << 250, 2 << 250, 3 << 250)]

ASKER = f"""
import asyncio, sys
from pathlib import Path
from capeval.errors import ReplyError
from capeval.llm.asker import Asker
from capeval.llm.cache import ReplyCache
from capeval.llm.client import OpenAIChatClient
from capeval.llm.meter import Meter
from capeval.llm.types import ChatRequest
def check(reply):
    if "again" not in reply.text:
        raise ReplyError("say it again")
    return reply.text
async def main(url, path):
    cache = ReplyCache(Path(path), on_notice=lambda text: print(text, file=sys.stderr))
    async with OpenAIChatClient(url, max_concurrency=8) as client:
        asker = Asker(client, cache, base_url=url, meter=Meter())
        async def ask(n):
            request = ChatRequest("m", ({{"role": "user", "content": str(n)}},), 10)
            await asker.ask(request, check)
            print(n, flush=True)
        await asyncio.gather(*(ask(n) for n in range({CALLS})))
    cache.close()
asyncio.run(main(*sys.argv[1:3]))
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    log = tmp_path / "log.jsonl"
    command = [sys.executable, str(ROOT / "tests" / "server.py"), "--log", str(log)]
    process = subprocess.Popen([*command, "--latency-ms", "40"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield process.stdout.readline().strip(), log
    process.kill()
    process.wait()
    process.stdout.close()


def start(url: str, cache: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", ASKER, url, str(cache)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def calls(log: Path) -> list[str]:
    return [json.dumps(json.loads(line)["messages"]) for line in log.read_text().splitlines()]


def test_two_processes_make_no_call_twice(server: tuple[str, Path], tmp_path: Path) -> None:
    url, log = server
    both = [start(url, tmp_path / "cache" / "replies.sqlite") for _ in range(2)]
    for process in both:
        out, _ = process.communicate(timeout=60)
        assert (process.returncode, len(out.splitlines())) == (0, CALLS)
    # Each reply is asked for once more, with the complaint.
    assert sorted(calls(log)) == sorted(set(calls(log)))
    assert len(calls(log)) == 2 * CALLS


def test_the_claims_of_a_killed_process_are_free(server: tuple[str, Path], tmp_path: Path) -> None:
    url, log = server
    cache = tmp_path / "cache" / "replies.sqlite"
    killed, other = start(url, cache), start(url, cache)
    assert killed.stdout is not None
    for _ in range(3):
        killed.stdout.readline()
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    out, _ = other.communicate(timeout=60)
    assert (other.returncode, len(out.splitlines())) == (0, CALLS)
    made = calls(log)
    assert len(set(made)) == 2 * CALLS
    # Only what was in flight is paid for again.
    assert len(made) - len(set(made)) <= 2 * 8


def test_a_stopped_process_holds_up_no_other_for_good(
    server: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, _ = server
    cache = tmp_path / "cache" / "replies.sqlite"
    stopped = start(url, cache)
    assert stopped.stdout is not None
    stopped.stdout.readline()
    stopped.send_signal(signal.SIGSTOP)
    try:
        code = ASKER.replace(
            "asyncio.run", "import capeval.llm.cache as c; c.CLAIM_SECONDS = 0.3; asyncio.run"
        )
        other = subprocess.run(
            [sys.executable, "-c", code, url, str(cache)],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert len(other.stdout.splitlines()) == CALLS
        assert other.stderr.count("waiting for replies that another process asked for") == 1
    finally:
        stopped.kill()
        stopped.communicate()


def test_a_claim_is_held_once_in_a_process(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    one, two = open_claims(path), open_claims(path)
    assert one is not None
    assert two is not None
    assert [one.take(KEYS[0]), two.take(KEYS[0]), two.take(KEYS[1])] == [True, False, True]
    one.release(KEYS[0])
    assert two.take(KEYS[0])
    one.close()
    # The other user's claims are still held, against other processes too.
    code = (
        "import sys; from pathlib import Path; from capeval.llm.claims import open_claims\n"
        "claims = open_claims(Path(sys.argv[1])); print([claims.take(k) for k in sys.argv[2:]])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(path), *KEYS],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert ran.stdout.strip() == "[False, False, True]"
    two.close()


WITHOUT: dict[str, Callable[[Path], object]] = {
    "the folder is a file": lambda path: path.parent.write_text(""),
    "the file is a folder": lambda path: path.with_name(f"{path.name}-claims").mkdir(parents=True),
}


@pytest.mark.parametrize("how", WITHOUT)
def test_without_claims_calls_are_made_uncoordinated(
    how: str, server: tuple[str, Path], tmp_path: Path
) -> None:
    url, log = server
    cache = tmp_path / "cache" / "replies.sqlite"
    WITHOUT[how](cache)
    began = time.monotonic()
    process = start(url, cache)
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, len(out.splitlines())) == (0, CALLS)
    assert len(calls(log)) == 2 * CALLS
    assert time.monotonic() - began < 50

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from capeval.llm.asker import Asker
from capeval.llm.cache import ReplyCache, RequestIdentity, identify
from capeval.llm.money import Meter
from capeval.llm.replies import ChatReply, ChatRequest
from capeval.schema import Usage
from tests.scripted_client import ScriptedClient
from tests.world import ROOT

REPLY = ChatReply(*("text \ud83d", "stop", "snapshot", None, Usage(calls=1)), left_off=("seed",))
DAMAGED = b"this is no database" * 1000


def asked(text: str = "hello", model: str = "m") -> RequestIdentity:
    message = {"role": "user", "content": text}
    return identify(ChatRequest(model, (message,), 10), "http://judge/v1")


def fill(path: Path, replies: int = 1) -> None:
    cache = ReplyCache(path)
    for n in range(replies):
        cache.put(asked(f"hello {n}"), REPLY, "validated")
    cache.close()


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


@pytest.fixture
def notices() -> list[str]:
    return []


@pytest.fixture
def cache(tmp_path: Path, notices: list[str]) -> Iterator[ReplyCache]:
    store = ReplyCache(tmp_path / "store" / "replies.sqlite", on_notice=notices.append)
    yield store
    store.close()


def test_a_stored_reply_comes_back_whole_from_one_file(cache: ReplyCache, tmp_path: Path) -> None:
    assert (cache.info().entries, cache.path.exists()) == (0, False)
    cache.put(asked(), REPLY, "refused")
    info = cache.info()
    assert (info.entries, info.models, info.bytes > 0) == (1, {"m": 1}, True)
    cache.close()
    alone = shutil.copy(cache.path, tmp_path / "copy.sqlite")
    found = ReplyCache(alone).get(asked().key)
    assert found is not None
    reply, state = found
    today = time.strftime("%Y-%m-%d")
    assert (reply, state) == (replace(REPLY, cached=True, day=today), "refused")


WRITER = """
import asyncio, sys
from capeval.llm.asker import Asker
from capeval.llm.cache import ReplyCache
from tests.scripted_client import ScriptedClient
from capeval.llm.money import Meter
from capeval.llm.replies import ChatRequest
async def main(path, name, count):
    cache = ReplyCache(path, on_notice=sys.exit)
    client = ScriptedClient(lambda request: request.messages[0]["content"])
    asker = Asker(client, cache, base_url="http://judge/v1", meter=Meter())
    for n in range(int(count)):
        request = ChatRequest("m", ({"role": "user", "content": f"{name} {n}"},), 10)
        await asker.ask(request, lambda reply: reply.text)
        print(n, flush=True)
asyncio.run(main(*sys.argv[1:]))
"""


def test_processes_share_one_file_and_a_killed_one_loses_nothing_that_was_answered(
    cache: ReplyCache,
) -> None:
    killed, other = (
        start(WRITER, cache.path, *given) for given in (("one", 100_000), ("two", 100))
    )
    assert killed.stdout is not None
    last = next(int(line) for line in killed.stdout if int(line) >= 200)
    other.communicate(timeout=60)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert other.returncode == 0
    assert cache.info().entries >= last + 1 + 100
    with sqlite3.connect(cache.path) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()


async def answers(cache: ReplyCache) -> int:
    """Ask for four replies, then for the same ones; return how many were paid for."""
    client = ScriptedClient(lambda request: request.messages[0]["content"])
    asker = Asker(client, cache, base_url="http://judge/v1", meter=Meter())
    for n in (0, 1, 2, 3) * 2:
        request = ChatRequest("m", ({"role": "user", "content": f"hello {n}"},), 10)
        await asker.ask(request, lambda reply: reply.text)
    return len(client.requests)


def overwrite_the_middle(path: Path) -> None:
    fill(path, 200)
    content = bytearray(path.read_bytes())
    content[4096:] = os.urandom(len(content) - 4096)
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [lambda path: path.write_bytes(DAMAGED), overwrite_the_middle])
async def test_a_damaged_file_is_moved_aside(
    damage: Callable[[Path], object], cache: ReplyCache, notices: list[str]
) -> None:
    cache.path.parent.mkdir()
    damage(cache.path)
    before = cache.path.read_bytes()
    # The call that finds the damage may be one that is not kept.
    assert await answers(cache) in (4, 5)
    (notice,) = notices
    assert "and a new one is used" in notice
    (aside,) = cache.path.parent.glob("replies.sqlite-damaged-*")
    assert aside.read_bytes() == before
    assert await answers(cache) <= 1


async def test_a_folder_that_cannot_be_made_is_reported_once(
    tmp_path: Path, notices: list[str]
) -> None:
    (tmp_path / "file").write_text("")
    cache = ReplyCache(tmp_path / "file" / "replies.sqlite", on_notice=notices.append)
    # What cannot be written is kept in memory, so that equal requests are paid for once.
    assert await answers(cache) == 4
    (notice,) = notices
    assert "cannot be written" in notice
    found = cache.get(asked("hello 0").key)
    assert found is not None
    assert found[1] == "validated"


async def test_replies_wait_in_memory_while_the_file_is_locked(
    cache: ReplyCache, notices: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("capeval.llm.cache.BUSY_SECONDS", 0.05)
    fill(cache.path)
    other = sqlite3.connect(cache.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert await answers(cache) == 3
    (notice,) = notices
    assert "locked" in notice
    other.close()
    assert await answers(cache) == 0
    cache.close()
    assert ReplyCache(cache.path).info().states == {"validated": 4}

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from capeval.errors import InputError
from capeval.llm.asker import Asker
from capeval.llm.cache import ReplyCache
from capeval.llm.fake import ScriptedClient
from capeval.llm.meter import Meter
from capeval.llm.types import ChatReply, ChatRequest
from capeval.schema.usage import Usage

Requests = Callable[..., ChatRequest]
ROOT = Path(__file__).resolve().parents[2]
REPLY = ChatReply("text", "stop", "snapshot", None, Usage(calls=1), left_off=("seed",))


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


WRITER = """
import asyncio, sys
from pathlib import Path
from capeval.llm.asker import Asker
from capeval.llm.cache import ReplyCache
from capeval.llm.fake import ScriptedClient
from capeval.llm.meter import Meter
from capeval.llm.types import ChatRequest
async def main(path, name):
    asker = Asker(ScriptedClient(lambda r: r.messages[0]["content"]), ReplyCache(Path(path)),
                  base_url="http://judge/v1", meter=Meter())
    for n in range(int(sys.argv[3])):
        request = ChatRequest("m", ({"role": "user", "content": f"{name} {n}"},), 10)
        await asker.ask(request, lambda reply: reply.text)
        print(n, flush=True)
    assert not asker.cache.notices, asker.cache.notices
asyncio.run(main(*sys.argv[1:3]))
"""


def test_a_stored_reply_comes_back_whole(cache: ReplyCache, ask_for: Requests) -> None:
    cache.put("k", ask_for(), "http://judge/v1", REPLY, "refused")
    found = cache.get("k")
    assert found is not None
    reply, state = found
    assert state == "refused"
    assert reply == ChatReply("text", "stop", "snapshot", None, Usage(calls=1), True, ("seed",))


def test_an_exhausted_reply_is_never_served(cache: ReplyCache, ask_for: Requests) -> None:
    cache.put("k", ask_for(), "http://judge/v1", REPLY, "validated")
    cache.mark(["k"], "exhausted")
    assert cache.get("k") is None
    assert cache.info().states == {"exhausted": 1}


def test_only_the_owner_may_look_into_the_folder(cache: ReplyCache, ask_for: Requests) -> None:
    cache.put("k", ask_for(), "http://judge/v1", REPLY, "validated")
    assert stat.S_IMODE(cache.path.parent.stat().st_mode) == 0o700


def test_the_cache_tells_what_it_holds_and_forgets_a_model(
    cache: ReplyCache, ask_for: Requests
) -> None:
    for n, model in enumerate(["a", "a", "b"]):
        cache.put(str(n), ask_for(model=model), "http://judge/v1", REPLY, "validated")
    info = cache.info()
    assert (info.entries, info.models, info.bytes > 0) == (3, {"a": 2, "b": 1}, True)
    assert cache.clear("a") == 2
    assert cache.info().models == {"b": 1}
    assert cache.clear() == 1
    assert cache.info().entries == 0


def test_a_killed_process_loses_nothing_that_was_answered(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    writer = start(WRITER, path, "one", 100_000)
    assert writer.stdout is not None
    last = 0
    for line in writer.stdout:
        last = int(line)
        if last >= 200:
            break
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    writer.stdout.close()
    cache = ReplyCache(path)
    assert cache.info().entries >= last + 1
    assert not cache.notices
    cache.close()
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()


def test_two_processes_share_one_file(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    writers = [start(WRITER, path, name, 300) for name in ("one", "two")]
    for writer in writers:
        writer.communicate(timeout=20)
    assert [writer.returncode for writer in writers] == [0, 0]
    cache = ReplyCache(path)
    assert cache.info().states == {"validated": 600}
    cache.close()


RESUMED = """
import asyncio, os, signal, sys
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
class Killed(OpenAIChatClient):
    async def complete(self, request):
        if len(request.messages) > 1 and sys.argv[3] == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        return await super().complete(request)
async def main(url, path):
    async with Killed(url) as client:
        asker = Asker(client, ReplyCache(Path(path)), base_url=url, meter=Meter())
        request = ChatRequest("m", ({"role": "user", "content": "hello"},), 10)
        print((await asker.ask(request, check)).value)
        asker.cache.close()
asyncio.run(main(*sys.argv[1:3]))
"""


def test_killed_before_the_follow_up_nothing_is_paid_for_twice(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    server = subprocess.Popen(
        [sys.executable, str(ROOT / "tests" / "server.py"), "--log", str(log)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    try:
        url = server.stdout.readline().strip()
        killed = start(RESUMED, url, tmp_path / "r.sqlite", "kill")
        killed.communicate(timeout=20)
        assert killed.returncode == -signal.SIGKILL
        resumed = start(RESUMED, url, tmp_path / "r.sqlite", "go on")
        out, _ = resumed.communicate(timeout=20)
        assert out.strip() == "say it again"
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
    asked = [len(json.loads(line)["messages"]) for line in log.read_text().splitlines()]
    assert asked == [1, 3]


async def still_works(cache: ReplyCache, request: ChatRequest) -> None:
    client = ScriptedClient(lambda _: "fine")
    asker = Asker(client, cache, base_url="http://judge/v1", meter=Meter())
    for _ in range(3):
        assert (await asker.ask(request, lambda reply: reply.text)).value == "fine"


async def test_a_damaged_file_is_told_once_and_worked_without(
    tmp_path: Path, ask_for: Requests
) -> None:
    path = tmp_path / "replies.sqlite"
    path.write_bytes(b"this is no database" * 1000)
    told: list[str] = []
    cache = ReplyCache(path, on_notice=told.append)
    await still_works(cache, ask_for())
    assert len(told) == 1
    assert "not a database" in told[0]
    with pytest.raises(InputError, match="not a database"):
        cache.clear("m")
    assert cache.info().entries == 0
    assert cache.clear() == 0
    assert not path.exists()


async def test_a_file_that_is_damaged_in_the_middle_is_worked_without(
    tmp_path: Path, ask_for: Requests
) -> None:
    path = tmp_path / "replies.sqlite"
    cache = ReplyCache(path)
    for n in range(200):
        cache.put(f"k{n}", ask_for("x" * 500), "http://judge/v1", REPLY, "validated")
    cache.close()
    content = bytearray(path.read_bytes())
    content[4096:] = os.urandom(len(content) - 4096)
    path.write_bytes(content)
    told: list[str] = []
    cache = ReplyCache(path, on_notice=told.append)
    await still_works(cache, ask_for())
    assert len(told) == 1
    cache.close()


async def test_a_folder_that_cannot_be_made_is_told_once(tmp_path: Path, ask_for: Requests) -> None:
    (tmp_path / "file").write_text("")
    cache = ReplyCache(tmp_path / "file" / "replies.sqlite")
    await still_works(cache, ask_for())
    assert len(cache.notices) == 1


async def test_a_full_disk_is_told_once(cache: ReplyCache, ask_for: Requests) -> None:
    cache.put("k", ask_for(), "http://judge/v1", REPLY, "validated")
    assert cache._db is not None
    cache._db.execute("PRAGMA max_page_count = 1")
    await still_works(cache, ask_for("x" * 100_000))
    assert len(cache.notices) == 1
    assert "full" in cache.notices[0]


async def test_a_file_that_may_only_be_read_still_serves(
    cache: ReplyCache, ask_for: Requests
) -> None:
    cache.put("k", ask_for(), "http://judge/v1", REPLY, "validated")
    assert cache._db is not None
    cache._db.execute("PRAGMA query_only = 1")
    await still_works(cache, ask_for("another"))
    assert cache.get("k") is not None
    assert len(cache.notices) == 1


async def test_a_file_of_another_layout_is_left_alone(tmp_path: Path, ask_for: Requests) -> None:
    path = tmp_path / "replies.sqlite"
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()
    cache = ReplyCache(path)
    await still_works(cache, ask_for())
    assert "another version" in cache.notices[0]


async def test_a_file_locked_for_long_is_told_once_and_used_later(
    tmp_path: Path, ask_for: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("capeval.llm.cache.BUSY_SECONDS", 0.02)
    cache = ReplyCache(tmp_path / "replies.sqlite")
    cache.mark(["k"], "refused")
    other = sqlite3.connect(cache.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    await still_works(cache, ask_for())
    assert len(cache.notices) == 1
    other.execute("ROLLBACK")
    other.close()
    await still_works(cache, ask_for())
    assert cache.info().entries == 1
    cache.close()


def test_a_write_takes_no_noticeable_time(cache: ReplyCache, ask_for: Requests) -> None:
    request = ask_for("word " * 1000)
    started = time.perf_counter()
    for n in range(200):
        cache.put(str(n), request, "http://judge/v1", REPLY, "validated")
    assert time.perf_counter() - started < 1.0


def test_looking_into_a_cache_does_not_make_one(tmp_path: Path, ask_for: Requests) -> None:
    cache = ReplyCache(tmp_path / "none" / "replies.sqlite")
    assert (cache.get("k"), cache.info().entries, cache.clear()) == (None, 0, 0)
    assert "nothing is stored at" in cache.reason_for_miss(ask_for(), "http://judge/v1")
    assert not cache.path.parent.exists()


async def test_the_longest_reply_is_kept(cache: ReplyCache, ask_for: Requests) -> None:
    huge = "word " * 40_000
    asker = Asker(ScriptedClient([huge]), cache, base_url="http://judge/v1", meter=Meter())
    for _ in range(2):
        answer = await asyncio.wait_for(asker.ask(ask_for(), lambda r: len(r.text)), 5)
        assert answer.value == len(huge)

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from capeval.llm.request_identity import RequestIdentity, identify

from capeval.errors import InputError
from capeval.llm.asker import Asker
from capeval.llm.cache import ReplyCache
from capeval.llm.fake import ScriptedClient
from capeval.llm.meter import Meter
from capeval.llm.types import ChatReply, ChatRequest, ReplySchema
from capeval.schema.usage import Usage

Requests = Callable[..., ChatRequest]
ROOT = Path(__file__).resolve().parents[2]
REPLY = ChatReply("text", "stop", "snapshot", None, Usage(calls=1), left_off=("seed",))


def asked(text: str = "hello", model: str = "m") -> RequestIdentity:
    """The identity of a request."""
    message = {"role": "user", "content": text}
    return identify(ChatRequest(model, (message,), 10), "http://judge/v1")


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


def test_a_stored_reply_comes_back_whole(cache: ReplyCache) -> None:
    cache.put(asked(), REPLY, "refused")
    for _ in range(2):  # from memory, then from the file
        found = cache.get(asked().key)
        assert found is not None
        reply, state = found
        assert state == "refused"
        assert reply == ChatReply("text", "stop", "snapshot", None, Usage(calls=1), True, ("seed",))
        cache.close()


def test_an_exhausted_reply_is_never_served(cache: ReplyCache) -> None:
    for text in ("in the file", "at once"):
        cache.put(asked(text), REPLY, "validated")
        if text == "in the file":
            cache.flush()
        cache.mark([asked(text).key], "exhausted")
        assert cache.get(asked(text).key) is None
    assert cache.info().states == {"exhausted": 2}
    assert cache.get(asked(text).key) is None


def test_only_the_owner_may_look_into_the_folder(cache: ReplyCache) -> None:
    cache.put(asked(), REPLY, "validated")
    cache.flush()
    assert stat.S_IMODE(cache.path.parent.stat().st_mode) == 0o700


def test_the_cache_tells_what_it_holds_and_forgets_a_model(cache: ReplyCache) -> None:
    for n, model in enumerate(["a", "a", "b"]):
        cache.put(asked(str(n), model), REPLY, "validated")
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
        cache.put(asked(f"{n}" + "x" * 500), REPLY, "validated")
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


async def test_a_full_disk_is_told_once(tmp_path: Path) -> None:
    ran = start(FULL_DISK, tmp_path / "replies.sqlite")
    out, _ = ran.communicate(timeout=30)
    assert ran.returncode == 0
    during, after = out.splitlines()
    assert "cannot write: " in during
    assert "replies are kept in memory until it can" in during
    assert "2 replies were not stored" in after


FULL_DISK = """
import asyncio, resource, signal, sys
from pathlib import Path
from capeval.llm.asker import Asker
from capeval.llm.cache import ReplyCache
from capeval.llm.fake import ScriptedClient
from capeval.llm.meter import Meter
from capeval.llm.types import ChatRequest
async def main():
    cache = ReplyCache(Path(sys.argv[1]), on_notice=print)
    client = ScriptedClient(lambda _: "x" * 190_000)
    asker = Asker(client, cache, base_url="http://judge/v1", meter=Meter())
    for n in (1, 2, 2, 1):
        request = ChatRequest("m", ({"role": "user", "content": str(n)},), 10)
        await asker.ask(request, lambda reply: reply.text)
    assert len(client.requests) == 2
    cache.close()
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 17, 1 << 17))
asyncio.run(main())
"""


async def test_a_file_of_another_layout_is_left_alone(tmp_path: Path, ask_for: Requests) -> None:
    path = tmp_path / "replies.sqlite"
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()
    cache = ReplyCache(path)
    await still_works(cache, ask_for())
    assert "another version" in cache.notices[0]


@pytest.fixture
def shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the times after which a locked file is given up and tried again."""
    for name, seconds in (("BUSY", 0.05), ("RETRY", 0.05), ("CLOSING", 0.2)):
        monkeypatch.setattr(f"capeval.llm.cache_writer.{name}_SECONDS", seconds)
    monkeypatch.setattr("capeval.llm.cache.BUSY_SECONDS", 0.05)


def lock(path: Path, how: str = "IMMEDIATE") -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    if how == "EXCLUSIVE":
        db.execute("PRAGMA journal_mode=DELETE")
    db.execute(f"BEGIN {how}")
    return db


@pytest.mark.usefixtures("shorter")
@pytest.mark.parametrize("how", ["IMMEDIATE", "EXCLUSIVE"])
async def test_a_file_locked_for_long_is_told_once_and_written_later(
    how: str, tmp_path: Path
) -> None:
    """`EXCLUSIVE` without a write-ahead log keeps readers out too."""
    cache = ReplyCache(tmp_path / "replies.sqlite")
    cache.put(asked(), REPLY, "validated")
    cache.close()
    other = lock(cache.path, how)
    client = ScriptedClient(lambda request: request.messages[0]["content"])
    asker = Asker(client, cache, base_url="http://judge/v1", meter=Meter())
    for n in (1, 2, 3, 1, 2, 3):
        message = {"role": "user", "content": str(n)}
        answer = await asker.ask(ChatRequest("m", (message,), 10), lambda reply: reply.text)
        assert answer.value == str(n)
    assert len(client.requests) == 3, "what could not be written is served from memory"
    assert len(cache.notices) == (1 if how == "IMMEDIATE" else 2)
    assert all("locked" in notice for notice in cache.notices)
    other.close()
    cache.close()
    assert ReplyCache(cache.path).info().entries == 4


@pytest.mark.usefixtures("shorter")
async def test_what_is_locked_to_the_end_is_told_as_lost(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path / "replies.sqlite")
    cache.put(asked(), REPLY, "validated")
    cache.flush()
    other = lock(cache.path)
    cache.put(asked("lost"), REPLY, "validated")
    cache.close()
    assert "1 reply was not stored in the reply cache" in cache.notices[-1]
    other.close()


async def test_after_ctrl_c_a_locked_file_is_not_waited_for(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path / "replies.sqlite")
    cache.put(asked(), REPLY, "validated")
    cache.flush()
    other = lock(cache.path)
    cache.put(asked("lost"), REPLY, "validated")
    # Without the hurry, the reply would be stored when the lock is released.
    release = threading.Timer(4.0, other.close)
    release.start()
    cache.close(hurry=True)
    assert "1 reply was not stored in the reply cache" in cache.notices[-1]
    assert release.is_alive()
    release.join()


@pytest.mark.parametrize("what", ["the file", "the folder"])
async def test_a_cache_that_is_removed_meanwhile_is_begun_anew(what: str, tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path / "cache" / "replies.sqlite")
    cache.put(asked("before"), REPLY, "validated")
    cache.flush()
    if what == "the file":
        cache.path.unlink()
    else:
        shutil.rmtree(cache.path.parent)
    for text in ("one", "two"):
        cache.put(asked(text), REPLY, "validated")
        cache.flush()
    cache.close()
    assert [notice for notice in cache.notices if "was removed or replaced" in notice]
    assert len(cache.notices) == 1
    assert ReplyCache(cache.path).info().entries == 2


async def test_everything_is_in_the_main_file_after_closing(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path / "replies.sqlite")
    for n in range(30):
        cache.put(asked(str(n)), REPLY, "validated")
    cache.flush()
    assert await cache.find("not stored") is None  # opens a reader
    cache.close()
    alone = tmp_path / "copy.sqlite"
    shutil.copy(cache.path, alone)
    assert ReplyCache(alone).info().entries == 30


async def test_the_loop_runs_while_the_file_is_locked(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path / "replies.sqlite")
    cache.put(asked(), REPLY, "validated")
    cache.close()
    other = lock(cache.path, "EXCLUSIVE")
    clock = asyncio.get_running_loop().time
    gaps: list[float] = []

    async def tick() -> None:
        while True:
            before = clock()
            await asyncio.sleep(0.01)
            gaps.append(clock() - before)

    ticking = asyncio.create_task(tick())
    asker = Asker(ScriptedClient(["3"]), cache, base_url="http://judge/v1", meter=Meter())
    request = ChatRequest("m", ({"role": "user", "content": "x"},), 10)
    asking = asyncio.create_task(asker.ask(request, lambda reply: reply.text))
    await asyncio.sleep(0.8)
    assert not asking.done()
    other.close()
    assert (await asking).value == "3"
    ticking.cancel()
    assert max(gaps) < 0.4
    cache.close()
    assert not cache.notices


def without_permission(path: Path) -> None:
    path.chmod(0o400)
    path.parent.chmod(0o500)


READ_ONLY: dict[str, Callable[[Path], None]] = {
    "a folder in place of the log": lambda path: path.with_name(f"{path.name}-wal").mkdir(),
    "no writing to file or folder": without_permission,
}


@pytest.mark.parametrize("how", READ_ONLY)
async def test_a_file_that_may_only_be_read_still_serves(how: str, tmp_path: Path) -> None:
    path = tmp_path / "folder" / "replies.sqlite"
    cache = ReplyCache(path)
    cache.put(asked(), REPLY, "validated")
    cache.close()
    READ_ONLY[how](path)
    try:
        client = ScriptedClient(["new"])
        asker = Asker(client, cache, base_url="http://judge/v1", meter=Meter())
        for text, value in (("hello", "text"), ("other", "new"), ("other", "new")):
            request = ChatRequest("m", ({"role": "user", "content": text},), 10)
            assert (await asker.ask(request, lambda reply: reply.text)).value == value
        cache.close()
        # Root may write everywhere.
        if how == "a folder in place of the log" or os.geteuid():
            assert [n.split(": ")[1][:30] for n in cache.notices] == [
                "the reply cache cannot write", "1 reply was not stored in the ",
            ]  # fmt: skip
    finally:
        path.parent.chmod(0o700)


NOT_UTF8 = "CAST(x'fffe' AS TEXT)"
DAMAGED: list[tuple[str, object]] = [
    ("reply", b"bytes"),
    ("reply", 7),
    ("reply", NOT_UTF8),
    ("state", "great"),
    ("state", 1),
    ("finish_reason", 3.5),
    ("snapshot", b"x"),
    ("fingerprint", 12),
    ("calls", -1),
    ("calls", "many"),
    ("input_tokens", 1.5),
    ("input_tokens", float("inf")),
    ("cached_tokens", b""),
    ("output_tokens", 2**62),
    ("output_tokens", "12"),
    ("left_off", "["),
    ("left_off", "[" * 100_000),
    ("left_off", '{"a": 1}'),
    ("left_off", "[1]"),
    ("left_off", "null"),
    ("left_off", b"[]"),
]


@pytest.mark.parametrize(("column", "value"), DAMAGED, ids=str)
async def test_a_damaged_row_is_a_miss_and_is_replaced(
    column: str, value: object, tmp_path: Path
) -> None:
    cache = ReplyCache(tmp_path / "replies.sqlite")
    cache.put(asked(), REPLY, "validated")
    cache.close()
    with sqlite3.connect(cache.path) as db:
        columns = ", ".join(r[1] for r in db.execute("PRAGMA table_info(replies)") if r[1] != "key")
        # Columns without types keep values of any type.
        db.execute(f"CREATE TABLE other (key PRIMARY KEY, {columns})")
        db.execute("INSERT INTO other SELECT * FROM replies")
        given = ("?", (value,)) if value != NOT_UTF8 else (NOT_UTF8, ())
        db.execute(f"UPDATE other SET {column} = {given[0]}", given[1])
        db.execute("DROP TABLE replies")
        db.execute("ALTER TABLE other RENAME TO replies")
    db.close()
    assert cache.get(asked().key) is None
    assert cache.info().models == {"m": 1}
    cache.reason_for_miss(ChatRequest("m", ({"role": "user", "content": "x"},), 9), "http://judge")
    client = ScriptedClient(["whole"])
    asker = Asker(client, cache, base_url="http://judge/v1", meter=Meter())
    request = ChatRequest("m", ({"role": "user", "content": "hello"},), 10)
    for _ in range(2):
        assert (await asker.ask(request, lambda reply: reply.text)).value == "whole"
        cache.close()
    assert (len(client.requests), cache.notices) == (1, [])


@pytest.mark.parametrize("request_text", ["[1]", "{", '{"model": 3}', None, b"x", "[" * 100_000])
def test_a_stored_request_that_cannot_be_read_is_no_reason(
    request_text: object, cache: ReplyCache
) -> None:
    cache.put(asked(), REPLY, "validated")
    cache.flush()
    with sqlite3.connect(cache.path) as db:
        if request_text is not None:
            db.execute("UPDATE replies SET request = ?", (request_text,))
    db.close()
    other = ChatRequest("other", ({"role": "user", "content": "hello"},), 10)
    assert cache.reason_for_miss(other, "http://judge/v1")
    assert not cache.notices


def test_keys_are_those_of_every_version_so_far() -> None:
    picture = "data:image/jpeg;base64," + "A" * 2000
    content = [{"type": "image_url", "image_url": {"url": picture}}, {"type": "text", "text": "é"}]
    schema = ReplySchema("s", {"type": "object", "properties": {"b": {}, "a": {"enum": [1.5]}}})
    user, system = {"role": "user", "content": content}, {"role": "system", "content": "s"}
    for request, url, key in (
        (ChatRequest("m", ({"role": "user", "content": "hi \ud83d"},), 10), "http://judge/v1",
         "c2b9e43d24841d79b6f3156d1fd2bbeaee5e51a2a768e419afe4e56ba34722f4"),
        (ChatRequest("o/ü", (system, user), 99, None, 3, schema), "https://h:1/v1",
         "a28a6c424f538ad47bb97b6ba34c5a587cbaec7817efed3622255b257c40cff7"),
    ):  # fmt: skip
        assert identify(request, url).key == key
        assert json.loads(identify(request, url).text)["max_tokens"] == request.max_tokens


async def test_many_replies_are_written_with_few_statements(
    tmp_path: Path, ask_for: Requests
) -> None:
    cache = ReplyCache(tmp_path / "replies.sqlite")
    asker = Asker(ScriptedClient(lambda _: "x"), cache, base_url="http://judge/v1", meter=Meter())
    requests = [ask_for(str(n)) for n in range(500)]
    await asyncio.gather(*(asker.ask(request, lambda reply: reply.text) for request in requests))
    with sqlite3.connect(cache.path) as db:
        assert db.execute("SELECT count(*) FROM replies").fetchone() == (500,)
    db.close()
    cache.close()


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


async def test_a_reply_that_cannot_be_stored_keeps_no_other_out(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path / "replies.sqlite")
    for n in range(3):
        reply = replace(REPLY, finish_reason="stop:\ud800") if n == 1 else REPLY
        cache.put(asked(str(n)), reply, "validated")
    cache.flush()
    cache.put(asked("later"), REPLY, "validated")
    cache.close()
    (notice,) = cache.notices
    assert "cannot store a reply" in notice
    assert ReplyCache(cache.path).info().entries == 3

"""The debug log: what it records, what it hides, and that it never matters to the run."""

from __future__ import annotations

import json
import logging
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from capeval.debug_log import start_debug_log, stop_debug_log
from capeval.errors import UsageError
from capeval.llm.asker import Asker
from capeval.llm.cache import ReplyCache
from capeval.llm.client import OpenAIChatClient
from capeval.llm.meter import Meter
from capeval.llm.types import ChatRequest
from capeval.runs.folder import RunFolder
from capeval.runs.outputs import check_output
from capeval.tracing import about, trace
from tests.cli_runs import capeval, process
from tests.server import LoopbackServer, completion, failure, rate_limited

KEY = "own-key-0123456789abcdef"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "logs" / "debug.jsonl"
    start_debug_log(path)
    yield path
    stop_debug_log()


def events(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def named(path: Path, name: str) -> list[dict[str, Any]]:
    return [event for event in events(path) if event["event"] == name]


async def test_a_call_is_recorded_with_its_retries_and_the_cache(log: Path, tmp_path: Path) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    content = [image, {"type": "text", "text": "a private question"}]
    request = ChatRequest("judge-model", ({"role": "user", "content": content},), 100)
    acts: list[Any] = [completion('{"ok": true}'), rate_limited(retry_after="0"), failure(500)]
    cache = ReplyCache(tmp_path / "cache.sqlite")
    async with (
        LoopbackServer(lambda _: "a private answer", acts=acts) as server,
        OpenAIChatClient(server.url, KEY) as client,
    ):
        asker = Asker(client, cache, base_url=server.url, meter=Meter(), preflight=client.preflight)
        about(index="v1", stage="caption")
        for _ in range(2):
            await asker.ask(request, lambda reply: reply.text)
    cache.close()
    names = [event["event"] for event in events(log)]
    assert names == [
        *("start", "cache miss", "preflight", "request", "reply"),
        *("request", "call failed", "wait", "request", "call failed", "wait"),
        *("request", "reply", "cache hit"),
    ]
    asked = named(log, "request")[-1]
    assert {key: asked[key] for key in ("index", "stage", "model", "images", "max_tokens")} == {
        "index": "v1", "stage": "caption", "model": "judge-model", "images": 1, "max_tokens": 100,
    }  # fmt: skip
    assert [event["status"] for event in named(log, "call failed")] == [429, 500]
    assert named(log, "reply")[-1]["usage"]["input_tokens"] == 10
    assert "private" not in str(events(log))
    assert "AAAA" not in str(events(log))
    assert events(log)[0]["packages"]["openai"]


def test_keys_are_hidden_wherever_they_are(log: Path) -> None:
    key = "key-with-escapes-1"
    OpenAIChatClient("http://me:pass%2Fword-1@host/v1?sig=url-secret-12345", key)
    try:
        raise ValueError(f"refused {key}")
    except ValueError as error:
        trace(
            "hostile",
            failure=error,
            url="https://u:unknown-pass@host/?api_key=unknown-key#x",
            nested={key: [["pass/word-1", ("url-secret-12345",)]]},
            header="Authorization: Bearer unknown.bearer",
            object=logging.LogRecord,
        )
    text = log.read_text(encoding="utf-8")
    for secret in ("escapes-1", "pass/word", "url-secret", "unknown-", "unknown."):
        assert secret not in text
    assert "ValueError" in named(log, "hostile")[0]["traceback"]


def test_a_log_is_continued_and_another_file_is_refused(log: Path, tmp_path: Path) -> None:
    start_debug_log(log)
    assert len(named(log, "start")) == 2
    assert log.stat().st_mode & 0o077 == 0
    other, mine = tmp_path / "annotations.json", tmp_path / "my-log.jsonl"
    other.write_text("[]")
    mine.write_text('{"time": "2026-01-01", "event": "begin"}\n')
    for path in (other, mine, tmp_path, tmp_path / "captions.jsonl", Path("/dev/full")):
        with pytest.raises(UsageError, match="--debug"):
            start_debug_log(path)
    assert (other.read_text(), mine.read_text().count("\n")) == ("[]", 1)
    with pytest.raises(UsageError, match="is a debug log; choose another"):
        check_output(log, [])


def full_disk() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    # The captions, the cache and the manifest are small; the log is not.
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, 1 << 19))


async def test_a_full_disk_ends_the_log_and_not_the_run(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    begin = '{"time": "now", "event": "start", "capeval": "'
    log.write_text(begin + "x" * ((1 << 19) - len(begin) - 3) + '"}\n')
    made = await process(
        tmp_path,
        *("judge", "sample", "--judge", "lexical", "-q", "--debug", "log.jsonl"),
        prepare=full_disk,
    )
    assert made.code == 0, made.err
    assert (
        made.err == "capeval: log.jsonl: cannot be written (File too large); going on without it\n"
    )
    assert len(RunFolder.all(tmp_path / "runs")) == 3


async def test_the_option_is_taken_before_and_after_the_command(tmp_path: Path) -> None:
    for arguments in (
        ("--debug", "a.jsonl", "judge", "none"),
        ("judge", "none", "--debug", "b.jsonl"),
        ("judge", "--debug=c.jsonl", "none"),
    ):
        made = await capeval(tmp_path, *arguments)
        assert (made.code, len(made.err.splitlines())) == (2, 1)
    for name in "abc":
        (failed,) = named(tmp_path / f"{name}.jsonl", "refused")
        assert "InputError" in failed["traceback"]
    for wrong in (["judge", "--debug"], ["--debug", "runs/x/judgments.jsonl", "judge"]):
        made = await capeval(tmp_path, *wrong)
        assert (made.code, len(made.err.splitlines())) == (2, 1)


ADDRESS = "https://me-user:hunter2@host.invalid/v1?key=param-secret&x=plain-secret"


async def test_what_was_typed_is_recorded_without_secrets(tmp_path: Path) -> None:
    (tmp_path / "captions.jsonl").write_text('{"index": "v", "caption": "A dog."}\n')
    (tmp_path / "a.json").write_text("[]")
    made = await capeval(
        tmp_path,
        *("judge", "captions.jsonl", "--debug", "log.jsonl", "--annotations", "a.json"),
        *("--base-url", ADDRESS, f"--base-url={ADDRESS}"),
        OPENAI_BASE_URL=ADDRESS,
    )
    assert made.code == 2
    text = (tmp_path / "log.jsonl").read_text(encoding="utf-8")
    for secret in ("me-user", "hunter2", "param-secret", "plain-secret"):
        assert secret not in text + made.err
    assert "host.invalid" in text

"""The log of `--debug FILE`: what it records, what it hides, and that it never matters to a run."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from capeval.llm.tracing import LOG
from tests.files.making import record
from tests.server import LoopbackServer, failure, rate_limited
from tests.world import capeval

KEY = "own-key-0123456789abcdef"
ADDRESS = "https://me-user:hunter2@host.invalid/v1?key=param-secret&x=plain-secret"


@pytest.fixture(autouse=True)
def _no_log_after() -> Iterator[None]:
    before = (LOG.level, LOG.propagate, [*LOG.handlers])
    yield
    for handler in LOG.handlers:
        handler.close()
    LOG.level, LOG.propagate, LOG.handlers = before


def write(folder: Path) -> None:
    (folder / "captions.jsonl").write_text('{"index": "v", "caption": "A private dog."}\n')
    (folder / "a.json").write_text(json.dumps([record()]))


JUDGE = ("judge", "captions.jsonl", "--annotations", "a.json", "--judge", "m", "--yes")


async def test_a_request_is_a_line_with_its_retries(tmp_path: Path) -> None:
    write(tmp_path)
    acts: list[Any] = [rate_limited(retry_after="0"), failure(500)]
    async with LoopbackServer(lambda _: "a private answer", acts=acts) as server:
        made = await capeval(
            tmp_path, *JUDGE, "--base-url", server.url, "--debug", "log", OPENAI_API_KEY=KEY
        )
    assert made.code == 3, made.err
    text = (tmp_path / "log").read_text("utf-8")
    asked = [line for line in text.splitlines() if " request " in line]
    assert len(asked) == server.calls
    assert " index='v' " in asked[-1]
    assert " call failed " in text
    assert " wait " in text
    assert " reply rejected " in text
    assert "private" not in text
    assert KEY not in text
    assert (tmp_path / "log").stat().st_mode & 0o077 == 0
    # The log of another command, or a user's own file, is not written over.
    made = await capeval(tmp_path, *JUDGE, "--debug", "log")
    assert (made.code, made.err.endswith("log exists; name a new file\n")) == (2, True)
    assert (tmp_path / "log").read_text("utf-8").startswith(text)


async def test_what_was_typed_is_recorded_without_secrets(tmp_path: Path) -> None:
    write(tmp_path)
    more = ("--base-url", ADDRESS, "--annotations", "none.json")
    made = await capeval(tmp_path, *JUDGE, *more, "--debug=log", OPENAI_BASE_URL=ADDRESS)
    assert (made.code, len(made.lines)) == (2, 1)
    text = (tmp_path / "log").read_text("utf-8")
    for secret in ("me-user", "hunter2", "param-secret", "plain-secret"):
        assert secret not in text + made.err
    assert "host.invalid" in text
    assert "InputError" in text

"""`capeval mcq grade` with a chat model: the expected cost, consent, progress, and resuming."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli_runs import environment
from tests.mcq.graded_files import line, write
from tests.server import LoopbackServer, completion
from tests.typed import Said, typed

UNREAD = 12
PRICES = '[prices."reader"]\ninput = 3000\noutput = 3000\n'


def reply(_: dict[str, Any]) -> dict[str, Any]:
    return completion('{"choice": "C"}', model="reader", prompt_tokens=200)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[LoopbackServer]:
    lines = [line(n, f"The red ones, number {n}.") for n in range(UNREAD)]
    write(tmp_path / "r.jsonl", [*lines, line(99, "C")])
    (tmp_path / "capeval.toml").write_text(PRICES)
    async with LoopbackServer(reply, models=["reader"]) as running:
        yield running


async def grade(server: LoopbackServer, folder: Path, *more: str) -> Said:
    llm = ("--select", "exact+llm", "--llm", "reader", "--base-url", server.url)
    arguments = ("mcq", "grade", "r.jsonl", *llm, *more)
    return await asyncio.to_thread(typed, folder, *arguments, env=environment(folder))


async def test_cost_is_shown_before_and_nothing_is_called_without_consent(
    server: LoopbackServer, tmp_path: Path
) -> None:
    dry = await grade(server, tmp_path, "--dry-run")
    assert (dry.code, dry.err) == (0, "Reader of replies: reader\n")
    expected, replies = dry.out.splitlines()
    assert expected.startswith("Expected: 12 calls")
    assert expected.endswith("; nothing was called")
    assert replies == "12 replies that rules do not read, for reader"
    found = json.loads((await grade(server, tmp_path, "--dry-run", "--json")).out)
    assert (found["replies"], found["calls"]) == (12, 12)
    assert found["cost"] == (found["input_tokens"] + found["output_tokens"]) * 3000 / 1e6
    refused = await grade(server, tmp_path, "--out", "grades.json")
    assert refused.code == 2
    assert "add --yes or --max-cost" in refused.err
    assert not server.requests
    assert not (tmp_path / "grades.json").exists()


async def test_progress_and_cost_are_shown_and_nothing_is_paid_twice(
    server: LoopbackServer, tmp_path: Path
) -> None:
    first = await grade(server, tmp_path, "--yes", "--out", "grades.json")
    assert first.code == 0
    assert "reader: reading 12 answers" in first.err
    assert "tokens out" in first.out or " out, $" in first.out
    assert json.loads((tmp_path / "grades.json").read_text())["decided_by"]["model"] == UNREAD
    paid = len(server.requests)
    assert paid >= UNREAD
    again = await grade(server, tmp_path)
    assert again.code == 0
    assert len(server.requests) == paid
    quiet = await grade(server, tmp_path, "--json", "--quiet")
    assert json.loads(quiet.out)["counts"]["scored"] == UNREAD + 1
    assert quiet.err == ""


async def test_cost_cap_stops_and_a_higher_one_does_the_rest(
    server: LoopbackServer, tmp_path: Path
) -> None:
    whole = json.loads((await grade(server, tmp_path, "--dry-run", "--json")).out)["cost"]
    capped = await grade(server, tmp_path, "--max-cost", f"{whole / 3:.4f}")
    assert capped.code == 3
    assert "cost cap" in capped.err
    assert capped.out == ""
    some = len(server.requests)
    assert 0 < some < UNREAD
    assert (await grade(server, tmp_path, "--max-cost", "1000")).code == 0
    assert len(server.requests) - some < UNREAD


async def test_a_reply_that_the_model_fails_to_read_is_unscored_and_read_the_next_time(
    server: LoopbackServer, tmp_path: Path
) -> None:
    def odd(body: dict[str, Any]) -> dict[str, Any]:
        prompt = str(body["messages"])
        return completion("No idea.", model="reader") if "number 3." in prompt else reply(body)

    server.responder = odd
    first = await grade(server, tmp_path, "--yes")
    assert first.code == 3
    assert "grades: 1 reply not read" in first.out
    assert "Run the same command again to retry each unread reply." in first.out
    assert f"{UNREAD}/{UNREAD} replies" in first.out
    server.responder = reply
    assert (await grade(server, tmp_path, "--yes")).code == 0

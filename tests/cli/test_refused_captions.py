"""A caption that a firewall refuses stays unscored, and stops no run."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Endpoint, Workspace
from tests.cli.test_generate_command import describe, here, lines
from tests.judge_responder import answer
from tests.server import LoopbackServer, failure


def stopped_by(err: str) -> str:
    (line,) = [line for line in err.splitlines() if line.startswith("capeval: ")]
    return line


@pytest.mark.parametrize("status", ["403", "410", "307"])
def test_a_refused_caption_stays_unscored_and_is_tried_again(
    status: str, work: Workspace, endpoint: Endpoint
) -> None:
    endpoint.mood(**{status: ["unit003", "unit007"]})
    ran = work.judge("--json")
    assert ran.code == 3, ran.err
    assert ran.json["captions"]["counts"]["scored"] == 10
    assert work.scores() == ran.json["captions"]
    for index in ("V003", "V007"):
        reason = work.judgments()[index]["reason"]
        assert status in reason
        assert f"{index} is unscored: {reason}" in ran.err
    made = endpoint.calls()
    assert made == 30 + 2
    endpoint.mood()
    again = work.judge("--json")
    assert (again.code, again.json["captions"]["counts"]["scored"]) == (0, 12)
    assert endpoint.calls() == made + 6


@pytest.mark.parametrize("status", ["402"])
def test_a_key_or_an_account_that_ends_stops_the_run_at_once(
    status: str, work: Workspace, endpoint: Endpoint
) -> None:
    endpoint.mood(**{status: ["unit005"]})
    ran = work.judge("--max-concurrency", "1")
    assert ran.code == 2
    assert status in stopped_by(ran.err)
    assert list(work.judgments()) == [f"V{number:03}" for number in range(5)]
    assert endpoint.calls() == 15 + 1


@pytest.mark.parametrize("status", ["404"])
def test_an_endpoint_that_refuses_the_first_call_is_one_line(
    status: str, work: Workspace, endpoint: Endpoint
) -> None:
    endpoint.mood(**{status: ["JSON"]})
    ran = work.judge("--judge", "judge-model")
    assert (ran.code, endpoint.requests()) == (2, 1)
    assert status in stopped_by(ran.err)
    assert not work.judged.exists()


async def test_a_refused_video_stays_without_a_caption(tmp_path: Path) -> None:
    refused: list[str] = []

    def firewall(request: dict[str, Any]) -> Any:
        content = request["messages"][-1]["content"]
        seen = json.dumps(content)
        if not isinstance(content, str) and (seen in refused or not refused):
            refused.append(seen)
            return failure(403, "blocked")
        return describe(request)

    async with LoopbackServer(firewall) as server:
        made = await here(
            tmp_path, "generate", "--model", "m", "--base-url", server.url, "--frames", "2"
        )
    assert made.code == 3, made.err
    assert "m: captioned 9/10" in made.out
    assert "the endpoint refuses this request (403: blocked)" in made.out
    assert len(lines(tmp_path / "runs" / "m" / "captions.jsonl")) == 9


def test_many_refused_captions_do_not_stop_the_run(work: Workspace, endpoint: Endpoint) -> None:
    work.fill(40)
    endpoint.mood(**{"403": [f"unit{number:03}" for number in range(30)]})
    ran = work.judge("--json")
    assert ran.code == 3, ran.err
    assert ran.json["captions"]["counts"]["scored"] == 10
    endpoint.mood()
    again = work.judge("--json")
    assert (again.code, again.json["captions"]["counts"]["scored"]) == (0, 40)


@pytest.mark.parametrize("kind", ["quota"])
async def test_calls_under_way_are_kept_when_the_account_ends(kind: str, work: Workspace) -> None:
    work.fill(16)
    fails = [failure(429, "no credit", code="insufficient_quota")] if kind == "quota" else []
    fails = fails or [failure(401, "bad key")]

    async def slow(request: dict[str, Any]) -> Any:
        if "unit015" in str(request["messages"]) and fails:
            await asyncio.sleep(0.2)
            return fails.pop()
        if "JSON object" not in str(request["messages"])[:80]:
            await asyncio.sleep(1.0)
        return answer(request)

    async with LoopbackServer(slow, keep=True) as server:
        work.url = server.url
        first = await asyncio.to_thread(work.judge, "-q")
        assert first.code == 2, first.err
        assert len(stopped_by(first.err)) < 300
        made = server.calls
        again = await asyncio.to_thread(work.judge, "-q")
        assert (again.code, again.err) == (0, "")
        # The preflight of each run, three calls for a caption, and the one that was refused.
        assert server.calls == 2 + 3 * 16 + 1, made

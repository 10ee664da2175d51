"""A caption that a firewall refuses stays unscored, and stops no run."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.cli.conftest import Endpoint, Workspace
from tests.judge_responder import answer
from tests.server import LoopbackServer, failure


def stopped_by(err: str) -> str:
    (line,) = [line for line in err.splitlines() if line.startswith("capeval: ")]
    return line


def test_a_refused_caption_stays_unscored_and_is_tried_again(
    work: Workspace, endpoint: Endpoint
) -> None:
    endpoint.mood(**{"403": ["unit003", "unit007"]})
    ran = work.judge("--json")
    assert ran.code == 3, ran.err
    assert ran.json["captions"]["counts"]["scored"] == 10
    assert work.scores() == ran.json["captions"]
    for index in ("V003", "V007"):
        reason = work.judgments()[index]["reason"]
        assert "403" in reason
        assert f"{index} is unscored: {reason}" in ran.err
    made = endpoint.calls()
    assert made == 30 + 2
    endpoint.mood()
    again = work.judge("--json")
    assert (again.code, again.json["captions"]["counts"]["scored"]) == (0, 12)
    assert endpoint.calls() == made + 6


def test_many_refused_captions_do_not_stop_the_run(work: Workspace, endpoint: Endpoint) -> None:
    work.fill(40)
    endpoint.mood(**{"403": [f"unit{number:03}" for number in range(30)]})
    ran = work.judge("--json")
    assert ran.code == 3, ran.err
    assert ran.json["captions"]["counts"]["scored"] == 10
    endpoint.mood()
    again = work.judge("--json")
    assert (again.code, again.json["captions"]["counts"]["scored"]) == (0, 40)


async def test_calls_under_way_are_kept_when_the_account_ends(work: Workspace) -> None:
    work.fill(16)
    fails = [failure(429, "no credit", code="insufficient_quota")]

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

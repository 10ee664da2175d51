"""Several endpoints behind one client: they share the calls, fail and come back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from capeval.errors import EndpointDown, EndpointRefused, RequestRefused, RetriesExhausted
from capeval.llm.pool import EndpointPool
from capeval.llm.types import ChatReply, ChatRequest
from tests.server import Act, Hang, LoopbackServer, completion, failure

Requests = Callable[..., ChatRequest]


async def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it never happened")


PAUSE = 0.3


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capeval.llm.pool.FIRST_PAUSE", PAUSE)


async def no_sleep(_: float) -> None:
    """Let attempts follow each other at once."""
    await asyncio.sleep(0)


@pytest.fixture
def notices() -> list[str]:
    return []


@pytest.fixture
def pool_of(notices: list[str]) -> Callable[..., EndpointPool]:
    """Makes a pool of servers that run, so that it has their ports."""

    def make(*servers: LoopbackServer, **settings: Any) -> EndpointPool:
        urls = [server.url for server in servers]
        return EndpointPool(urls, sleep=no_sleep, on_notice=notices.append, **settings)

    return make


Pools = Callable[..., EndpointPool]


async def answers(pool: EndpointPool, request: Requests, count: int) -> list[ChatReply]:
    return await asyncio.gather(*(pool.complete(request(str(n))) for n in range(count)))


async def test_endpoints_share_the_calls(pool_of: Pools, ask_for: Requests) -> None:
    paid: list[ChatReply] = []
    async with (
        LoopbackServer(latency=0.05) as one,
        LoopbackServer(latency=0.05) as two,
        pool_of(one, two, max_concurrency=8, on_paid=lambda _, reply: paid.append(reply)) as pool,
    ):
        first = await pool.preflight("judge-model")
        await answers(pool, ask_for, 40)
    assert [reply.text for reply in paid] == [first.text]
    assert one.calls + two.calls == 42
    assert min(one.calls, two.calls) > 10
    assert (one.busiest, two.busiest) == (4, 4)


async def test_a_throttled_endpoint_gets_fewer_calls(pool_of: Pools, ask_for: Requests) -> None:
    acts = [failure(429) for _ in range(60)]
    async with (
        LoopbackServer(latency=0.02, acts=acts) as one,
        LoopbackServer(latency=0.02) as two,
        pool_of(one, two, max_concurrency=32) as pool,
    ):
        await answers(pool, ask_for, 200)
    assert 0 < one.calls - 60 < two.calls / 2


async def test_calls_of_a_dead_endpoint_move_until_it_is_back(
    pool_of: Pools, ask_for: Requests, notices: list[str]
) -> None:
    one, two = LoopbackServer(latency=0.01), LoopbackServer(latency=0.01)
    async with two:
        pass  # from now on it has a port
    async with one, pool_of(one, two, max_concurrency=8) as pool:
        async with two:
            await pool.preflight("judge-model")
            under_way = asyncio.create_task(answers(pool, ask_for, 200))
            await wait_until(lambda: two.calls >= 20)
        assert [reply.text for reply in await under_way] == [str(n) for n in range(200)]
        assert f"at {two.url} failed" in notices[0]
        # It is tried in vain, which is not reported again.
        await asyncio.sleep(PAUSE)
        await answers(pool, ask_for, 20)
        async with two:
            before = two.calls
            async with asyncio.timeout(30):
                while two.calls <= before + 1:
                    await answers(pool, ask_for, 20)
    assert notices[1:] == [f"{two.url} answers again, and gets calls"]


async def test_the_call_that_hangs_moves(
    pool_of: Pools, ask_for: Requests, notices: list[str]
) -> None:
    async with (
        LoopbackServer(lambda _: Hang()) as one,
        LoopbackServer() as two,
        pool_of(one, two, timeout=0.3) as pool,
    ):
        assert (await pool.complete(ask_for("hello"))).text == "hello"
    assert (one.calls, two.calls, len(notices)) == (1, 1, 1)
    assert "timed out" in notices[0]


def as_model(name: str) -> Callable[[dict[str, Any]], Act]:
    return lambda _: completion("fine", model=name)


async def test_endpoints_of_different_models_stop_the_run(
    pool_of: Pools, ask_for: Requests
) -> None:
    one, two = LoopbackServer(as_model("snapshot-1")), LoopbackServer(as_model("snapshot-2"))
    async with one, two:
        named = f"{one.url} answers as snapshot-1, {two.url} answers as snapshot-2"
        async with pool_of(one, two) as pool:
            with pytest.raises(EndpointRefused, match=named):
                await pool.preflight("judge-model")
        # The second is another one after it was down.
        two.responder = as_model("snapshot-1")
        async with pool_of(one, two) as pool:
            await pool.preflight("judge-model")
            two.acts.extend([failure(500), failure(500)])
            await answers(pool, ask_for, 2)
            two.acts.clear()
            two.responder = as_model("snapshot-2")
            calls = two.calls
            await asyncio.sleep(PAUSE)
            with pytest.raises(EndpointRefused, match=named):
                await answers(pool, ask_for, 200)
    # It gets one call at a time, until the first reply stops the run.
    assert two.calls <= calls + 2


async def test_what_no_endpoint_answers_fails_as_at_one(pool_of: Pools, ask_for: Requests) -> None:
    async with (
        LoopbackServer() as one,
        LoopbackServer() as two,
        pool_of(one, two, max_concurrency=1) as pool,
    ):
        await pool.preflight("judge-model")
        one.acts.extend([failure(500)])
        two.acts.extend(failure(500) for _ in range(5))
        assert (await pool.complete(ask_for("patience"))).text == "patience"
        one.responder = two.responder = lambda _: failure(500)
        for _ in range(20):
            with pytest.raises(RetriesExhausted, match="6 attempts"):
                await pool.complete(ask_for())
        with pytest.raises(EndpointDown, match="20 calls in a row"):
            await pool.complete(ask_for())


async def test_a_request_is_refused_only_if_each_endpoint_refuses_it(
    pool_of: Pools, ask_for: Requests, notices: list[str]
) -> None:
    too_long = "maximum context length is 10 tokens"

    def short(request: dict[str, Any]) -> Act:
        fits = request["messages"][0]["content"] in {"0", "1"}
        return "fine" if fits else failure(400, too_long)

    def strict(request: dict[str, Any]) -> Act:
        return failure(400, too_long) if request["messages"][0]["content"] == "9" else "fine"

    async with (
        LoopbackServer(short) as one,
        LoopbackServer(strict, latency=0.02) as two,
        pool_of(one, two, max_concurrency=2) as pool,
    ):
        assert len(await answers(pool, ask_for, 9)) == 9
        with pytest.raises(RequestRefused, match=too_long):
            await pool.complete(ask_for("9"))
    assert notices == []


async def test_a_request_that_fails_leaves_out_no_endpoint_that_answers_others(
    pool_of: Pools, ask_for: Requests, notices: list[str]
) -> None:
    async def answer(request: dict[str, Any]) -> Act:
        if request["messages"][0]["content"] != "bad":
            return "fine"
        await asyncio.sleep(0.1)
        return failure(500)

    async with (
        LoopbackServer(answer) as one,
        LoopbackServer(answer) as two,
        pool_of(one, two) as pool,
    ):
        bad = asyncio.create_task(pool.complete(ask_for("bad")))
        while not bad.done():
            await answers(pool, ask_for, 4)
    assert isinstance(bad.exception(), RetriesExhausted)
    assert notices == []

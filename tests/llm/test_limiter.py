from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from capeval.llm.limiter import AdaptiveLimiter


async def run(limiter: AdaptiveLimiter, throttled: bool) -> None:
    async with limiter.slot() as slot:
        await asyncio.sleep(0)
        if throttled:
            slot.throttled()
        else:
            slot.succeeded()


@given(
    maximum=st.integers(1, 70),
    calls=st.lists(st.tuples(st.booleans(), st.booleans()), max_size=150),
)
@settings(max_examples=50, deadline=None)
def test_the_limit_holds_whatever_happens(maximum: int, calls: list[tuple[bool, bool]]) -> None:
    async def simulate() -> None:
        limiter = AdaptiveLimiter(maximum)
        tasks = [asyncio.create_task(run(limiter, throttled)) for throttled, _ in calls]
        for task, (_, cancelled) in zip(tasks, calls, strict=True):
            await asyncio.sleep(0)
            assert 1 <= limiter.limit <= maximum
            assert limiter.in_flight <= maximum
            if cancelled:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert limiter.in_flight == 0
        await asyncio.wait_for(run(limiter, False), 1)

    asyncio.run(simulate())


async def test_a_healthy_endpoint_doubles_the_limit_each_window() -> None:
    limiter = AdaptiveLimiter(64, start=16)
    limits = []
    for _ in range(3):
        for _ in range(limiter.limit):
            await run(limiter, False)
        limits.append(limiter.limit)
    assert limits == [32, 64, 64]


async def test_calls_throttled_together_halve_the_limit_once() -> None:
    limiter = AdaptiveLimiter(64, start=16)
    await asyncio.gather(*(run(limiter, True) for _ in range(16)))
    assert limiter.limit == 8
    for _ in range(8):
        await run(limiter, False)
    assert limiter.limit == 9


async def test_the_limit_never_falls_so_low_that_hung_calls_hold_all_others_up() -> None:
    limiter = AdaptiveLimiter(64, start=16)
    for _ in range(20):
        await run(limiter, True)
    assert limiter.limit == 4
    small = AdaptiveLimiter(2)
    for _ in range(20):
        await run(small, True)
    assert small.limit == 2


async def test_a_turn_given_to_a_cancelled_caller_is_handed_on() -> None:
    limiter = AdaptiveLimiter(1)
    async with limiter.slot():
        cancelled, waiting = (asyncio.create_task(run(limiter, False)) for _ in range(2))
        await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.wait_for(waiting, 1)
    assert limiter.in_flight == 0

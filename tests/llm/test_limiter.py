from __future__ import annotations

import asyncio

from capeval.llm.limiter import AdaptiveLimiter


async def run(limiter: AdaptiveLimiter, throttled: bool) -> None:
    async with limiter.slot() as slot:
        await asyncio.sleep(0)
        if throttled:
            limiter.throttled(slot)
        else:
            limiter.succeeded(slot)


async def most_at_once(limiter: AdaptiveLimiter, calls: int = 100) -> int:
    most = 0

    async def call() -> None:
        nonlocal most
        async with limiter.slot():
            most = max(most, limiter.in_flight)
            await asyncio.sleep(0)

    await asyncio.gather(*(call() for _ in range(calls)))
    return most


async def round_trips(limiter: AdaptiveLimiter) -> int:
    """Fill the limiter again and again until it is at its maximum."""
    trips = 1
    while limiter.limit < limiter.maximum:
        await asyncio.gather(*(run(limiter, False) for _ in range(limiter.limit)))
        trips += 1
    return trips


async def test_the_limit_starts_low_and_doubles() -> None:
    limiter = AdaptiveLimiter(64)
    assert await most_at_once(limiter) == 2
    assert await round_trips(limiter) <= 7
    assert await most_at_once(limiter) == 64


async def test_calls_throttled_together_halve_the_limit_once_and_successes_raise_it() -> None:
    limiter = AdaptiveLimiter(16)
    await round_trips(limiter)
    await asyncio.gather(*(run(limiter, True) for _ in range(16)))
    assert (limiter.limit, await most_at_once(limiter)) == (8, 8)
    for _ in range(8):
        await run(limiter, False)
    assert (limiter.limit, await most_at_once(limiter)) == (9, 9)


async def test_the_limit_never_falls_so_low_that_hung_calls_hold_all_others_up() -> None:
    for maximum, least in ((64, 2), (1, 1)):
        limiter = AdaptiveLimiter(maximum)
        for _ in range(20):
            await run(limiter, True)
        assert limiter.limit == least

"""How many calls run at once: as many as the endpoint accepts."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Self

# With fewer, a few calls that hang would keep all others waiting.
FLOOR = 4


class AdaptiveLimiter:
    """Admits calls in order of arrival, up to a limit that adapts to the endpoint.

    The limit grows by one with every success until the first throttle (so it doubles with each
    window of calls) and with every window of successes afterwards. It halves when throttled, once
    for all calls that were in flight together, down to four.
    """

    def __init__(self, maximum: int, *, start: int = 32) -> None:
        if maximum < 1:
            raise ValueError("maximum must be at least 1")
        self.maximum = maximum
        self.limit = min(max(start, 1), maximum)
        """How many calls may run now."""
        self.in_flight = 0
        """How many calls run now."""
        self.window = 0
        """How many times the limit was halved."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._slow_start = True
        self._healthy = 0

    def slot(self) -> Slot:
        """Return the right to run one call, to be waited for and kept with `async with`."""
        return Slot(self)

    async def acquire(self) -> None:
        """Wait for a turn; `release` it."""
        if self.in_flight < self.limit and not self._waiting:
            self.in_flight += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._wake()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # granted and cancelled in the same tick: pass it on
                self.release()
            raise

    def release(self) -> None:
        """Give up a turn."""
        self.in_flight -= 1
        self._wake()

    def _wake(self) -> None:
        while self._waiting and self.in_flight < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():  # those of cancelled callers are only dropped
                self.in_flight += 1
                turn.set_result(None)

    def succeeded(self, window: int) -> None:
        """Record a success of a call that was admitted in `window`."""
        if window != self.window:
            return
        self._healthy += 1
        if self._slow_start or self._healthy >= self.limit:
            self._healthy = 0
            self.limit = min(self.limit + 1, self.maximum)
            self._wake()

    def throttled(self, window: int) -> None:
        """Record that the endpoint asked for fewer calls."""
        self._slow_start = False
        # Calls admitted before the last halving say nothing about the present limit.
        if window == self.window:
            self.window += 1
            self._healthy = 0
            self.limit = max(min(FLOOR, self.maximum), self.limit // 2)


class Slot:
    """The right to run one call; report its end with one of the two functions."""

    __slots__ = ("_limiter", "_window")

    def __init__(self, limiter: AdaptiveLimiter) -> None:
        self._limiter, self._window = limiter, 0

    async def __aenter__(self) -> Self:
        await self._limiter.acquire()
        self._window = self._limiter.window
        return self

    async def __aexit__(self, *_: object) -> None:
        self._limiter.release()

    def succeeded(self) -> None:
        """Report that the endpoint answered."""
        self._limiter.succeeded(self._window)

    def throttled(self) -> None:
        """Report that the endpoint asked for fewer calls."""
        self._limiter.throttled(self._window)

"""How many calls run at once: as many as the endpoint accepts."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

# With fewer, a few calls that hang would keep all others waiting.
FLOOR = 4


class Slot:
    """The right to run one call; report its end with `throttled()` or `succeeded()`."""

    __slots__ = ("_limiter", "_window")

    def __init__(self, limiter: AdaptiveLimiter, window: int) -> None:
        self._limiter, self._window = limiter, window

    def succeeded(self) -> None:
        """The endpoint answered."""
        self._limiter._succeeded(self._window)  # noqa: SLF001 - one mechanism in two classes

    def throttled(self) -> None:
        """The endpoint asked for fewer calls."""
        self._limiter._throttled(self._window)  # noqa: SLF001


class AdaptiveLimiter:
    """Admits calls in order of arrival, up to a limit that adapts to the endpoint.

    The limit doubles with every window of successes until the first throttle, grows by one
    afterwards and halves when throttled, once for all calls that were in flight together, down
    to four.
    """

    def __init__(self, maximum: int, *, start: int = 32) -> None:
        if maximum < 1:
            raise ValueError("maximum must be at least 1")
        self.maximum = maximum
        self._limit = min(max(start, 1), maximum)
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._slow_start = True
        self._window = 0
        self._healthy = 0

    @property
    def limit(self) -> int:
        """How many calls may run now."""
        return self._limit

    @property
    def in_flight(self) -> int:
        """How many calls run now."""
        return self._in_flight

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[Slot]:
        """Wait for a turn and keep it for the block."""
        await self._acquire()
        try:
            yield Slot(self, self._window)
        finally:
            self._in_flight -= 1
            self._wake()

    async def _acquire(self) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._wake()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # granted and cancelled in the same tick: pass it on
                self._in_flight -= 1
                self._wake()
            raise

    def _wake(self) -> None:
        while self._waiting and self._in_flight < self._limit:
            turn = self._waiting.popleft()
            if not turn.done():  # those of cancelled callers are only dropped
                self._in_flight += 1
                turn.set_result(None)

    def _succeeded(self, window: int) -> None:
        if window != self._window:
            return
        self._healthy += 1
        if self._healthy >= self._limit:
            self._healthy = 0
            grown = self._limit * 2 if self._slow_start else self._limit + 1
            self._limit = min(grown, self.maximum)
            self._wake()

    def _throttled(self, window: int) -> None:
        self._slow_start = False
        # Calls admitted before the last halving say nothing about the present limit.
        if window == self._window:
            self._window += 1
            self._healthy = 0
            self._limit = max(min(FLOOR, self.maximum), self._limit // 2)

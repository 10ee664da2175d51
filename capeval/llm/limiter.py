"""How many calls run at once: as many as the endpoint accepts."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

# With fewer, a few calls that hang would keep all others waiting.
FLOOR = 4


class AdaptiveLimiter:
    """Admits calls in order of arrival, up to a limit that adapts to the endpoint.

    The limit grows by one with every success until the first throttle (so it doubles with each
    window of calls) and with every window of successes afterwards. It halves when throttled, once
    for all calls that were in flight together, down to four.
    """

    def __init__(self, maximum: int, *, start: int = 32) -> None:
        self.maximum = maximum
        self.limit = min(max(start, 1), maximum)
        """How many calls may run now."""
        self.in_flight = 0
        """How many calls run now."""
        self._window = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._slow_start = True
        self._healthy = 0

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[Slot]:
        """Wait for a turn, and keep it for the block, which reports how its call ended."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._wake()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # granted and cancelled in the same tick: pass it on
                self._release()
            raise
        try:
            yield Slot(self, self._window)
        finally:
            self._release()

    def _release(self) -> None:
        self.in_flight -= 1
        self._wake()

    def _wake(self) -> None:
        while self._waiting and self.in_flight < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():  # those of cancelled callers are only dropped
                self.in_flight += 1
                turn.set_result(None)

    def _report(self, window: int, *, throttled: bool) -> None:
        self._slow_start = self._slow_start and not throttled
        # Calls admitted before the last halving say nothing about the present limit.
        if window != self._window:
            return
        self._healthy += 1
        if throttled:
            self._window += 1
            self._healthy = 0
            self.limit = max(min(FLOOR, self.maximum), self.limit // 2)
        elif self._slow_start or self._healthy >= self.limit:
            self._healthy = 0
            self.limit = min(self.limit + 1, self.maximum)
            self._wake()


@dataclass(frozen=True, slots=True)
class Slot:
    """The right to run one call; report its end with one of the two functions."""

    _limiter: AdaptiveLimiter
    _window: int

    def succeeded(self) -> None:
        """Report that the endpoint answered."""
        self._limiter._report(self._window, throttled=False)  # noqa: SLF001 - one mechanism

    def throttled(self) -> None:
        """Report that the endpoint asked for fewer calls."""
        self._limiter._report(self._window, throttled=True)  # noqa: SLF001 - one mechanism

"""How many calls run at once: as many as the endpoint accepts."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

# With fewer, a few calls that hang would keep all others waiting.
FLOOR = 4


@dataclass(frozen=True, slots=True)
class Slot:
    """The right to run one call; report its end with one of the two functions."""

    succeeded: Callable[[], None]
    """The endpoint answered."""
    throttled: Callable[[], None]
    """The endpoint asked for fewer calls."""


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
        self.limit = min(max(start, 1), maximum)
        """How many calls may run now."""
        self.in_flight = 0
        """How many calls run now."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._slow_start = True
        self._window = 0
        self._healthy = 0

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[Slot]:
        """Wait for a turn and keep it for the block."""
        await self._acquire()
        try:
            window = self._window
            yield Slot(partial(self._succeeded, window), partial(self._throttled, window))
        finally:
            self.in_flight -= 1
            self._wake()

    async def _acquire(self) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._wake()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # granted and cancelled in the same tick: pass it on
                self.in_flight -= 1
                self._wake()
            raise

    def _wake(self) -> None:
        while self._waiting and self.in_flight < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():  # those of cancelled callers are only dropped
                self.in_flight += 1
                turn.set_result(None)

    def _succeeded(self, window: int) -> None:
        if window != self._window:
            return
        self._healthy += 1
        if self._healthy >= self.limit:
            self._healthy = 0
            grown = self.limit * 2 if self._slow_start else self.limit + 1
            self.limit = min(grown, self.maximum)
            self._wake()

    def _throttled(self, window: int) -> None:
        self._slow_start = False
        # Calls admitted before the last halving say nothing about the present limit.
        if window == self._window:
            self._window += 1
            self._healthy = 0
            self.limit = max(min(FLOOR, self.maximum), self.limit // 2)

"""How many calls run at once: as many as the endpoint accepts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

# A server on one's own machine often has two slots. With one, a call that hangs would keep all
# others waiting.
FLOOR = 2


class AdaptiveLimiter:
    """Admits calls in order of arrival, up to a limit that adapts to the endpoint.

    The limit begins at two, and doubles with as many successes as it is. When the endpoint
    throttles or is too slow, it halves, once for all calls that were in flight together, down to
    two; from then on it grows by one.
    """

    def __init__(self, maximum: int) -> None:
        self.maximum = maximum
        self.limit = min(FLOOR, maximum)
        """How many calls may run now, and at most."""
        self.in_flight = 0
        """How many calls run now."""
        self._free = asyncio.Semaphore(self.limit)
        # Places to take away as soon as their calls end.
        self._surplus = 0
        self._halvings = 0
        self._successes = 0

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[int]:
        """Wait for a turn, and keep it for the block, which reports its end with the number."""
        await self._free.acquire()
        self.in_flight += 1
        try:
            yield self._halvings
        finally:
            self.in_flight -= 1
            self._add_place()

    def succeeded(self, slot: int) -> None:
        """Report that the endpoint answered the call of a slot."""
        # Calls admitted before the last halving say nothing about the present limit.
        if slot == self._halvings and self.limit < self.maximum:
            self._successes += 1
            if self._successes >= self.limit:
                self._successes = 0
                more = 1 if self._halvings else min(self.limit, self.maximum - self.limit)
                self.limit += more
                for _ in range(more):
                    self._add_place()

    def throttled(self, slot: int) -> None:
        """Report that the endpoint asked for fewer calls, or did not answer in time."""
        if slot == self._halvings:
            self._halvings += 1
            self._successes = 0
            fewer = max(min(FLOOR, self.maximum), self.limit // 2)
            self._surplus += self.limit - fewer
            self.limit = fewer

    def _add_place(self) -> None:
        if self._surplus:
            self._surplus -= 1
        else:
            self._free.release()

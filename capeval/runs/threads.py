"""Calls that may block, in threads that neither the event loop nor the end of the process awaits.

A model, a decoder or a judge of another package cannot be stopped from outside. On Ctrl-C its
thread is abandoned: it is a daemon, unlike those of `asyncio.to_thread` and `ThreadPoolExecutor`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeVar, cast

from capeval.text import describe

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")

_CALLING, _IDLE = "capeval-call", "capeval-idle"


class Threads:
    """Runs calls in at most `most` threads, which are started when needed and used again."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._started = self._running = 0

    async def run(self, call: Callable[[], T]) -> T:
        """Return what `call` returns or raise what it raises; cancelled, let it go on unheeded."""
        # Most commands import this module and start no loop.
        import asyncio

        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        context = copy_context()

        def settle(result: T | None, failure: BaseException | None) -> None:
            if future.done():  # it was cancelled
                return
            if failure is not None:
                future.set_exception(failure)
            else:
                future.set_result(cast("T", result))

        def work() -> None:
            result: T | None = None
            failure: BaseException | None = None
            thread = threading.current_thread()
            thread.name = _CALLING
            try:
                result = context.run(call)
            except (StopIteration, GeneratorExit) as caught:
                # A future cannot carry the one; the other closes the coroutine that awaits it.
                failure = RuntimeError(describe(caught))
            except BaseException as caught:
                failure = caught
            thread.name = _IDLE
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(settle, result, failure)

        self._waiting.put(work)
        self._running += 1
        try:
            if self._started < min(self._running, self._most):
                self._started += 1
                threading.Thread(target=_serve, args=(self._waiting,), daemon=True).start()
            return await future
        finally:
            self._running -= 1

    def close(self) -> None:
        """Let every thread end after its call; a later call starts new ones."""
        for _ in range(self._started):
            self._waiting.put(None)
        self._waiting, self._started = SimpleQueue(), 0


def _serve(waiting: SimpleQueue[Callable[[], None] | None]) -> None:
    while (work := waiting.get()) is not None:
        work()
        del work


async def in_thread(call: Callable[[], T]) -> T:
    """Run one call in a thread of its own, like `Threads.run`."""
    threads = Threads(1)
    try:
        return await threads.run(call)
    finally:
        threads.close()


def is_calling(thread: threading.Thread) -> bool:
    """Return whether a thread is in the middle of a call."""
    return thread.name == _CALLING

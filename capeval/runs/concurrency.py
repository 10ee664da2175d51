"""Work on several items at once: calls to an endpoint, and blocking calls in threads."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeVar, cast

from capeval.text import describe

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")
ItemT = TypeVar("ItemT")

_CALLING, _IDLE = "capeval-call", "capeval-idle"


async def work_through(
    items: Sequence[ItemT],
    work: Callable[[ItemT], Awaitable[T]],
    *,
    concurrency: int,
    record: Callable[[ItemT, T], None],
    has_room: Callable[[int], bool] = lambda _: True,
) -> None:
    """Await `work` for at most `concurrency` items at a time, and pass each result to `record`.

    An exception of `work` or `record` stops all: calls in progress are cancelled, or awaited if the
    exception's `lets_calls_finish` is true, and the exception is raised.

    Parameters
    ----------
    has_room : whether another item may be begun beside so many that are; one always may
    """
    # Most commands import this module and start no loop.
    import asyncio

    todo = iter(items)
    stopped: list[Exception] = []
    workers: list[asyncio.Task[None]] = []
    begun = 0
    ended = asyncio.Event()

    async def worker() -> None:
        nonlocal begun
        for item in todo:
            while begun and not stopped and not has_room(begun):
                ended.clear()
                await ended.wait()
            if stopped:
                return
            begun += 1
            is_done = False
            try:
                result = await work(item)
                is_done = True
                record(item, result)
            except Exception as failure:
                stopped.append(failure)
                # Otherwise calls in progress finish: they are already paid for, and go into the
                # cache even if the disk of the run is full.
                if not is_done and not getattr(failure, "lets_calls_finish", False):
                    for other in workers:
                        if other is not asyncio.current_task():
                            other.cancel()
                return
            finally:
                begun -= 1
                ended.set()
            # Work that never waits would otherwise delay Ctrl-C until all items are done.
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        count = max(1, min(concurrency, len(items)))
        workers.extend(group.create_task(worker()) for _ in range(count))
    if stopped:
        raise stopped[0]


class Threads:
    """Runs blocking calls in at most `most` threads, which are started when needed and reused.

    A model, a decoder or a judge of another package cannot be stopped from outside. On Ctrl-C its
    thread is abandoned: it is a daemon, unlike those of `asyncio.to_thread`.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._started = self._running = 0

    async def run(self, call: Callable[[], T]) -> T:
        """Return what `call` returns or raise what it raises; cancelled, let it go on unheeded."""
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
            except StopIteration as caught:  # a future cannot carry it
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

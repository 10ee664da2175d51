"""Concurrent calls about one item each, as judging and metrics make them to an endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


async def work_through(
    items: Sequence[ItemT],
    work: Callable[[ItemT], Awaitable[ResultT]],
    *,
    concurrency: int,
    record: Callable[[ItemT, ResultT], None],
    has_room: Callable[[int], bool] = lambda _: True,
) -> None:
    """Await `work` for at most `concurrency` items at a time, and pass each result to `record`.

    An exception of `work` or `record` stops all: calls in progress are cancelled, or awaited if the
    exception's `lets_calls_finish` is true, and the exception is raised.

    Parameters
    ----------
    has_room : whether another item may be begun beside so many that are; one always may
    """
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

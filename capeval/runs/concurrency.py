"""Work on several items at once: calls to an endpoint, and blocking calls in threads."""

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from capeval.text import describe

if TYPE_CHECKING:
    import asyncio


T = TypeVar("T")
ItemT = TypeVar("ItemT")
P = ParamSpec("P")

_CALLING = "capeval-call"


class UnderWay:
    """The items in progress, in all runs that share it."""

    def __init__(self) -> None:
        # Most commands import this module and start no loop.
        import asyncio

        self.count = 0
        self.ended = asyncio.Event()


async def work_through(
    items: Sequence[ItemT],
    work: Callable[[ItemT], Awaitable[T]],
    *,
    concurrency: int,
    record: Callable[[ItemT, T], None],
    has_room: Callable[[int], bool] = lambda _: True,
    under_way: UnderWay | None = None,
    none_left: Callable[[], None] = lambda: None,
) -> None:
    """Await `work` for at most `concurrency` items at a time, and pass each result to `record`.

    An exception of `work` or `record` stops all: calls in progress are cancelled, or awaited if the
    exception's `lets_calls_finish` is true, and the exception is raised.

    Parameters
    ----------
    has_room : whether another item may be begun beside N others; the first one always may
    under_way : counts the items of several runs together, where more than one is open
    none_left : called when no item is left to begin after one has ended
    """
    import asyncio

    todo = deque(items)
    stopped: list[Exception] = []
    workers: list[asyncio.Task[None]] = []
    begun = under_way or UnderWay()

    def must_wait() -> bool:
        return begun.count > 0 and (begun.count >= concurrency or not has_room(begun.count))

    async def worker() -> None:
        while todo:
            while not stopped and must_wait():
                begun.ended.clear()
                await begun.ended.wait()
            if stopped or not todo:
                break
            item = todo.popleft()
            begun.count += 1
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
                begun.count -= 1
                begun.ended.set()
            # Work that never waits would otherwise delay Ctrl-C until all items are done.
            await asyncio.sleep(0)
        if not stopped:
            none_left()

    async with asyncio.TaskGroup() as group:
        count = max(1, min(concurrency, len(items)))
        workers.extend(group.create_task(worker()) for _ in range(count))
    if stopped:
        raise stopped[0]


async def in_turn(
    items: Sequence[ItemT],
    work: Callable[[ItemT, Callable[[], None]], Awaitable[T]],
    *,
    is_last: Callable[[T], bool],
) -> AsyncIterator[T]:
    """Await `work` for one item after the other, and yield the results in their order.

    The next item is begun as soon as `work` calls the function that it gets, but at most two are
    open at a time. After a result that `is_last`, or an exception, no item is begun.
    """
    import asyncio

    tasks: deque[asyncio.Task[T]] = deque()
    is_over = False

    async def begin(item: ItemT, may_go_on: asyncio.Event) -> T:
        try:
            return await work(item, may_go_on.set)
        finally:
            may_go_on.set()

    async def first() -> T:
        nonlocal is_over
        result = await tasks[0]
        tasks.popleft()
        is_over |= is_last(result)
        return result

    try:
        for item in items:
            if is_over:
                break
            may_go_on = asyncio.Event()
            tasks.append(asyncio.create_task(begin(item, may_go_on)))
            if len(tasks) == 2:
                yield await first()
            await may_go_on.wait()
            if tasks[0].done():
                yield await first()
        while tasks:
            yield await first()
    except BaseException as failure:
        if not getattr(failure, "lets_calls_finish", False):
            for task in tasks:
                task.cancel()
        # Each closes its files and its lock.
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def in_thread(call: Callable[[], T]) -> T:
    """Return the result of a blocking call, run in its own thread.

    A model, a decoder or a judge of another package cannot be stopped from outside. On Ctrl-C its
    thread is abandoned: it is a daemon, unlike those of `asyncio.to_thread`.
    """
    import asyncio

    future: Future[T] = Future()
    # An abandoned call goes on: it cannot be cancelled.
    future.set_running_or_notify_cancel()
    context = copy_context()

    def work() -> None:
        try:
            settle = partial(future.set_result, context.run(call))
        except StopIteration as failure:  # asyncio cannot pass it on
            settle = partial(future.set_exception, RuntimeError(describe(failure)))
        except BaseException as failure:
            settle = partial(future.set_exception, failure)
        # The caller may check this at once.
        threading.current_thread().name = f"{_CALLING}-done"
        settle()

    threading.Thread(target=work, name=_CALLING, daemon=True).start()
    return await asyncio.wrap_future(future)


def is_calling(thread: threading.Thread) -> bool:
    """Return whether a thread is in the middle of a blocking call."""
    return thread.name == _CALLING


class Recent(Generic[T]):
    """The last `keep` results by key; each is made once, and threads that need it meanwhile wait.

    Fewer are kept if the `size`s of all are more than `most`, but always the last one.
    """

    def __init__(self, keep: int, *, size: Callable[[T], int] = lambda _: 0, most: int = 0) -> None:
        self._keep, self._size, self._most = keep, size, most
        self._lock = threading.Lock()
        self._futures: dict[Hashable, Future[T]] = {}

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the result of a key, made if needed; an error of `make` is kept as well."""
        with self._lock:
            known = self._futures.pop(key, None)
            future = self._futures[key] = known or Future()
            while len(self._futures) > self._keep or (len(self._futures) > 1 and self._is_full()):
                del self._futures[next(iter(self._futures))]
        if known is None:
            try:
                future.set_result(make())
            except BaseException as error:
                future.set_exception(error)
                raise
        return future.result()

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        # In another process it begins empty.
        return partial(Recent, self._keep, size=self._size, most=self._most), ()

    def _is_full(self) -> bool:
        done = (one for one in self._futures.values() if one.done() and not one.exception())
        return sum(self._size(one.result()) for one in done) > self._most


def blocking(work: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Return the plain function of `NAME_async`; it works in a notebook too.

    >>> async def double_async(number: int) -> int:
    ...     return 2 * number
    >>> double = blocking(double_async)
    >>> double(2), double.__name__
    (4, 'double')
    """

    @functools.wraps(work)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        import asyncio

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            is_in_loop = False
        else:
            is_in_loop = True
        if not is_in_loop:  # outside of the handler, whose exception would be each error's context
            return asyncio.run(work(*args, **kwargs))
        # A notebook's loop cannot be entered twice, so the work gets a loop of its own elsewhere.
        from concurrent.futures import ThreadPoolExecutor, wait

        begun = work(*args, **kwargs)  # raises what is wrong with the options
        loop = asyncio.new_event_loop()
        task = loop.create_task(begun)

        async def own() -> T:
            return await task

        def run_all() -> T:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                return runner.run(own())

        with ThreadPoolExecutor(max_workers=1) as pool:
            future = pool.submit(run_all)
            try:
                # Ctrl-C just before a wait without end would be noticed only after it.
                while not wait([future], timeout=1.0).done:
                    pass
            except KeyboardInterrupt:
                # Leaving the block waits for the work: it must not go on to its end.
                with suppress(RuntimeError):  # it is done
                    loop.call_soon_threadsafe(task.cancel)
                raise
            return future.result()

    run.__name__ = run.__qualname__ = work.__name__.removesuffix("_async")
    return run

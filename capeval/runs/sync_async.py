"""Public functions that ask models can be called or awaited; each is written once."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    import asyncio

P = ParamSpec("P")
T = TypeVar("T")


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

        is_in_loop = True
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            is_in_loop = False
        if not is_in_loop:  # outside of the handler, whose exception would be each error's context
            return asyncio.run(work(*args, **kwargs))
        from concurrent.futures import ThreadPoolExecutor, wait

        # A notebook's loop cannot be entered twice, so the work gets a loop of its own elsewhere.
        tasks: list[asyncio.Task[T]] = []
        interrupted = threading.Event()

        async def own() -> T:
            tasks.append(asyncio.create_task(work(*args, **kwargs)))
            if interrupted.is_set():
                tasks[0].cancel()
            return await tasks[0]

        with ThreadPoolExecutor(max_workers=1) as pool:
            try:
                future = pool.submit(lambda: asyncio.run(own()))
                # Ctrl-C just before a wait without end would be noticed only after it.
                while not wait([future], timeout=1.0).done:
                    pass
                return future.result()
            except KeyboardInterrupt:
                # Leaving the block waits for the work: it must not go on to its end. It may not
                # have begun, because Ctrl-C can come at any moment.
                interrupted.set()
                for task in tasks:
                    with suppress(RuntimeError):  # it is done
                        task.get_loop().call_soon_threadsafe(task.cancel)
                raise

    run.__name__ = run.__qualname__ = work.__name__.removesuffix("_async")
    return run

"""Registries: implementations packaged with capeval, and those of other packages by entry point.

A registry lists names without importing anything. An implementation is imported when it is named,
so that a broken plugin cannot stop a command that does not use it. Its code is only called within
`blaming`, which turns whatever it raises into an error of that plugin.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from capeval.errors import CapevalError, UsageError
from capeval.text import describe, nearest, shown

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


@contextmanager
def blaming(
    refusal: Callable[[BaseException], Exception],
    *,
    passing: tuple[type[Exception], ...] = (CapevalError,),
) -> Iterator[None]:
    """Raise `refusal(error)` for whatever the block, which calls a plugin, raises.

    That includes `SystemExit`, which would end the command, and a `CancelledError` that the plugin
    raised, which would end the task unnoticed. These pass: Ctrl-C, the cancellation of the task
    that runs the block, and those exceptions of `passing` whose exit code does not mean a bug.
    """
    task = current_task()
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        is_bug = isinstance(error, CapevalError) and error.exit_code == CapevalError.exit_code
        if isinstance(error, passing) and not is_bug:
            raise
        if isinstance(error, GeneratorExit) and current_task() is not task:
            raise  # the coroutine with the block is being closed
        if is_cancelled(task):
            import asyncio

            # Whatever a plugin makes of a cancellation, it stays one.
            raise asyncio.CancelledError from error
        raise refusal(error) from error


def current_task() -> asyncio.Task[Any] | None:
    """Return the task that runs, or None outside of an event loop."""
    # No loop runs before it is imported, which takes longer than the work of most commands.
    loops = sys.modules.get("asyncio")
    if loops is None:
        return None
    try:
        task: asyncio.Task[Any] | None = loops.current_task()
        return task
    except RuntimeError:
        return None


def is_cancelled(task: asyncio.Task[Any] | None) -> bool:
    """Return whether a task is being cancelled; code that it calls can raise the same exception."""
    return task is not None and task.cancelling() > 0


@dataclass(frozen=True)
class Registry(Generic[T]):
    """The implementations of one extension point, by name.

    Parameters
    ----------
    group : the entry-point group, such as `capeval.judges`
    noun : what an implementation is called in messages, such as "judge"
    packaged : name -> "module:attribute" of capeval's own implementations
    check : return what is wrong with a loaded object in a few words, or None if it is usable
    """

    group: str
    noun: str
    packaged: Mapping[str, str]
    check: Callable[[Any], str | None]

    def names(self) -> list[str]:
        """Return all names, the packaged ones first; nothing is imported."""
        return [*self.packaged, *sorted(set(self._installed) - set(self.packaged))]

    def __contains__(self, name: object) -> bool:
        return name in self.packaged or name in self._installed

    def load(self, name: str) -> T:
        """Import and return the implementation that a name means.

        UsageError if the name is unknown, two packages claim it, or the plugin is broken.
        """
        if name in self.packaged:
            module, _, attribute = self.packaged[name].partition(":")
            packaged: T = getattr(import_module(module), attribute)
            return packaged
        points = self._installed.get(name, [])
        if not points:
            known = self.names()
            raise UsageError(
                f"no {self.noun} is called {shown(name)}; there are {', '.join(known)}"
                f"{nearest(name, known)}"
            )
        if len(points) > 1:
            packages = " and ".join(sorted(map(_package, points)))
            raise UsageError(f"the {self.noun} {shown(name)} is provided by {packages}")
        where = f"the {self.noun} {shown(name)} of the package {_package(points[0])}"
        with blaming(lambda e: UsageError(f"{where} cannot be loaded: {describe(e)}"), passing=()):
            found: T = points[0].load()
            fault = self.check(found)
        if fault:
            raise UsageError(f"{where} cannot be used: {fault}")
        return found

    @cached_property
    def _installed(self) -> dict[str, list[EntryPoint]]:
        found: dict[str, list[EntryPoint]] = {}
        for point in entry_points(group=self.group):
            if point not in found.setdefault(point.name, []):
                found[point.name].append(point)
        return found


def _package(point: EntryPoint) -> str:
    # Broken metadata of a package may have no name.
    return (point.dist and point.dist.name) or point.module

"""Registries: implementations packaged with capeval, and those of other packages by entry point.

A registry lists names without importing anything. An implementation is imported when it is named,
so that a broken plugin cannot stop a command that does not use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from capeval.errors import CapevalError, UsageError
from capeval.text import describe, nearest, shown

T = TypeVar("T")


@contextmanager
def blaming(
    refusal: Callable[[Exception], Exception],
    *,
    passing: tuple[type[Exception], ...] = (CapevalError,),
) -> Iterator[None]:
    """Raise `refusal(error)` for what the block, which calls a plugin, raises besides `passing`."""
    try:
        yield
    except passing:
        raise
    except Exception as error:
        raise refusal(error) from error


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

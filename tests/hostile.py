"""Exceptions and values that are as unhelpful as code of another package can make them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["ERRORS", "Raises"]


ERRORS: dict[str, tuple[Exception, str]] = {
    "huge": (ValueError("x\n" * 1_000_000), "ValueError: x x x"),
    "group": (
        ExceptionGroup("many", [OSError("no\ndisk"), ValueError()]),
        "OSError: no disk",
    ),
}
"""By a name: an exception, and how its description begins."""


class Raises(Mapping[str, Any]):
    """A mapping whose keys, or whose values, raise."""

    def __init__(self, error: BaseException, *, keys: bool = True) -> None:
        self._error, self._keys = error, keys

    def __iter__(self) -> Iterator[str]:
        if self._keys:
            raise self._error
        return iter(["index", "matches"])

    def __getitem__(self, key: str) -> Any:
        raise self._error

    def __len__(self) -> int:
        return 1

"""Events for the debug log (`--debug FILE`): every package may record them.

Recording an event costs almost nothing unless a debug log was started.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import Any

LOG = logging.getLogger("capeval")

_about: ContextVar[dict[str, Any] | None] = ContextVar("capeval_about", default=None)


def trace(event: str, /, *, failure: BaseException | None = None, **fields: Any) -> None:
    """Record an event with JSON values; `failure` adds its traceback."""
    if LOG.isEnabledFor(logging.DEBUG):
        extra = {"fields": {**(_about.get() or {}), **fields}}
        LOG.debug(event, exc_info=failure, extra=extra)


def is_tracing() -> bool:
    """Return whether a debug log is being written: computing a field may cost time."""
    return LOG.isEnabledFor(logging.DEBUG)


def about(**fields: Any) -> None:
    """Add fields, such as the video's index, to all further events of this task."""
    if is_tracing():
        _about.set({**(_about.get() or {}), **fields})

"""Events for the log of `--debug FILE`: every package may record them.

Recording costs almost nothing without a log. Events have no captions, replies or images.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import Any

LOG = logging.getLogger("capeval")

_about: ContextVar[dict[str, Any] | None] = ContextVar("capeval_about", default=None)


def trace(event: str, /, *, failure: BaseException | None = None, **fields: Any) -> None:
    """Record an event with its fields; `failure` adds its traceback."""
    if LOG.isEnabledFor(logging.DEBUG):
        named = {**(_about.get() or {}), **fields}
        said = " ".join([event, *(f"{name}={value!r}" for name, value in named.items())])
        LOG.debug("%s", said, exc_info=failure)


def is_tracing() -> bool:
    """Return whether a log is being written: computing a field may cost time."""
    return LOG.isEnabledFor(logging.DEBUG)


def about(**fields: Any) -> None:
    """Add fields, such as the video's index, to all further events of this task."""
    if is_tracing():
        _about.set({**(_about.get() or {}), **fields})

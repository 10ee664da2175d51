"""What every decoder is given: a path that may be anything."""

from __future__ import annotations

import stat
from pathlib import Path

from capeval.errors import VideoError

__all__ = ["DEFAULT_TIMEOUT", "checked_file"]

DEFAULT_TIMEOUT = 120.0
"""Seconds for which a decoder may stand still."""


def checked_file(path: Path) -> int:
    """Return the size of a regular file that is not empty.

    Raises
    ------
    VideoError
        It is missing, a folder, empty, or a thing that could block for ever when opened.
    """
    try:
        state = path.stat()
    except FileNotFoundError:
        raise VideoError("does not exist", file=path) from None
    except (OSError, ValueError) as fault:
        # ValueError: a path with a NUL in it.
        reason = fault.strerror if isinstance(fault, OSError) else str(fault)
        raise VideoError(f"cannot be read ({reason})", file=path) from None
    if stat.S_ISDIR(state.st_mode):
        raise VideoError("is a folder; name a video file", file=path)
    if not stat.S_ISREG(state.st_mode):
        raise VideoError("is not a regular file", file=path)
    if state.st_size == 0:
        raise VideoError("is empty (0 bytes)", file=path)
    return state.st_size

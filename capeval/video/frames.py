"""The timeline of a video, and the frames taken from it."""

from __future__ import annotations

import stat
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capeval.errors import VideoError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Timeline:
    """The frames that a player would show, before any is decoded.

    `times` are seconds from the first shown frame, never falling; `duration` is the time of the
    last plus how long it is shown.
    """

    times: tuple[float, ...]
    fps: float
    duration: float

    @property
    def total(self) -> int:
        return len(self.times)

    @property
    def is_variable(self) -> bool:
        """Whether a constant rate would misplace some frame by more than half a frame.

        >>> Timeline((0.0, 0.1, 0.2, 0.3), 10, 0.4).is_variable
        False
        >>> Timeline((0.0, 0.1, 1.2, 1.3), 10, 1.4).is_variable
        True
        """
        if self.total < 3:
            return False
        pace = self.times[-1] / (self.total - 1)
        return any(abs(time - n * pace) > pace / 2 for n, time in enumerate(self.times))


@dataclass(frozen=True, eq=False)
class FrameSet:
    """The chosen frames of one video and all that must be recorded of them.

    `frames` is an array of shape (n, height, width, 3), RGB, uint8, upright; frame n is the video's
    frame `indices[n]` (from 0), shown at `times[n]` seconds after the first.
    """

    frames: NDArray[np.uint8]
    indices: tuple[int, ...]
    times: tuple[float, ...]
    total: int
    fps: float
    duration: float
    decoder: str = "memory"
    version: str = "0"
    warnings: tuple[str, ...] = ()
    damage: tuple[str, ...] = ()
    """Those of the warnings that say that the file does not decode cleanly."""
    hdr: str | None = None
    """The transfer function of HDR, such as "PQ": its frames are shown without tone mapping."""
    shown_size: tuple[int, int] = (0, 0)
    """Width and height in the video; `frames` may have been scaled."""

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def width(self) -> int:
        return int(self.frames.shape[2])

    @property
    def height(self) -> int:
        return int(self.frames.shape[1])

    def record(self) -> dict[str, Any]:
        """Return everything but the pixels, as it is written into files."""
        return {
            "count": len(self),
            "indices": list(self.indices),
            "times": [round(seconds, 6) for seconds in self.times],
            "total_frames": self.total,
            "fps": self.fps,
            "duration": self.duration,
            "width": self.width,
            "height": self.height,
            "decoder": self.decoder,
            "decoder_version": self.version,
            "warnings": list(self.warnings),
            **({"hdr": self.hdr, "tone_mapping": None} if self.hdr else {}),
        }


MOST_BYTES = 8 * 2**30
"""The memory that the frames of a video may take."""


def check_memory(count: int, width: int, height: int, path: Path) -> None:
    """Raise `VideoError` where so many frames do not fit into memory, also repeated ones."""
    if (needed := count * width * height * 3) > MOST_BYTES:
        raise VideoError(
            f"{count} frames of {width}x{height} need {needed / 2**30:.0f} GiB; ask for fewer",
            file=path,
        )


TIMEOUT = 120.0
"""Seconds without progress after which a video is refused; slow network folders need some."""


class Stopped(Exception):
    """The frames are no longer needed."""


class Guard:
    """Called after each step, to end decoding that is no longer needed or makes no progress.

    The limit applies to each step, not to the whole: a long video may take long.
    """

    def __init__(self, path: Path, cancel: threading.Event | None = None) -> None:
        self._path, self._cancel = path, cancel
        self._end = time.monotonic() + TIMEOUT

    @property
    def left(self) -> float:
        """Seconds left for this step; below 0 if it is late."""
        return self._end - time.monotonic()

    def check(self) -> None:
        """Report a step; raise if it took too long or the frames are no longer needed."""
        if self._cancel is not None and self._cancel.is_set():
            raise Stopped
        if self.left < 0:
            raise VideoError(f"the decoder made no progress for {TIMEOUT:g} s", file=self._path)
        self._end = time.monotonic() + TIMEOUT


def file_size(path: Path) -> int:
    """Return the size of a regular file; raises `VideoError`, as where a link leads nowhere."""
    try:
        state = path.stat()
    except FileNotFoundError:
        link = f"is a link to {path.readlink()}, which " if path.is_symlink() else ""
        raise VideoError(f"{link}does not exist", file=path) from None
    except (OSError, ValueError) as fault:
        # ValueError: a path with a NUL in it.
        reason = fault.strerror if isinstance(fault, OSError) else str(fault)
        raise VideoError(f"cannot be read ({reason})", file=path) from None
    if stat.S_ISDIR(state.st_mode):
        raise VideoError("is a folder; name a video file", file=path)
    if not stat.S_ISREG(state.st_mode):
        raise VideoError("is not a regular file", file=path)
    return state.st_size

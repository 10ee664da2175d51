"""The timeline of a video, and the frames taken from it."""

from __future__ import annotations

import stat
from dataclasses import dataclass, replace
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
        """How many frames are shown."""
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

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def width(self) -> int:
        """Pixels a row."""
        return int(self.frames.shape[2])

    @property
    def height(self) -> int:
        """Rows."""
        return int(self.frames.shape[1])

    def record(self) -> dict[str, Any]:
        """Return everything but the pixels, as it is written into files."""
        return {
            "count": len(self),
            "indices": list(self.indices),
            "times": [round(time, 6) for time in self.times],
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

    def with_findings(self, findings: Findings) -> FrameSet:
        """Return these frames with what the decoder found out about the file."""
        dark = () if findings.hdr is None else (_NOT_MAPPED.format(findings.hdr),)
        return replace(
            self,
            warnings=tuple(dict.fromkeys((*findings.damage, *self.warnings, *dark))),
            damage=findings.damage,
            hdr=findings.hdr,
        )


@dataclass(frozen=True)
class Findings:
    """What a decoder found out about a file: why it does not decode cleanly, and its HDR."""

    damage: tuple[str, ...] = ()
    hdr: str | None = None


# Without tone mapping the code values of HDR, made for much brighter screens, look flat and grey.
_NOT_MAPPED = "is HDR ({}), shown without tone mapping: its colours look pale"


DEFAULT_TIMEOUT = 120.0
"""Seconds without progress after which a video is given up; slow network folders need some."""


def checked_file(path: Path) -> int:
    """Return the size of a regular file that is not empty; raises `VideoError`."""
    size = file_size(path)
    if size == 0:
        raise VideoError("is empty (0 bytes)", file=path)
    return size


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

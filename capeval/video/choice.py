"""What a sampling policy is, and what policies have in common."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from capeval.errors import UsageError, VideoError
from capeval.video.frames import Timeline

# The paper's limit (appendix B.1).
SHORT_SECONDS = 16.0
MOST_BYTES = 8 * 2**30
"""The memory that the frames of a video may take."""

# More frames than any model takes: a larger number is a typing error.
_MOST = 100_000


@dataclass(frozen=True)
class Choice:
    """Indices in the order in which a model sees them, and warnings about them."""

    indices: tuple[int, ...]
    warnings: tuple[str, ...] = ()

    @property
    def to_decode(self) -> list[int]:
        """The indices in the order of the video, each once."""
        return sorted(set(self.indices))


class Policy(Protocol):
    """Chooses frames; `str()` of it is the form that `read_policy` reads."""

    def choose(self, timeline: Timeline) -> Choice:
        """Choose at least one index of a timeline that has at least one frame.

        Raises
        ------
        ValueError
            A requested frame does not exist; the message says which.
        """
        ...


def choose_frames(policy: Policy, timeline: Timeline, path: Path) -> Choice:
    """Return what a policy chooses of a video; raises `VideoError` where it cannot."""
    try:
        return policy.choose(timeline)
    except ValueError as fault:
        raise VideoError(str(fault), file=path) from None


def spread(total: int, n: int) -> tuple[int, ...]:
    """Return `n` indices from 0 to `total - 1`, evenly, truncated; one index is the middle."""
    if n == 1:
        return ((total - 1) // 2,)
    return tuple(int(i) for i in np.linspace(0, total - 1, n).astype(int))


def check_memory(count: int, width: int, height: int, path: Path) -> None:
    """Raise `VideoError` where so many frames do not fit into memory, also repeated ones."""
    if (needed := count * width * height * 3) > MOST_BYTES:
        raise VideoError(
            f"{count} frames of {width}x{height} need {needed / 2**30:.0f} GiB; ask for fewer",
            file=path,
        )


def check_count(count: float) -> None:
    """Raise `ValueError` where a rate takes more frames than any model, as of a false duration."""
    if count > _MOST:
        raise ValueError(f"would be {count:.0f} frames, and at most {_MOST} are taken")


def check_number(n: int) -> None:
    """Raise `UsageError` unless `n` is a number of frames from 2."""
    if not 2 <= n <= _MOST:
        raise UsageError(f"frames: {n} is not a number from 2 to {_MOST}")


def check_rate(rate: float) -> None:
    """Raise `UsageError` unless `rate` is frames a second."""
    if not 0 < rate <= 1000:
        raise UsageError(f"frames: {rate:g}fps is not a rate above 0 and up to 1000")


def check_most(most: int | None) -> None:
    """Raise `UsageError` unless `most` is a number of frames or None."""
    if most is not None and not 1 <= most <= _MOST:
        raise UsageError(f"frames: at most {most} is not a number from 1 to {_MOST}")

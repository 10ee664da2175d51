"""The frames of a video that a model sees, and policies that choose them by their times.

The defaults are those of the TUNA paper (section 4.1, appendix B.1, table 7): 32 frames spread
evenly; 2 frames a second for Qwen2-VL; for closed models 2 a second below 16 s, else 1. Published
code (the TUNA benchmark's, Qwen's utilities) reads these rules in different ways, so `2fps`,
`tuna-2fps` and `qwen-2fps` differ; docs/generating.md compares them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from capeval.errors import UsageError
from capeval.text import one_line

if TYPE_CHECKING:
    from PIL.Image import Image

FORMS = (
    "32 (spread evenly), 2fps, auto, 2fps@64 or auto@64 (at most 64), qwen-2fps, tuna-2fps, "
    "tuna-auto, tuna-32 (as published code), 1 (the middle one), or "
    "indices from 0 such as 0,5,9 (one index: 7,)"
)
# The paper's limit (appendix B.1).
_SHORT_SECONDS = 16.0
# More frames than any model takes: a larger number is a typo, or from a false duration.
_MOST = 100_000


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
        """Whether a constant rate would misplace some frame by more than half a frame."""
        if self.total < 3:
            return False
        pace = self.times[-1] / (self.total - 1)
        return any(abs(time - n * pace) > pace / 2 for n, time in enumerate(self.times))


@dataclass(frozen=True, eq=False)
class FrameSet:
    """The chosen frames of one video and their record.

    `frames` is an array of shape (n, height, width, 3), RGB, uint8, upright; frame n is the video's
    frame `indices[n]` (from 0), shown at `times[n]` seconds after the first. `damage` has the
    warnings about a file that does not decode cleanly. `hdr` is the transfer function of HDR, such
    as "PQ", shown without tone mapping. `shown_size` is the video's width and height; `frames` may
    have been scaled.
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
    hdr: str | None = None
    shown_size: tuple[int, int] = (0, 0)

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def width(self) -> int:
        return int(self.frames.shape[2])

    @property
    def height(self) -> int:
        return int(self.frames.shape[1])

    def thumbnails(self, longest: int) -> list[Image]:
        """Return the frames as pictures whose longer side is at most `longest`."""
        from PIL.Image import Resampling, fromarray

        scale = min(1.0, longest / max(self.width, self.height))
        size = max(1, round(self.width * scale)), max(1, round(self.height * scale))
        pictures = map(fromarray, self.frames)
        return [one.resize(size, Resampling.LANCZOS) for one in pictures]

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


@dataclass(frozen=True)
class Choice:
    """Indices in the order in which a model sees them, and warnings about them."""

    indices: tuple[int, ...]
    warnings: tuple[str, ...] = ()


class Policy(Protocol):
    """Chooses frames; `str()` of it is the form that `read_policy` reads."""

    def choose(self, timeline: Timeline) -> Choice:
        """Choose at least one index; ValueError if a requested frame does not exist."""


def _spread(total: int, n: int) -> tuple[int, ...]:
    """Return `n` indices from 0 to `total - 1`, evenly, truncated; one index is the middle."""
    if n == 1:  # the first is too often a title or a fade
        return ((total - 1) // 2,)
    return tuple(int(i) for i in np.linspace(0, total - 1, n).astype(int))


def _check_count(count: float) -> None:
    if count > _MOST:
        raise ValueError(f"would be {count:.0f} frames, and at most {_MOST} are taken")


@dataclass(frozen=True)
class Uniform:
    """`n` frames from the first to the last: `linspace(0, last, n)` truncated, as is usual.

    A video with fewer frames yields each once, with a warning; with `repeats` some several times,
    as in the TUNA benchmark's code for LLaVA-Video.
    """

    n: int = 32
    repeats: bool = False

    def choose(self, timeline: Timeline) -> Choice:
        total, short = timeline.total, f"has only {timeline.total} of the {self.n} frames asked for"
        if total >= self.n:
            return Choice(_spread(total, self.n))
        if self.repeats:
            return Choice(_spread(total, self.n), (f"{short}: some are repeated",))
        return Choice(tuple(range(total)), (short,))

    def __str__(self) -> str:
        return f"{'tuna-' if self.repeats else ''}{self.n}"


@dataclass(frozen=True)
class Fps:
    """`rate` frames a second, frame `int(i * step)`; more than `most` are spread evenly instead.

    Where the video's rate varies, the frame shown at each moment `i / rate` is taken, once. Without
    a `rate` it is the paper's rule for closed models: 2 frames a second below 16 s, else 1.
    """

    rate: float | None
    most: int | None = None

    def choose(self, timeline: Timeline) -> Choice:
        rate = self.rate or _paper_rate(timeline)
        if timeline.is_variable:
            _check_count(timeline.times[-1] * rate)
            # A moment that is exactly a frame's time must not miss it because of rounding.
            moments = range(int(timeline.times[-1] * rate + 1e-6) + 1)
            chosen = [bisect_right(timeline.times, i / rate + 1e-6) - 1 for i in moments]
        else:
            # A rate above the video's own would show a frame twice, or a million times.
            step = max(timeline.fps / rate, 1.0)
            count = int(timeline.total / step) + 1
            chosen = [i for i in (int(n * step) for n in range(count)) if i < timeline.total]
        indices = tuple(dict.fromkeys(chosen))
        if self.most is not None and len(indices) > self.most:
            warning = f"{len(indices)} frames would be more than {self.most}: spread evenly instead"
            return Choice(_spread(timeline.total, self.most), (warning,))
        if rate > timeline.fps * 1.001 and len(indices) == timeline.total:
            slow = f"has only {timeline.fps:.4g} of the {rate:g} frames a second"
            return Choice(indices, (slow,))
        return Choice(indices)

    def __str__(self) -> str:
        rate = "auto" if self.rate is None else f"{self.rate:g}fps"
        return rate + (f"@{self.most}" if self.most else "")


def _paper_rate(timeline: Timeline) -> float:
    return 2 if timeline.duration < _SHORT_SECONDS else 1


@dataclass(frozen=True)
class TunaFps:
    """`rate` frames a second as the TUNA benchmark's code lists them for models that take images.

    That is `int(total / fps * rate)` frames, frame `int(i * fps / rate)` each. Unlike `2fps` it has
    no frame of the last, incomplete step, and shows frames twice where `rate` is above the video's.
    Without a `rate` it is the paper's rule for closed models.
    """

    rate: float | None

    def choose(self, timeline: Timeline) -> Choice:
        rate = self.rate or _paper_rate(timeline)
        count = int(timeline.total / timeline.fps * rate)
        if not count:
            raise ValueError(f"is too short: {self} takes no frame of {timeline.duration:.3g} s")
        _check_count(count)
        step = timeline.fps / rate
        return Choice(tuple(int(n * step) for n in range(count)))

    def __str__(self) -> str:
        return "tuna-auto" if self.rate is None else f"tuna-{self.rate:g}fps"


# The utilities' constants: frames are taken in pairs, because Qwen's models merge two into one.
_QWEN_PAIR, _QWEN_LEAST, _QWEN_MOST = 2, 4, 768


@dataclass(frozen=True)
class QwenFps:
    """`rate` frames a second as Qwen's own utilities (qwen-vl-utils) take them.

    They count `total / fps * rate` frames, at least 4 and at most 768, rounded down to an even
    number, and spread them from the first frame to the last, to the nearest frame.
    """

    rate: float

    def choose(self, timeline: Timeline) -> Choice:
        total = timeline.total
        most = min(_QWEN_MOST, total) // _QWEN_PAIR * _QWEN_PAIR
        wanted = min(max(total / timeline.fps * self.rate, _QWEN_LEAST), most)
        count = int(wanted // _QWEN_PAIR) * _QWEN_PAIR
        if not count:
            raise ValueError(f"has {total} frame; {self} takes at least {_QWEN_PAIR}")
        return Choice(tuple(int(at) for at in np.linspace(0, total - 1, count).round()))

    def __str__(self) -> str:
        return f"qwen-{self.rate:g}fps"


@dataclass(frozen=True)
class Given:
    """These frames, in this order."""

    indices: tuple[int, ...]

    def __post_init__(self) -> None:
        distinct = len(set(self.indices)) == len(self.indices)
        if not self.indices or not distinct or min(self.indices) < 0:
            raise UsageError("frames: indices must be from 0 and each named once")

    def choose(self, timeline: Timeline) -> Choice:
        if max(self.indices) >= timeline.total:
            raise ValueError(f"has {timeline.total} frames; there is no frame {max(self.indices)}")
        return Choice(self.indices)

    def __str__(self) -> str:
        return ",".join(map(str, self.indices)) + ("," if len(self.indices) == 1 else "")


def read_policy(text: str) -> Policy:
    """Read a policy in the syntax of `--frames`; raises `UsageError` for an unknown form.

    >>> read_policy("32"), read_policy("auto@50"), read_policy("0,5,9")
    (Uniform(n=32, repeats=False), Fps(rate=None, most=50), Given(indices=(0, 5, 9)))
    """
    typed = text.strip().lower()
    if re.fullmatch(r"[0-9]{1,6}", typed, re.ASCII) and int(typed) > 0:
        return Uniform(_number(typed, least=1))
    if re.fullmatch(r"([0-9]{1,9}, *)+([0-9]{1,9})?", typed, re.ASCII):
        return Given(tuple(int(part) for part in typed.split(",") if part.strip()))
    if found := re.fullmatch(rf"(auto|{_RATE})(@([0-9]{{1,6}}))?", typed, re.ASCII):
        rate = _rate(found[2]) if found[2] else None
        return Fps(rate, _number(found[4], least=1) if found[4] else None)
    if found := re.fullmatch(rf"tuna-(auto|{_RATE})", typed, re.ASCII):
        return TunaFps(_rate(found[2]) if found[2] else None)
    if found := re.fullmatch(rf"qwen-{_RATE}", typed, re.ASCII):
        return QwenFps(_rate(found[1]))
    if found := re.fullmatch(r"tuna-([0-9]{1,6})", typed, re.ASCII):
        return Uniform(_number(found[1]), repeats=True)
    raise UsageError(f"frames: {one_line(text, 60)!r} is not one of {FORMS}")


_RATE = r"([0-9]*\.?[0-9]+) *fps"


def _rate(typed: str) -> float:
    if not 0 < (rate := float(typed)) <= 1000:
        raise UsageError(f"frames: {rate:g}fps is not a rate above 0 and up to 1000")
    return rate


def _number(typed: str, least: int = 2) -> int:
    if not least <= int(typed) <= _MOST:
        raise UsageError(f"frames: {int(typed)} is not a number from {least} to {_MOST}")
    return int(typed)

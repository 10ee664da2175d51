"""Frames as published code takes them, where that differs from the usual policies.

The TUNA benchmark's code, Qwen's utilities, and the code of InternVL2, PLLaVA and Tarsier:
docs/generating.md compares them and names the commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from capeval.video.choice import (
    SHORT_SECONDS,
    Choice,
    check_count,
    check_number,
    check_rate,
    spread,
)
from capeval.video.frames import Timeline


@dataclass(frozen=True)
class TunaFps:
    """`rate` frames a second as the TUNA benchmark's code lists them for models that take images.

    That is `int(total / fps * rate)` frames, frame `int(i * fps / rate)` each. Unlike `2fps` it has
    no frame of the last, incomplete step, and shows frames twice where `rate` is above the video's.

    >>> clip = Timeline(tuple(n / 10 for n in range(12)), 10, 1.2)
    >>> TunaFps(2).choose(clip).indices
    (0, 5)
    """

    rate: float

    def __post_init__(self) -> None:
        check_rate(self.rate)

    def choose(self, timeline: Timeline) -> Choice:
        """Choose; a clip too short for one frame is refused, as the benchmark has none of it."""
        count = int(timeline.total / timeline.fps * self.rate)
        if not count:
            raise ValueError(f"is too short: {self} takes no frame of {timeline.duration:.3g} s")
        check_count(count)
        step = timeline.fps / self.rate
        return Choice(tuple(int(n * step) for n in range(count)))

    def __str__(self) -> str:
        return f"tuna-{self.rate:g}fps"


@dataclass(frozen=True)
class TunaDynamic:
    """The paper's rule for closed models, with the benchmark's own list of frames."""

    def choose(self, timeline: Timeline) -> Choice:
        """Choose as `TunaFps` does: 2 frames a second below 16 s, else 1."""
        return TunaFps(2 if timeline.duration < SHORT_SECONDS else 1).choose(timeline)

    def __str__(self) -> str:
        return "tuna-auto"


# The utilities' constants: frames are taken in pairs, because Qwen's models merge two into one.
_QWEN_PAIR, _QWEN_LEAST, _QWEN_MOST = 2, 4, 768


@dataclass(frozen=True)
class QwenFps:
    """`rate` frames a second as Qwen's own utilities (qwen-vl-utils) take them.

    They count `total / fps * rate` frames, at least 4 and at most 768, rounded down to an even
    number, and spread them from the first frame to the last, to the nearest frame.

    >>> clip = Timeline(tuple(n / 10 for n in range(41)), 10, 4.1)
    >>> QwenFps(2).choose(clip).indices, TunaFps(2).choose(clip).indices
    ((0, 6, 11, 17, 23, 29, 34, 40), (0, 5, 10, 15, 20, 25, 30, 35))
    """

    rate: float

    def __post_init__(self) -> None:
        check_rate(self.rate)

    def choose(self, timeline: Timeline) -> Choice:
        """Choose an even number of frames; a video of one frame is refused, as by the utilities."""
        total = timeline.total
        most = min(_QWEN_MOST, total) // _QWEN_PAIR * _QWEN_PAIR
        wanted = min(max(total / timeline.fps * self.rate, _QWEN_LEAST), most)
        count = int(wanted // _QWEN_PAIR) * _QWEN_PAIR
        if not count:
            raise ValueError(f"has {total} frame; {self} takes at least {_QWEN_PAIR}")
        return Choice(tuple(int(at) for at in np.linspace(0, total - 1, count).round()))

    def __str__(self) -> str:
        return f"qwen-{self.rate:g}fps"


# The indices of n frames, by the index of the last frame. Halves are rounded to even.
SPREADS: Mapping[str, Callable[[int, int], Iterable[int]]] = {
    # The benchmark's code for LLaVA-Video: the list of `Uniform`.
    "tuna": lambda last, n: spread(last + 1, n),
    # The middles of equal segments: the code of InternVL2 and of PLLaVA.
    "internvl": lambda last, n: (int(last / n / 2 + round(last / n * at)) for at in range(n)),
    # The nearest frames to an even spread (the usual one truncates): Tarsier's code.
    "tarsier": lambda last, n: (round(at * last / (n - 1)) for at in range(n)),
}


@dataclass(frozen=True)
class PublishedSpread:
    """Always `n` frames, as published code spreads them: a short clip shows some several times.

    >>> clip = Timeline(tuple(at / 10 for at in range(10)), 10, 1.0)
    >>> PublishedSpread("internvl", 4).choose(clip).indices
    (1, 3, 5, 8)
    """

    code: str
    n: int

    def __post_init__(self) -> None:
        check_number(self.n)

    def choose(self, timeline: Timeline) -> Choice:
        """Choose; a clip with fewer frames repeats some, with a warning."""
        indices = tuple(SPREADS[self.code](timeline.total - 1, self.n))
        short = f"has only {timeline.total} of the {self.n} frames asked for: some are repeated"
        return Choice(indices, (short,) if timeline.total < self.n else ())

    def __str__(self) -> str:
        return f"{self.code}-{self.n}"

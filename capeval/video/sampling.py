"""Which frames of a video a model sees: policies that choose indices by times.

The defaults are those of the TUNA paper (section 4.1, appendix B.1, table 7): 32 frames spread
evenly; 2 frames a second for Qwen2-VL; for closed models 2 a second below 16 s, else 1. Published
code reads these rules in different ways, so `2fps`, `tuna-2fps` and `qwen-2fps` differ:
docs/generating.md compares them and names the commits.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from capeval.errors import UsageError
from capeval.text import one_line
from capeval.video.choice import (
    SHORT_SECONDS,
    Choice,
    Policy,
    check_count,
    check_most,
    check_number,
    check_rate,
    spread,
)
from capeval.video.frames import Timeline
from capeval.video.published_policies import (
    SPREADS,
    PublishedSpread,
    QwenFps,
    TunaDynamic,
    TunaFps,
)

FORMS = (
    "32 (spread evenly), 2fps, auto, 2fps@64 or auto@64 (at most 64), qwen-2fps, tuna-2fps, "
    "tuna-auto, tuna-32, internvl-32, tarsier-32 (as published code), 1 (the middle one), or "
    "indices from 0 such as 0,5,9 (one index: 7,)"
)


@dataclass(frozen=True)
class Uniform:
    """`n` frames from the first to the last: `linspace(0, last, n)` truncated, as is usual.

    >>> Uniform(4).choose(Timeline((0.0, 0.1, 0.2, 0.3, 0.4, 0.5), 10, 0.6)).indices
    (0, 1, 3, 5)
    """

    n: int = 32

    def __post_init__(self) -> None:
        check_number(self.n)

    def choose(self, timeline: Timeline) -> Choice:
        """Choose; a video with fewer frames yields each once, with a warning."""
        if timeline.total <= self.n:
            short = (f"has only {timeline.total} of the {self.n} frames asked for",)
            return Choice(tuple(range(timeline.total)), short if timeline.total < self.n else ())
        return Choice(spread(timeline.total, self.n))

    def __str__(self) -> str:
        return str(self.n)


@dataclass(frozen=True)
class Fps:
    """`rate` frames a second, frame `int(i * step)`; more than `most` are spread evenly instead.

    Where the rate varies, the frame shown at each moment `i / rate` is taken, once.
    """

    rate: float
    most: int | None = None

    def __post_init__(self) -> None:
        check_rate(self.rate)
        check_most(self.most)

    def choose(self, timeline: Timeline) -> Choice:
        """Choose; always the first frame at least."""
        if timeline.is_variable:
            check_count(timeline.times[-1] * self.rate)
            # A moment that is exactly a frame's time must not miss it because of rounding.
            moments = range(int(timeline.times[-1] * self.rate + 1e-6) + 1)
            chosen = [bisect_right(timeline.times, i / self.rate + 1e-6) - 1 for i in moments]
        else:
            step = timeline.fps / self.rate
            # A rate above the video's own would show a frame twice, or a million times.
            step = max(step, 1.0)
            count = int(timeline.total / step) + 1
            chosen = [i for i in (int(n * step) for n in range(count)) if i < timeline.total]
        indices = tuple(dict.fromkeys(chosen))
        warnings: tuple[str, ...] = ()
        if self.rate > timeline.fps * 1.001 and len(indices) == timeline.total:
            warnings = (f"has only {timeline.fps:.4g} of the {self.rate:g} frames a second",)
        if self.most is not None and len(indices) > self.most:
            warning = f"{len(indices)} frames would be more than {self.most}: spread evenly instead"
            return Choice(spread(timeline.total, self.most), (warning,))
        return Choice(indices, warnings)

    def __str__(self) -> str:
        return f"{self.rate:g}fps" + (f"@{self.most}" if self.most else "")


@dataclass(frozen=True)
class Dynamic:
    """The paper's rule for closed models: 2 frames a second below 16 s, else 1 a second."""

    most: int | None = None

    def __post_init__(self) -> None:
        check_most(self.most)

    def choose(self, timeline: Timeline) -> Choice:
        """Choose as `Fps` does."""
        return Fps(2 if timeline.duration < SHORT_SECONDS else 1, self.most).choose(timeline)

    def __str__(self) -> str:
        return "auto" + (f"@{self.most}" if self.most else "")


@dataclass(frozen=True)
class Middle:
    """One frame, the middle one: a video's first is too often a title or a fade."""

    def choose(self, timeline: Timeline) -> Choice:
        """Choose frame `(total - 1) // 2`."""
        return Choice(((timeline.total - 1) // 2,))

    def __str__(self) -> str:
        return "1"


@dataclass(frozen=True)
class Given:
    """These frames, in this order."""

    indices: tuple[int, ...]

    def __post_init__(self) -> None:
        distinct = len(set(self.indices)) == len(self.indices)
        if not self.indices or not distinct or min(self.indices) < 0:
            raise UsageError("frames: indices must be from 0 and each named once")

    def choose(self, timeline: Timeline) -> Choice:
        """Choose them, or refuse a video that is too short."""
        if max(self.indices) >= timeline.total:
            raise ValueError(f"has {timeline.total} frames; there is no frame {max(self.indices)}")
        return Choice(self.indices)

    def __str__(self) -> str:
        return ",".join(map(str, self.indices)) + ("," if len(self.indices) == 1 else "")


@dataclass(frozen=True)
class Shuffled:
    """Another policy's frames in a random order by the seed, never in their order in time.

    A model that answers as well from shuffled frames did not need their order.
    """

    policy: Policy
    seed: int

    def choose(self, timeline: Timeline) -> Choice:
        """Choose and shuffle; the same seed and number of frames give the same order."""
        choice = self.policy.choose(timeline)
        rng = np.random.default_rng(self.seed)
        order = np.arange(len(choice.indices))
        while len(order) > 1 and (order[:-1] < order[1:]).all():
            rng.shuffle(order)
        return Choice(tuple(choice.indices[n] for n in order), choice.warnings)

    def __str__(self) -> str:
        return f"{self.policy} shuffled by seed {self.seed}"


def read_policy(text: str) -> Policy:
    """Read a policy in the syntax of `--frames`.

    >>> read_policy("32"), read_policy("auto@50"), read_policy("0,5,9")
    (Uniform(n=32), Dynamic(most=50), Given(indices=(0, 5, 9)))

    Raises
    ------
    UsageError
        It is none of the known forms.
    """
    typed = text.strip().lower()
    if re.fullmatch(r"[0-9]{1,6}", typed, re.ASCII) and int(typed) > 0:
        return Middle() if int(typed) == 1 else Uniform(int(typed))
    if re.fullmatch(r"([0-9]{1,9}, *)+([0-9]{1,9})?", typed, re.ASCII):
        return Given(tuple(int(part) for part in typed.split(",") if part.strip()))
    if found := re.fullmatch(r"(auto|([0-9]*\.?[0-9]+) *fps)(@([0-9]{1,6}))?", typed, re.ASCII):
        most = int(found[4]) if found[4] else None
        return Dynamic(most) if found[1] == "auto" else Fps(float(found[2]), most)
    if found := re.fullmatch(r"(tuna|qwen)-([0-9]*\.?[0-9]+) *fps", typed, re.ASCII):
        return (TunaFps if found[1] == "tuna" else QwenFps)(float(found[2]))
    if typed == "tuna-auto":
        return TunaDynamic()
    if found := re.fullmatch(rf"({'|'.join(SPREADS)})-([0-9]{{1,6}})", typed, re.ASCII):
        return PublishedSpread(found[1], int(found[2]))
    raise UsageError(f"frames: {one_line(text, 60)!r} is not one of {FORMS}")

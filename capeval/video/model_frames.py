"""The frames that some models' own code takes, where it differs from the usual even spread."""

from __future__ import annotations

from dataclasses import dataclass

from capeval.errors import UsageError
from capeval.video.frames import Timeline
from capeval.video.sampling import Choice


@dataclass(frozen=True)
class Segments:
    """The middles of `n` equal segments, as the code of InternVL2 and of PLLaVA takes them.

    With `last` the index of the last frame, frame i is `int(last / n / 2 + round(i * last / n))`,
    halves rounded to even. Short clips show frames several times.

    >>> clip = Timeline(tuple(at / 10 for at in range(10)), 10, 1.0)
    >>> Segments(4).choose(clip).indices
    (1, 3, 5, 8)
    """

    n: int

    def __post_init__(self) -> None:
        _check(self.n)

    def choose(self, timeline: Timeline) -> Choice:
        """Choose; a clip with fewer frames shows some of them again, with a warning."""
        step = (timeline.total - 1) / self.n
        indices = tuple(int(step / 2 + round(step * at)) for at in range(self.n))
        return Choice(indices, _short(timeline, self.n))

    def __str__(self) -> str:
        return f"internvl-{self.n}"


@dataclass(frozen=True)
class Rounded:
    """`n` frames from the first to the last, each the nearest to its place, as Tarsier's code.

    Halves are rounded to even. (The usual spread truncates.)

    >>> clip = Timeline(tuple(at / 10 for at in range(10)), 10, 1.0)
    >>> Rounded(5).choose(clip).indices
    (0, 2, 4, 7, 9)
    """

    n: int

    def __post_init__(self) -> None:
        _check(self.n)

    def choose(self, timeline: Timeline) -> Choice:
        """Choose; a clip with fewer frames shows some of them again, with a warning."""
        last = timeline.total - 1
        indices = tuple(round(at * last / (self.n - 1)) for at in range(self.n))
        return Choice(indices, _short(timeline, self.n))

    def __str__(self) -> str:
        return f"tarsier-{self.n}"


def _short(timeline: Timeline, n: int) -> tuple[str, ...]:
    if timeline.total >= n:
        return ()
    return (f"has only {timeline.total} of the {n} frames asked for: some are repeated",)


# As for the other policies: a larger number is a typing error.
_MOST = 100_000


def _check(n: int) -> None:
    if not 2 <= n <= _MOST:
        raise UsageError(f"frames: {n} is not a number from 2 to {_MOST}")

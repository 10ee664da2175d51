"""The value of a statistic, or the reason why there is none."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

CONFIDENCE = 0.95
"""Of all intervals: what the field reports, and what their coverage was simulated at."""
UPPER = (1 + CONFIDENCE) / 2

GroupingName = Literal["pooled", "item", "within_system", "system"]


@dataclass(frozen=True, slots=True)
class Missing:
    """There is no number, and this is why; it is never replaced by 0.

    >>> Missing("the metric is constant").reason
    'the metric is constant'
    """

    reason: str


Value = float | Missing


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval and how it was made.

    `method` is "bootstrap" (percentile), "bootstrap around the value" (for a value that is outside
    its percentiles), "fisher", "jackknife" (infinitesimal), or "t". Of shares and ratios of answers
    it is also "exact", "score" or "t of the logarithm".
    """

    low: float
    high: float
    method: str


@dataclass(frozen=True, slots=True)
class PValue:
    """A two-sided p-value.

    `method` is "bootstrap of videos" or "jackknife of videos", "permutation of captions", "of
    videos" or "of systems", or "sign flips of videos"; with "exact" before it where every
    arrangement was tried, with "normal" where there are too many videos to try any. `least` is the
    smallest p that it can give with so many videos, systems and resamples; None without a bound.
    """

    p: float
    method: str
    least: float | None = field(default=None, compare=False, repr=False)


def known(value: float, reason: str) -> Value:
    """Return `value`, or `Missing` if it is NaN.

    >>> known(0.5, "none"), known(float("nan"), "the metric is constant")
    (0.5, Missing(reason='the metric is constant'))
    """
    return Missing(reason) if np.isnan(value) else float(value)


def steady(values: Floats, scale: float = 0.0) -> Floats:
    """Return values rounded to 12 significant digits of the largest of them, or of `scale`.

    The mean of 0.1, 0.2 and 0.3 depends in its last digit on the order in which they are added,
    and is not that of three times 0.2: equal inputs would not tie. NaN stays. `scale` is the
    largest of the summed values, relative to which a sum may be only rounding error.

    >>> equal = np.array([0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1])
    >>> np.ptp(equal) > 0, np.ptp(steady(equal)) > 0
    (np.True_, np.False_)
    """
    largest = max(scale, float(np.nanmax(np.abs(values), initial=0.0)))
    if not largest:
        return values
    decimals = 11 - math.floor(math.log10(largest))
    # Beyond this, 10 to the power of the decimals would leave the range of floats.
    # Adding 0 turns -0 into 0.
    return np.round(values, decimals) + 0.0 if abs(decimals) <= 290 else values


def as_pairs(metric: ArrayLike, human: ArrayLike) -> tuple[Floats, Floats]:
    """Return both as arrays of one length.

    Raises
    ------
    ValueError
        Not one-dimensional, of different lengths, or with a value that is not finite: what is
        missing has to be left out, with its count, before a statistic is taken.

    >>> as_pairs([1, 2], [3, 4])[0].tolist()
    [1.0, 2.0]
    """
    x, y = np.asarray(metric, dtype=np.float64), np.asarray(human, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape:
        raise ValueError(f"two one-dimensional arrays of one length, not {x.shape} and {y.shape}")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ValueError("values must be finite; leave out what is missing first")
    return x, y

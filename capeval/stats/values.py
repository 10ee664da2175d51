"""The value of a statistic and its interval, or the reason why there is none."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

CONFIDENCE = 0.95
"""The level of every interval: the convention of the field, and of the simulated coverage."""
UPPER = (1 + CONFIDENCE) / 2

GroupingName = Literal["pooled", "item", "within_system", "system"]


@dataclass(frozen=True, slots=True)
class Missing:
    """The reason why there is no number; a missing number is never replaced by 0.

    >>> Missing("the metric is constant").reason
    'the metric is constant'
    """

    reason: str


Value = float | Missing


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Coefficient:
    """A value with its 95% interval, or the reason why one of them is missing."""

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str | None = None

    @classmethod
    def of(cls, value: Value, interval: Interval | Missing | None = None) -> Coefficient:
        if isinstance(value, Missing):
            return cls(None, reason=value.reason)
        if isinstance(interval, Missing):
            return cls(number_of(value), reason=interval.reason)
        ends = (interval.low, interval.high) if interval else ()
        return cls(number_of(value), *ends)


def number_of(value: Value) -> float | None:
    """Return a value for JSON: None if it is missing."""
    return None if isinstance(value, Missing) or math.isnan(value) else float(value)


def steady(values: Floats, scale: float = 0.0) -> Floats:
    """Return values rounded to 12 significant digits of the largest of them, or of `scale`.

    The last digit of the mean of 0.1, 0.2 and 0.3 depends on the order in which they are added, and
    it differs from the mean of three times 0.2: equal inputs would not tie. NaN stays. `scale` is
    the largest of the summed values, relative to which a sum may be only rounding error.

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

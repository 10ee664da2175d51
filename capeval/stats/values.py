"""Values of statistics, their intervals, and the reasons why there are none."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

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


# ---- Intervals of many means at once, corrected for the skewness of few values -------------------

FEWEST_VIDEOS = 8
"""Fewer videos get no interval. In the simulated worlds of docs/statistics.md, intervals of F1 and
recall cover at least 93.3% from here on, 92.2% where the mean F1 is 96%, and 86% where strong
captions fail altogether in 8% of the videos."""

FEWEST_FOR_FAILURES = 100
"""Intervals from fewer videos can be too narrow, whatever the measure. A caption that fails is far
from all others, and rare failures are in few samples. Where 2 to 8% of strong captions fail
altogether, intervals of F1 from 20 videos cover 86 to 91%, and with 2% those from 60 still cover
91% and those from 100 93%."""

_LONGEST = 2.5
"""The longest side of an interval, as a multiple of that for skewness 0. One outlier among few
videos would make a side of five times that. The limit takes at most 0.4 points from the coverage of
F1 and recall, 3 from that of precision, and up to a fifth of the width."""

_ESTIMATED = 2
"""Degrees of freedom that are lost: the skewness is estimated, not only the mean. With one, as
Student's t has it, the F1 of strong captions is covered 92.7% of the time with eight videos; with
two 93.3%, for intervals that are 3.5% wider with eight videos and 0.4% with 20."""

_ROUNDING = 1e-12

_SYMMETRIC = 1e-6
"""Below this skewness, the correction is smaller than the rounding errors of its cube root."""


class Ends(NamedTuple):
    """The ends of intervals, one per column; NaN where there is none."""

    low: Floats
    high: Floats


_DIFFERENCES = (-1.0, 1.0)  # the limits of the differences of two fractions


def mean_intervals(
    values: Floats,
    *,
    limits: tuple[float, float] | None = None,
    rows_per_video: int = 1,
) -> Ends:
    """Return the 95% confidence interval of the mean of every column.

    A t interval after Hall's transformation, which removes the skewness of the t statistic: with
    few videos, scores near 0 or 1 have a long tail on one side. It has two degrees of freedom fewer
    than there are videos, because the skewness is estimated too. Nothing in it is random.

    If all videos have the same value, their spread says nothing about other videos: the interval
    then allows for a share of others that have the value of a limit, the largest share that these
    videos could have missed (Clopper and Pearson, 1934). Without limits it has no width.

    Parameters
    ----------
    values : (rows, columns); NaN marks a row that a column does not have
    limits : the smallest and the largest value that there can be, where intervals end
    rows_per_video : how many rows each video has, for example one for each repeat of the judge. The
        spread of all rows counts, but only the videos count as independent.

    Returns
    -------
    (columns,) each; NaN where a column has fewer than `FEWEST_VIDEOS` videos

    References
    ----------
    P. Hall (1992), On the removal of skewness by transformation, J. R. Statist. Soc. B 54, 221-228.

    >>> low, high = mean_intervals(np.array([[0.9, 0.8, 1, 0.9, 1, 0.7, 1, 0.1]]).T, limits=(0, 1))
    >>> round(float(low[0]), 2), round(float(high[0]), 2)
    (0.15, 0.97)
    """
    from scipy.special import stdtrit

    present = ~np.isnan(values)
    rows = present.sum(axis=0)
    n = rows / rows_per_video
    enough = n >= FEWEST_VIDEOS
    low, high = np.full(n.shape, np.nan), np.full(n.shape, np.nan)
    if not enough.any():
        return Ends(low, high)
    present, rows, n = present[:, enough], rows[enough], n[enough]
    there = np.where(present, values[:, enough], 0.0)
    mean = there.sum(axis=0) / rows
    gaps = np.where(present, there - mean, 0.0)
    variance = (gaps**2).sum(axis=0) / rows
    # A spread below this is an error of rounding: no score is a fraction of such large numbers.
    same = np.ptp(np.where(present, there, mean), axis=0) <= _ROUNDING
    scale = np.sqrt(np.where(same, 1.0, variance))
    # The usual corrections for estimating both moments from n values.
    skewness = ((gaps / scale) ** 3).sum(axis=0) / rows * np.sqrt(n * (n - 1)) / (n - 2)
    error = scale * np.sqrt(n / (n - 1))
    quantile = stdtrit(np.floor(n) - _ESTIMATED, UPPER) / np.sqrt(n)
    smallest, largest = limits or (-np.inf, np.inf)
    below = mean - error * np.minimum(_untransformed(quantile, skewness, n), _LONGEST * quantile)
    above = mean - error * np.maximum(_untransformed(-quantile, skewness, n), -_LONGEST * quantile)
    # The share of other values that all n videos miss with half of the error probability.
    missed = 1 - ((1 - CONFIDENCE) / 2) ** (1 / n)
    least, most = limits or (mean, mean)
    below = np.where(same, mean - missed * (mean - least), below)
    above = np.where(same, mean + missed * (most - mean), above)
    low[enough] = np.clip(np.minimum(below, mean), smallest, None)
    high[enough] = np.clip(np.maximum(above, mean), None, largest)
    return Ends(low, high)


def difference_intervals(values: Floats, *, rows_per_video: int = 1) -> Ends:
    """Return the 95% confidence interval of the mean of every column of paired differences.

    It reaches from the lowest to the highest end of two intervals, that of `mean_intervals` and
    Student's. Where two runs agree exactly in most videos, the skewness of the few other
    differences is mostly chance, and the correction for it shortens the wrong side.

    Parameters
    ----------
    values : (rows, columns), differences of fractions; NaN marks a row that a column does not have
    rows_per_video : as for `mean_intervals`

    Returns
    -------
    (columns,) each, from -1 to 1; NaN where a column has fewer than `FEWEST_VIDEOS` videos

    >>> low, high = difference_intervals(np.array([[0, 0, 0, 0, 0, 0, 0.1, 0.3]]).T)
    >>> round(float(low[0]), 3), round(float(high[0]), 3)
    (-0.039, 0.281)
    """
    from scipy.special import stdtrit

    ends = mean_intervals(values, limits=_DIFFERENCES, rows_per_video=rows_per_video)
    has = ~np.isnan(ends.low)
    there = values[:, has]
    rows = (~np.isnan(there)).sum(axis=0)
    n = rows / rows_per_video
    mean = np.nansum(there, axis=0) / rows
    variance = np.nansum((there - mean) ** 2, axis=0) / rows
    side = stdtrit(np.floor(n) - 1, UPPER) * np.sqrt(variance / (n - 1))
    low, high = ends.low.copy(), ends.high.copy()
    low[has] = np.minimum(low[has], np.clip(mean - side, _DIFFERENCES[0], None))
    high[has] = np.maximum(high[has], np.clip(mean + side, None, _DIFFERENCES[1]))
    return Ends(low, high)


def _untransformed(t: Floats, skewness: Floats, n: Floats) -> Floats:
    """Return the standardised deviation of a mean whose transformed value is `t`."""
    centred = t - skewness / (6 * n)
    curved = np.where(np.abs(skewness) < _SYMMETRIC, 1.0, skewness)
    found = 3 / curved * (np.cbrt(1 + curved * centred) - 1)
    return np.where(np.abs(skewness) < _SYMMETRIC, centred, found)


# ---- Intervals and p from the values without each video, on Fisher's scale with Student's t ------

FEWEST_LEFT_OUT = 5
"""The fewest videos that have an interval: with fewer, its width is mostly due to t."""

# On Fisher's scale, which ends at infinity: values that differ from 1 by rounding.
_PERFECT = 12.0
_SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class Inference(Interval):
    """A 95% interval, and p of the hypothesis of no relation or no difference, two-sided.

    The interval includes 0 exactly where p is above .05.
    """

    p: float


def too_few(videos: int) -> Missing:
    """Return why there is no interval over so few videos.

    >>> too_few(1).reason
    '1 video is too few for an interval: at least 5'
    """
    subject = "1 video is" if videos == 1 else f"{videos} videos are"
    return Missing(f"{subject} too few for an interval: at least {FEWEST_LEFT_OUT}")


def jackknife(value: float, without: Floats) -> Inference | Missing:
    """Return the interval of a value over other videos, and its p.

    Its middle is the value minus the jackknife's estimate of its bias.

    Parameters
    ----------
    value : of all videos
    without : (videos,), without each in turn; NaN where it has no value

    >>> found = jackknife(0.5, np.array([0.4, 0.45, 0.5, 0.55, 0.6, 0.5]))
    >>> round(found.low, 2), round(found.high, 2), round(found.p, 3)
    (0.03, 0.77, 0.041)
    """
    scaled, n = _fisher(np.append(value, without)), len(without)
    if reason := _unusable(scaled):
        return reason
    error, _ = _error(scaled[1:])
    if error <= _SLACK:
        return Missing("no video changes the value")
    middle = float(n * scaled[0] - (n - 1) * scaled[1:].mean())
    half, p = _student(middle, error, n - 1)
    low, high = np.tanh(middle + np.array([-half, half]))
    return Inference(min(float(low), value), max(float(high), value), p)


def jackknife_difference(
    values: tuple[float, float], without: tuple[Floats, Floats]
) -> Inference | Missing:
    """Return the interval and p of the difference of two metrics, first − second.

    The difference is taken on Fisher's scale, with Satterthwaite's degrees of freedom: a few videos
    that move it most are a small sample. The ends are transformed back with the midpoint of
    the two values fixed.

    Parameters
    ----------
    values : of all videos
    without : (videos,) each, without each video in turn
    """
    first, second = (
        _fisher(np.append(value, rest)) for value, rest in zip(values, without, strict=True)
    )
    if reason := _unusable(first) or _unusable(second):
        return reason
    apart = first - second
    error, freedom = _error(apart[1:])
    if error <= _SLACK:
        if abs(apart[0]) <= _SLACK:
            return Missing("the metrics do not differ in any video")
        return Missing("no video changes the difference")
    half, p = _student(float(apart[0]), error, freedom)
    middle = (first[0] + second[0]) / 2
    ends = apart[0] + np.array([-half, half])
    ends = np.tanh(middle + ends / 2) - np.tanh(middle - ends / 2)
    observed = values[0] - values[1]
    return Inference(min(float(ends[0]), observed), max(float(ends[1]), observed), p)


def _fisher(values: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        # Rounding can make a perfect value the next number after 1.
        return np.asarray(np.arctanh(np.minimum(values, 1.0)))


def _unusable(scaled: Floats) -> Missing | None:
    """Return the reason why a value and those without each video have no interval, or None."""
    if len(scaled) <= FEWEST_LEFT_OUT:
        return too_few(len(scaled) - 1)
    if np.isnan(scaled).any():
        return Missing("leaving out one video leaves no value")
    if np.abs(scaled).max() >= _PERFECT:
        return Missing("the value, or that without one of the videos, is perfect")
    return None


def _error(without: Floats) -> tuple[float, float]:
    """Return the jackknife's standard error, and Satterthwaite's degrees of freedom for it."""
    n = len(without)
    moved = (without - without.mean()) ** 2
    squares = float(moved.sum())
    if not squares:
        return 0.0, n - 1.0
    freedom = 3 * squares**2 / float((moved**2).sum()) - 2
    return math.sqrt(squares * (n - 1) / n), float(np.clip(freedom, 1.0, n - 1))


def _student(value: float, error: float, freedom: float) -> tuple[float, float]:
    from scipy.special import stdtr, stdtrit

    p = 2 * float(stdtr(freedom, -abs(value) / error))
    return float(stdtrit(freedom, UPPER)) * error, max(p, float(np.finfo(float).tiny))

"""Means over independent data sets, of values and differences that have intervals and p-values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import NormalDist, fmean

from capeval.stats.values import Interval, Missing, Value

_NORMAL = NormalDist()
_TWO_SIDED = 2 * _NORMAL.inv_cdf(0.975)
# The smallest p whose normal quantile is finite in both tails.
_SMALLEST = 1e-16
_SLACK = 1e-9


def mean_interval(
    values: Sequence[float], intervals: Sequence[Interval | Missing]
) -> Interval | Missing:
    """Return the interval of the mean of values from independent data sets.

    The squared distances from the values to their lower ends add up, and so do those to the upper
    ends (Zou and Donner, 2008; for correlations Zou, 2007). So each data set keeps the method of
    its interval and its skewness, and of one data set the interval is its own. If all intervals are
    symmetric, this is the usual sum of variances.

    Parameters
    ----------
    values, intervals : (data sets,), at least one

    Raises
    ------
    ValueError
        There are no values, or not as many as intervals.

    >>> mean_interval([0.4, 0.6], [Interval(0.1, 0.6, "t"), Interval(0.2, 0.75, "t")])
    Interval(low=0.25, high=0.625, method='of independent data sets')
    """
    if not values or len(values) != len(intervals):
        raise ValueError(f"{len(values)} values and {len(intervals)} intervals have no mean")
    known = [interval for interval in intervals if isinstance(interval, Interval)]
    if len(known) < len(intervals):
        return next(interval for interval in intervals if isinstance(interval, Missing))
    if len(known) == 1:
        return known[0]
    mean, count = fmean(values), len(values)
    below = _length(value - one.low for value, one in zip(values, known, strict=True))
    above = _length(one.high - value for value, one in zip(values, known, strict=True))
    return Interval(mean - below / count, mean + above / count, "of independent data sets")


def mean_p(differences: Sequence[float], p: Sequence[float], widths: Sequence[float]) -> Value:
    """Return the two-sided p of the mean of differences from independent data sets.

    Each p is brought to a normal quantile with the sign of its difference, and these are added with
    the standard errors as weights (Stouffer et al., 1949; Lipták, 1958): where a quantile is the
    difference by its standard error, this is the mean by its own, also if the true differences are
    not 0 and cancel. Each data set keeps its test, and of one data set p is its own.

    Parameters
    ----------
    differences, p : (data sets,), at least one; p two-sided, above 0 and up to 1
    widths : of the 95% intervals of the differences; NaN if there is none, and the standard error
        follows from p

    Raises
    ------
    ValueError
        There are no differences, or not as many as p and widths; or a p is not possible.

    >>> round(mean_p([0.1, 0.1], [0.1, 0.1], [0.3, 0.3]), 4)
    0.02
    >>> mean_p([0.1, -0.1], [0.1, 0.1], [0.3, 0.3])
    1.0
    """
    if not p or not len(differences) == len(p) == len(widths):
        raise ValueError(
            f"{len(differences)} differences, {len(p)} p and {len(widths)} widths have no mean"
        )
    if impossible := [one for one in p if not 0 < one <= 1]:
        raise ValueError(f"p is {impossible[0]}; it must be above 0 and up to 1")
    if len(p) == 1:
        return p[0]
    terms, errors = [], []
    for difference, one, width in zip(differences, p, widths, strict=True):
        z = -_NORMAL.inv_cdf(max(one, _SMALLEST) / 2)
        if not math.isnan(width):
            error = width / _TWO_SIDED
        elif abs(difference) <= _SLACK:
            error = 0.0
        elif z > 0:
            error = abs(difference) / z
        else:
            return Missing("a difference with p = 1 has no standard error without an interval")
        sign = 0.0 if abs(difference) <= _SLACK else math.copysign(1.0, difference)
        terms.append(sign * z * error)
        errors.append(error)
    spread = _length(errors)
    if not spread:
        return 1.0 if abs(math.fsum(differences)) <= _SLACK else Missing("no video moves the mean")
    return max(math.erfc(abs(math.fsum(terms)) / spread / math.sqrt(2)), _SMALLEST)


def _length(parts: Iterable[float]) -> float:
    """Return the root of the sum of squares, with the same digits in any order."""
    return math.sqrt(math.fsum(part * part for part in parts))

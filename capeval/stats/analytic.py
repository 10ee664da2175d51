"""Intervals in closed form: Fisher's of one correlation, Student's of a mean.

Fisher's is right for bounded scores; with heavy tails (Student's t with 3 degrees of freedom,
n = 40) it covers 77% of the time where the bootstrap covers 93%.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np

from capeval.stats.values import UPPER, Floats, Interval, Missing

_PERFECT = 1 - 1e-12


def fisher_interval(r: float, n: int) -> Interval | Missing:
    """Return Fisher's (1921) interval of Pearson's r of n independent pairs; n >= 4.

    >>> found = fisher_interval(0.699, 40)
    >>> round(found.low, 3), round(found.high, 3)
    (0.495, 0.83)
    """
    from scipy.special import ndtri

    if n < 4:
        return Missing(f"{n} pairs; Fisher's interval needs 4")
    if abs(r) >= _PERFECT:
        return Missing("a perfect correlation has no analytic interval")
    half = float(ndtri(UPPER)) / np.sqrt(n - 3)
    low, high = np.tanh(np.arctanh(r) - half), np.tanh(np.arctanh(r) + half)
    return Interval(float(low), float(high), "fisher")


def t_interval(values: Floats, *, largest: float = 1.0) -> Interval | Missing:
    """Return Student's interval of the mean of independent values, within `largest` of 0.

    >>> found = t_interval(np.array([0.1, 0.2, 0.3]))
    >>> round(found.low, 3), round(found.high, 3)
    (-0.048, 0.448)
    """
    from scipy.special import stdtrit

    count = len(values)
    if count < 2:
        return Missing("fewer than two groups have a value")
    half = stdtrit(count - 1, UPPER) * values.std(ddof=1) / np.sqrt(count)
    mean = values.mean()
    return Interval(float(max(mean - half, -largest)), float(min(mean + half, largest)), "t")


# By statistic the variance on Fisher's scale, of a value and of n pairs.
_VARIANCES: dict[str, Callable[[float, int], float]] = {
    "pearson": lambda _, n: 1 / (n - 3),
    "spearman": lambda rho, n: (1 + rho**2 / 2) / (n - 3),
    "kendall_b": lambda _, n: 0.437 / (n - 4),
}


def interval_of_value(statistic: str, value: float, n: int) -> Interval:
    """Return the interval of a correlation of which nothing but its value and n is known.

    On Fisher's scale, with his variance for r, that of Bonett and Wright (2000) for rho and that of
    Fieller, Hartley and Pearson (1957) for tau. They take the scores as normal and without ties,
    and tau as below .8.

    Parameters
    ----------
    statistic : "pearson", "spearman" or "kendall_b"
    value : between -1 and 1, both excluded
    n : number of independent pairs, at least 5

    Raises
    ------
    ValueError
        There are too few pairs, or the value is perfect.

    >>> found = interval_of_value("kendall_b", 0.572, 40)
    >>> round(found.low, 2), round(found.high, 2)
    (0.41, 0.7)
    """
    if n < 5 or abs(value) >= 1:
        raise ValueError(f"{value} of {n} pairs has no interval on Fisher's scale")
    error = math.sqrt(_VARIANCES[statistic](value, n))
    half = NormalDist().inv_cdf(UPPER) * error
    middle = math.atanh(value)
    return Interval(math.tanh(middle - half), math.tanh(middle + half), "fisher")

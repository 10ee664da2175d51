"""The standard error of a difference by the jackknife, less what it counts twice.

A statistic of n videos is a sum of what each video adds by itself and what pairs of videos add. The
jackknife counts the latter twice. With 20 videos of one caption each, its variance of a difference
of two tau-b is a third too large, and a test at 5% rejects 2% of the time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from capeval.stats.values import Floats

# If nothing but pairs of videos added anything, twice as much would be counted.
_LEAST = 0.5


class JackknifeError(NamedTuple):
    """A standard error, and the degrees of freedom of Student's t for it."""

    error: float
    freedom: float


def jackknife_error(whole: float, without: Floats, without_two: Floats | None) -> JackknifeError:
    """Return the standard error of a statistic from its values without videos.

    The variance is the jackknife's, corrected by Efron and Stein (1981, section 5). The degrees of
    freedom are Satterthwaite's (1946), with the spread of the squares of what each video adds: a
    few videos that move the statistic most are a small sample. As the correction is steadier than
    what it is taken from, they fall with the square of the share that is left.

    Parameters
    ----------
    whole : the statistic of all videos
    without : (videos,), without each in turn; NaN where it has no value, and then nothing is
        corrected
    without_two : without each two, in the order of `numpy.triu_indices`; None for no correction

    >>> values = np.array([1.0, 2, 3, 4, 6])
    >>> error, freedom = jackknife_error(values.mean(), (values.sum() - values) / 4, None)
    >>> round(error, 4), round(freedom, 2), round(float(values.std(ddof=1) / 5**0.5), 4)
    (0.8602, 4.0, 0.8602)
    """
    there = without[~np.isnan(without)]
    n = len(there)
    if n < 2:
        return JackknifeError(0.0, 1.0)
    moved = there - there.mean()
    squares = float(moved @ moved)
    if squares == 0:
        return JackknifeError(0.0, n - 1.0)
    freedom = 3 * squares**2 / float((moved**2) @ (moved**2)) - 2
    variance = squares * (n - 1) / n
    left = 1.0
    # What a pair of videos adds needs the values without each of them.
    if without_two is not None and n == len(without):
        first, second = np.triu_indices(n, 1)
        of_pairs = n * whole - (n - 1) * (without[first] + without[second]) + (n - 2) * without_two
        of_pairs = of_pairs[~np.isnan(of_pairs)]
        twice = float(((of_pairs - of_pairs.mean()) ** 2).sum()) / (n * (n - 1))
        left = max(1 - twice / variance, _LEAST)
    return JackknifeError(
        float(np.sqrt(variance * left)), float(np.clip(freedom * left**2, 1.0, n - 1))
    )

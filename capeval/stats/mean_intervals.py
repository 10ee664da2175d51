"""Confidence intervals of many means at once, corrected for the skewness of few values."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from capeval.stats.student_t import t_quantile

Floats = NDArray[np.float64]

FEWEST_VIDEOS = 8
"""Fewer videos get no interval. In the simulations of docs/statistics.md, intervals of F1 and
recall cover at least 93.3% from here on, and 92.2% where the mean F1 is 96%."""

FEWEST_FOR_PRECISION = 20
"""Intervals of precision from fewer videos can be too narrow. A video without a correct statement
has precision 0, far from all others. Where 8% of the captions are like that, the intervals of 8 to
10 videos cover 86%, because half of such samples have no such video; those of 20 cover 90%."""

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


def mean_intervals(
    values: Floats,
    *,
    limits: tuple[float, float] | None = None,
    confidence: float = 0.95,
    rows_per_video: int = 1,
) -> Ends:
    """Return the confidence interval of the mean of every column.

    A t interval after Hall's transformation, which removes the skewness of the t statistic: with
    few videos, scores near 0 or 1 have a long tail on one side. It has two degrees of freedom less
    than there are videos, because the skewness is estimated too. Nothing in it is random.

    If all videos have the same value, their spread says nothing about other videos: the interval
    then allows for a share of others that have the value of a limit, the largest share that these
    videos could have missed (Clopper and Pearson, 1934). Without limits it has no width.

    Parameters
    ----------
    values : (rows, columns); NaN marks a row that a column does not have
    limits : the smallest and the largest value that there can be, where intervals end
    confidence : between 0 and 1
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
    ts = [t_quantile((1 + confidence) / 2, int(videos) - _ESTIMATED) for videos in n]
    quantile = np.array(ts) / np.sqrt(n)
    smallest, largest = limits or (-np.inf, np.inf)
    below = mean - error * np.minimum(_untransformed(quantile, skewness, n), _LONGEST * quantile)
    above = mean - error * np.maximum(_untransformed(-quantile, skewness, n), -_LONGEST * quantile)
    # The share of other values that all n videos miss with half of the error probability.
    missed = 1 - ((1 - confidence) / 2) ** (1 / n)
    least, most = limits or (mean, mean)
    below = np.where(same, mean - missed * (mean - least), below)
    above = np.where(same, mean + missed * (most - mean), above)
    low[enough] = np.clip(np.minimum(below, mean), smallest, None)
    high[enough] = np.clip(np.maximum(above, mean), None, largest)
    return Ends(low, high)


def _untransformed(t: Floats, skewness: Floats, n: Floats) -> Floats:
    """Return the standardised deviation of a mean whose transformed value is `t`."""
    centred = t - skewness / (6 * n)
    curved = np.where(np.abs(skewness) < _SYMMETRIC, 1.0, skewness)
    found = 3 / curved * (np.cbrt(1 + curved * centred) - 1)
    return np.where(np.abs(skewness) < _SYMMETRIC, centred, found)

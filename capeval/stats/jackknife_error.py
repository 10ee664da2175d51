"""The standard error of a difference by the jackknife, less what it counts twice.

A statistic of n videos is a sum of what each video adds by itself and what pairs of videos add. The
jackknife counts the latter twice. With 20 videos of one caption each, its variance of a difference
of two tau-b is a third too large, and a test at 5% rejects 2% of the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from capeval.stats.groupings import Grouping
from capeval.stats.pair import Pair
from capeval.stats.resampling import LARGEST, Counts
from capeval.stats.statistic import Statistic
from capeval.stats.values import Floats, Mask
from capeval.stats.video_bootstrap import mean_of_groups, weighted_sums

# Of 100 videos there are 4,950 pairs, half as many as an interval has resamples; above, what is
# counted twice is 5% of the variance and less.
_MANY = 100
# If nothing but pairs of videos added anything, twice as much would be counted.
_LEAST = 0.5
# Pairs of videos that are left out at a time.
_AT_ONCE = 256


class JackknifeError(NamedTuple):
    """A standard error, and the degrees of freedom of Student's t for it."""

    error: float
    freedom: float


def without_two_videos(
    pair: Pair, statistic: Statistic, grouping: Grouping, only: Mask, threshold: float = 0.0
) -> Floats | None:
    """Return a statistic by `pooled` or `within_system` without each two videos in turn.

    Parameters
    ----------
    pair : the scores
    only : (groups,), the groups to use
    threshold : for acc_eq; taken as known

    Returns
    -------
    In the order of `numpy.triu_indices(videos, 1)`; None above 100 videos or 1,500 captions of a
    group, where it would take long and change nothing.

    >>> from capeval.stats.design import Design
    >>> from capeval.stats.groupings import POOLED
    >>> from capeval.stats.statistic import KENDALL_B
    >>> pair = Pair.of([1, 2, 4, 3], [1, 2, 3, 4], Design.of("abcd"))
    >>> without_two_videos(pair, KENDALL_B, POOLED, np.array([True])).tolist()
    [-1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    """
    videos = pair.design.videos
    use = pair.used(statistic, grouping, threshold=threshold, only=only)
    groups = pair.groups(grouping, use).values()
    if videos > _MANY or max(map(len, groups)) > LARGEST:
        return None
    first, second = np.triu_indices(videos, 1)

    def left_out() -> Iterator[Counts]:
        for start in range(0, len(first), _AT_ONCE):
            here = slice(start, start + _AT_ONCE)
            counts = np.ones((len(first[here]), videos), dtype=np.float32)
            rows = np.arange(len(counts))
            counts[rows, first[here]] = counts[rows, second[here]] = 0.0
            yield counts

    def make() -> Floats:
        sums = (weighted_sums(pair, statistic, rows, left_out, threshold) for rows in groups)
        return mean_of_groups(map(statistic.values, sums))

    key = ("without two", statistic, pair.alike(grouping), use.tobytes(), threshold)
    return pair.kept(key, make)


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

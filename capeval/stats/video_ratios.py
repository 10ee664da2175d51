"""Ratios of sums over videos, such as accuracies, with intervals over resampled videos.

Questions about one video are alike, so whole videos are resampled, the same in numerators,
denominators and all columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from capeval.stats.values import FEWEST_LEFT_OUT, UPPER, Floats, Interval, Mask, Missing

# Values of resamples that differ by less are one value.
_SLACK = 1e-12
# Counts per chunk, so that they stay in the processor's cache.
_CHUNK = 400_000

Counts = NDArray[np.float32]
Ends = tuple[float, float]


class VideoRatios:
    """Ratios of sums over videos, in columns such as the questions of one task.

    Each method takes the number of a column and returns a 95% interval. Percentiles are expanded
    for few videos (Hesterberg, 2015). They are too narrow for shares and ratios that few videos
    decide: their intervals reach at least to `share_ends` and `ratio_ends`.

    Parameters
    ----------
    upper : (videos, columns), at least 0, such as numbers of right answers
    lower : (videos, columns), at least 0, such as numbers of questions
    resamples, seed : of the bootstrap

    >>> found = VideoRatios(np.ones((20, 1)), np.full((20, 1), 2.0), resamples=200).share(0)
    >>> round(found.low, 2), round(found.high, 2)
    (0.34, 0.66)
    >>> right_with_16 = np.array([[2.0], [1.0], [1.0], [0.0], [2.0], [1.0]])
    >>> right_with_1 = np.array([[1.0], [1.0], [0.0], [0.0], [1.0], [1.0]])
    >>> found = VideoRatios(right_with_16, right_with_1).ratio(0, right_with_1[:, 0] >= 0)
    >>> round(found.low, 2), round(found.high, 2)
    (0.96, 6.0)
    """

    def __init__(
        self, upper: Floats, lower: Floats, *, resamples: int = 10_000, seed: int = 0
    ) -> None:
        self._upper, self._lower = upper, lower
        self._resamples, self._seed = resamples, seed
        self.videos, self.columns = upper.shape

    @cached_property
    def _sums(self) -> tuple[Floats, Floats]:
        """Sums of resamples, (resamples, columns) each."""
        # Counts of resamples are of this type too; whole sums are exact up to 16 million.
        both = np.hstack([self._upper, self._lower]).astype(np.float32)
        drawn = [
            counts @ both for counts in resample_counts(self.videos, self._resamples, self._seed)
        ]
        sums = np.concatenate(drawn)
        return sums[:, : self.columns], sums[:, self.columns :]

    @cached_property
    def _shares(self) -> Floats:
        above, below = self._sums
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.divide(above, below, dtype=np.float64)

    def share(self, column: int) -> Interval | Missing:
        """Return the interval of a share: the upper sum is a part of the lower one.

        Where it is 0 or 1, resamples do not differ: the interval then ends at the share that this
        many videos could have missed (Clopper and Pearson, 1934).
        """
        part, whole = self._upper[:, column], self._lower[:, column]
        videos = int((whole > 0).sum())
        if videos < FEWEST_LEFT_OUT:
            return Missing(f"fewer than {FEWEST_LEFT_OUT} videos")
        total = float(whole.sum())
        value = float(part.sum()) / total
        if value in (0.0, 1.0):
            missed = 1 - 0.025 ** (1 / videos)
            return Interval(max(0.0, value - missed), min(1.0, value + missed))
        ends = share_ends(part[whole > 0], whole[whole > 0])
        found = percentiles(self._shares[:, column], units=videos, around=value)
        if isinstance(found, Missing):
            return found
        return widened(Interval(max(0.0, found.low), min(1.0, found.high)), ends)

    def share_change(self, column: int, base: int) -> Interval | Missing:
        """Return the interval of one column's share divided by another's, minus 1."""
        part, whole = self._upper[:, [column, base]], self._lower[:, [column, base]]
        videos = int((whole > 0).sum(axis=0).min())
        if videos < FEWEST_LEFT_OUT:
            return Missing(f"fewer than {FEWEST_LEFT_OUT} videos")
        if not part.any(axis=0).all():
            return Missing("no answer of one side is right")
        shares = part.sum(axis=0) / whole.sum(axis=0)
        change = float(shares[0] / shares[1])
        with np.errstate(invalid="ignore", divide="ignore"):
            values = self._shares[:, column] / self._shares[:, base]
        values[~np.isfinite(values)] = np.nan
        found = percentiles(values, units=videos, around=change)
        if isinstance(found, Missing):
            return found
        return Interval(max(found.low, 0.0) - 1, found.high - 1)

    def ratio(self, column: int, present: Mask) -> Interval | Missing:
        """Return the interval of a ratio of any size; none if the lower sum is 0.

        Effects of a video on both numerator and denominator cancel.

        Parameters
        ----------
        present : (videos,), whether the column has questions about a video
        """
        videos = int(present.sum())
        with np.errstate(divide="ignore", invalid="ignore"):
            observed = float(self._upper[:, column].sum() / self._lower[:, column].sum())
        if not np.isfinite(observed):
            return Missing("there is no value")
        if videos < FEWEST_LEFT_OUT:
            return Missing(f"fewer than {FEWEST_LEFT_OUT} videos")
        above, below = (sums[:, column].astype(np.float64) for sums in self._sums)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where(below > 0, above / below, np.nan)
        found = percentiles(ratios, units=videos, around=observed)
        if isinstance(found, Missing):
            return found
        if found.high - found.low <= _SLACK:
            return Missing("all resamples have one value")
        found = Interval(max(found.low, 0.0), found.high)
        # If all numerators are 0, all resamples are 0, so that there is a logarithm here.
        upper, lower = self._upper[:, column], self._lower[:, column]
        ends = ratio_ends(observed, upper / upper.sum(), lower / lower.sum(), videos)
        return widened(found, ends)


def resample_counts(units: int, resamples: int, seed: int) -> Iterator[Counts]:
    """Yield (chunk, units) counts of how often each unit is in a resample, `resamples` rows in all.

    >>> sum(int(chunk.sum()) for chunk in resample_counts(3, 10, seed=0))
    30
    """
    rng = np.random.default_rng(seed)
    step = max(1, min(resamples, _CHUNK // units))
    for start in range(0, resamples, step):
        size = min(step, resamples - start)
        picks = rng.integers(0, units, size=(size, units), dtype=np.int32)
        picks += np.arange(size, dtype=np.int32)[:, None] * np.int32(units)
        counts = np.bincount(picks.ravel(), minlength=size * units)
        yield counts.reshape(size, units).astype(np.float32)


def percentiles(values: Floats, *, units: int, around: float) -> Interval | Missing:
    """Return the 95% percentile interval of bootstrap values; NaN marks a resample without one.

    With few units a percentile interval is too narrow, like a normal interval without n - 1 and t:
    percentiles further out by just that are used (the expanded interval of Hesterberg, 2015).
    `Missing` when more than half of the resamples have no value.

    Parameters
    ----------
    values : (resamples,)
    units : number of videos that were resampled
    around : the observed value. If it is outside, which ties and the copies in a resample can
        cause, the interval is that of the same share of resamples nearest to it instead

    >>> found = percentiles(np.arange(101.0), units=10_000, around=50.0)
    >>> round(found.low, 1), round(found.high, 1)
    (2.5, 97.5)
    """
    from scipy.special import ndtr, stdtrit

    wide = (units / (units - 1)) ** 0.5
    tail = float(ndtr(wide * stdtrit(units - 1, 1 - UPPER)))
    there = values[~np.isnan(values)]
    if 2 * len(there) < len(values) or not len(there):
        return Missing("most resamples have no value")
    low, high = (float(end) for end in np.quantile(there, [tail, 1 - tail]))
    if low <= around <= high:
        return Interval(low, high)
    half = float(np.quantile(np.abs(there - around), 1 - 2 * tail))
    return Interval(around - half, around + half)


# ---- Ends in closed form, for few or unequal videos ---------------------------------------------


def share_ends(right: Floats, asked: Floats) -> Ends:
    """Return the 95% ends of the share of right answers, over videos with questions.

    Wilson's score interval with Student's t, for as many independent questions as have the variance
    that is seen between videos, but never more than were asked.

    Parameters
    ----------
    right : (videos,) number of right answers; neither all nor none
    asked : (videos,) number of questions, at least 1

    References
    ----------
    E. L. Korn and B. I. Graubard (1998), Confidence intervals for proportions with small expected
    number of positive counts estimated from survey data, Survey Methodology 24, 193-201.

    >>> low, high = share_ends(np.array([2.0, 2, 2, 2, 2, 2, 2, 0]), np.full(8, 2.0))
    >>> round(low, 2), round(high, 2)
    (0.43, 0.98)
    """
    from scipy.special import stdtrit

    videos, questions = len(asked), float(asked.sum())
    share = float(right.sum()) / questions
    variance = _variance((right - share * asked) / questions, videos)
    independent = min(share * (1 - share) / variance, questions) if variance else questions
    t = float(stdtrit(videos - 1, UPPER))
    shrink = 1 + t * t / independent
    centre = (share + t * t / (2 * independent)) / shrink
    spread = share * (1 - share) / independent + (t / (2 * independent)) ** 2
    half = t / shrink * float(np.sqrt(spread))
    return max(0.0, centre - half), min(1.0, centre + half)


def ratio_ends(value: float, upper: Floats, lower: Floats, videos: int) -> Ends:
    """Return the 95% ends of a ratio: a t interval of its logarithm.

    Parameters
    ----------
    value : the ratio, above 0
    upper, lower : (videos,) each video's part of the relative deviation of numerator and
        denominator, such as its share of a sum; a video on both sides cancels
    videos : how many count as independent

    >>> low, high = ratio_ends(2.0, np.full(8, 1 / 8), np.array([1, 1, 1, 1, 0, 0, 0, 0]) / 4, 8)
    >>> round(low, 2), round(high, 2)
    (0.82, 4.89)
    """
    from scipy.special import stdtrit

    side = float(stdtrit(videos - 1, UPPER)) * float(np.sqrt(_variance(upper - lower, videos)))
    return value * float(np.exp(-side)), value * float(np.exp(side))


def widened(found: Interval, ends: Ends) -> Interval:
    """Return the interval with the outer of two ends on each side."""
    return Interval(min(found.low, ends[0]), max(found.high, ends[1]))


def _variance(parts: Floats, videos: int) -> float:
    """Return the variance of a sum to which each video adds one part; the parts add up to 0."""
    return float((parts**2).sum()) * videos / (videos - 1)


LEAST_CORRELATION = 0.1
"""The minimum correlation that is assumed within a cluster.

Where everything is right, it cannot be estimated, and with 20 to 40 clusters the estimate is too
low as often as not. With this floor, simulated intervals of beta-binomial clusters (10 to 240 of
them, 0.4 to 17 observations in each, proportions from .80 to .995, correlations up to .2) cover at
least 92%, and 90% where 15 to 25 observations are right at .99 or more; without it, as few as 81%.
"""

FEWEST_CLUSTERS = 10
"""With fewer, a variance between clusters cannot be estimated: each counts as one observation."""


def wilson(proportion: float, n: float) -> tuple[float, float]:
    """Return the 95% score interval of a proportion of `n` observations (Wilson, 1927).

    `n` need not be whole: it may be an effective number. The interval is not empty at 0 and 1.

    >>> low, high = wilson(1.0, 50)
    >>> round(low, 3), round(high, 3)
    (0.929, 1.0)
    """
    from scipy.special import ndtri

    if n <= 0:
        return 0.0, 1.0
    z = float(ndtri(UPPER))
    scale = 1 + z * z / n
    center = proportion + z * z / (2 * n)
    reach = z * math.sqrt(proportion * (1 - proportion) / n + z * z / (4 * n * n))
    return max(0.0, (center - reach) / scale), min(1.0, (center + reach) / scale)


def design_effect(correct: Floats, n: Floats) -> float:
    """Return the ratio of a proportion's variance to that of independent observations.

    The variance between clusters is that of a ratio, by linearisation (Kish, 1965; for proportions
    Rao and Scott, 1992). The effect is at least 1, and at least that of the correlation
    `LEAST_CORRELATION`; with fewer than `FEWEST_CLUSTERS` clusters, it is that of a correlation of
    1.

    Parameters
    ----------
    correct, n : of each cluster, shape (clusters,); clusters without observations do not count

    >>> design_effect(np.full(40, 17.0), np.full(40, 17.0))
    2.6
    >>> design_effect(np.array([1.0, 0.0]), np.array([1.0, 1.0]))
    1.0
    """
    used = n > 0
    correct, n = correct[used], n[used]
    total, clusters = float(n.sum()), len(n)
    if not clusters:
        return 1.0
    size = float((n * n).sum()) / total
    floor = max(1.0, 1 + LEAST_CORRELATION * (size - 1))
    if clusters < FEWEST_CLUSTERS:
        return max(floor, size)
    proportion = float(correct.sum()) / total
    independent = proportion * (1 - proportion) / total
    if independent == 0:
        return floor
    between = clusters / (clusters - 1) * float(((correct - proportion * n) ** 2).sum()) / total**2
    return max(floor, between / independent)

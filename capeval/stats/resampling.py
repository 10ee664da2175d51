"""Resamples of videos, the same for every statistic, and intervals from their values."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from capeval.stats.values import UPPER, Floats, Interval, Missing

Counts = NDArray[np.float32]

# Counts that are worked on at once, so that they stay in the processor's cache.
_CHUNK = 400_000


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

    With few units a percentile interval is too narrow, as a normal interval is that takes neither
    n - 1 nor t: percentiles further out by just that are taken (the expanded interval of
    Hesterberg, 2015). `Missing` when more than half of the resamples have no value.

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

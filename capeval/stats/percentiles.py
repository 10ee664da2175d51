"""From the values of resamples to an interval and a p that agree with one another."""

from __future__ import annotations

import numpy as np

from capeval.stats.values import CONFIDENCE, Floats, Interval, Missing


def percentiles(
    values: Floats,
    confidence: float = CONFIDENCE,
    *,
    units: int | None = None,
    around: float | None = None,
) -> Interval | Missing:
    """Return the percentile interval of bootstrap values; NaN marks a resample without one.

    With few units a percentile interval is too narrow, as a normal interval is that takes neither
    n - 1 nor t: `units` asks for percentiles further out by just that (the expanded interval of
    Hesterberg, 2015). `Missing` when more than half of the resamples have no value.

    Parameters
    ----------
    values : (draws,), or (kinds, draws): the interval has that of each kind in it
    confidence : between 0 and 1
    units : number of videos that were resampled; plain percentiles without
    around : the observed value. If it is outside, which ties and the copies in a resample can
        cause, the interval is that of the same share of resamples nearest to it instead

    >>> percentiles(np.arange(5.0), 0.5)
    Interval(low=1.0, high=3.0, method='bootstrap')
    >>> percentiles(np.arange(5.0), 0.5, around=0.0)
    Interval(low=-2.0, high=2.0, method='bootstrap around the value')
    """
    tail = (1 - confidence) / 2
    if units is not None:
        from scipy.special import ndtr, stdtrit

        wide = (units / (units - 1)) ** 0.5
        tail = float(ndtr(wide * stdtrit(units - 1, tail)))
    kinds = [kind[~np.isnan(kind)] for kind in np.atleast_2d(values)]
    if any(2 * len(kind) < values.shape[-1] or not len(kind) for kind in kinds):
        return Missing("most resamples have no value")
    ends = np.array([np.quantile(kind, [tail, 1 - tail]) for kind in kinds])
    low, high = float(ends[:, 0].min()), float(ends[:, 1].max())
    if around is None or low <= around <= high:
        return Interval(low, high, "bootstrap")
    half = max(float(np.quantile(np.abs(kind - around), 1 - 2 * tail)) for kind in kinds)
    return Interval(around - half, around + half, "bootstrap around the value")


def bootstrap_p(values: Floats, units: int) -> float:
    """Return the two-sided p that inverts the expanded percentile interval; never 0.

    It is the largest share at which the interval of `percentiles` still includes 0. A resample
    without a value counts on either side of it.

    Parameters
    ----------
    values : (draws,)
    units : number of videos that were resampled

    >>> draws = np.random.default_rng(0).normal(0.2, 0.1, 9_999)
    >>> p = bootstrap_p(draws, 40)
    >>> low = percentiles(draws, 1 - p, units=40).low
    >>> round(p, 3), abs(low) < 0.001
    (0.057, True)
    """
    from scipy.special import ndtri, stdtr

    beyond = min(int((~(values > 0)).sum()), int((~(values < 0)).sum()))
    share = min((beyond + 1) / (len(values) + 1), 0.5)
    wide = (units / (units - 1)) ** 0.5
    return min(1.0, 2 * float(stdtr(units - 1, ndtri(share) / wide)))


def add_one(at_least: int, draws: int) -> float:
    """Return the p-value of `at_least` of `draws` resamples as extreme as what was observed.

    The observed arrangement is one of the possible ones (Phipson and Smyth, 2010).

    >>> add_one(0, 999)
    0.001
    """
    return (at_least + 1) / (draws + 1)

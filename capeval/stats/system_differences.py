"""Two metrics by the systems' means: p and the interval of the difference, of the same resamples.

Metrics that rank the systems equally well need not rank them alike. Swapping two such metrics in
whole videos (Deutsch, Dror and Roth, 2021) gives both about the mean of the two, which is closer to
the human scores than either: what is swapped varies less than what was observed, and a test at 5%
rejects up to 20% of the time (docs/statistics.md). So videos are resampled instead.
"""

from __future__ import annotations

import numpy as np

from capeval.stats.pair import Pair
from capeval.stats.percentiles import percentiles
from capeval.stats.resampling import FEWEST, MANY, too_few
from capeval.stats.statistic import Statistic
from capeval.stats.system_means import normal_means, system_values
from capeval.stats.values import Floats, Interval, Missing, Value

# Means of two metrics and of the human scores whose covariance fits into memory.
_COLUMNS = 3_000
# Means that are kept for the other statistics: 66 pairs of metrics then take 100 MB at most.
_KEPT = 66_000


def system_difference(
    metrics: tuple[Pair, Pair], statistic: Statistic, difference: float, draws: int, seed: int
) -> tuple[Value, Interval | Missing]:
    """Return p and the interval of the difference; the interval leaves 0 out where p is below .05.

    Parameters
    ----------
    metrics : of the same human scores and design
    difference : as observed
    draws, seed : of the resamples of videos
    """
    design = metrics[0].design
    if design.videos < FEWEST:
        few = too_few(design.videos, design)
        return few, few
    gaps = _normal_gaps if design.videos > MANY else _resampled_gaps
    found = gaps(metrics, statistic, draws, seed)
    if isinstance(found, Missing):
        return found, found
    return p_and_interval(found, design.videos, difference)


def p_and_interval(
    values: Floats, videos: int, difference: float
) -> tuple[Value, Interval | Missing]:
    """Return p and the interval of a difference from (kinds, draws) resamples of videos."""
    interval = percentiles(values, units=videos, around=difference)
    if isinstance(interval, Missing):
        return interval, interval
    return percentile_p(values, videos, around=difference), interval


def percentile_p(values: Floats, units: int, *, around: float) -> float:
    """Return the largest share at which the interval of `percentiles` includes 0; never 0.

    Parameters
    ----------
    values : (kinds, draws); NaN marks a resample without a value
    units : number of videos that were resampled
    around : the observed value

    >>> gaps = np.random.default_rng(0).normal(0.2, 0.1, (1, 9_999))
    >>> p = percentile_p(gaps, 40, around=0.2)
    >>> low = percentiles(gaps, 1 - p, units=40, around=0.2).low
    >>> round(p, 3), abs(low) < 0.001
    (0.056, True)
    """
    from scipy.special import ndtri, stdtr

    kinds = [np.sort(kind[~np.isnan(kind)]) for kind in values]
    method = percentiles(values, units=units, around=around)
    if isinstance(method, Interval) and method.method != "bootstrap":
        tail = max(1 - _below(np.sort(np.abs(k - around)), abs(around)) for k in kinds) / 2
    else:
        low = max(_below(kind, 0.0) for kind in kinds)
        high = max(_below(-kind[::-1], 0.0) for kind in kinds)
        tail = min(low, high)
    # The observed sample is one of the possible ones.
    tail = min(max(tail, 1 / (values.shape[1] + 1)), 0.5)
    wide = (units / (units - 1)) ** 0.5
    return min(1.0, 2 * float(stdtr(units - 1, ndtri(tail) / wide)))


def _below(ordered: Floats, value: float) -> float:
    """Return the share at which `numpy.quantile` reaches a value, the largest if there are ties."""
    place = int(np.searchsorted(ordered, value, side="right"))
    if place in (0, len(ordered)):
        return float(place > 0)
    low, high = ordered[place - 1 : place + 1]
    return float((place - 1 + (value - low) / (high - low)) / (len(ordered) - 1))


def _resampled_gaps(
    metrics: tuple[Pair, Pair], statistic: Statistic, draws: int, seed: int
) -> Floats | Missing:
    first, second = (system_values(pair, statistic, draws, seed) for pair in metrics)
    if isinstance(first, Missing):
        return first
    return second if isinstance(second, Missing) else np.asarray(first - second)


def _normal_gaps(
    metrics: tuple[Pair, Pair], statistic: Statistic, draws: int, seed: int
) -> Floats | Missing:
    """Return the differences of means drawn from their normal distribution.

    With so many videos, the means' errors are too small to bias a correlation.
    """
    design = metrics[0].design
    systems = design.systems
    if 3 * systems > _COLUMNS:
        return Missing(f"{systems} systems are too many to resample their means")
    few = draws * systems <= _KEPT
    key = ("normal means", id(metrics[1]), draws, seed)

    def make() -> Floats:
        scores = [metrics[0].x, metrics[1].x, metrics[0].y]
        return normal_means(design, scores, draws, seed)

    # The other statistics use the same means.
    drawn = metrics[0].kept(key, make) if few else make()
    first, second, human = np.split(drawn, 3, axis=1)
    return np.asarray((statistic.rows(first, human) - statistic.rows(second, human))[None])

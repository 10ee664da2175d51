"""Statistics of the systems' means in resamples of whole videos."""

from __future__ import annotations

import numpy as np

from capeval.stats.correlation import correlate_rows, why_missing
from capeval.stats.pair import Pair
from capeval.stats.resampling import MANY, same_draws
from capeval.stats.values import Floats, Missing, Statistic, steady

_SYSTEMS = 20_000_000


def system_values(pair: Pair, statistic: Statistic, draws: int, seed: int) -> Floats | Missing:
    """Return the (draws,) values of a statistic of the systems' means; NaN where there is none.

    Over more than 20,000 videos the means are drawn from their normal distribution.

    Parameters
    ----------
    pair : the scores
    statistic : of `STATISTICS`
    draws : number of resamples, fewer where there are very many systems
    seed : of `numpy.random.default_rng`

    >>> from capeval.stats.design import Design
    >>> design = Design.of("aabbcc", "xyxyxy")
    >>> pair = Pair.of([1, 2, 2, 1, 1, 3], [1, 2, 1, 2, 3, 4], design)
    >>> values = system_values(pair, "kendall_b", 50, 0)
    >>> np.unique(values[~np.isnan(values)]).tolist()
    [-1.0, 1.0]
    """
    x, y, _ = pair.sides("system")
    if np.isnan(pair.values(statistic, "system")[0]):
        return Missing(why_missing(x, y, statistic))
    systems = pair.design.systems
    if systems * 1_000 > _SYSTEMS or systems * min(pair.design.videos, MANY) > _SYSTEMS:
        return Missing(f"{systems} systems are too many to resample their means")
    draws = min(draws, _SYSTEMS // systems)
    means = pair.kept(("system means", draws, seed), lambda: _drawn_means(pair, draws, seed))
    # A system that is in no video of a resample has no mean, and the resample no value.
    gap = np.isnan(means).any(axis=1)
    values = np.full(len(means), np.nan)
    some = means[~gap]
    values[~gap] = correlate_rows(some[:, :systems], some[:, systems:], statistic)
    return values


def _drawn_means(pair: Pair, draws: int, seed: int) -> Floats:
    """Return the (draws, 2 systems) means of resamples, of the metric and of the human scores."""
    design, systems = pair.design, pair.design.systems
    x, y, _ = pair.sides("system")
    place = (design.video, design.system)
    if design.videos > MANY:
        sizes = np.bincount(design.system)[design.system]
        moved = np.zeros((design.videos, 2 * systems))
        moved[place] = (pair.x - x[design.system]) / sizes
        moved[design.video, systems + design.system] = (pair.y - y[design.system]) / sizes
        middle = np.concatenate([x, y])
        rng = np.random.default_rng(seed)
        return steady(rng.multivariate_normal(middle, moved.T @ moved, size=draws, method="svd"))
    parts = np.zeros((design.videos, 3 * systems))
    parts[place] = pair.x
    parts[design.video, systems + design.system] = pair.y
    parts[design.video, 2 * systems + design.system] = 1.0
    means = []
    for counts in same_draws(design.videos, draws, seed):
        sums = counts @ parts
        with np.errstate(invalid="ignore", divide="ignore"):
            means.append(sums[:, : 2 * systems] / np.tile(sums[:, 2 * systems :], 2))
    found = np.concatenate(means)
    # Means that are equal must be so to the last digit, or they would be no tie.
    found[:, :systems], found[:, systems:] = steady(found[:, :systems]), steady(found[:, systems:])
    return found

"""The infinitesimal jackknife over videos: intervals of groups too large for a bootstrap.

What each caption moves a statistic by, `influence` says; here it is summed over each video.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from capeval.stats.correlation import why_missing
from capeval.stats.design import Design
from capeval.stats.influence import influence, jackknife_variance
from capeval.stats.pair import Pair
from capeval.stats.values import OF_PAIRS, Floats, Grouping, Interval, Mask, Missing, Statistic

_GROUPS = 5_000
_PERFECT = 1 - 1e-12
_SLACK = 1e-12


def jackknife_estimates(
    metric: ArrayLike,
    human: ArrayLike,
    design: Design,
    statistics: Sequence[Statistic],
    *,
    confidence: float = 0.95,
) -> dict[Statistic, tuple[float, float, Interval] | Missing]:
    """Return pooled statistics with their standard errors and jackknife intervals, all at once.

    The pairs are counted once for tau-b, tau-c and acc_eq (with threshold 0). O(n log n) time,
    O(n) memory: 1,000,000 captions take seconds.

    Returns
    -------
    For each statistic its value, the standard error and the interval, or why there is none.

    >>> x = np.arange(50.0)
    >>> found = jackknife_estimates(x, x % 7, Design.of(range(50)), ["kendall_b", "acc_eq"])
    >>> [round(number[0], 4) for number in found.values()]
    [0.0917, 0.48]
    """
    pair = Pair.of(metric, human, design)
    return {one: _pooled_jackknife(pair, one, confidence) for one in statistics}


def _pooled_jackknife(
    pair: Pair, statistic: Statistic, confidence: float
) -> tuple[float, float, Interval] | Missing:
    found = video_influence(pair, statistic, "pooled")
    if isinstance(found, Missing):
        return found
    value, moved = found
    variance = jackknife_variance(moved)
    around = _around(value, variance, pair.design.videos, statistic, confidence)
    return around if isinstance(around, Missing) else (value, float(np.sqrt(variance)), around)


def video_influence(
    pair: Pair, statistic: Statistic, grouping: Grouping, *, only: Mask | None = None
) -> tuple[float, Floats] | Missing:
    """Return a statistic by `pooled` or `within_system`, and how much each video moves it.

    Parameters
    ----------
    pair : the scores
    only : (groups,), the groups to use; default all that have a value

    Returns
    -------
    value, derivatives : a number and (videos,)

    >>> pair = Pair.of([1, 2, 3, 4], [1, 2, 4, 3], Design.of("aabb", "xyxy"))
    >>> video_influence(pair, "kendall_b", "pooled")[1].round(6).tolist()
    [0.333333, -0.333333]
    """

    def make() -> tuple[float, Floats] | Missing:
        fine = ~np.isnan(pair.values(statistic, grouping))
        use = fine if only is None else only & fine
        count = np.count_nonzero(use)
        if not count:
            return pair.no_group(statistic, grouping)
        if count > _GROUPS:
            return Missing(f"{count} groups are too many for a jackknife")
        total, value = np.zeros(len(pair.x)), 0.0
        a, b = pair.codes()
        for groups, block in pair.blocks(grouping):
            for number, rows in zip(groups, block, strict=True):
                if not use[number]:
                    continue
                # The others have no value in a group that is constant.
                if statistic == "acc_eq" and (np.ptp(a[rows]) == 0 or np.ptp(b[rows]) == 0):
                    if grouping == "pooled":
                        return Missing(why_missing(pair.x, pair.y, statistic))
                    return Missing("a group is constant")
                one, moved = _influence(pair, statistic, grouping, int(number), rows)
                value += one / count
                total[rows] = moved / count
        sums = np.bincount(pair.design.video, weights=total, minlength=pair.design.videos)
        return float(value), np.asarray(sums)

    chosen = None if only is None else only.tobytes()
    return pair.kept(("influence", statistic, pair.alike(grouping), chosen), make)


def _influence(
    pair: Pair, statistic: Statistic, grouping: Grouping, number: int, rows: NDArray[np.intp]
) -> tuple[float, Floats]:
    if statistic == "pearson":
        return influence(pair.x[rows], pair.y[rows], statistic)
    a, b = pair.codes()
    counted = pair.concordance(grouping, number, rows) if statistic in OF_PAIRS else None
    return influence(a[rows], b[rows], statistic, pairs=counted)


def jackknife_interval(
    pair: Pair,
    statistic: Statistic,
    grouping: Grouping,
    *,
    confidence: float = 0.95,
    only: Mask | None = None,
) -> Interval | Missing:
    """Return the jackknife interval by `pooled` or `within_system`; parameters as of `interval`.

    >>> x = np.arange(50.0)
    >>> pair = Pair.of(x, x % 7, Design.of(range(50)))
    >>> isinstance(jackknife_interval(pair, "kendall_b", "pooled"), Interval)
    True
    """

    def make() -> Interval | Missing:
        if grouping == "pooled":
            found = _pooled_jackknife(pair, statistic, confidence)
            return found if isinstance(found, Missing) else found[2]
        return _within_jackknife(pair, statistic, confidence, only)

    chosen = None if only is None else only.tobytes()
    return pair.kept(("jackknife", statistic, pair.alike(grouping), confidence, chosen), make)


def _within_jackknife(
    pair: Pair, statistic: Statistic, confidence: float, only: Mask | None
) -> Interval | Missing:
    found = video_influence(pair, statistic, "within_system", only=only)
    if isinstance(found, Missing):
        return found
    value, moved = found
    variance = jackknife_variance(moved)
    return _around(value, variance, pair.design.videos, statistic, confidence)


def _around(
    value: float, variance: float, units: int, statistic: Statistic, confidence: float
) -> Interval | Missing:
    """Put an interval round a value, for correlations on Fisher's scale: it ends before 1."""
    from scipy.special import stdtrit

    half = float(stdtrit(units - 1, (1 + confidence) / 2)) * np.sqrt(variance)
    if not np.isfinite(half):
        return Missing("too few videos for an interval")
    if half <= _SLACK:
        return Missing("no video moves the value")
    if statistic == "acc_eq":
        return Interval(float(max(value - half, 0)), float(min(value + half, 1)), "jackknife")
    if abs(value) >= _PERFECT:
        return Missing("a perfect correlation has no analytic interval")
    middle, half = np.arctanh(value), half / (1 - value**2)
    return Interval(float(np.tanh(middle - half)), float(np.tanh(middle + half)), "jackknife")

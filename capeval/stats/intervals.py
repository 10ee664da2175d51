"""Confidence intervals that resample whole videos.

Captions of one video are alike, so the video is what is drawn, whatever the grouping. Where no
video repeats, that is the ordinary bootstrap of captions, and Pearson's r has Fisher's interval:
right for bounded scores, but with heavy tails (Student's t with 3 degrees of freedom, n = 40) it
covers 77% of the time where the bootstrap covers 93%.
Groups too large for a bootstrap have the infinitesimal jackknife, summed over each video.
There is none of fewer than 5 videos: four have but 35 different resamples, too few to tell where
2.5% of them end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from capeval.stats.correlation import correlate_rows, why_missing
from capeval.stats.design import Design
from capeval.stats.influence import influence, jackknife_variance
from capeval.stats.pair import Pair
from capeval.stats.resampling import LARGEST, Counts, resampled, resampled_taus, same_draws
from capeval.stats.values import (
    OF_PAIRS,
    Floats,
    Grouping,
    Interval,
    Mask,
    Missing,
    Statistic,
    steady,
)

__all__ = [
    "FEWEST",
    "Kind",
    "bootstrap_p",
    "bootstrap_values",
    "fisher_interval",
    "interval",
    "jackknife_estimates",
    "jackknife_interval",
    "percentiles",
    "t_interval",
    "too_few",
    "too_large",
    "video_influence",
]

Kind = Literal["bootstrap", "analytic", "none"]

FEWEST = 5
"""The fewest videos that are resampled."""

_MANY = 20_000
_CELLS = 20_000_000
_PAIRS = 12_000_000
_ROWS = 100_000
_MANY_GROUPS = 1_000
_GROUPS = 5_000
_SYSTEMS = 20_000_000
_PERFECT = 1 - 1e-12
_SLACK = 1e-12


def interval(
    metric: ArrayLike,
    human: ArrayLike,
    design: Design,
    statistic: Statistic,
    grouping: Grouping,
    *,
    ci: Kind | None = None,
    confidence: float = 0.95,
    draws: int = 10_000,
    seed: int = 0,
    threshold: float = 0.0,
    only: Mask | None = None,
    pair: Pair | None = None,
) -> Interval | Missing:
    """Return the confidence interval of a statistic by a grouping.

    By default a percentile bootstrap of whole videos, expanded where videos repeat and for r, whose
    plain one covers 92% instead of 95% of 40 videos; Fisher's for a pooled r when no video
    repeats; the jackknife where a group has more than 1,500 captions; Student's t for the mean of
    more than 20,000 videos.

    Parameters
    ----------
    metric, human : (n,), finite
    design : of the same n rows
    ci : "bootstrap" or "analytic" (Fisher, t or jackknife) wherever there is one; "none" for none
    confidence : between 0 and 1
    draws : number of resamples
    seed : of `numpy.random.default_rng`; every metric sees the same resamples
    threshold : for acc_eq; taken as known, so that its calibration adds nothing to the interval
    only, pair : as for `grouped`

    Raises
    ------
    ValueError
        The lengths differ, a value is not finite, or the confidence is no share.

    >>> rng = np.random.default_rng(1)
    >>> x = rng.random(40)
    >>> found = interval(x, x + rng.random(40), Design.of(range(40)), "pearson", "pooled")
    >>> found.method, round(found.low, 2), round(found.high, 2)
    ('fisher', 0.45, 0.81)
    """
    pair = Pair.of(metric, human, design) if pair is None else pair
    x, y = pair.x, pair.y
    if not 0 < confidence < 1:
        raise ValueError(f"the confidence must lie between 0 and 1, not at {confidence}")
    if ci == "none":
        return Missing("no interval was asked for")
    fisher = statistic == "pearson" and grouping == "pooled" and not design.repeats
    if fisher and ci != "bootstrap":
        value = float(pair.values("pearson", "pooled")[0])
        if np.isnan(value):
            return Missing(why_missing(x, y, statistic))
        return fisher_interval(value, len(x), confidence)
    values = pair.values(statistic, grouping, threshold=threshold)
    values = values[~np.isnan(values) if only is None else only & ~np.isnan(values)]
    units = len(values) if grouping == "item" else design.videos
    if not len(values):
        return _no_group(pair, statistic, grouping)
    if units < FEWEST:
        return too_few(units, design)
    if grouping == "item":
        if ci == "analytic" or len(values) > _MANY:
            return t_interval(values, confidence)
    elif grouping != "system":
        if ci == "analytic" or too_large(design, grouping):
            if threshold:
                return Missing("there is no jackknife for acc_eq with a threshold")
            return jackknife_interval(pair, statistic, grouping, confidence=confidence, only=only)
    elif ci == "analytic":
        return Missing("the means of systems have no analytic interval")
    found = bootstrap_values(
        x,
        y,
        design,
        statistic,
        grouping,
        draws=draws,
        seed=seed,
        threshold=threshold,
        only=only,
        pair=pair,
    )
    if isinstance(found, Missing):
        return found
    bounds = percentiles(
        found, confidence, units=units if design.repeats or statistic == "pearson" else None
    )
    if isinstance(bounds, Missing):
        return bounds
    if bounds.high - bounds.low <= _SLACK:
        return Missing("all resamples have one value")
    # The copies in a resample can push all of it to one side of a value near an end of the scale.
    value = float(values.mean())
    return Interval(min(bounds.low, value), max(bounds.high, value), bounds.method)


def too_few(units: int, design: Design) -> Missing:
    """Return why there is no interval or bootstrap of so few videos.

    >>> too_few(1, Design.of("a"))
    Missing(reason='1 caption is too few to resample: at least 5')
    """
    what = "video" if design.repeats else "caption"
    told = f"1 {what} is" if units == 1 else f"{units} {what}s are"
    return Missing(f"{told} too few to resample: at least {FEWEST}")


def too_large(design: Design, grouping: Grouping) -> bool:
    """Return whether groups of captions have the jackknife, as a bootstrap would take too long.

    The number of draws plays no part: it must not change the method.

    >>> too_large(Design.of(range(1501)), "pooled"), too_large(Design.of(range(1500)), "pooled")
    (True, False)
    """
    sizes = np.bincount(design.groups(grouping)).astype(np.float64)
    many = len(sizes) > _MANY_GROUPS or design.rows > _ROWS
    return bool(many or sizes.max() > LARGEST or sizes @ sizes > _PAIRS)


def _no_group(pair: Pair, statistic: Statistic, grouping: Grouping) -> Missing:
    if grouping in ("pooled", "system"):
        x, y, _ = pair.sides(grouping)
        return Missing(why_missing(x, y, statistic))
    return Missing("no group has a value")


def bootstrap_p(values: Floats, units: int) -> float:
    """Return the two-sided p that inverts the expanded percentile interval; never 0.

    It is the largest share at which the interval of `percentiles` still holds 0. A resample
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


def percentiles(
    values: Floats, confidence: float = 0.95, *, units: int | None = None
) -> Interval | Missing:
    """Return the percentile interval of bootstrap values; NaN marks a resample without one.

    With few units a percentile interval is too narrow, as a normal interval is that takes neither
    n - 1 nor t: `units` asks for percentiles further out by just that (the expanded interval of
    Hesterberg, 2015). `Missing` when more than half of the resamples have no value.

    Parameters
    ----------
    values : (draws,)
    confidence : between 0 and 1
    units : number of videos that were resampled; plain percentiles without

    >>> percentiles(np.arange(5.0), 0.5)
    Interval(low=1.0, high=3.0, method='bootstrap')
    """
    fine = values[~np.isnan(values)]
    if 2 * len(fine) < len(values) or not len(fine):
        return Missing("most resamples have no value")
    tail = (1 - confidence) / 2
    if units is not None:
        from scipy.special import ndtr, stdtrit

        wide = (units / (units - 1)) ** 0.5
        tail = float(ndtr(wide * stdtrit(units - 1, tail)))
    low, high = np.quantile(fine, [tail, 1 - tail])
    return Interval(float(low), float(high), "bootstrap")


def fisher_interval(r: float, n: int, confidence: float = 0.95) -> Interval | Missing:
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
    half = float(ndtri((1 + confidence) / 2)) / np.sqrt(n - 3)
    low, high = np.tanh(np.arctanh(r) - half), np.tanh(np.arctanh(r) + half)
    return Interval(float(low), float(high), "fisher")


def t_interval(values: Floats, confidence: float = 0.95) -> Interval | Missing:
    """Return Student's interval of the mean of independent values, kept within -1 and 1.

    >>> found = t_interval(np.array([0.1, 0.2, 0.3]))
    >>> round(found.low, 3), round(found.high, 3)
    (-0.048, 0.448)
    """
    from scipy.special import stdtrit

    count = len(values)
    if count < 2:
        return Missing("fewer than two groups have a value")
    half = stdtrit(count - 1, (1 + confidence) / 2) * values.std(ddof=1) / np.sqrt(count)
    mean = values.mean()
    return Interval(float(max(mean - half, -1.0)), float(min(mean + half, 1.0)), "t")


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
    variance = jackknife_variance(moved, np.arange(len(moved)))
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
            return _no_group(pair, statistic, grouping)
        if count > _GROUPS:
            return Missing(f"{count} groups are too many for a jackknife")
        total, value = np.zeros(len(pair.x)), 0.0
        a, b = pair.codes()
        for groups, block in pair.blocks(grouping):
            for number, rows in zip(groups, block, strict=True):
                if not use[number]:
                    continue
                if np.ptp(a[rows]) == 0 or np.ptp(b[rows]) == 0:
                    # acc_eq of a constant side has a value.
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
    variance = jackknife_variance(moved, np.arange(len(moved)))
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


def bootstrap_values(
    metric: Floats,
    human: Floats,
    design: Design,
    statistic: Statistic,
    grouping: Grouping,
    *,
    draws: int = 10_000,
    seed: int = 0,
    threshold: float = 0.0,
    only: Mask | None = None,
    pair: Pair | None = None,
) -> Floats | Missing:
    """Return the (draws,) values of a statistic by a grouping in resamples of whole videos.

    NaN where a resample has no value. Parameters are those of `interval`. Means of systems over
    more than 20,000 videos are drawn from their normal distribution.

    >>> design = Design.of([0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1])
    >>> x, y = np.array([1.0, 2, 2, 1, 1, 3]), np.array([1.0, 2, 1, 2, 3, 4])
    >>> found = bootstrap_values(x, y, design, "kendall_b", "item", draws=50)
    >>> np.unique(found.round(2)).tolist()
    [-1.0, -0.33, 0.33, 1.0]
    """
    pair = Pair.of(metric, human, design) if pair is None else pair
    if grouping == "system":
        return _system_values(pair, statistic, draws, seed)
    values = pair.values(statistic, grouping, threshold=threshold)
    use = ~np.isnan(values) if only is None else only & ~np.isnan(values)
    if grouping == "item":
        values = values[use]
        if len(values) < 2:
            return Missing("fewer than two groups have a value")
        counted = same_draws(len(values), draws, seed)
        return np.concatenate([counts @ values / len(values) for counts in counted])
    if not use.any():
        return _no_group(pair, statistic, grouping)
    groups = [
        rows
        for numbers, block in pair.blocks(grouping)
        for number, rows in zip(numbers, block, strict=True)
        if use[number]
    ]
    if statistic in OF_PAIRS and max(map(len, groups)) > LARGEST:
        return Missing(f"a group of more than {LARGEST} captions is not bootstrapped")
    tau = statistic in {"kendall_b", "kendall_c"}

    def prepare(rows: NDArray[np.intp]) -> Callable[[Counts], Floats]:
        if tau:
            return resampled_taus(pair.x[rows], pair.y[rows])
        return resampled(pair.x[rows], pair.y[rows], statistic, threshold=threshold)

    # The interval and p look at the same draws.
    found = pair.kept(
        ("drawn", "tau" if tau else statistic, grouping, draws, seed, threshold, use.tobytes()),
        lambda: _resampled_means(prepare, groups, design, draws, seed),
    )
    return np.asarray(found[int(statistic == "kendall_c")] if tau else found)


def _resampled_means(
    prepare: Callable[[NDArray[np.intp]], Callable[[Counts], Floats]],
    groups: list[NDArray[np.intp]],
    design: Design,
    draws: int,
    seed: int,
) -> Floats:
    """Return the means over groups in each resample, along the last axis."""
    sums, number = np.zeros(draws), np.zeros(draws)
    for batch in _batches(groups):
        of_group = [(prepare(rows), rows) for rows in batch]
        parts = []
        for counts in same_draws(design.videos, draws, seed):
            found = [value(counts[:, design.video[rows]]) for value, rows in of_group]
            there = [~np.isnan(one) for one in found]
            parts.append(
                (
                    sum(np.where(fine, one, 0.0) for fine, one in zip(there, found, strict=True)),
                    sum(fine.astype(np.float64) for fine in there),
                )
            )
        sums = sums + np.concatenate([part[0] for part in parts], axis=-1)
        number = number + np.concatenate([part[1] for part in parts], axis=-1)
    return np.where(number > 0, sums / np.maximum(number, 1), np.nan)


def _batches(groups: list[NDArray[np.intp]]) -> Iterator[list[NDArray[np.intp]]]:
    """Yield as many groups at a time as have room for their matrices of all pairs."""
    batch: list[NDArray[np.intp]] = []
    cells = 0
    for rows in groups:
        if batch and cells + len(rows) ** 2 > _CELLS:
            yield batch
            batch, cells = [], 0
        batch.append(rows)
        cells += len(rows) ** 2
    yield batch


def _system_values(pair: Pair, statistic: Statistic, draws: int, seed: int) -> Floats | Missing:
    x, y, _ = pair.sides("system")
    if np.isnan(pair.values(statistic, "system")[0]):
        return Missing(why_missing(x, y, statistic))
    systems = pair.design.systems
    if systems * 1_000 > _SYSTEMS or systems * min(pair.design.videos, _MANY) > _SYSTEMS:
        return Missing(f"{systems} systems are too many to resample their means")
    draws = min(draws, _SYSTEMS // systems)
    means = pair.kept(("system means", draws, seed), lambda: _system_means(pair, draws, seed))
    # A system that is in no video of a resample has no mean, and the resample no value.
    gap = np.isnan(means).any(axis=1)
    values = np.full(len(means), np.nan)
    some = means[~gap]
    values[~gap] = correlate_rows(some[:, :systems], some[:, systems:], statistic)
    return values


def _system_means(pair: Pair, draws: int, seed: int) -> Floats:
    """Return the (draws, 2 systems) means of resamples, the metric's and people's."""
    design, systems = pair.design, pair.design.systems
    x, y, _ = pair.sides("system")
    place = (design.video, design.system)
    if design.videos > _MANY:
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

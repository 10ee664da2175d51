"""Is one metric closer to human ratings than another? Paired tests, corrected; rank clusters.

Over captions, the difference of two metrics on Fisher's scale is compared with its standard error
by the jackknife of whole videos. Swapping the metrics in whole videos (Deutsch, Dror and Roth,
2021) would take their errors as exchangeable: metrics that are equally good and err differently,
such as one that fails on some videos, would then differ too often. Within videos, the differences
themselves change sign. Means of systems are few, and one video mostly moves their order by nothing:
there the videos are resampled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from capeval.stats.analytic import t_interval
from capeval.stats.design import Design
from capeval.stats.estimate import Estimate, common_to
from capeval.stats.groupings import Grouping, grouping_of
from capeval.stats.jackknife import without_each_video, without_two_videos
from capeval.stats.jackknife_error import jackknife_error
from capeval.stats.pair import Pair
from capeval.stats.resampling import FEWEST, too_few
from capeval.stats.sign_flips import TINY, sign_flip
from capeval.stats.statistic import PEARSON, Statistic, statistic_of, why_missing
from capeval.stats.system_differences import system_difference
from capeval.stats.values import UPPER, Floats, Interval, Mask, Missing, Value, as_pairs

_SLACK = 1e-9
_UNASKED = Missing("no interval was asked for")
_UNMOVED = Missing("no video moves the difference")
# Fisher's scale is infinite at 1.
_PERFECT = 1 - 1e-9


@dataclass(frozen=True, slots=True)
class MetricComparison:
    """The difference of two metrics, first − second.

    `p` is two-sided; `n` counts captions (or systems), `used` and `dropped` groups. `interval` is
    that of the difference over other videos.
    """

    difference: Value
    p: Value
    method: str
    n: int
    used: int
    dropped: int
    interval: Interval | Missing = _UNASKED

    @property
    def one_sided(self) -> Value:
        """p of the alternative that the first is better; of its opposite, it is 1 less this.

        All tests here are about both sides alike, so it is half of the two-sided p on the side that
        was observed.
        """
        if isinstance(self.p, Missing) or isinstance(self.difference, Missing):
            return self.p
        return self.p / 2 if self.difference >= 0 else 1 - self.p / 2


def compare(
    metrics: Sequence[Pair],
    statistics: Sequence[Statistic | str],
    by: Grouping | str,
    *,
    draws: int = 1_000,
    seed: int = 0,
    thresholds: Sequence[float] = (),
    step: Callable[[], None] = lambda: None,
    resamples: int = 0,
) -> dict[str, list[MetricComparison]]:
    """Test whether every two metrics agree with human ratings equally well.

    Both are taken on the groups where both have a value. Of the means of few systems, tau and rho
    take few values, and the test is conservative: with 5 it rejects equals less than 1% of the time
    at 5%.

    Parameters
    ----------
    metrics : of the same human scores and design
    draws : the least number of resamples for systems' means, and of random signs by `item`
    seed : of `numpy.random.default_rng`; every pair of metrics sees the same resamples
    thresholds : of each metric, for pairwise accuracy; taken as known. None without, and there is
        no comparison by `system`, whose means are on another scale
    step : called when a pair of metrics is done
    resamples : of videos, for differences between systems' means, if more than `draws`; none for
        no intervals

    Returns
    -------
    For each statistic's name the tests of the pairs, in the order of `itertools.combinations`.

    >>> rng = np.random.default_rng(0)
    >>> human, design = rng.random(60), Design.of(range(60))
    >>> scores = [human + rng.random(60) / 5, rng.random(60)]
    >>> found = compare([Pair.of(x, human, design) for x in scores], ["kendall_b"], "pooled")
    >>> found["kendall_b"][0].p < 0.001
    True
    """
    asked, grouping = [statistic_of(which) for which in statistics], grouping_of(by)
    ties = thresholds or [0.0] * len(metrics)
    result: dict[str, list[MetricComparison]] = {statistic.name: [] for statistic in asked}
    for a, b in combinations(range(len(metrics)), 2):
        two = (metrics[a], metrics[b])
        for statistic in asked:
            tied = (0.0, 0.0) if statistic.chance is not None else (ties[a], ties[b])
            result[statistic.name].append(
                _test(two, statistic, grouping, tied, draws, seed, resamples)
            )
        step()
    return result


def _method(grouping: Grouping) -> str:
    if grouping.means:
        return "bootstrap"
    return "permutation" if grouping.by_video else "jackknife"


def _test(
    metrics: tuple[Pair, Pair],
    statistic: Statistic,
    grouping: Grouping,
    thresholds: tuple[float, float],
    draws: int,
    seed: int,
    resamples: int,
) -> MetricComparison:
    method = _method(grouping)
    if any(thresholds) and grouping.means:
        missing = Missing("the means of systems have no threshold")
        return MetricComparison(missing, missing, method, 0, 0, 0)
    use = common_to(metrics, statistic, grouping)
    one, two = (
        pair.by(statistic, grouping, threshold=threshold, only=use)
        for pair, threshold in zip(metrics, thresholds, strict=True)
    )
    first, second = one.value, two.value
    if isinstance(first, Missing) or isinstance(second, Missing):
        lacking = second if isinstance(second, Missing) else first
        return MetricComparison(lacking, lacking, method, 0, 0, one.dropped)
    bounds: Interval | Missing
    if grouping.means:
        p, bounds = system_difference(
            metrics, statistic, first - second, max(draws, resamples), seed
        )
    elif grouping.by_video:
        # Swapping two metrics in a video swaps their values for that video.
        gaps = (one.values - two.values)[use]
        p = sign_flip(gaps, draws=draws, seed=seed).p
        bounds = _of_items(gaps, one.pair.design)
    else:
        p, bounds = _jackknife(one, two, first, second)
    shown = bounds if resamples else _UNASKED
    return MetricComparison(first - second, p, method, one.n, one.used, one.dropped, shown)


def _jackknife(
    one: Estimate, two: Estimate, first: float, second: float
) -> tuple[Value, Interval | Missing]:
    """Return p and the interval of the difference, from the values without one and two videos.

    Both are taken on Fisher's scale. The ends are brought back to that of the values with the
    middle of the two held, so that the interval includes 0 just where p is above .05.
    """
    from scipy.special import stdtr, stdtrit

    design, statistic = one.pair.design, one.statistic
    if design.videos < FEWEST:
        few = too_few(design.videos, design)
        return few, few
    each, both = [], []
    for estimate in (one, two):
        without = without_each_video(estimate)
        if isinstance(without, Missing):
            return without, without
        each.append(_fisher(without, statistic))
        without_two = without_two_videos(estimate)
        both += [] if without_two is None else [_fisher(without_two, statistic)]
    of_first, of_second = _fisher(np.array([first, second]), statistic)
    error, freedom = jackknife_error(
        of_first - of_second, each[0] - each[1], both[0] - both[1] if both else None
    )
    if error <= _SLACK:
        same = abs(first - second) <= _SLACK
        return (1.0 if same else _UNMOVED), _UNMOVED
    p = max(2 * float(stdtr(freedom, -abs(of_first - of_second) / error)), TINY)
    half = float(stdtrit(freedom, UPPER)) * error
    ends = of_first - of_second + np.array([-half, half])
    middle = (of_first + of_second) / 2
    low, high = (
        (np.tanh(middle + ends / 2) - np.tanh(middle - ends / 2)) * (1 - statistic.lowest) / 2
    )
    # Rounding, or a perfect value that Fisher's scale does not have.
    low, high = min(float(low), first - second), max(float(high), first - second)
    return p, Interval(low, high, "jackknife")


def _of_items(gaps: Floats, design: Design) -> Interval | Missing:
    """Return Student's interval of the mean difference within videos."""
    if len(gaps) < FEWEST:
        return too_few(len(gaps), design)
    if np.ptp(gaps) <= _SLACK:
        return _UNMOVED
    return t_interval(gaps, largest=2.0)


def _fisher(values: Floats, statistic: Statistic) -> Floats:
    """Return values on Fisher's scale, of shares as of correlations."""
    low = statistic.lowest
    return np.arctanh(np.clip((2 * values - 1 - low) / (1 - low), -_PERFECT, _PERFECT))


def williams(
    first: ArrayLike, second: ArrayLike, human: ArrayLike, design: Design
) -> MetricComparison:
    """Test whether two pooled Pearson's r with the same human scores differ (Williams, 1959).

    The t of Steiger (1980, equation 7) with n - 3 degrees of freedom. It takes captions as
    independent and normal, so there is none where a video repeats.

    Parameters
    ----------
    first, second, human : (n,), finite; n >= 4
    design : of the same n rows

    Raises
    ------
    ValueError
        The lengths differ or a value is not finite.

    >>> rng = np.random.default_rng(0)
    >>> human = rng.random(60)
    >>> good, poor = human + rng.random(60), rng.random(60)
    >>> williams(good, poor, human, Design.of(range(60))).p < 0.001
    True
    """
    (a, y), (b, _) = as_pairs(first, human), as_pairs(second, human)
    n = len(y)
    no_interval = Missing("Williams' test has no interval")

    def none(reason: str, difference: Value | None = None) -> MetricComparison:
        missing = Missing(reason)
        value = missing if difference is None else difference
        return MetricComparison(value, missing, "williams", n, 1, 0, no_interval)

    if design.repeats:
        return none("Williams' test needs captions of different videos")
    if n < 4:
        return none(f"{n} pairs; Williams' test needs 4")
    for values in (a, b):
        if np.ptp(values) == 0 or np.ptp(y) == 0:
            return none(why_missing(values, y, PEARSON))
    ay, by, ab = PEARSON.rows(np.stack([a, b, a]), np.stack([y, y, b]))
    difference = float(ay - by)
    left = 1 - ay**2 - by**2 - ab**2 + 2 * ay * by * ab
    spread = 2 * left * (n - 1) / (n - 3) + ((ay + by) / 2) ** 2 * (1 - ab) ** 3
    if ab >= 1 - 1e-12 or spread <= 0:
        return none("one metric is a linear function of the other", difference)
    from scipy.special import stdtr

    t = difference * np.sqrt((n - 1) * (1 + ab) / spread)
    p = max(2 * float(stdtr(n - 3, -abs(t))), TINY)
    return MetricComparison(difference, p, "williams", n, 1, 0, no_interval)


def leave_one_system_out(estimate: Estimate) -> list[Value]:
    """Return the value without each system in turn: one extreme system can make a correlation.

    >>> design = Design.of([0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2])
    >>> pair = Pair.of([1, 2, 9, 2, 1, 9], [2, 1, 9, 1, 2, 9], design)
    >>> leave_one_system_out(pair.by("kendall_b", "item"))
    [1.0, 1.0, -1.0]
    """
    pair = estimate.pair
    if pair.design.systems < 2:
        return [Missing("there is only one system")] * pair.design.systems
    rests = pair.kept("without each system", lambda: _without_each(pair))
    return [replace(estimate, pair=rest, only=None).value for rest in rests]


def _without_each(pair: Pair) -> list[Pair]:
    design = pair.design

    def make() -> list[tuple[Mask, Design]]:
        rests = [design.system != system for system in range(design.systems)]
        return [(rest, design.take(rest)) for rest in rests]

    # Every metric uses the same designs.
    return [
        Pair(pair.x[rest], pair.y[rest], left)
        for rest, left in design.kept("without each system", make)
    ]

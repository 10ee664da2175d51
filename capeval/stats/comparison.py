"""Is one metric closer to human ratings than another? Paired tests, corrected; rank clusters.

The paired permutation swaps the two metrics in whole videos (in the manner of Deutsch, Dror and
Roth, 2021), after putting them on one scale: on ranks for statistics of order, standardised for
Pearson's r (`swapping`). If the two are equally good, a video does not care which is which.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from capeval.stats.correlation import correlate_rows, why_missing
from capeval.stats.design import Design
from capeval.stats.grouping import Grouped, common_to, grouped
from capeval.stats.influence import jackknife_variance
from capeval.stats.jackknife import video_influence
from capeval.stats.pair import Pair
from capeval.stats.resampling import FEWEST, LARGEST, coins, too_few
from capeval.stats.significance import add_one, sign_flip
from capeval.stats.swapping import GroupSwap, SystemSwaps
from capeval.stats.values import Floats, Grouping, Mask, Missing, Statistic, Value, as_pairs

_CHUNK = 400_000
_SLACK = 1e-9
_FEWEST = 999
_CELLS = 20_000_000
_PRODUCTS = 3e10


@dataclass(frozen=True, slots=True)
class MetricComparison:
    """The difference of two metrics, first − second.

    `p` is two-sided; `n` counts captions (or systems), `used` and `dropped` groups.
    """

    difference: Value
    p: Value
    method: str
    n: int
    used: int
    dropped: int


def paired_permutation(
    first: ArrayLike,
    second: ArrayLike,
    human: ArrayLike,
    design: Design,
    statistic: Statistic,
    grouping: Grouping,
    *,
    draws: int = 1_000,
    seed: int = 0,
    thresholds: tuple[float, float] = (0.0, 0.0),
) -> MetricComparison:
    """Test whether two metrics agree with human ratings equally well.

    Both are taken on the groups where both have a value. Each permutation swaps the metrics in a
    random half of the videos, in all captions of a video at once; p is the share of permutations,
    with the observed one, whose difference is at least as large either way. Of the means of few
    systems, tau and rho take few values, and the test is conservative: with 4 it rejects equals 1%
    of the time at 5%, with 12 as it should.

    Parameters
    ----------
    first, second, human : (n,), finite
    design : of the same n rows
    draws : number of random swaps
    seed : of `numpy.random.default_rng`; every pair of metrics sees the same swaps
    thresholds : of the metrics, for acc_eq; other than 0 for grouping `item` alone, because
        a threshold has no meaning on another metric's scale

    Raises
    ------
    ValueError
        The lengths differ or a value is not finite.

    >>> rng = np.random.default_rng(0)
    >>> human = rng.random(60)
    >>> good, poor = human + rng.random(60) / 5, rng.random(60)
    >>> design = Design.of(range(60))
    >>> paired_permutation(good, poor, human, design, "kendall_b", "pooled", draws=999).p
    0.001
    """
    one, two = Pair.of(first, human, design), Pair.of(second, human, design)
    return compared(one, two, [statistic], grouping, draws=draws, seed=seed, thresholds=thresholds)[
        statistic
    ]


def compared(
    first: Pair,
    second: Pair,
    statistics: Sequence[Statistic],
    grouping: Grouping,
    *,
    draws: int = 1_000,
    seed: int = 0,
    thresholds: tuple[float, float] = (0.0, 0.0),
) -> dict[Statistic, MetricComparison]:
    """Return the same of several statistics, which share their work.

    >>> scores = [1, 2, 3, 4, 5, 6]
    >>> design = Design.of("aabbcc", "xyxyxy")
    >>> one, two = Pair.of(scores, scores, design), Pair.of(scores[::-1], scores, design)
    >>> found = compared(one, two, ["kendall_b", "spearman"], "pooled", draws=99)
    >>> {name: round(test.difference, 6) for name, test in found.items()}
    {'kendall_b': 2.0, 'spearman': 2.0}
    """
    tests = compare_all(
        [first, second], statistics, grouping, draws=draws, seed=seed, thresholds=thresholds
    )
    return {statistic: of[0] for statistic, of in tests.items()}


def compare_all(
    metrics: Sequence[Pair],
    statistics: Sequence[Statistic],
    grouping: Grouping,
    *,
    draws: int = 1_000,
    seed: int = 0,
    thresholds: Sequence[float] = (),
    step: Callable[[], None] = lambda: None,
) -> dict[Statistic, list[MetricComparison]]:
    """Compare every two metrics by several statistics; all tests share their swaps.

    Where fewer than 999 swaps are affordable, whatever `draws` asks for, the difference is tested
    against its standard error by the jackknife of videos instead, or there is no p and a reason.

    Parameters
    ----------
    metrics : of the same human scores and design
    thresholds : of each metric, for acc_eq; none without
    step : called when a pair of metrics is done

    Returns
    -------
    For each statistic the tests of the pairs, in the order of `itertools.combinations`.
    """
    ties = thresholds or [0.0] * len(metrics)
    result: dict[Statistic, list[MetricComparison]] = {statistic: [] for statistic in statistics}
    pairs = list(combinations(range(len(metrics)), 2))
    affordable = _affordable(metrics[0].design, grouping, len(pairs)) if pairs else 0
    many = min(draws, affordable) if affordable >= _FEWEST else 0
    systems = SystemSwaps(metrics, many, seed) if grouping == "system" and many else None
    for a, b in pairs:
        of_pair = _compared(
            (metrics[a], metrics[b]),
            statistics,
            grouping,
            (draws, many, seed),
            (ties[a], ties[b]),
            None if systems is None else partial(systems.differences, a, b),
        )
        for statistic, test in of_pair.items():
            result[statistic].append(test)
        step()
    return result


_Differences = Callable[[Sequence[Statistic]], dict[Statistic, Floats]]


def _compared(
    metrics: tuple[Pair, Pair],
    statistics: Sequence[Statistic],
    grouping: Grouping,
    times: tuple[int, int, int],
    thresholds: tuple[float, float],
    of_systems: _Differences | None,
) -> dict[Statistic, MetricComparison]:
    """Compare two metrics; `times` are the draws asked for, those of swaps, and the seed."""
    first, second = metrics
    draws, many, seed = times
    if any(thresholds) and grouping != "item":
        missing = Missing("a threshold cannot be swapped between metrics; compare by item")
        return dict.fromkeys(statistics, MetricComparison(missing, missing, "permutation", 0, 0, 0))
    result: dict[Statistic, MetricComparison] = {}
    seen: dict[Statistic, _Seen] = {}
    for statistic in statistics:
        tied = thresholds if statistic == "acc_eq" else (0.0, 0.0)
        found = _seen(first, second, statistic, grouping, tied)
        if isinstance(found, MetricComparison):
            result[statistic] = found
        elif grouping == "item":
            # Swapping two metrics in a video swaps their values for that video.
            p: Value = sign_flip(found.gaps[found.use], draws=draws, seed=seed)
            result[statistic] = found.result(p, "permutation")
        elif not many:
            result[statistic] = _jackknifed(first, second, statistic, grouping, found)
        else:
            seen[statistic] = found
    if seen:
        swapped = (
            of_systems(list(seen))
            if of_systems
            else _swapped(first, second, seen, grouping, many, seed)
        )
        for statistic, differences in swapped.items():
            observed = seen[statistic].difference
            # A swap without a value counts against a difference.
            extreme = ~(np.abs(differences) < abs(observed) - _SLACK)
            p = add_one(int(extreme.sum()), many)
            result[statistic] = seen[statistic].result(p, "permutation")
    return {statistic: result[statistic] for statistic in statistics}


@dataclass(frozen=True, slots=True)
class _Seen:
    """Two metrics as observed: `use` are the groups of both, `gaps` the differences in each."""

    difference: float
    gaps: Floats
    use: Mask
    n: int
    used: int
    dropped: int

    def result(self, p: Value, method: str) -> MetricComparison:
        return MetricComparison(self.difference, p, method, self.n, self.used, self.dropped)


def _seen(
    first: Pair,
    second: Pair,
    statistic: Statistic,
    grouping: Grouping,
    thresholds: tuple[float, float],
) -> _Seen | MetricComparison:
    use = common_to([first, second], statistic, grouping)
    one, two = (
        grouped(pair.x, pair.y, pair.design, statistic, grouping, threshold=t, only=use, pair=pair)
        for pair, t in ((first, thresholds[0]), (second, thresholds[1]))
    )
    if isinstance(one.value, Missing) or isinstance(two.value, Missing):
        missing = two.value if isinstance(two.value, Missing) else one.value
        return MetricComparison(missing, missing, "permutation", 0, 0, one.dropped)
    gaps = first.values(statistic, grouping, threshold=thresholds[0]) - second.values(
        statistic, grouping, threshold=thresholds[1]
    )
    return _Seen(one.value - two.value, gaps, use, one.n, one.used, one.dropped)


def _affordable(design: Design, grouping: Grouping, tests: int) -> int:
    """Return how many swaps can be tried for each of `tests` pairs of metrics."""
    if grouping == "system":
        return int(_CELLS // max(design.systems * tests, 1))
    sizes = np.bincount(design.groups(grouping)).astype(np.float64)
    if sizes.max() > LARGEST:
        return int(_CELLS // (design.rows * tests))
    work = np.minimum(sizes, design.videos) @ (sizes + 50)
    return int(_PRODUCTS // (work * tests))


def _swapped(
    first: Pair,
    second: Pair,
    seen: dict[Statistic, _Seen],
    grouping: Grouping,
    draws: int,
    seed: int,
) -> dict[Statistic, Floats]:
    """Return the differences in each draw, (draws,)."""
    design = first.design
    groups = [
        (int(number), GroupSwap(first.x[r], second.x[r], first.y[r], design.video[r]))
        for numbers, block in first.blocks(grouping)
        for number, r in zip(numbers, block, strict=True)
        if any(found.use[number] for found in seen.values())
    ]
    step = max(1, _CHUNK // design.rows)
    result = {statistic: np.zeros(draws) for statistic in seen}
    start = 0
    for chunk in coins(design.videos, draws, seed):
        for at in range(0, len(chunk), step):
            swapped = chunk[at : at + step]
            place = slice(start, start + len(swapped))
            start += len(swapped)
            for number, swap in groups:
                wanted = [one for one, found in seen.items() if found.use[number]]
                for one, values in swap.differences(swapped, wanted).items():
                    result[one][place] += values / seen[one].used
    return result


def _jackknifed(
    first: Pair, second: Pair, statistic: Statistic, grouping: Grouping, seen: _Seen
) -> MetricComparison:
    from scipy.special import stdtr

    videos = first.design.videos
    if grouping == "system":
        reason = f"{first.design.systems} systems are too many to swap metrics in"
        return seen.result(Missing(reason), "permutation")
    if videos < FEWEST:
        return seen.result(too_few(videos, first.design), "jackknife")
    moved = [video_influence(pair, statistic, grouping, only=seen.use) for pair in (first, second)]
    a, b = moved
    if isinstance(a, Missing):
        return seen.result(a, "jackknife")
    if isinstance(b, Missing):
        return seen.result(b, "jackknife")
    error = np.sqrt(jackknife_variance(a[1] - b[1]))
    if error <= _SLACK:
        same = abs(seen.difference) <= _SLACK
        return seen.result(1.0 if same else Missing("no video moves the difference"), "jackknife")
    p = 2 * float(stdtr(videos - 1, -abs(seen.difference) / error))
    return seen.result(max(p, float(np.finfo(float).tiny)), "jackknife")


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

    def none(reason: str, difference: Value | None = None) -> MetricComparison:
        missing = Missing(reason)
        return MetricComparison(
            missing if difference is None else difference, missing, "williams", n, 1, 0
        )

    if design.repeats:
        return none("Williams' test needs captions of different videos")
    if n < 4:
        return none(f"{n} pairs; Williams' test needs 4")
    for values in (a, b):
        if np.ptp(values) == 0 or np.ptp(y) == 0:
            return none(why_missing(values, y, "pearson"))
    ay, by, ab = correlate_rows(np.stack([a, b, a]), np.stack([y, y, b]), "pearson")
    difference = float(ay - by)
    left = 1 - ay**2 - by**2 - ab**2 + 2 * ay * by * ab
    spread = 2 * left * (n - 1) / (n - 3) + ((ay + by) / 2) ** 2 * (1 - ab) ** 3
    if ab >= 1 - 1e-12 or spread <= 0:
        return none("one metric is a linear function of the other", difference)
    from scipy.special import stdtr

    t = difference * np.sqrt((n - 1) * (1 + ab) / spread)
    p = max(2 * float(stdtr(n - 3, -abs(t))), float(np.finfo(float).tiny))
    return MetricComparison(difference, p, "williams", n, 1, 0)


def holm(p_values: Sequence[Value]) -> list[Value]:
    """Return p-values adjusted for their number (Holm, 1979); missing ones stay and do not count.

    >>> holm([0.01, 0.04, Missing("constant"), 0.03])
    [0.03, 0.06, Missing(reason='constant'), 0.06]
    """
    result = list(p_values)
    there = [(p, place) for place, p in enumerate(p_values) if not isinstance(p, Missing)]
    highest = 0.0
    for rank, (p, place) in enumerate(sorted(there)):
        highest = max(highest, min(1.0, p * (len(there) - rank)))
        result[place] = highest
    return result


def rank_clusters(
    values: Sequence[Value], p_values: Sequence[Sequence[Value]], *, alpha: float = 0.05
) -> list[int | None]:
    """Return the cluster of each metric, from 1 for the best; None for one without a value.

    From the best down, a metric opens a new cluster when it is worse than every member of the
    cluster above; a test that is missing is no proof of that.

    Parameters
    ----------
    values : (metrics,)
    p_values : (metrics, metrics), two-sided, adjusted; the diagonal is not read
    alpha : what p must not exceed

    >>> rank_clusters([0.5, 0.3, 0.45], [[1, 0.01, 0.2], [0.01, 1, 0.04], [0.2, 0.04, 1]])
    [1, 2, 1]
    """
    result: list[int | None] = [None] * len(values)
    there = [(-v, place) for place, v in enumerate(values) if not isinstance(v, Missing)]
    cluster, members = 1, list[int]()
    for _, place in sorted(there):
        tests = [p_values[place][other] for other in members]
        if members and all(not isinstance(p, Missing) and p <= alpha for p in tests):
            cluster, members = cluster + 1, []
        members.append(place)
        result[place] = cluster
    return result


def leave_one_system_out(
    metric: ArrayLike,
    human: ArrayLike,
    design: Design,
    statistic: Statistic,
    grouping: Grouping,
    *,
    threshold: float = 0.0,
    pair: Pair | None = None,
) -> list[Grouped]:
    """Return the statistic without each system in turn: one extreme system can make a correlation.

    >>> design = Design.of([0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2])
    >>> x, y = [1, 2, 9, 2, 1, 9], [2, 1, 9, 1, 2, 9]
    >>> [found.value for found in leave_one_system_out(x, y, design, "kendall_b", "item")]
    [1.0, 1.0, -1.0]
    """
    pair = Pair.of(metric, human, design) if pair is None else pair
    if design.systems < 2:
        return [Grouped(Missing("there is only one system"), 0, 0, 1)] * design.systems
    return [
        grouped(left.x, left.y, left.design, statistic, grouping, threshold=threshold, pair=left)
        for left in pair.kept("without each system", lambda: _without_each(pair))
    ]


def _without_each(pair: Pair) -> list[Pair]:
    design = pair.design
    rests = [design.system != system for system in range(design.systems)]
    return [Pair.of(pair.x[rest], pair.y[rest], design.take(rest)) for rest in rests]

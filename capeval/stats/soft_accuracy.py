"""Soft pairwise accuracy of systems (Thompson, Mathur, Deutsch and Khayrallah, WMT 2024).

For every two systems, how sure is the metric that one is better, and how sure are human raters?
Both are one-sided p of the same paired permutations over videos; the statistic is 1 less the mean
difference of these p. Pairwise accuracy only asks which of two systems is ahead, however little.

The statistic is not a function of the systems' means, so it has no `Statistic`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from capeval.stats.comparison import MetricComparison
from capeval.stats.pair import Pair
from capeval.stats.percentiles import percentiles
from capeval.stats.resampling import FEWEST, Counts, coins, same_draws, too_few
from capeval.stats.significance import EVERY_ORDER, PERMUTATIONS, permutation_p
from capeval.stats.system_differences import p_and_interval
from capeval.stats.values import Floats, Interval, Mask, Missing, PValue, Value

SOFT_ACCURACY = "soft_accuracy"
WORDS = "soft pairwise accuracy"

# As in the authors' program; p of a pair is then right to .016 and less.
_DRAWS = 1_000
# Videos times pairs of systems that fit into memory.
_CELLS = 20_000_000
# Cells of matrices of systems that are worked on at once.
_CHUNK = 1_000_000
# Resamples times pairs of systems that are worked on at once: 16 MB in each of a few arrays.
_BLOCK = 2_000_000
# Resamples or orders times pairs of systems that take about a minute.
_WORK = 1_000_000_000
_SLACK = 1e-9
UNASKED = Missing("no interval was asked for")


@dataclass(frozen=True)
class SoftAccuracy:
    """Soft pairwise accuracy.

    Attributes
    ----------
    value : between 0 and 1; a metric that ties all systems has .5 where human raters tie none
    p : two-sided, about the mean over all orders of the metric's systems
    interval : of the expected value with so many videos, by resamples of videos
    without : the value without each system, (systems,)
    """

    value: Value
    p: PValue | Missing
    interval: Interval | Missing
    without: tuple[Value, ...] = ()


def soft_accuracy(
    pair: Pair, *, seed: int = 0, draws: int = PERMUTATIONS, resamples: int = 0
) -> SoftAccuracy:
    """Return the soft pairwise accuracy of a metric.

    Two systems are compared on the videos that both have. Where permutations tie with what was
    observed, p of one order of two systems and of the other add up to more than 1: the value is
    the mean over both, and does not depend on the order of the systems.

    Parameters
    ----------
    pair : the scores of captions
    seed : of the permutations of videos, which the metric and the human scores share
    draws : random orders of the systems for p, if there are more than 6 systems
    resamples : of videos, for the interval; none for no interval

    >>> from capeval.stats.design import Design
    >>> x = np.array([3.0, 1, 4, 1, 5, 2, 6, 3, 5, 2, 7, 4])
    >>> pair = Pair.of(x, x * 2, Design.of("aabbccddeeff", "xyxyxyxyxyxy"))
    >>> soft_accuracy(pair).value, soft_accuracy(Pair(-x, pair.y, pair.design)).value < 0.1
    (1.0, True)
    """
    reason = _unusable(pair, max(draws, resamples))
    if reason is not None:
        return SoftAccuracy(reason, reason, reason)
    gaps = [_gaps(pair, side) for side in (pair.x, pair.y)]
    apart = _apart(pair)
    metric, human = (_matrix(_p_values(side, apart, seed), pair.design.systems) for side in gaps)
    value = _agreement(metric, human)
    if np.isnan(value):
        reason = Missing("no two systems have a video in common")
        return SoftAccuracy(reason, reason, reason)
    systems = np.arange(pair.design.systems)
    rests = [systems[systems != one] for one in systems]
    without = [_agreement(metric[np.ix_(rest, rest)], human[np.ix_(rest, rest)]) for rest in rests]
    return SoftAccuracy(
        value,
        _order_p(metric, human, value, seed, draws),
        _interval(pair, value, resamples, seed),
        tuple(Missing("too few systems") if np.isnan(one) else one for one in without),
    )


def compare_soft(
    first: Pair, second: Pair, *, seed: int = 0, draws: int = 1_000, resamples: int = 0
) -> MetricComparison:
    """Test whether two metrics have the same soft pairwise accuracy, by resamples of videos.

    Parameters
    ----------
    first, second : of the same human scores and design
    seed, draws : of the resamples
    resamples : for p and the interval, if more than `draws`; none for no interval
    """
    draws = max(draws, resamples)
    one, two = (
        _unusable(pair, draws) or soft_accuracy(pair, seed=seed, draws=1).value
        for pair in (first, second)
    )
    systems, design = first.design.systems, first.design

    def found(p: Value, bounds: Interval | Missing) -> MetricComparison:
        shown = bounds if resamples else UNASKED
        return MetricComparison(difference, p, "bootstrap", systems, 1, 0, shown)

    if isinstance(one, Missing):
        return MetricComparison(one, one, "bootstrap", 0, 0, 1, one)
    if isinstance(two, Missing):
        return MetricComparison(two, two, "bootstrap", 0, 0, 1, two)
    difference = one - two
    if design.videos < FEWEST:
        few = too_few(design.videos, design)
        return found(few, few)
    gaps = resampled_soft(first, draws, seed) - resampled_soft(second, draws, seed)
    return found(*p_and_interval(gaps[None], design.videos, difference))


def resampled_soft(pair: Pair, draws: int, seed: int) -> Floats:
    """Return soft pairwise accuracy in (draws,) resamples of videos; NaN where it has no value.

    p of two systems is the normal limit of the permutations there, as permuting anew in every
    resample would take hours.

    >>> from capeval.stats.design import Design
    >>> x = np.array([3.0, 1, 4, 1, 5, 2, 6, 3, 5, 2, 7, 4])
    >>> pair = Pair.of(x, x * 2, Design.of("aabbccddeeff", "xyxyxyxyxyxy"))
    >>> resampled_soft(pair, 3, 0).tolist()
    [1.0, 1.0, 1.0]
    """

    def make() -> Floats:
        there = _apart(pair).astype(np.float64)
        metric, human = _gaps(pair, pair.x), _gaps(pair, pair.y)
        return np.concatenate(
            [
                _limit_agreement(counts, metric, human, there)
                for counts in same_draws(pair.design.videos, draws, seed)
            ]
        )

    return pair.kept(("soft accuracy", draws, seed), make)


def _limit_agreement(counts: Counts, metric: Floats, human: Floats, there: Floats) -> Floats:
    """Return the values of (resamples, videos) counts, from (videos, pairs of systems) gaps."""
    total, common = np.zeros((2, len(counts)))
    for some in _blocks(len(counts), metric.shape[1]):
        both = counts @ there[:, some] > 0
        sides = [
            _limit(counts @ gaps, counts @ gaps**2) for gaps in (metric[:, some], human[:, some])
        ]
        total += np.where(both, _gap(*sides), 0.0).sum(axis=1)
        common += both.sum(axis=1)
    with np.errstate(invalid="ignore"):
        return np.asarray(1 - total / common)


def _blocks(rows: int, pairs: int) -> Iterator[slice]:
    """Yield slices of the pairs of systems: rows times pairs must fit into memory."""
    step = max(1, _BLOCK // rows)
    return (slice(start, start + step) for start in range(0, pairs, step))


def _interval(pair: Pair, value: float, draws: int, seed: int) -> Interval | Missing:
    if not draws:
        return UNASKED
    if pair.design.videos < FEWEST:
        return too_few(pair.design.videos, pair.design)
    values = resampled_soft(pair, draws, seed)
    return percentiles(values, units=pair.design.videos, around=value)


def _unusable(pair: Pair, draws: int) -> Missing | None:
    design = pair.design
    if design.systems < 2:
        return Missing("1 system; soft pairwise accuracy needs 2")
    for side, name in ((pair.x, "the metric is"), (pair.y, "the human scores are")):
        if np.ptp(side) == 0:
            return Missing(f"{name} constant")
    pairs = design.systems * (design.systems - 1) // 2
    if design.videos * pairs > _CELLS or max(draws, _DRAWS) * pairs > _WORK:
        return Missing(f"{design.systems} systems are too many to compare each with each")
    return None


def _cells(pair: Pair, values: Floats) -> Floats:
    """Return (videos, systems) scores; NaN where a system lacks a video."""
    cells = np.full((pair.design.videos, pair.design.systems), np.nan)
    cells[pair.design.video, pair.design.system] = values
    return cells


def _gaps(pair: Pair, values: Floats) -> Floats:
    """Return (videos, pairs of systems) differences, 0 where one of the two lacks the video."""
    cells = _cells(pair, values)
    first, second = np.triu_indices(cells.shape[1], 1)
    return np.nan_to_num(cells[:, first] - cells[:, second])


def _apart(pair: Pair) -> Mask:
    """Return whether both systems have the video: (videos, pairs of systems)."""
    there = ~np.isnan(_cells(pair, pair.x))
    first, second = np.triu_indices(there.shape[1], 1)
    return np.asarray(there[:, first] & there[:, second])


def _p_values(gaps: Floats, there: Mask, seed: int) -> Floats:
    """Return (2, pairs) one-sided p that the first, or the second, of two systems is better."""
    observed = gaps.sum(axis=0)
    slack = _SLACK * np.abs(gaps).sum(axis=0)
    counts = np.zeros((2, gaps.shape[1]))
    for kept in coins(len(gaps), _DRAWS, seed):
        # Turning the signs of the other videos gives twice what is kept, less the whole.
        for some in _blocks(len(kept), gaps.shape[1]):
            turned = 2 * (kept @ gaps[:, some]) - observed[some]
            counts[0, some] += (turned >= (observed - slack)[some]).sum(axis=0)
            counts[1, some] += (turned <= (observed + slack)[some]).sum(axis=0)
    counts[:, ~there.any(axis=0)] = np.nan
    return counts / _DRAWS


def _matrix(p: Floats, systems: int) -> Floats:
    """Return the (systems, systems) p that the row's system is better; NaN on the diagonal."""
    matrix = np.full((systems, systems), np.nan)
    first, second = np.triu_indices(systems, 1)
    matrix[first, second], matrix[second, first] = p
    return matrix


def _agreement(metric: Floats, human: Floats) -> float:
    gaps = np.abs(metric - human)
    return float(1 - gaps[~np.isnan(gaps)].mean()) if (~np.isnan(gaps)).any() else float("nan")


def _order_p(metric: Floats, human: Floats, observed: float, seed: int, draws: int) -> PValue:
    """Return p by giving the metric's systems other names, in every way for up to 6."""
    systems = len(metric)
    exact = systems <= EVERY_ORDER
    orders: NDArray[np.intp]
    if exact:
        orders = np.array(list(permutations(range(systems))))
    else:
        rng = np.random.default_rng(seed)
        orders = rng.permuted(np.tile(np.arange(systems), (draws, 1)), axis=1)
    step = max(1, _CHUNK // systems**2)
    parts = []
    for start in range(0, len(orders), step):
        some = orders[start : start + step]
        gaps = np.abs(metric[some[:, :, None], some[:, None, :]] - human)
        there = ~np.isnan(gaps)
        with np.errstate(invalid="ignore"):
            parts.append(1 - np.where(there, gaps, 0.0).sum(axis=(1, 2)) / there.sum(axis=(1, 2)))
    values = np.concatenate(parts)
    return permutation_p(observed, values[~np.isnan(values)], None, "of systems", exact=exact)


def _limit(sums: Floats, squares: Floats) -> Floats:
    """Return the normal limit of p for each pair; NaN where two systems do not differ at all."""
    from scipy.special import ndtr

    spread = np.sqrt(np.maximum(squares, 0.0))
    none = spread <= _SLACK
    return np.where(none, np.nan, ndtr(-sums / np.where(none, 1.0, spread)))


def _gap(metric: Floats, human: Floats) -> Floats:
    """Return how far p of metric and human are apart, as a mean over both orders of a pair.

    p of two systems that do not differ is 1 in both orders, so that it is .5 from any other.
    """
    same = np.isnan(metric) & np.isnan(human)
    gap = np.abs(metric - human)
    return np.asarray(np.where(same, 0.0, np.where(np.isnan(gap), 0.5, gap)))

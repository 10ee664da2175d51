"""p-values of a statistic: the probability of such a value by chance.

As in the intervals, systems are fixed and whole videos are sampled: where captions of one
video repeat, p inverts the bootstrap or the jackknife of its interval, or permutes or turns whole
videos. Only the p of the systems' means is of other systems. No p is ever 0: one that is counted
counts the observed arrangement as one more.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from capeval.stats.design import Design
from capeval.stats.estimate import Estimate
from capeval.stats.groupings import SYSTEM, Grouping
from capeval.stats.intervals import Kind
from capeval.stats.jackknife import jackknife_variance, video_influence
from capeval.stats.pair import Pair
from capeval.stats.percentiles import add_one, bootstrap_p
from capeval.stats.resampling import FEWEST, too_few
from capeval.stats.sign_flips import TINY, sign_flip
from capeval.stats.statistic import STATISTICS, Statistic
from capeval.stats.values import Floats, Ints, Missing, PValue
from capeval.stats.video_bootstrap import bootstrap_values, mean_of_groups, too_large

# Enough for p of .05 give or take .01.
PERMUTATIONS = 2_000
# The ends of an interval need a finer tail.
RESAMPLES = 10_000

# Captions times permutations that take about ten seconds, and how many are worked on at once.
_WORK, _CHUNK = 20_000_000, 1_000_000
# With fewer permutations, p would be too coarse.
_FEWEST = 199
_SLACK = 1e-12
# Up to so many systems, all 720 orders are gone through.
EVERY_ORDER = 6
_Orders = NDArray[np.int32]


def p_value(
    estimate: Estimate, *, ci: Kind | None = None, draws: int | None = None, seed: int = 0
) -> PValue | Missing:
    """Return the p-value of a statistic by a grouping.

    Where a video repeats, the systems are given and other videos might have been drawn:

    - `pooled`: the statistic is 0 over all videos. p is the largest share at which the interval,
      made of the very same resamples, still includes 0.
    - `item`: the human order of whole videos is reversed, each with even odds, which turns the sign
      of the video's correlation; in every way for up to 10 videos (exact), and by the normal limit
      above 20,000.
    - `within_system`: whole videos are permuted, the systems staying where they are. Where a system
      lacks the video whose turn it is, it takes the next one of the permutation's cycle, which
      leaves all orders of its own captions as likely as they are.

    Where no video repeats, captions are permuted (within each system for `within_system`). `system`
    alone is about other systems: their means are permuted, up to 6 in every way (exact). Where the
    interval is the jackknife's, or too many captions are there to permute, so is p.

    A statistic without a value of chance (acc_eq) is tested by permutation or reversal two-sided
    about its mean over all of them; else p is of tau-b: it is about chance where as many pairs are
    discordant as concordant.

    Parameters are those of `interval`; `draws` is 10,000 for the bootstrap and else 2,000 unless
    given, and changes no method.

    >>> x = np.arange(20.0)
    >>> pair = Pair.of(x, x, Design.of(range(20)))
    >>> p_value(pair.by("kendall_b", "pooled"), draws=999)
    PValue(p=0.001, method='permutation of captions')
    """
    pair, statistic, grouping = estimate.pair, estimate.statistic, estimate.grouping
    design = pair.design
    permuted = PERMUTATIONS if draws is None else draws
    use = estimate.use
    if not use.any():
        return estimate.nothing()
    if grouping.means:
        return _system_p(estimate, permuted, seed)
    values = estimate.values
    if grouping.by_video:
        if statistic.chance is None:
            # What a video has above the middle of its two orders is turned like a correlation.
            turned = replace(estimate, pair=Pair(pair.x, -pair.y, design))
            values = (values - turned.values) / 2
        return sign_flip(values[use & (values != 0)], draws=permuted, seed=seed)
    tested = estimate.of(statistic.tested)
    if grouping.repeats(design):
        if design.videos < FEWEST:
            return too_few(design.videos, design)
        if ci == "analytic" or too_large(design, grouping):
            return _analytic_p(tested)
        resamples = RESAMPLES if draws is None else draws
        found = bootstrap_values(tested, draws=resamples, seed=seed)
        if isinstance(found, Missing):
            return found
        least = bootstrap_p(np.ones(len(found)), design.videos)
        return PValue(bootstrap_p(found, design.videos), "bootstrap of videos", least)
    # Only the work decides: the number of resamples must not change the method.
    cells = design.videos * design.systems if design.repeats else 0
    affordable = _WORK // max(design.rows, cells // 10)
    if affordable < _FEWEST:
        return _analytic_p(tested)
    shuffled = _permuted(estimate, min(permuted, affordable), seed)
    if shuffled is None:
        return Missing("no two captions of a system can be permuted")
    what = "videos" if design.repeats else "captions"
    return permutation_p(float(values[use].mean()), shuffled, statistic.chance, f"of {what}")


def permutation_p(
    observed: float, values: Floats, chance: float | None, what: str, *, exact: bool = False
) -> PValue:
    """Return the two-sided p of permutations, about their mean where there is no value of chance.

    Parameters
    ----------
    values : (draws,); NaN marks a permutation without a value, which counts against the metric
    what : is permuted
    exact : whether these are all permutations, among them the observed one
    """
    fine = values[~np.isnan(values)]
    centre = chance
    if centre is None:
        centre = float(fine.mean() if exact else (fine.sum() + observed) / (len(fine) + 1))
    moved = np.abs(fine - centre)
    extreme = moved >= abs(observed - centre) - _SLACK
    if exact:
        least = float((moved >= moved.max() - _SLACK).mean())
        return PValue(float(extreme.mean()), f"exact permutation {what}", least)
    p = add_one(int(extreme.sum()) + len(values) - len(fine), len(values))
    return PValue(p, f"permutation {what}", add_one(0, len(values)))


def _permuted(estimate: Estimate, draws: int, seed: int) -> Floats | None:
    """Return the statistic in each permutation: (draws,); None where nothing can be permuted."""
    pair, statistic, grouping = estimate.pair, estimate.statistic, estimate.grouping
    kind, threshold = statistic.kind, estimate.threshold
    # Those that are functions of the same sums are taken together.
    family = [one for one in STATISTICS.values() if one.kind is kind and one != statistic]
    family = [statistic, *([] if threshold else family)]

    def make() -> dict[Statistic, Floats] | None:
        shuffles = pair.design.kept(
            ("shuffles", grouping, draws, seed),
            lambda: _shuffles(pair.design, grouping, draws, np.random.default_rng(seed)),
        )
        if shuffles is None:
            return None
        x, y = pair.codes() if kind.ordinal and not threshold else (pair.x, pair.y)
        sums = [
            kind.permuted(x[rows], y[rows], threshold, shuffles[number])
            for number, rows in estimate.groups.items()
        ]
        return {of: mean_of_groups(map(of.values, sums)) for of in family}

    key = ("permuted", kind, threshold, grouping, draws, seed, estimate.use.tobytes())
    together = pair.kept(key, make)
    if together is not None and statistic not in together:
        together = pair.kept((*key, statistic), make)
    return None if together is None else together[statistic]


def _orders(size: int, draws: int, rng: np.random.Generator) -> _Orders:
    every = np.tile(np.arange(size, dtype=np.int32), (draws, 1))
    return rng.permuted(every, axis=1, out=every)


def _shuffles(
    design: Design, grouping: Grouping, draws: int, rng: np.random.Generator
) -> list[_Orders] | None:
    """Return (draws, size) orders of the captions of each group, or None if there is none.

    Where videos repeat, whole ones are permuted: in a complete grid all groups share the orders.
    """
    group = grouping.groups(design)
    rows = [np.flatnonzero(group == number) for number in range(int(group.max()) + 1)]
    if all(len(one) < 2 for one in rows):
        return None
    if design.repeats:
        order = _orders(design.videos, draws, rng)
        return [_of_videos(order, design.video[one]) for one in rows]
    # In chunks, so that the first of more draws are the same.
    step = max(1, _CHUNK // design.rows)
    chunks = [min(step, draws - start) for start in range(0, draws, step)]
    parts = [[_orders(len(one), size, rng) for one in rows] for size in chunks]
    return [np.concatenate(of_group) for of_group in zip(*parts, strict=True)]


def _of_videos(order: _Orders, video: Ints) -> _Orders:
    """Return the orders of captions of some videos, one of each, from those of all videos."""
    if np.array_equal(video, np.arange(order.shape[1])):
        return order
    place = np.full(order.shape[1], -1, dtype=np.int32)
    place[video] = np.arange(len(video))
    at = order[:, video].ravel()
    # The permutation that one of all videos induces on some is as random as it is itself.
    left = np.flatnonzero(place[at] < 0)
    while len(left):
        at[left] = order[left // len(video), at[left]]
        left = left[place[at[left]] < 0]
    return place[at].reshape(-1, len(video))


def _system_p(estimate: Estimate, draws: int, seed: int) -> PValue | Missing:
    statistic = estimate.statistic
    a, b, _ = estimate.pair.sides(SYSTEM)
    observed = float(estimate.values[0])
    if len(a) <= EVERY_ORDER:
        orders = [np.array(list(permutations(range(len(a)))), dtype=np.int32)]
    else:
        affordable = _WORK // (4 * len(a))
        if affordable < _FEWEST:
            return Missing(f"{len(a)} systems are too many to permute")
        draws = min(draws, affordable)
        step = max(1, _CHUNK // len(a))
        rng = np.random.default_rng(seed)
        sizes = [min(step, draws - start) for start in range(0, draws, step)]
        orders = [_orders(len(a), size, rng) for size in sizes]
    sums = (statistic.kind.permuted(a, b, estimate.threshold, some) for some in orders)
    values = np.concatenate([statistic.values(some) for some in sums])
    exact = len(a) <= EVERY_ORDER
    return permutation_p(observed, values, statistic.chance, "of systems", exact=exact)


def _analytic_p(estimate: Estimate) -> PValue | Missing:
    """Return p from the standard error of the jackknife, on Fisher's scale as the interval is."""
    from scipy.special import stdtr

    design = estimate.pair.design
    if design.videos < FEWEST:
        return too_few(design.videos, design)
    found = video_influence(estimate)
    if isinstance(found, Missing):
        return found
    value, moved = found
    error = math.sqrt(jackknife_variance(moved))
    if abs(value) >= 1 - _SLACK:
        return Missing("a perfect correlation has no standard error")
    if error <= _SLACK:
        return Missing("no video moves the value")
    t = math.atanh(value) * (1 - value**2) / error
    return PValue(max(2 * float(stdtr(design.videos - 1, -abs(t))), TINY), "jackknife of videos")

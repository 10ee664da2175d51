"""p-values of a statistic: the probability of such a value by chance.

As in the intervals, systems are fixed and whole videos are sampled: where captions of one
video repeat, p inverts the bootstrap or the jackknife of its interval, or permutes or turns whole
videos. Only the p of the systems' means is of other systems. No p is ever 0: one that is counted
counts the observed arrangement as one more.
"""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from capeval.stats.design import Design, same_sized
from capeval.stats.intervals import Kind
from capeval.stats.jackknife import jackknife_variance, video_influence
from capeval.stats.pair import Pair
from capeval.stats.percentiles import add_one, bootstrap_p
from capeval.stats.resampling import FEWEST, too_few
from capeval.stats.sign_flips import TINY, sign_flip
from capeval.stats.statistic import STATISTICS, Statistic, statistic_of
from capeval.stats.values import Floats, Grouping, Mask, Missing, PValue
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
_Rows = NDArray[np.int32]


def p_value(
    metric: ArrayLike,
    human: ArrayLike,
    design: Design,
    which: Statistic | str,
    grouping: Grouping,
    *,
    ci: Kind | None = None,
    draws: int | None = None,
    seed: int = 0,
    threshold: float = 0.0,
    only: Mask | None = None,
    pair: Pair | None = None,
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

    Raises
    ------
    ValueError
        The lengths differ or a value is not finite.

    >>> x = np.arange(20.0)
    >>> p_value(x, x, Design.of(range(20)), "kendall_b", "pooled", draws=999)
    PValue(p=0.001, method='permutation of captions')
    """
    statistic = statistic_of(which)
    pair = Pair.of(metric, human, design) if pair is None else pair
    permuted = PERMUTATIONS if draws is None else draws
    use = pair.used(statistic, grouping, threshold=threshold, only=only)
    if not use.any():
        return pair.no_group(statistic, grouping)
    if grouping == "system":
        return _system_p(pair, statistic, permuted, threshold, seed)
    values = pair.values(statistic, grouping, threshold=threshold)
    if grouping == "item":
        if statistic.chance is None:
            # What a video has above the middle of its two orders is turned like a correlation.
            turned = Pair.of(pair.x, -pair.y, design).values(statistic, "item", threshold=threshold)
            values = (values - turned) / 2
        return sign_flip(values[use & (values != 0)], draws=permuted, seed=seed)
    if design.repeats and grouping == "pooled":
        if design.videos < FEWEST:
            return too_few(design.videos, design)
        if ci == "analytic" or too_large(design, grouping):
            return _analytic_p(pair, statistic.tested, grouping, only)
        resamples = RESAMPLES if draws is None else draws
        found = bootstrap_values(
            pair, statistic.tested, grouping, draws=resamples, seed=seed, only=only
        )
        if isinstance(found, Missing):
            return found
        least = bootstrap_p(np.ones(len(found)), design.videos)
        return PValue(bootstrap_p(found, design.videos), "bootstrap of videos", least)
    # Only the work decides: the number of resamples must not change the method.
    cells = design.videos * design.systems if design.repeats else 0
    affordable = _WORK // max(design.rows, cells // 10)
    if affordable < _FEWEST:
        return _analytic_p(pair, statistic.tested, grouping, only)
    shuffled = _permuted(pair, statistic, grouping, min(permuted, affordable), seed, threshold, use)
    if shuffled is None:
        return Missing("no two captions of a system can be permuted")
    p = _two_sided(float(values[use].mean()), shuffled, statistic)
    what = "videos" if design.repeats else "captions"
    return PValue(p, f"permutation of {what}", add_one(0, len(shuffled)))


def _two_sided(observed: float, values: Floats, statistic: Statistic) -> float:
    fine = values[~np.isnan(values)]
    centre = statistic.chance
    if centre is None:
        centre = float(fine.sum() + observed) / (len(fine) + 1)
    extreme = np.abs(fine - centre) >= abs(observed - centre) - _SLACK
    # A permutation without a value counts against the metric.
    return add_one(int(extreme.sum()) + len(values) - len(fine), len(values))


def _permuted(
    pair: Pair,
    statistic: Statistic,
    grouping: Grouping,
    draws: int,
    seed: int,
    threshold: float,
    use: Mask,
) -> Floats | None:
    """Return the statistic in each permutation: (draws,); None where nothing can be permuted."""
    kind = statistic.kind
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
        units = None if threshold else _units(pair, statistic, grouping, use)
        if units is not None:
            a, b = units
            products = [np.clip(a[rows] @ b, statistic.lowest, 1.0) for rows in shuffles]
            return {statistic: np.concatenate(products)}
        codes = kind.ordinal and not threshold
        x, y = pair.codes() if codes else (pair.x, pair.y)
        groups = pair.groups(grouping, use)
        parts: dict[Statistic, list[Floats]] = {one: [] for one in family}
        for rows in shuffles:
            sums = [kind.rows(x[rows[:, one]], y[one][None], threshold) for one in groups]
            for of, found in parts.items():
                found.append(mean_of_groups(map(of.values, sums)))
        return {of: np.concatenate(found) for of, found in parts.items()}

    key = ("permuted", kind, threshold, grouping, draws, seed, use.tobytes())
    together = pair.kept(key, make)
    if together is not None and statistic not in together:
        together = pair.kept((*key, statistic), make)
    return None if together is None else together[statistic]


def _units(
    pair: Pair, statistic: Statistic, grouping: Grouping, use: Mask
) -> tuple[Floats, Floats] | None:
    """Return scores of which the sum of products, permuted or not, is the mean over groups.

    Permutations leave the captions of a system together, and so their mean and spread. None where
    a group has no value: how many groups count then depends on the permutation.
    """
    if np.isnan(pair.values(statistic, grouping)).any():
        return None
    a, b = np.zeros(len(pair.x)), np.zeros(len(pair.x))
    for rows in pair.groups(grouping, use):
        sides = statistic.kind.units(pair.x[rows], pair.y[rows])
        if sides is None:
            return None
        a[rows], b[rows] = sides
    return a, b / np.count_nonzero(use)


def _orders(size: int, draws: int, rng: np.random.Generator) -> NDArray[np.intp]:
    return rng.permuted(np.tile(np.arange(size), (draws, 1)), axis=1)


def _shuffles(
    design: Design, grouping: Grouping, draws: int, rng: np.random.Generator
) -> list[_Rows] | None:
    """Return (chunk, n) rearrangements of the rows, `draws` in all, or None if there is none.

    Where videos repeat whole ones are permuted within systems; else captions, within groups.
    """
    step = max(1, _CHUNK // design.rows)
    chunks = [min(step, draws - start) for start in range(0, draws, step)]
    blocks = [one for _, rows in same_sized(design.groups(grouping)) for one in rows]
    if all(len(rows) < 2 for rows in blocks):
        return None
    if design.repeats:
        return [_video_shuffle(design, size, rng) for size in chunks]
    return [_block_shuffle(blocks, design.rows, size, rng) for size in chunks]


def _video_shuffle(design: Design, draws: int, rng: np.random.Generator) -> _Rows:
    cell = np.full((design.systems, design.videos), -1)
    cell[design.system, design.video] = np.arange(design.rows)
    result = np.empty((draws, design.rows), dtype=np.int32)
    order = _orders(design.videos, draws, rng)
    for row_of in cell:
        own = np.flatnonzero(row_of >= 0)
        at = order[:, own]
        # The permutation that one of all videos induces on some is as random as it is itself.
        gap = row_of[at] < 0
        while gap.any():
            at[gap] = order[np.nonzero(gap)[0], at[gap]]
            gap = row_of[at] < 0
        result[:, row_of[own]] = row_of[at]
    return result


def _block_shuffle(
    blocks: list[NDArray[np.intp]], rows: int, draws: int, rng: np.random.Generator
) -> _Rows:
    result = np.empty((draws, rows), dtype=np.int32)
    for block in blocks:
        result[:, block] = block[_orders(len(block), draws, rng)]
    return result


def _system_p(
    pair: Pair, statistic: Statistic, draws: int, threshold: float, seed: int
) -> PValue | Missing:
    a, b, _ = pair.sides("system")
    observed = float(pair.values(statistic, "system", threshold=threshold)[0])

    def values_of(orders: NDArray[np.intp]) -> Floats:
        return statistic.rows(a[orders], b[None], threshold=threshold)

    if len(a) <= EVERY_ORDER:
        values = values_of(np.array(list(permutations(range(len(a))))))
        centre = values.mean() if statistic.chance is None else statistic.chance
        moved = np.abs(values - centre)
        extreme = moved >= abs(observed - centre) - _SLACK
        least = float((moved >= moved.max() - _SLACK).mean())
        return PValue(float(extreme.mean()), "exact permutation of systems", least)
    affordable = _WORK // (4 * len(a))
    if affordable < _FEWEST:
        return Missing(f"{len(a)} systems are too many to permute")
    draws = min(draws, affordable)
    step = max(1, _CHUNK // len(a))
    rng = np.random.default_rng(seed)
    found = [
        values_of(_orders(len(a), min(step, draws - start), rng)) for start in range(0, draws, step)
    ]
    values = np.concatenate(found)
    p = _two_sided(observed, values, statistic)
    return PValue(p, "permutation of systems", add_one(0, len(values)))


def _analytic_p(
    pair: Pair, statistic: Statistic, grouping: Grouping, only: Mask | None
) -> PValue | Missing:
    """Return p from the standard error of the jackknife, on Fisher's scale as the interval is."""
    from scipy.special import stdtr

    design = pair.design
    if design.videos < FEWEST:
        return too_few(design.videos, design)
    found = video_influence(pair, statistic, grouping, only=only)
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

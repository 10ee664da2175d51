"""p-values of a statistic: the probability of such a value by chance.

As in the intervals, systems are fixed and whole videos are sampled: where captions of one
video repeat, p inverts the bootstrap or the jackknife of its interval, or permutes or turns whole
videos. Only the p of the systems' means is of other systems. No p is ever 0: one that is counted
counts the observed arrangement as one more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import permutations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from capeval.stats.correlation import correlate_rows, count_pairs, from_totals, why_missing
from capeval.stats.design import Design, same_sized
from capeval.stats.influence import jackknife_variance
from capeval.stats.intervals import Kind
from capeval.stats.jackknife import video_influence
from capeval.stats.pair import Pair, group_values
from capeval.stats.percentiles import bootstrap_p
from capeval.stats.ranks import average_ranks
from capeval.stats.resampling import FEWEST, coins, too_few
from capeval.stats.values import OF_PAIRS, Floats, Grouping, Mask, Missing, Statistic
from capeval.stats.video_bootstrap import bootstrap_values, too_large

PERMUTATIONS = 2_000
RESAMPLES = 10_000

_WORK = 20_000_000
_CHUNK = 1_000_000
_FEWEST = 199
_SLACK = 1e-12
_TINY = float(np.finfo(float).tiny)
_MANY = 20_000
_EXACT = 10
_VIDEOS = "permutation of videos"
_CAPTIONS = "permutation of captions"
_SYSTEMS = "permutation of systems"
_EVERY = "exact permutation of systems"
_FLIPS = "sign flips of videos"
_EVERY_FLIP = "exact sign flips of videos"
_NORMAL = "normal sign flips of videos"
_BOOTSTRAP = "bootstrap of videos"
_JACKKNIFE = "jackknife of videos"


@dataclass(frozen=True, slots=True)
class PValue:
    """A two-sided p-value.

    `method` is "bootstrap of videos" or "jackknife of videos", "permutation of captions", "of
    videos" or "of systems", or "sign flips of videos"; with "exact" before it where every
    arrangement was tried, with "normal" where there are too many videos to try any. `least` is the
    smallest p that it can give with so many videos, systems and resamples; None without a bound.
    """

    p: float
    method: str
    least: float | None = field(default=None, compare=False, repr=False)


def add_one(at_least: int, draws: int) -> float:
    """Return the p-value of `at_least` of `draws` resamples as extreme as what was observed.

    The observed arrangement is one of the possible ones (Phipson and Smyth, 2010).

    >>> add_one(0, 999)
    0.001
    """
    return (at_least + 1) / (draws + 1)


def sign_flip(values: Floats, *, draws: int, seed: int = 0) -> float:
    """Return the two-sided p of the mean of values, by flipping their signs at random.

    Above 20,000 values it is that of the normal limit.

    Parameters
    ----------
    values : (videos,), as likely to be of either sign if there is nothing to find

    >>> sign_flip(np.ones(20), draws=999)
    0.001
    """
    observed = abs(values.sum())
    if len(values) > _MANY:
        if not observed:
            return 1.0
        z = observed / math.sqrt(values @ values)
        return max(math.erfc(z / math.sqrt(2)), _TINY)
    slack = _SLACK * max(len(values), 1)
    extreme = 0
    for turned in coins(len(values), draws, seed):
        # The sum of the flipped is what stays less what turns: the whole less twice the latter.
        extreme += int((np.abs(values.sum() - 2 * (turned @ values)) >= observed - slack).sum())
    return add_one(extreme, draws)


def p_value(
    metric: ArrayLike,
    human: ArrayLike,
    design: Design,
    statistic: Statistic,
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

    acc_eq has no zero. By permutation or reversal it is two-sided about its mean over all of them;
    else p is of tau-b: it is about chance where as many pairs are discordant as concordant.

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
    pair = Pair.of(metric, human, design) if pair is None else pair
    permuted = PERMUTATIONS if draws is None else draws
    if grouping == "system":
        return _system_p(pair, statistic, permuted, threshold, seed)
    values = pair.values(statistic, grouping, threshold=threshold)
    use = ~np.isnan(values) if only is None else only & ~np.isnan(values)
    if not use.any():
        return Missing(
            why_missing(pair.x, pair.y, statistic)
            if grouping == "pooled"
            else "no group has a value"
        )
    if grouping == "item":
        return _item_p(pair, statistic, permuted, seed, threshold, use)
    if design.repeats and grouping == "pooled":
        if design.videos < FEWEST:
            return too_few(design.videos, design)
        tested: Statistic = "kendall_b" if statistic == "acc_eq" else statistic
        if ci == "analytic" or too_large(design, grouping):
            return _analytic_p(pair, tested, grouping, only)
        resamples = RESAMPLES if draws is None else draws
        found = bootstrap_values(
            pair.x,
            pair.y,
            design,
            tested,
            grouping,
            draws=resamples,
            seed=seed,
            only=only,
            pair=pair,
        )
        if isinstance(found, Missing):
            return found
        least = bootstrap_p(np.ones(len(found)), design.videos)
        return PValue(bootstrap_p(found, design.videos), _BOOTSTRAP, least)
    # Only the work decides: the number of resamples must not change the method.
    cells = design.videos * design.systems if design.repeats else 0
    affordable = _WORK // max(design.rows, cells // 10)
    if affordable < _FEWEST:
        tested = "kendall_b" if statistic == "acc_eq" else statistic
        return _analytic_p(pair, tested, grouping, only)
    shuffled = _permuted(pair, statistic, grouping, min(permuted, affordable), seed, threshold, use)
    if shuffled is None:
        return Missing("no two captions of a system can be permuted")
    p = _two_sided(float(values[use].mean()), shuffled, statistic)
    return PValue(p, _VIDEOS if design.repeats else _CAPTIONS, add_one(0, len(shuffled)))


def _item_p(
    pair: Pair, statistic: Statistic, draws: int, seed: int, threshold: float, use: Mask
) -> PValue:
    values = pair.values(statistic, "item", threshold=threshold)
    if statistic == "acc_eq":
        # What a video has above the middle of its two orders is turned like a correlation.
        turned = group_values(pair.x, -pair.y, pair.design.video, statistic, threshold=threshold)
        values = (values - turned) / 2
    moved = values[use & (values != 0)]
    if len(moved) > _MANY:
        return PValue(sign_flip(moved, draws=draws, seed=seed), _NORMAL)
    if len(moved) <= _EXACT:
        bits = np.arange(2 ** len(moved))[:, None] >> np.arange(len(moved)) & 1
        sums = (1 - 2 * bits) @ moved
        extreme = np.abs(sums) >= abs(moved.sum()) - _SLACK * max(len(moved), 1)
        # Turned all at once, they are as extreme again.
        return PValue(float(extreme.mean()), _EVERY_FLIP, min(1.0, 2.0 ** (1 - len(moved))))
    return PValue(sign_flip(moved, draws=draws, seed=seed), _FLIPS, add_one(0, draws))


def _two_sided(observed: float, values: Floats, statistic: Statistic) -> float:
    fine = values[~np.isnan(values)]
    centre = (fine.sum() + observed) / (len(fine) + 1) if statistic == "acc_eq" else 0.0
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

    def make() -> dict[Statistic, Floats] | None:
        shuffles = pair.design.kept(
            ("shuffles", grouping, draws, seed),
            lambda: _shuffles(pair.design, grouping, draws, np.random.default_rng(seed)),
        )
        if shuffles is None:
            return None
        if statistic in OF_PAIRS and not threshold:
            found = [_orders_of(pair, rows, grouping, use) for rows in shuffles]
            return {name: np.concatenate([one[name] for one in found]) for name in OF_PAIRS}
        units = None if threshold else _units(pair, statistic, grouping, use)
        if units is None:
            values = [_anew(pair, rows, statistic, grouping, threshold, use) for rows in shuffles]
        else:
            values = [np.clip(units[0][rows] @ units[1], -1.0, 1.0) for rows in shuffles]
        return {statistic: np.concatenate(values)}

    family = OF_PAIRS if statistic in OF_PAIRS and not threshold else (statistic, threshold)
    found = pair.kept(("permuted", family, grouping, draws, seed, use.tobytes()), make)
    return None if found is None else found[statistic]


def _groups(pair: Pair, grouping: Grouping, use: Mask) -> Iterator[NDArray[np.intp]]:
    """Yield the rows of each group that is used."""
    for numbers, block in pair.blocks(grouping):
        yield from block[use[numbers]]


def _units(
    pair: Pair, statistic: Statistic, grouping: Grouping, use: Mask
) -> tuple[Floats, Floats] | None:
    """Return scores of which the sum of products, permuted or not, is the mean r or rho.

    Permutations leave the captions of a system together, and so their mean and spread. None where
    a group has no value: how many groups count then depends on the permutation.
    """
    if np.isnan(pair.values(statistic, grouping)).any():
        return None
    a, b = np.zeros(len(pair.x)), np.zeros(len(pair.x))
    groups = np.count_nonzero(use)
    for one in _groups(pair, grouping, use):
        for side, given in ((a, pair.x[one]), (b, pair.y[one])):
            scores = average_ranks(given) if statistic == "spearman" else given
            scaled = scores / np.abs(scores).max()
            centred = scaled - scaled.mean()
            side[one] = centred / math.sqrt(centred @ centred)
    return a, b / groups


def _orders_of(
    pair: Pair, rows: NDArray[np.int32], grouping: Grouping, use: Mask
) -> dict[Statistic, Floats]:
    """Return tau-b, tau-c and acc_eq of (draws, n) rearrangements: (draws,) each."""
    a, b = pair.codes()
    draws = len(rows)
    sums = {name: np.zeros(draws) for name in OF_PAIRS}
    number = {name: np.zeros(draws) for name in OF_PAIRS}
    for one in _groups(pair, grouping, use):
        counted = count_pairs(a[rows[:, one]], b[one][None])
        for name in OF_PAIRS:
            found = from_totals(counted, len(one), name)
            there = ~np.isnan(found)
            sums[name] += np.where(there, found, 0.0)
            number[name] += there
    return {
        name: np.where(number[name] > 0, sums[name] / np.maximum(number[name], 1), np.nan)
        for name in OF_PAIRS
    }


def _anew(
    pair: Pair,
    rows: NDArray[np.int32],
    statistic: Statistic,
    grouping: Grouping,
    threshold: float,
    use: Mask,
) -> Floats:
    """Return a statistic of (draws, n) rearrangements, every one taken by itself: (draws,)."""
    sums, number = np.zeros(len(rows)), np.zeros(len(rows))
    for one in _groups(pair, grouping, use):
        found = correlate_rows(
            pair.x[rows[:, one]], pair.y[one][None], statistic, threshold=threshold
        )
        there = ~np.isnan(found)
        sums += np.where(there, found, 0.0)
        number += there
    return np.where(number > 0, sums / np.maximum(number, 1), np.nan)


def _orders(size: int, draws: int, rng: np.random.Generator) -> NDArray[np.intp]:
    return rng.permuted(np.tile(np.arange(size), (draws, 1)), axis=1)


def _shuffles(
    design: Design, grouping: Grouping, draws: int, rng: np.random.Generator
) -> list[NDArray[np.int32]] | None:
    """Return (chunk, n) rearrangements of the rows, `draws` in all, or None if there is none.

    Where videos repeat whole ones are permuted within systems; else captions, within groups.
    """
    step = max(1, _CHUNK // design.rows)
    chunks = [min(step, draws - start) for start in range(0, draws, step)]
    blocks = [one[:, None] for _, rows in same_sized(design.groups(grouping)) for one in rows]
    if all(len(rows) < 2 for rows in blocks):
        return None
    if design.repeats:
        return [_video_shuffle(design, size, rng) for size in chunks]
    return [_block_shuffle(blocks, design.rows, size, rng) for size in chunks]


def _video_shuffle(design: Design, draws: int, rng: np.random.Generator) -> NDArray[np.int32]:
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
) -> NDArray[np.int32]:
    result = np.empty((draws, rows), dtype=np.int32)
    for block in blocks:
        result[:, block] = block[_orders(len(block), draws, rng)]
    return result


def _system_p(
    pair: Pair, statistic: Statistic, draws: int, threshold: float, seed: int
) -> PValue | Missing:
    a, b, _ = pair.sides("system")
    observed = float(pair.values(statistic, "system", threshold=threshold)[0])
    if np.isnan(observed):
        return Missing(why_missing(a, b, statistic))
    rng = np.random.default_rng(seed)
    if len(a) <= 6:
        orders = np.array(list(permutations(range(len(a)))))
        values = correlate_rows(a[orders], b[None], statistic, threshold=threshold)
        centre = values.mean() if statistic == "acc_eq" else 0.0
        moved = np.abs(values - centre)
        extreme = moved >= abs(observed - centre) - _SLACK
        least = float((moved >= moved.max() - _SLACK).mean())
        return PValue(float(extreme.mean()), _EVERY, least)
    affordable = _WORK // (4 * len(a))
    if affordable < _FEWEST:
        return Missing(f"{len(a)} systems are too many to permute")
    draws = min(draws, affordable)
    step = max(1, _CHUNK // len(a))
    found = [
        correlate_rows(
            a[_orders(len(a), min(step, draws - start), rng)],
            b[None],
            statistic,
            threshold=threshold,
        )
        for start in range(0, draws, step)
    ]
    values = np.concatenate(found)
    return PValue(_two_sided(observed, values, statistic), _SYSTEMS, add_one(0, len(values)))


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
    return PValue(max(2 * float(stdtr(design.videos - 1, -abs(t))), _TINY), _JACKKNIFE)

"""p-values of a statistic: could a metric that knows nothing of the scores have got it?

Whole videos are permuted against the human scores and, where every system has every video, whole
systems too: videos and systems are what such a metric would be exchangeable over, and captions of
one video are not. By item the systems are given, as they are for its interval and its n, and each
video's human order is reversed or not. A p-value counts the observed arrangement as one more, so it
is never 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from capeval.stats.correlation import correlate_rows, count_pairs, from_totals, why_missing
from capeval.stats.design import Design, same_sized
from capeval.stats.intervals import bootstrap_values, jackknife_interval
from capeval.stats.pair import Pair, group_values
from capeval.stats.ranks import average_ranks
from capeval.stats.values import (
    OF_PAIRS,
    Floats,
    Grouping,
    Mask,
    Missing,
    Statistic,
)

__all__ = ["PValue", "add_one", "p_value", "sign_flip"]

_WORK = 20_000_000
_CHUNK = 1_000_000
_FEWEST = 199
_SLACK = 1e-12
_CONFIDENCE = 0.95
_MANY = 20_000
_NORMAL = "normal sign flips"


@dataclass(frozen=True, slots=True)
class PValue:
    """A two-sided p-value.

    `method` is "permutation" or "exact" (all of them), "sign flips", "exact sign flips" or "normal
    sign flips", "bootstrap" or "jackknife".
    """

    p: float
    method: str


def add_one(at_least: int, draws: int) -> float:
    """Return the p-value of `at_least` draws of `draws` as extreme as what was observed.

    The observed arrangement is one of the possible ones (Phipson and Smyth, 2010).

    >>> add_one(0, 999)
    0.001
    """
    return (at_least + 1) / (draws + 1)


def sign_flip(values: Floats, *, draws: int, rng: np.random.Generator) -> float:
    """Return the two-sided p of the mean of values, by flipping their signs at random.

    Parameters
    ----------
    values : (videos,), as likely to be of either sign if there is nothing to find

    >>> sign_flip(np.ones(20), draws=999, rng=np.random.default_rng(0))
    0.001
    """
    observed = abs(values.sum())
    slack = _SLACK * max(len(values), 1)
    extreme = 0
    step = max(1, _CHUNK // max(len(values), 1))
    for start in range(0, draws, step):
        size = (min(step, draws - start), len(values))
        # The sum of the flipped is what stays less what turns: the whole less twice the latter.
        turned = rng.integers(0, 2, size=size, dtype=np.int8) @ values
        extreme += int((np.abs(values.sum() - 2 * turned) >= observed - slack).sum())
    return add_one(extreme, draws)


def p_value(
    metric: ArrayLike,
    human: ArrayLike,
    design: Design,
    statistic: Statistic,
    grouping: Grouping,
    *,
    draws: int = 2_000,
    seed: int = 0,
    threshold: float = 0.0,
    only: Mask | None = None,
    pair: Pair | None = None,
) -> PValue | Missing:
    """Return the p-value against a metric that is unrelated to the human scores.

    - `item`: the human order of whole videos is reversed, each with even odds, which turns the sign
      of the video's correlation; in every way where there are few videos (exact), and by the normal
      limit above 20,000. It holds for these systems and other videos, as the interval and the n of
      `item` do: whether a metric tells other systems apart is for `system` to say.
    - Every system has every video: whole videos are permuted, and whole systems. With few systems
      that is strict: a metric that tells the systems apart and nothing else could have done so by
      luck, and p says so. Means of up to 6 systems are permuted in every way (exact).
    - No video repeats: captions are permuted (within each system for `within_system`).
    - Else: videos with the same number of captions are permuted, their captions in random order,
      which takes systems as alike; `within_system` takes the bootstrap of whole videos.
    - More than 100,000 captions, of which 20 million / n permutations are too few: the standard
      error of the jackknife.

    acc_eq, which has no zero, is two-sided about its mean over the permutations or reversals.

    Parameters are those of `interval`; `only` is for `item`.

    Raises
    ------
    ValueError
        The lengths differ or a value is not finite.

    >>> x = np.arange(20.0)
    >>> p_value(x, x, Design.of(range(20)), "kendall_b", "pooled", draws=999)
    PValue(p=0.001, method='permutation')
    """
    pair = Pair.of(metric, human, design) if pair is None else pair
    if grouping == "system":
        return _system_p(pair, statistic, draws, threshold, seed)
    values = pair.values(statistic, grouping, threshold=threshold)
    if np.isnan(values).all():
        return Missing(
            why_missing(pair.x, pair.y, statistic)
            if grouping == "pooled"
            else "no group has a value"
        )
    if grouping == "item":
        return _item_p(pair, statistic, draws, seed, threshold, only)
    affordable = min(draws, _WORK // design.rows)
    if affordable < _FEWEST:
        return _analytic_p(pair, statistic, grouping)
    if design.grid is None and design.repeats and grouping == "within_system":
        return _bootstrap_p(pair, statistic, grouping, draws, seed, threshold)
    found = _permuted(pair, statistic, grouping, affordable, seed, threshold)
    if found is None:
        return Missing("no two videos have the same number of captions to permute")
    return PValue(_two_sided(float(np.nanmean(values)), found, statistic), "permutation")


def _item_p(
    pair: Pair, statistic: Statistic, draws: int, seed: int, threshold: float, only: Mask | None
) -> PValue | Missing:
    values = pair.values(statistic, "item", threshold=threshold)
    use = ~np.isnan(values) if only is None else only & ~np.isnan(values)
    if not use.any():
        return Missing("no group has a value")
    if statistic == "acc_eq":
        # What a video has above the middle of its two orders is turned like a correlation.
        turned = group_values(pair.x, -pair.y, pair.design.video, statistic, threshold=threshold)
        values = (values - turned) / 2
    moved = values[use & (values != 0)]
    if len(moved) > _MANY:
        z = abs(moved.sum()) / math.sqrt(moved @ moved)
        return PValue(max(math.erfc(z / math.sqrt(2)), float(np.finfo(float).tiny)), _NORMAL)
    if 2 ** len(moved) <= draws:
        bits = np.arange(2 ** len(moved))[:, None] >> np.arange(len(moved)) & 1
        sums = (1 - 2 * bits) @ moved
        extreme = np.abs(sums) >= abs(moved.sum()) - _SLACK * max(len(moved), 1)
        return PValue(float(extreme.mean()), "exact sign flips")
    p = sign_flip(moved, draws=draws, rng=np.random.default_rng(seed))
    return PValue(p, "sign flips")


def _two_sided(observed: float, values: Floats, statistic: Statistic) -> float:
    fine = values[~np.isnan(values)]
    centre = (fine.sum() + observed) / (len(fine) + 1) if statistic == "acc_eq" else 0.0
    extreme = np.abs(fine - centre) >= abs(observed - centre) - _SLACK
    # A permutation without a value counts against the metric.
    return add_one(int(extreme.sum()) + len(values) - len(fine), len(values))


def _permuted(
    pair: Pair, statistic: Statistic, grouping: Grouping, draws: int, seed: int, threshold: float
) -> Floats | None:
    """Return the statistic in each permutation: (draws,); None where nothing can be permuted."""

    def make() -> dict[Statistic, Floats] | None:
        shuffles = _shuffles(pair.design, grouping, draws, np.random.default_rng(seed))
        if shuffles is None:
            return None
        if statistic in OF_PAIRS and not threshold:
            found = [_orders_of(pair, rows, grouping) for rows in shuffles]
            return {name: np.concatenate([one[name] for one in found]) for name in OF_PAIRS}
        units = None if threshold else _units(pair, statistic, grouping)
        if units is None:
            values = [_anew(pair, rows, statistic, grouping, threshold) for rows in shuffles]
        else:
            values = [np.clip(units[0][rows] @ units[1], -1.0, 1.0) for rows in shuffles]
        return {statistic: np.concatenate(values)}

    family = OF_PAIRS if statistic in OF_PAIRS and not threshold else (statistic, threshold)
    found = pair.kept(("permuted", family, grouping, draws, seed), make)
    return None if found is None else found[statistic]


def _units(pair: Pair, statistic: Statistic, grouping: Grouping) -> tuple[Floats, Floats] | None:
    """Return scores of which the sum of products, permuted or not, is the mean r or rho.

    Permutations leave the captions of a system together, and so their mean and spread. None where
    a group has no value: how many groups count then depends on the permutation.
    """
    if np.isnan(pair.values(statistic, grouping)).any():
        return None
    a, b = np.empty(len(pair.x)), np.empty(len(pair.x))
    blocks = pair.blocks(grouping)
    groups = sum(len(numbers) for numbers, _ in blocks)
    for _, rows in blocks:
        for one in rows:
            for side, given in ((a, pair.x[one]), (b, pair.y[one])):
                scores = average_ranks(given) if statistic == "spearman" else given
                scaled = scores / np.abs(scores).max()
                centred = scaled - scaled.mean()
                side[one] = centred / math.sqrt(centred @ centred)
    return a, b / groups


def _orders_of(pair: Pair, rows: NDArray[np.intp], grouping: Grouping) -> dict[Statistic, Floats]:
    """Return tau-b, tau-c and acc_eq of (draws, n) rearrangements: (draws,) each."""
    a, b = pair.codes()
    draws = len(rows)
    sums = {name: np.zeros(draws) for name in OF_PAIRS}
    number = {name: np.zeros(draws) for name in OF_PAIRS}
    for _, block in pair.blocks(grouping):
        for one in block:
            width = len(one)
            if width < 2:
                continue
            counted = count_pairs(a[rows[:, one]], b[one][None])
            for name in OF_PAIRS:
                found = from_totals(counted, width, name)
                there = ~np.isnan(found)
                sums[name] += np.where(there, found, 0.0)
                number[name] += there
    return {
        name: np.where(number[name] > 0, sums[name] / np.maximum(number[name], 1), np.nan)
        for name in OF_PAIRS
    }


def _anew(
    pair: Pair,
    rows: NDArray[np.intp],
    statistic: Statistic,
    grouping: Grouping,
    threshold: float,
) -> Floats:
    """Return a statistic of (draws, n) rearrangements, every one taken by itself: (draws,)."""
    sums, number = np.zeros(len(rows)), np.zeros(len(rows))
    for _, block in pair.blocks(grouping):
        for one in block:
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
) -> Iterator[NDArray[np.intp]] | None:
    """Return (chunk, n) rearrangements of the rows, `draws` in all, or None if there is none."""
    step = max(1, _CHUNK // design.rows)
    chunks = [min(step, draws - start) for start in range(0, draws, step)]
    grid = design.grid
    if grid is not None:
        return (_grid_shuffle(grid, size, rng) for size in chunks)
    if design.repeats:
        blocks = [rows for _, rows in same_sized(design.video)]
    else:
        strata = same_sized(design.groups(grouping))
        blocks = [one[:, None] for _, rows in strata for one in rows]
    if all(len(rows) < 2 for rows in blocks):
        return None
    return (_block_shuffle(blocks, design.rows, size, rng) for size in chunks)


def _grid_shuffle(grid: NDArray[np.intp], draws: int, rng: np.random.Generator) -> NDArray[np.intp]:
    videos, systems = (_orders(size, draws, rng) for size in grid.shape)
    result = np.empty((draws, grid.size), dtype=np.intp)
    result[:, grid] = grid[videos[:, :, None], systems[:, None, :]]
    return result


def _block_shuffle(
    blocks: list[NDArray[np.intp]], rows: int, draws: int, rng: np.random.Generator
) -> NDArray[np.intp]:
    result = np.empty((draws, rows), dtype=np.intp)
    for block in blocks:
        moved = block[_orders(len(block), draws, rng)]
        result[:, block] = rng.permuted(moved, axis=2) if block.shape[1] > 1 else moved
    return result


def _system_p(
    pair: Pair, statistic: Statistic, draws: int, threshold: float, seed: int
) -> PValue | Missing:
    a, b, _ = pair.sides("system")
    observed = float(pair.values(statistic, "system", threshold=threshold)[0])
    if np.isnan(observed):
        return Missing(why_missing(a, b, statistic))
    rng = np.random.default_rng(seed)
    exact = len(a) <= 6
    orders = np.array(list(permutations(range(len(a))))) if exact else _orders(len(a), draws, rng)
    values = correlate_rows(a[orders], b[None], statistic, threshold=threshold)
    if not exact:
        return PValue(_two_sided(observed, values, statistic), "permutation")
    centre = values.mean() if statistic == "acc_eq" else 0.0
    extreme = np.abs(values - centre) >= abs(observed - centre) - _SLACK
    return PValue(float(extreme.mean()), "exact")


def _bootstrap_p(
    pair: Pair, statistic: Statistic, grouping: Grouping, draws: int, seed: int, threshold: float
) -> PValue | Missing:
    if statistic == "acc_eq":
        return Missing("acc_eq has no zero to hold a bootstrap against")
    found = bootstrap_values(
        pair.x,
        pair.y,
        pair.design,
        statistic,
        grouping,
        draws=draws,
        seed=seed,
        threshold=threshold,
        pair=pair,
    )
    if isinstance(found, Missing):
        return found
    # A resample without a value counts against the metric.
    below, above = int((~(found > 0)).sum()), int((~(found < 0)).sum())
    return PValue(min(1.0, 2 * add_one(min(below, above), len(found))), "bootstrap")


def _analytic_p(pair: Pair, statistic: Statistic, grouping: Grouping) -> PValue | Missing:
    """Return p from the standard error of the jackknife."""
    from scipy.special import stdtr, stdtrit

    design = pair.design
    if statistic == "acc_eq":
        return Missing(f"{design.rows} captions are too many to permute")
    found = jackknife_interval(pair, statistic, grouping, confidence=_CONFIDENCE)
    if isinstance(found, Missing):
        return found
    # The interval is even on Fisher's scale, so its middle and width there give z back.
    low, high = math.atanh(found.low), math.atanh(found.high)
    if high <= low:
        return Missing("the values do not vary")
    free = design.videos - 1
    z = (low + high) / (high - low) * float(stdtrit(free, (1 + _CONFIDENCE) / 2))
    p = max(2 * float(stdtr(free, -abs(z))), float(np.finfo(float).tiny))
    return PValue(p, "jackknife")

"""p-values of a statistic: could a metric that knows nothing of the scores have got it?

Whole videos are permuted against the human scores and, where every system has every video, whole
systems too: videos and systems are what such a metric would be exchangeable over, and captions of
one video are not. A p-value counts the observed arrangement as one more, so it is never 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from capeval.stats.correlation import correlate_rows, why_missing
from capeval.stats.grouping import Design, group_means, group_values, same_sized
from capeval.stats.intervals import bootstrap_values, jackknife_interval
from capeval.stats.ranks import average_ranks
from capeval.stats.values import Floats, Grouping, Missing, Statistic, as_pairs

__all__ = ["PValue", "add_one", "p_value"]

_WORK = 20_000_000
_CHUNK = 1_000_000
_FEWEST = 199
_SLACK = 1e-12
_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class PValue:
    """A two-sided p-value; `method` is "permutation", "exact", "bootstrap", "jackknife" or "t"."""

    p: float
    method: str


def add_one(at_least: int, draws: int) -> float:
    """Return the p-value of `at_least` draws of `draws` as extreme as what was observed.

    The observed arrangement is one of the possible ones (Phipson and Smyth, 2010).

    >>> add_one(0, 999)
    0.001
    """
    return (at_least + 1) / (draws + 1)


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
) -> PValue | Missing:
    """Return the p-value against a metric that is unrelated to the human scores.

    - Every system has every video: whole videos are permuted, and whole systems. With few systems
      that is strict: a metric that tells the systems apart and nothing else could have done so by
      luck, and p says so. Means of up to 6 systems are permuted in every way (exact).
    - No video repeats: captions are permuted (within each system for `within_system`).
    - Else: videos with the same number of captions are permuted, their captions in random order,
      which takes systems as alike; `within_system` takes the bootstrap of whole videos.
    - More than 100,000 captions, of which 20 million / n permutations are too few: the standard
      error of the jackknife, or by item of the mean.

    acc_eq, which has no zero, is two-sided about its mean over the permutations.

    Parameters are those of `interval`.

    Raises
    ------
    ValueError
        The lengths differ or a value is not finite.

    >>> x = np.arange(20.0)
    >>> p_value(x, x, Design.of(range(20)), "kendall_b", "pooled", draws=999)
    PValue(p=0.001, method='permutation')
    """
    x, y = as_pairs(metric, human)
    if len(x) != design.rows:
        raise ValueError(f"{len(x)} scores but {design.rows} rows in the design")
    rng = np.random.default_rng(seed)
    if grouping == "system":
        return _system_p(x, y, design, statistic, draws, threshold, rng)
    group = design.groups(grouping)
    values = group_values(x, y, group, statistic, threshold=threshold)
    if np.isnan(values).all():
        return Missing(
            why_missing(x, y, statistic) if grouping == "pooled" else "no group has a value"
        )
    observed = float(np.nanmean(values))
    affordable = min(draws, _WORK // design.rows)
    if affordable < _FEWEST:
        return _analytic_p(x, y, design, statistic, grouping)
    if design.grid is None and design.repeats and grouping == "within_system":
        return _bootstrap_p(x, y, design, statistic, grouping, draws, seed, threshold)
    shuffles = _shuffles(design, grouping, affordable, rng)
    if shuffles is None:
        return Missing("no two videos have the same number of captions to permute")
    if statistic == "spearman" and grouping == "pooled":
        # Ranks are permuted like scores, and need no ranking anew.
        x, y, statistic = average_ranks(x), average_ranks(y), "pearson"
    found = [_permuted(x[rows], y, group, statistic, grouping, threshold) for rows in shuffles]
    return PValue(_two_sided(observed, np.concatenate(found), statistic), "permutation")


def _two_sided(observed: float, values: Floats, statistic: Statistic) -> float:
    fine = values[~np.isnan(values)]
    centre = (fine.sum() + observed) / (len(fine) + 1) if statistic == "acc_eq" else 0.0
    extreme = np.abs(fine - centre) >= abs(observed - centre) - _SLACK
    # A permutation without a value counts against the metric.
    return add_one(int(extreme.sum()) + len(values) - len(fine), len(values))


def _permuted(
    x: Floats,
    y: Floats,
    group: NDArray[np.int64],
    statistic: Statistic,
    grouping: Grouping,
    threshold: float,
) -> Floats:
    """Return the statistic of each row of (draws, n) metric scores: (draws,)."""
    if grouping == "pooled":
        return correlate_rows(x, y[None], statistic, threshold=threshold)
    sums, number = np.zeros(len(x)), np.zeros(len(x))
    for groups, rows in same_sized(group):
        flat = x[:, rows].reshape(-1, rows.shape[1])
        people = np.broadcast_to(y[rows], (len(x), *rows.shape)).reshape(flat.shape)
        found = correlate_rows(flat, people, statistic, threshold=threshold)
        found = found.reshape(len(x), len(groups))
        there = ~np.isnan(found)
        sums += np.where(there, found, 0.0).sum(axis=1)
        number += there.sum(axis=1)
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
    strata = design.system if grouping == "within_system" else design.video
    if not design.repeats and grouping == "pooled":
        strata = np.zeros(design.rows, dtype=np.int64)
    if not design.repeats:
        blocks = [rows[one][:, None] for _, rows in same_sized(strata) for one in range(len(rows))]
    else:
        blocks = [rows for _, rows in same_sized(strata)]
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
    x: Floats,
    y: Floats,
    design: Design,
    statistic: Statistic,
    draws: int,
    threshold: float,
    rng: np.random.Generator,
) -> PValue | Missing:
    a, b = group_means(x, design.system), group_means(y, design.system)
    observed = float(correlate_rows(a[None], b[None], statistic, threshold=threshold)[0])
    if np.isnan(observed):
        return Missing(why_missing(a, b, statistic))
    exact = len(a) <= 6
    orders = np.array(list(permutations(range(len(a))))) if exact else _orders(len(a), draws, rng)
    values = correlate_rows(a[orders], b[None], statistic, threshold=threshold)
    if not exact:
        return PValue(_two_sided(observed, values, statistic), "permutation")
    centre = values.mean() if statistic == "acc_eq" else 0.0
    extreme = np.abs(values - centre) >= abs(observed - centre) - _SLACK
    return PValue(float(extreme.mean()), "exact")


def _bootstrap_p(
    x: Floats,
    y: Floats,
    design: Design,
    statistic: Statistic,
    grouping: Grouping,
    draws: int,
    seed: int,
    threshold: float,
) -> PValue | Missing:
    if statistic == "acc_eq":
        return Missing("acc_eq has no zero to hold a bootstrap against")
    found = bootstrap_values(
        x, y, design, statistic, grouping, draws=draws, seed=seed, threshold=threshold
    )
    if isinstance(found, Missing):
        return found
    # A resample without a value counts against the metric.
    below, above = int((~(found > 0)).sum()), int((~(found < 0)).sum())
    return PValue(min(1.0, 2 * add_one(min(below, above), len(found))), "bootstrap")


def _analytic_p(
    x: Floats, y: Floats, design: Design, statistic: Statistic, grouping: Grouping
) -> PValue | Missing:
    """Return p from the standard error: Student's of the mean by item, else the jackknife's."""
    from scipy.special import stdtr, stdtrit

    if statistic == "acc_eq":
        return Missing(f"{design.rows} captions are too many to permute")
    if grouping == "item":
        values = group_values(x, y, design.video, statistic)
        values = values[~np.isnan(values)]
        free, method = len(values) - 1, "t"
        error = values.std(ddof=1) / math.sqrt(len(values)) if free > 0 else 0.0
        z = values.mean() / error if error > 0 else math.nan
    else:
        found = jackknife_interval(x, y, design, statistic, grouping, _CONFIDENCE, None)
        if isinstance(found, Missing):
            return found
        # The interval is even on Fisher's scale, so its middle and width there give z back.
        low, high = math.atanh(found.low), math.atanh(found.high)
        free, method = design.videos - 1, "jackknife"
        quantile = float(stdtrit(free, (1 + _CONFIDENCE) / 2))
        z = (low + high) / (high - low) * quantile if high > low else math.nan
    if math.isnan(z):
        return Missing("the values do not vary")
    return PValue(max(2 * float(stdtr(free, -abs(z))), float(np.finfo(float).tiny)), method)

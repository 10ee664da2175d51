"""Paired differences of two systems on the same units: sign flips of many columns, and power."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from capeval.stats.values import Floats, Missing, Value

_ALPHA = 0.05
"""The level of tests: a run or metric is worse if its adjusted p does not exceed it."""
# The usual target power (Cohen, 1988).
_POWER = 0.8
# Random patterns at a time.
_CHUNK = 500
# Sums in another order differ in the last bits.
_SLACK = 1e-12


def sign_flips(gaps: Floats, *, resamples: int = 10_000, seed: int = 0) -> Floats:
    """Return the two-sided p of the mean of every column of paired differences.

    If neither system is better, their values of a unit (video) are exchangeable. Where the nonzero
    rows of a column have no more sign patterns than there are resamples, p is the share of all
    patterns whose mean is at least as far from 0 (exact, Fisher, 1935); it includes the observed
    pattern. Elsewhere each random flip turns the sign of whole rows, and the observed one is added
    (Phipson and Smyth, 2010). So p is never 0. All columns share the flips.

    Parameters
    ----------
    gaps : (rows, columns); NaN marks a row that a column does not have
    resamples : number of random flips, and the limit of enumerated patterns
    seed : of `numpy.random.default_rng`

    Returns
    -------
    (columns,), NaN where a column has no row

    >>> sign_flips(np.stack([np.ones(20), np.zeros(20)], axis=1), resamples=999).tolist()
    [0.001, 1.0]
    >>> sign_flips(np.full((4, 1), 0.1)).tolist()
    [0.125]
    """
    there = ~np.isnan(gaps)
    filled = np.where(there, gaps, 0.0)
    # Sums in another order differ in the last bits, and a tie is as extreme as the observed.
    least = np.abs(filled.sum(axis=0)) - _SLACK * max(len(gaps), 1)
    moved = np.count_nonzero(filled, axis=0)
    # Of whole numbers, as 2**n of a thousand rows is not a float.
    few = moved < resamples.bit_length()
    p = np.full(gaps.shape[1], np.nan)
    for n in np.unique(moved[few]).tolist():
        of = few & (moved == n)
        p[of] = _exact(filled[:, of], least[of], n)
    if not few.all():
        p[~few] = _by_resamples(
            filled[:, ~few], least[~few], resamples, np.random.default_rng(seed)
        )
    return np.where(there.any(axis=0), p, np.nan)


def _exact(filled: Floats, least: Floats, n: int) -> Floats:
    """Return p over all sign patterns of columns with `n` nonzero rows each."""
    # Down the columns, so that each keeps its own rows.
    values = filled.T[filled.T != 0].reshape(filled.shape[1], n)
    # A pattern and its opposite are as far from 0: the first sign can stay.
    patterns = np.arange(2 ** max(n - 1, 0))[:, None]
    signs = 1.0 - 2.0 * (patterns >> np.arange(n) & 1)
    return np.asarray((np.abs(signs @ values.T) >= least).mean(axis=0))


def _by_resamples(
    filled: Floats, least: Floats, resamples: int, rng: np.random.Generator
) -> Floats:
    rows, columns = filled.shape
    whole = filled.sum(axis=0)
    extreme = np.zeros(columns, dtype=np.int64)
    for start in range(0, resamples, _CHUNK):
        size = (min(_CHUNK, resamples - start), rows)
        turned = rng.integers(0, 2, size=size, dtype=np.int8).astype(np.float64) @ filled
        extreme += (np.abs(whole - 2 * turned) >= least).sum(axis=0)
    return np.asarray((extreme + 1) / (resamples + 1))


def detectable_difference(sd: float, n: int) -> float:
    """Return the smallest true mean difference that `n` pairs show at 5% with a power of 80%.

    (z(1 - alpha/2) + z(power)) sd / sqrt(n), the normal approximation for a two-sided test of
    paired differences (Chow, Shao and Wang, 2008, section 3.1; for model evaluations Miller,
    2024, section 5).

    Parameters
    ----------
    sd : sample standard deviation of the paired differences; the result has its unit

    >>> round(detectable_difference(0.2, 1000), 4)
    0.0177
    """
    from scipy.special import ndtri

    return float(ndtri(1 - _ALPHA / 2) + ndtri(_POWER)) * sd / math.sqrt(n)


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


def rank_clusters(values: Sequence[Value], p_values: Sequence[Value]) -> list[int | None]:
    """Return the cluster of each metric, from 1 for the best; None for one without a value.

    From the best down, a metric opens a new cluster when it is worse than every member of the
    cluster above; a missing test does not prove that.

    Parameters
    ----------
    values : (metrics,)
    p_values : of every two metrics, two-sided, adjusted, in the order of `combinations`

    >>> rank_clusters([0.5, 0.3, 0.45], [0.01, 0.2, 0.04])
    [1, 2, 1]
    """
    result: list[int | None] = [None] * len(values)
    there = [(-v, place) for place, v in enumerate(values) if not isinstance(v, Missing)]
    of = dict(zip(combinations(range(len(values)), 2), p_values, strict=True))
    cluster, members = 1, list[int]()
    for _, place in sorted(there):
        tests = [of[min(place, other), max(place, other)] for other in members]
        if members and all(not isinstance(p, Missing) and p <= _ALPHA for p in tests):
            cluster, members = cluster + 1, []
        members.append(place)
        result[place] = cluster
    return result

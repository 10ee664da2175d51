"""Aggregate the ratings of several raters: of all raters, and of all but one."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from capeval.stats.values import Floats, steady

How = Literal["mean", "median"]


def _ratings(ratings: ArrayLike) -> Floats:
    values = np.asarray(ratings, dtype=np.float64)
    if values.ndim != 2 or np.isinf(values).any():
        raise ValueError("(raters, items) of finite numbers, NaN where there is none")
    return values


def combine(ratings: ArrayLike, how: How = "mean") -> Floats:
    """Return one score for each item: (items,), NaN where nobody rated it.

    Scores that are equal of the numbers as typed come out equal: those of several raters are
    rounded to 12 significant digits of the largest rating. Else the order in which floats are added
    would decide which of two equal captions is the better one.

    Parameters
    ----------
    ratings : (raters, items), NaN where a rater gave none

    Raises
    ------
    ValueError
        `ratings` has not two dimensions or holds an infinity.

    >>> combine([[0.1, 0.3], [0.2, 0.1], [0.3, 0.2]]).tolist()
    [0.2, 0.2]
    """
    values = _ratings(ratings)
    if len(values) == 1:
        return np.array(values[0])
    rated = ~np.isnan(values).all(axis=0)
    result = np.full(values.shape[1], np.nan)
    if how == "median":
        result[rated] = np.nanmedian(values[:, rated], axis=0)
    else:
        total, count = _sums(values)
        result[rated] = total[rated] / count[rated]
    return steady(result, _top(values))


def combine_others(ratings: ArrayLike, how: How = "mean") -> Floats:
    """Return for each rater the others' combined score: (raters, items), NaN where there is none.

    Parameters
    ----------
    ratings, how : as for `combine`

    Raises
    ------
    ValueError
        `ratings` has not two dimensions or holds an infinity.

    >>> combine_others([[1, 2], [3, 6], [5, float("nan")]]).tolist()
    [[4.0, 6.0], [3.0, 2.0], [2.0, 4.0]]
    """
    given = _ratings(ratings)
    return np.stack([combine(np.delete(given, n, axis=0), how) for n in range(len(given))])


def _sums(values: Floats) -> tuple[Floats, Floats]:
    """Return the sum and number of the ratings of each item."""
    there = ~np.isnan(values)
    return np.where(there, values, 0.0).sum(axis=0), there.sum(axis=0).astype(np.float64)


def _top(values: Floats) -> float:
    """Return the largest magnitude, relative to which rounding errors are judged."""
    there = values[~np.isnan(values)]
    return float(np.abs(there).max(initial=0.0))

"""Aggregate the ratings of several raters: of all raters, and of all but one."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from capeval.stats.values import Floats, Mask, steady

How = Literal["mean", "median", "zmean"]


def _ratings(ratings: ArrayLike) -> Floats:
    values = np.asarray(ratings, dtype=np.float64)
    if values.ndim != 2 or np.isinf(values).any():
        raise ValueError("(raters, items) of finite numbers, NaN where there is none")
    return values


def constant_raters(ratings: ArrayLike) -> Mask:
    """Return which raters gave one number to all that they rated: (raters,).

    >>> constant_raters([[3, 3, 3], [1, 2, float("nan")]]).tolist()
    [True, False]
    """
    values = _ratings(ratings)
    there = ~np.isnan(values)
    low = np.where(there, values, np.inf).min(axis=1, initial=np.inf)
    high = np.where(there, values, -np.inf).max(axis=1, initial=-np.inf)
    return np.asarray(low >= high)


def combine(ratings: ArrayLike, how: How = "mean") -> Floats:
    """Return one score for each item: (items,), NaN where nobody rated it.

    "zmean" standardises each rater's numbers by that rater's own mean and standard deviation
    (n - 1) first, as is done for direct assessment (Graham et al., 2013), so that a severe and a
    lenient rater can be averaged. A rater who always gave the same number says nothing then and
    is left out: see `constant_raters`.

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

    >>> combine([[1, 2, 3], [10, 20, 30]], "zmean").tolist()
    [-1.0, 0.0, 1.0]
    >>> combine([[0.1, 0.3], [0.2, 0.1], [0.3, 0.2]]).tolist()
    [0.2, 0.2]
    """
    values = _ratings(ratings)
    if how != "zmean" and len(values) == 1:
        return np.array(values[0])
    values = _standardised(values) if how == "zmean" else values
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


def _standardised(values: Floats) -> Floats:
    """Return each rater's numbers with mean 0 and deviation 1, without raters who have none."""
    values = values[~constant_raters(values)]
    there = ~np.isnan(values)
    count = there.sum(axis=1, keepdims=True)
    centred = values - np.where(there, values, 0.0).sum(axis=1, keepdims=True) / count
    # Scaled, lest squares of very small deviations vanish.
    centred /= np.where(there, np.abs(centred), 0.0).max(axis=1, keepdims=True, initial=0.0)
    squares = np.where(there, centred**2, 0.0).sum(axis=1, keepdims=True)
    return np.asarray(centred / np.sqrt(squares / (count - 1)))


def _sums(values: Floats) -> tuple[Floats, Floats]:
    """Return the sum and number of the ratings of each item."""
    there = ~np.isnan(values)
    return np.where(there, values, 0.0).sum(axis=0), there.sum(axis=0).astype(np.float64)


def _top(values: Floats) -> float:
    """Return the largest magnitude, relative to which rounding errors are judged."""
    there = values[~np.isnan(values)]
    return float(np.abs(there).max(initial=0.0))

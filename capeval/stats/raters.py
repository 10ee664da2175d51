"""Several people's ratings: made one, and the ceiling that they set for a metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from capeval.stats.correlation import correlate_arrays
from capeval.stats.values import Floats, Mask, Missing, Statistic, Value

__all__ = ["Ceiling", "combine", "constant_raters", "rater_ceiling"]

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

    Parameters
    ----------
    ratings : (raters, items), NaN where a rater gave none

    Raises
    ------
    ValueError
        `ratings` has not two dimensions or holds an infinity.

    >>> combine([[1, 2, 3], [10, 20, 30]], "zmean").tolist()
    [-1.0, 0.0, 1.0]
    """
    values = _ratings(ratings)
    if how == "zmean":
        values = values[~constant_raters(values)]
        there = ~np.isnan(values)
        count = there.sum(axis=1, keepdims=True)
        centred = values - np.where(there, values, 0.0).sum(axis=1, keepdims=True) / count
        squares = np.where(there, centred**2, 0.0).sum(axis=1, keepdims=True)
        values = centred / np.sqrt(squares / (count - 1))
    there = ~np.isnan(values)
    result = np.full(values.shape[1], np.nan)
    rated = there.any(axis=0)
    if how == "median":
        result[rated] = np.nanmedian(values[:, rated], axis=0)
    else:
        result[rated] = np.where(there, values, 0.0).sum(axis=0)[rated] / there.sum(axis=0)[rated]
    return result


@dataclass(frozen=True, slots=True)
class Ceiling:
    """How well people agree with one another, by the statistic that metrics are held to.

    `value` is the mean over the raters that have one; `each` holds every rater's.
    """

    value: Value
    each: tuple[Value, ...]


def rater_ceiling(ratings: ArrayLike, statistic: Statistic, *, how: How = "mean") -> Ceiling:
    """Return each rater's agreement with all the others, and its mean.

    Each rater is left out in turn and held against the others' combined score on the items that
    both have, as a metric is held against people.

    Parameters
    ----------
    ratings : (raters, items), NaN where a rater gave none
    how : as for `combine`

    Raises
    ------
    ValueError
        `ratings` has not two dimensions or holds an infinity.

    >>> rater_ceiling([[1, 2, 3, 4], [2, 4, 6, 8], [1, 2, 3, 9]], "kendall_b").value
    1.0
    """
    values = _ratings(ratings)
    if len(values) < 2:
        return Ceiling(Missing("one rater alone sets no ceiling"), ())
    each: list[Value] = []
    for rater, own in enumerate(values):
        others = combine(np.delete(values, rater, axis=0), how)
        both = ~np.isnan(own) & ~np.isnan(others)
        found = correlate_arrays(own[both], others[both], statistic)
        if isinstance(found, Missing):
            found = Missing(found.reason.replace("the metric", "the rater"))
        each.append(found)
    numbers = [value for value in each if not isinstance(value, Missing)]
    mean: Value = (
        sum(numbers) / len(numbers)
        if numbers
        else Missing("no rater agrees or differs with others")
    )
    return Ceiling(mean, tuple(each))

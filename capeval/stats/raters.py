"""Aggregate the ratings of several raters: of all raters, and of all but one."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from capeval.stats.values import Floats, steady

How = Literal["mean", "median"]


def combine(ratings: ArrayLike, how: How = "mean") -> Floats:
    """Return one score for each item: (items,), NaN where nobody rated it.

    Scores that are equal of the numbers as typed come out equal: those of several raters are
    rounded to 12 significant digits of the largest rating. Else the order in which floats are added
    would decide which of two equal captions is the better one.

    Parameters
    ----------
    ratings : (raters, items) of finite numbers, NaN where a rater gave none

    >>> combine([[0.1, 0.3], [0.2, 0.1], [0.3, 0.2]]).tolist()
    [0.2, 0.2]
    """
    values = np.asarray(ratings, dtype=np.float64)
    if len(values) == 1:
        return np.array(values[0])
    rated = ~np.isnan(values).all(axis=0)
    result = np.full(values.shape[1], np.nan)
    if how == "median":
        result[rated] = np.nanmedian(values[:, rated], axis=0)
    else:
        count = (~np.isnan(values)).sum(axis=0)
        result[rated] = np.nansum(values, axis=0)[rated] / count[rated]
    return steady(result, float(np.nanmax(np.abs(values), initial=0.0)))


def combine_others(ratings: Floats, how: How = "mean") -> Floats:
    """Return for each rater the others' combined score: (raters, items), as `combine` does.

    >>> combine_others(np.array([[1, 2], [3, 6], [5, float("nan")]])).tolist()
    [[4.0, 6.0], [3.0, 2.0], [2.0, 4.0]]
    """
    return np.stack([combine(np.delete(ratings, n, axis=0), how) for n in range(len(ratings))])

"""Ratings of several raters combined, and how well raters or two sets of labels agree.

Labels of one video resemble each other, so the jackknife omits whole videos.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from capeval.stats.values import Coefficient, Floats, Ints, jackknife, steady

How = Literal["mean", "median"]


def combine(ratings: ArrayLike, how: How = "mean") -> Floats:
    """Return one score for each item: (items,), NaN where nobody rated it.

    Ratings that are equal as typed give equal scores: the scores of several raters are rounded to
    12 significant digits of the largest rating. Otherwise, the order in which floats are added
    would decide which of two equal captions is better.

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


Level = Literal["nominal", "ordinal", "interval"]


def confusion_by_video(
    truth: Sequence[Hashable], given: Sequence[Hashable], labels: Sequence[Hashable], video: Ints
) -> Floats:
    """Return a confusion matrix for each video: (videos, labels, labels), rows are `truth`.

    Parameters
    ----------
    truth, given : (n,) labels
    labels : all possible labels
    video : (n,), integers from 0

    >>> confusion_by_video("ab", "aa", "ab", np.array([0, 1])).tolist()
    [[[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [1.0, 0.0]]]
    """
    place = {label: number for number, label in enumerate(labels)}
    counts = np.zeros((int(video.max(initial=-1)) + 1, len(labels), len(labels)))
    rows, columns = (np.array([place[label] for label in side], int) for side in (truth, given))
    np.add.at(counts, (video, rows, columns), 1)
    return counts


def class_scores(matrix: ArrayLike) -> Floats:
    """Return precision, recall and F1 of every class: (3, labels), NaN where there is none.

    Parameters
    ----------
    matrix : (labels, labels) counts, rows the truth

    >>> class_scores([[3, 1], [0, 2]])[1].tolist()
    [0.75, 1.0]
    """
    counts = np.asarray(matrix, dtype=np.float64)
    hit, true, given = np.diag(counts), counts.sum(axis=1), counts.sum(axis=0)
    with np.errstate(invalid="ignore"):
        return np.array([hit / given, hit / true, 2 * hit / (true + given)])


def cohen_kappa(matrices: Floats) -> Coefficient:
    """Return Cohen's kappa (1960) of two sets of labels: agreement beyond chance.

    Parameters
    ----------
    matrices : (videos, labels, labels), as of `confusion_by_video`

    >>> matrices = np.array([[[3.0, 1], [0, 2]], [[1, 0], [1, 3]], [[2, 0], [0, 2]]] * 2)
    >>> kappa = cohen_kappa(matrices)
    >>> round(kappa.value, 3), round(kappa.low, 3), round(kappa.high, 3)
    (0.732, 0.5, 0.857)
    """
    total = matrices.sum(axis=0)
    if not total.any():
        return Coefficient(None, reason="there are no labels")
    return _coefficient(_kappa(total), _kappa(total - matrices), "both sides give one class only")


def _kappa(counts: NDArray[Any]) -> Floats:
    total = counts.sum(axis=(-2, -1))
    with np.errstate(invalid="ignore", divide="ignore"):
        agreed = np.trace(counts, axis1=-2, axis2=-1) / total
        chance = (counts.sum(axis=-1) * counts.sum(axis=-2)).sum(axis=-1) / total**2
        return np.where(chance < 1, (agreed - chance) / (1 - chance), np.nan)


def krippendorff_alpha(ratings: ArrayLike, video: Ints, level: Level = "nominal") -> Coefficient:
    """Return Krippendorff's alpha (2011) of any number of raters, with gaps.

    It is 1 for full agreement and 0 for chance. A unit with one rating or none is left out.

    Parameters
    ----------
    ratings : (raters, units), NaN where a rater gave none; for nominal, codes of the labels
    video : (units,), the video of each unit: integers from 0
    level : "interval" for numbers on a scale, "ordinal" for ranks, "nominal" for labels

    >>> gap = float("nan")
    >>> krippendorff_alpha([[1, 2, 3, gap], [1, 2, 3, 4]], np.arange(4), "interval").value
    1.0
    """
    values = np.asarray(ratings, dtype=np.float64)
    paired = (~np.isnan(values)).sum(axis=0) >= 2
    if not paired.any():
        return Coefficient(None, reason="no unit has two ratings")
    values = values[:, paired]
    if level == "ordinal":
        # The distance of two values is that of their ranks; ties share the middle one.
        there = ~np.isnan(values)
        _, at, counts = np.unique(values[there], return_inverse=True, return_counts=True)
        values[there] = (np.cumsum(counts) - counts / 2)[at]
    sums = _alpha_sums(values, level)
    names, units = np.unique(video[paired], return_inverse=True)
    by_video = np.zeros((len(names), len(sums)))
    np.add.at(by_video, units, sums.T)
    total = by_video.sum(axis=0)
    return _coefficient(_alpha(total), _alpha(total - by_video), "all ratings are equal")


def _alpha_sums(values: Floats, level: Level) -> Floats:
    """Return the (sums, units) that alpha is computed from.

    They are the number of ratings, the observed disagreement, and the sums of squares and of
    values. A label is a vector of 0 and 1: half the squared distance of two is whether they differ.
    """
    there = ~np.isnan(values)
    if level == "nominal":
        vectors = np.array([values == label for label in np.unique(values[there])], dtype=float)
    else:
        # Centred, so that squares of large numbers do not cancel.
        vectors = np.where(there, values - values[there].mean(), 0.0)[None]
    size, totals = there.sum(axis=0), vectors.sum(axis=1)
    squares = (vectors**2).sum(axis=(0, 1))
    observed = (size * squares - (totals**2).sum(axis=0)) / (size - 1)
    return np.vstack([size, observed, squares, totals])


def _alpha(sums: Floats) -> Floats:
    """Return alpha of (..., sums), NaN where all ratings are equal."""
    total, observed, squares = np.moveaxis(sums[..., :3], -1, 0)
    expected = total * squares - (sums[..., 3:] ** 2).sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = 1 - (total - 1) * observed / expected
    # Equal numbers leave a rounding error in place of 0.
    return np.where(expected > 1e-12 * total * squares, found, np.nan)


def _coefficient(value: Floats, left_out: Floats, why_missing: str) -> Coefficient:
    if np.isnan(value):
        return Coefficient(None, reason=why_missing)
    return Coefficient.of(float(value), jackknife(float(value), left_out))

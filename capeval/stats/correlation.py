"""Kendall's tau-b and tau-c, Spearman's rho and Pearson's r, of one pair of arrays or of many.

Definitions are scipy's (`kendalltau`, `spearmanr`, `pearsonr`). What has no value, because an input
is constant or too short, is a `Missing` with its reason.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from capeval.stats.concordance import Totals, agreeing_pairs, joined_totals, totals
from capeval.stats.ranks import average_ranks, dense_codes
from capeval.stats.values import SMALLEST, Floats, Ints, Missing, Statistic, Value, as_pairs, known

_WIDE = 24
_CHUNK = 4_000_000


def kendall_tau_b(x: ArrayLike, y: ArrayLike) -> Value:
    """Return Kendall's tau-b (Kendall, 1945), between -1 and 1.

    Parameters
    ----------
    x, y : (n,), finite; n >= 2

    Returns
    -------
    The coefficient, or `Missing` where one side is constant or n < 2.

    Raises
    ------
    ValueError
        The arrays differ in length or hold a value that is not finite.

    >>> kendall_tau_b([1, 2, 3], [3, 2, 1])
    -1.0
    >>> kendall_tau_b([1, 1], [1, 2])
    Missing(reason='the metric is constant')
    """
    return correlate_arrays(x, y, "kendall_b")


def kendall_tau_c(x: ArrayLike, y: ArrayLike) -> Value:
    """Return Stuart's tau-c (Stuart, 1953), for tables that are not square.

    Parameters, results and errors are those of `kendall_tau_b`.

    >>> kendall_tau_c([1, 1, 2, 2], [1, 2, 3, 4])
    1.0
    """
    return correlate_arrays(x, y, "kendall_c")


def spearman(x: ArrayLike, y: ArrayLike) -> Value:
    """Return Spearman's rho (1904): Pearson's r of the average ranks; n >= 3.

    Parameters, results and errors are else those of `kendall_tau_b`.

    >>> spearman([1, 2, 3], [1, 4, 9])
    1.0
    """
    return correlate_arrays(x, y, "spearman")


def pearson(x: ArrayLike, y: ArrayLike) -> Value:
    """Return Pearson's r (1895); n >= 3.

    Parameters, results and errors are else those of `kendall_tau_b`.

    >>> pearson([1, 2, 3], [2, 4, 6])
    1.0
    """
    return correlate_arrays(x, y, "pearson")


def correlate_arrays(
    metric: ArrayLike, human: ArrayLike, statistic: Statistic, *, threshold: float = 0.0
) -> Value:
    """Return a statistic by name.

    Parameters
    ----------
    metric, human : (n,), finite
    statistic : of `STATISTICS`
    threshold : for acc_eq, the largest difference of the metric that is a tie

    Raises
    ------
    ValueError
        The arrays differ in length or hold a value that is not finite.

    >>> correlate_arrays([1, 2, 3], [3, 2, 1], "spearman")
    -1.0
    """
    x, y = as_pairs(metric, human)
    if len(x) < SMALLEST[statistic]:
        return Missing(why_missing(x, y, statistic))
    value = correlate_rows(x[None], y[None], statistic, threshold=threshold)[0]
    return known(float(value), why_missing(x, y, statistic))


def why_missing(metric: Floats, human: Floats, statistic: Statistic) -> str:
    """Return the reason for which a statistic of these has no value.

    >>> why_missing(np.array([1.0]), np.array([1.0]), "pearson")
    '1 pair; pearson needs 3'
    """
    if len(metric) < SMALLEST[statistic]:
        plural = "" if len(metric) == 1 else "s"
        return f"{len(metric)} pair{plural}; {statistic} needs {SMALLEST[statistic]}"
    if np.ptp(metric) == 0:
        return "the metric is constant"
    if np.ptp(human) == 0:
        return "the human scores are constant"
    return "the values differ by less than floating point can hold"


def correlate_rows(x: Floats, y: Floats, statistic: Statistic, *, threshold: float = 0.0) -> Floats:
    """Return a statistic of every row; NaN where there is none.

    Parameters
    ----------
    x : (rows, n)
    y : (rows, n) or (1, n)
    statistic : of `STATISTICS`
    threshold : as for `correlate_arrays`

    Returns
    -------
    (rows,)

    >>> metric = np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])
    >>> correlate_rows(metric, metric[:1], "spearman").tolist()
    [1.0, -1.0]
    """
    rows, width = x.shape
    if width < SMALLEST[statistic]:
        return np.full(rows, np.nan)
    if statistic == "pearson":
        return _pearson_rows(x, y)
    if statistic == "spearman":
        return _pearson_rows(average_ranks(x), average_ranks(y))
    if threshold and width > _WIDE:
        return np.array(
            [
                agreeing_pairs(a, b, threshold) / (width * (width - 1) / 2)
                for a, b in zip(x, np.broadcast_to(y, x.shape), strict=True)
            ]
        )
    return from_totals(count_pairs(x, y, threshold=threshold), width, statistic)


def count_pairs(
    x: NDArray[np.generic], y: NDArray[np.generic], *, threshold: float = 0.0
) -> Totals:
    """Count the pairs of every row, in any number of rows.

    Parameters
    ----------
    x : (rows, n)
    y : (rows, n) or (1, n)
    threshold : the largest difference of `x` that is a tie; for up to 24 columns

    >>> count_pairs(np.array([[1.0, 2.0, 3.0]]), np.array([[1.0, 3.0, 3.0]])).concordant
    array([2.])
    """
    rows, width = x.shape
    small = width <= _WIDE
    step = max(1, _CHUNK // max(1, width * (width - 1) // 2 if small else width))
    parts = []
    for start in range(0, max(rows, 1), step):
        a = x[start : start + step]
        b = y if len(y) == 1 else y[start : start + step]
        parts.append(_small(a, b, threshold) if small else totals(dense_codes(a), dense_codes(b)))
    return joined_totals(parts)


def tau_rows(x: Ints, y: Ints, statistic: Statistic) -> Floats:
    """Return tau-b, tau-c or acc_eq of every row of integer codes.

    Parameters
    ----------
    x : (rows, n), integers from 0 in the order of the values
    y : (rows, n) or (1, n), the same

    >>> tau_rows(np.array([[0, 1, 2]]), np.array([[0, 2, 1]]), "kendall_c").round(4).tolist()
    [0.3333]
    """
    return from_totals(totals(x, y), x.shape[1], statistic)


def from_totals(found: Totals, width: int, statistic: Statistic) -> Floats:
    """Return tau-b, tau-c or acc_eq of rows of `width` captions: (rows,); NaN where there is none.

    >>> from_totals(count_pairs(np.array([[1, 2, 3]]), np.array([[1, 3, 2]])), 3, "acc_eq").round(4)
    array([0.6667])
    """
    pairs = width * (width - 1) / 2
    if statistic == "acc_eq":
        return np.asarray((found.concordant + found.tied_both) / pairs)
    score = found.concordant - found.discordant
    with np.errstate(invalid="ignore", divide="ignore"):
        if statistic == "kendall_b":
            tau = score / np.sqrt(found.untied_x * found.untied_y)
        else:
            classes = np.minimum(found.classes_x, found.classes_y).astype(np.float64)
            tau = 2 * score / (float(width) ** 2 * (classes - 1) / classes)
        # A constant side divides 0 by 0; a tau-c of one class too.
        return np.asarray(np.clip(tau, -1.0, 1.0))


def _small(x: NDArray[Any], y: NDArray[Any], threshold: float) -> Totals:
    """Count every pair of short rows outright; the threshold makes ties of the metric's pairs."""
    first, second = np.triu_indices(x.shape[1], 1)
    dx = x[:, first] - x[:, second]
    if threshold:
        dx[np.abs(dx) <= threshold] = 0.0
    a = np.sign(dx).astype(np.int8)
    b = np.sign(y[:, first] - y[:, second]).astype(np.int8)
    both = a * b
    rows = len(x)

    def count(of: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Floats:
        return np.broadcast_to(np.count_nonzero(of, axis=1).astype(np.float64), rows)

    def classes(values: NDArray[np.generic]) -> Ints:
        ordered = np.sort(values, axis=1)
        distinct = 1 + np.count_nonzero(ordered[:, 1:] != ordered[:, :-1], axis=1)
        return np.broadcast_to(distinct, rows).astype(np.int64)

    return Totals(
        concordant=count(both > 0),
        discordant=count(both < 0),
        untied_x=count(a != 0),
        untied_y=count(b != 0),
        tied_both=count((a == 0) & (b == 0)),
        classes_x=classes(x),
        classes_y=classes(y),
    )


def _pearson_rows(x: Floats, y: Floats) -> Floats:
    unit_x, unit_y = _unit(x), _unit(y)
    products = np.einsum("ij,ij->i", unit_x, np.broadcast_to(unit_y, x.shape))
    return np.asarray(np.clip(products, -1.0, 1.0))


def _unit(values: Floats) -> Floats:
    """Centre each row and give it length 1; a constant row becomes NaN."""
    constant = (values == values[:, :1]).all(axis=1, keepdims=True)
    # Scaled first, lest squares of very small or large values leave the range of floats.
    top = np.abs(values).max(axis=1, keepdims=True)
    scaled = values / np.where(top > 0, top, 1.0)
    centred = scaled - scaled.mean(axis=1, keepdims=True)
    length = np.sqrt(np.einsum("ij,ij->i", centred, centred))[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(constant | (length == 0), np.nan, centred / length))

"""Ranks and ties, one row of numbers or many at a time, and of resamples."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from capeval.stats.values import Floats, Ints, Mask

_SPARSE = 16
_LONG = 1_000


def runs(ordered: NDArray[np.generic]) -> tuple[Mask, NDArray[np.intp]]:
    """Return where runs of equal values begin in sorted rows, and each place's run's first place.

    Parameters
    ----------
    ordered : (rows, n), each row sorted

    >>> new, first = runs(np.array([[1.0, 1.0, 2.0]]))
    >>> new.tolist(), first.tolist()
    ([[True, False, True]], [[0, 0, 2]])
    """
    new = np.ones(ordered.shape, dtype=np.bool_)
    np.not_equal(ordered[:, 1:], ordered[:, :-1], out=new[:, 1:])
    first = np.where(new, np.arange(ordered.shape[1]), 0)
    return new, np.maximum.accumulate(first, axis=1)


def average_ranks(values: ArrayLike) -> Floats:
    """Return ranks from 1 along the last axis; ties share their mean rank.

    Parameters
    ----------
    values : (n,) or (rows, n), finite

    >>> average_ranks([10, 20, 20, 30]).tolist()
    [1.0, 2.5, 2.5, 4.0]
    """
    given = np.asarray(values)
    if given.ndim == 1 and given.size:
        codes = dense_codes(given)
        sizes = np.bincount(codes)
        return np.asarray((np.cumsum(sizes) - sizes / 2 + 0.5)[codes])
    rows = np.atleast_2d(given)
    if not rows.shape[1]:
        return np.empty(given.shape)
    if rows.shape[1] > _LONG:
        return np.stack([average_ranks(row) for row in rows]).reshape(given.shape)
    order = np.argsort(rows, axis=1, kind="stable")
    ordered = np.take_along_axis(rows, order, axis=1)
    _, first = runs(ordered)
    # A run's last place, found as the first place of the reversed row.
    _, behind = runs(ordered[:, ::-1])
    last = rows.shape[1] - 1 - behind[:, ::-1]
    ranks = np.empty(rows.shape)
    np.put_along_axis(ranks, order, (first + last) / 2 + 1, axis=1)
    return ranks.reshape(given.shape)


def dense_codes(values: NDArray[np.generic]) -> Ints:
    """Return integers from 0 in the order of the values, equal where they are equal.

    Order and ties hold within each row as well as over the whole array.

    >>> dense_codes(np.array([0.5, 0.1, 0.5])).tolist()
    [1, 0, 1]
    """
    flat = values.ravel()
    if not flat.size:
        return np.zeros(values.shape, dtype=np.int64)
    if flat.dtype.kind in "iu" and flat.min() >= 0 and flat.max() < _SPARSE * flat.size:
        # Codes of part of a column: what is left is counted, not sorted.
        there = np.zeros(int(flat.max()) + 1, dtype=np.bool_)
        there[flat] = True
        codes = flat if there.all() else (np.cumsum(there) - 1)[flat]
    else:
        order = np.argsort(flat)
        ordered = flat[order]
        new = np.zeros(flat.size, dtype=np.int64)
        np.not_equal(ordered[1:], ordered[:-1], out=new[1:], casting="unsafe")
        codes = np.empty(flat.size, dtype=np.int64)
        codes[order] = np.cumsum(new)
    return np.asarray(codes.reshape(values.shape), dtype=np.int64)


def tie_share(values: ArrayLike) -> float:
    """Return the share of the n (n - 1) / 2 pairs that are tied; NaN for fewer than two values.

    It is also the acc_eq that a constant metric gets against these human scores.

    >>> tie_share([1, 1, 2])
    0.3333333333333333
    """
    given = np.asarray(values)
    if given.size < 2:
        return float("nan")
    sizes = np.bincount(dense_codes(given)).astype(np.float64)
    return float((sizes * (sizes - 1)).sum() / (given.size * (given.size - 1.0)))


class Classes:
    """Sums of counts over captions of equal value."""

    def __init__(self, values: Floats) -> None:
        self.codes = dense_codes(values)
        self.single = int(self.codes.max(initial=-1)) + 1 == len(values)
        self._order = np.argsort(self.codes, kind="stable")
        self._starts = np.flatnonzero(np.diff(self.codes[self._order], prepend=-1))

    def sums(self, counts: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return (draws, classes) sums of (draws, n), in the order of values if any are tied."""
        return counts if self.single else self.ordered_sums(counts.T).T

    def ordered_sums(self, counts: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return (classes, draws) sums of (n, draws), in the order of the values.

        >>> classes = Classes(np.array([2.0, 1.0, 2.0]))
        >>> classes.ordered_sums(np.array([[1.0], [2.0], [4.0]])).tolist()
        [[2.0], [5.0]]
        """
        ordered = counts[self._order]
        return ordered if self.single else np.add.reduceat(ordered, self._starts, axis=0)

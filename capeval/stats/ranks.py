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


def group_sums(values: NDArray[np.generic], starts: NDArray[np.intp]) -> Floats:
    """Return the sums of the columns of each run that begins at `starts`.

    >>> group_sums(np.array([[1.0, 2.0, 4.0]]), np.array([0, 2])).tolist()
    [[3.0, 4.0]]
    """
    if len(starts) == values.shape[1]:
        return np.asarray(values)
    return np.asarray(np.add.reduceat(values, starts, axis=1))


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
        codes = dense_codes(values)
        self.single = len(np.unique(codes)) == len(codes)
        self.order = np.argsort(codes, kind="stable")
        ordered = codes[self.order]
        self.starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        self.sizes = np.diff(self.starts, append=len(codes))

    def sums(self, counts: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return (draws, classes) sums, in the order of the values where any are tied."""
        return counts if self.single else group_sums(counts[:, self.order], self.starts)

    def ranks(self, counts: NDArray[np.floating]) -> Floats:
        """Return (draws, n) ranks in the resample, less half of one."""
        sums = group_sums(counts[:, self.order], self.starts).astype(np.float64)
        middle = np.cumsum(sums, axis=1) - sums / 2
        back = np.empty(counts.shape)
        back[:, self.order] = middle if self.single else np.repeat(middle, self.sizes, axis=1)
        return back

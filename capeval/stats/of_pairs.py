"""Counts of pairs of captions: what Kendall's tau and pairwise accuracy are made of.

A resample is a row of counts w, of which concordance is the form w'Sw with the matrix S of signs:
thousands of resamples are a few matrix products, where counting each would be thousands of sorts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capeval.stats.concordance import (
    Concordance,
    PairCounts,
    agreeing_pairs,
    concordance,
    concordance_within,
    totals,
)
from capeval.stats.ranks import Classes, dense_codes, runs, tie_share
from capeval.stats.resampling import LARGEST, Counts
from capeval.stats.values import Floats

# Up to so many captions, comparing all pairs outright is faster than sorting.
_FEW = 24
# Up to so many, comparing the permuted ones with each other, byte by byte, is.
_COMPARED = 512
# The most ones that a byte can count.
_BYTE = 255
# Cells that are worked on at once.
_CHUNK = 4_000_000
# Sums of whole numbers are exact in single precision below 2**24, so w'Sw is for so many captions.
_EXACT = 4_000


class Pairs:
    """The kind of statistics that count pairs."""

    pairwise = True
    ordinal = True

    def rows(self, x: Any, y: Any, threshold: float, /) -> PairCounts:
        """Return the counts of every row; a difference of `x` up to the threshold is a tie."""
        width = x.shape[1]
        if not threshold or width <= _FEW:
            return count_pairs(x, y, threshold=threshold)
        both = list(zip(x, np.broadcast_to(y, x.shape), strict=True))

        @cache
        def counts() -> PairCounts:
            return PairCounts.joined(
                [concordance_within(a, b, threshold).totals() for a, b in both]
            )

        def count(name: str) -> Floats:
            if name == "agreeing":
                return np.array([float(agreeing_pairs(a, b, threshold)) for a, b in both])
            if name == "pairs":
                return np.full(len(x), width * (width - 1) / 2)
            return np.atleast_1d(getattr(counts(), name))

        return PairCounts(float(width), None, count)

    def resampled(
        self, x: Floats, y: Floats, threshold: float, draws: Callable[[], Iterable[Counts]], /
    ) -> PairCounts:
        """Return the counts of resamples of up to 1,500 captions.

        Raises
        ------
        ValueError
            A matrix of all pairs would be too large.
        """
        if len(x) > LARGEST:
            raise ValueError(f"{len(x)} captions are too many for a matrix of all pairs")

        def signs(values: Floats, least: float = 0.0) -> NDArray[np.int8]:
            apart = np.subtract.outer(values, values)
            if least:
                apart[np.abs(apart) <= least] = 0.0
            return np.sign(apart).astype(np.int8)

        def each(value: Callable[[Any], Floats]) -> Floats:
            return np.concatenate(
                [value(c if c[0].sum() <= _EXACT else c.astype(np.float64)) for c in draws()]
            )

        def form(matrix: NDArray[np.int8]) -> Floats:
            cells = matrix.astype(np.float32)
            return each(lambda w: np.einsum("ij,ij->i", w @ cells, w).astype(np.float64)) / 2

        def untied(values: Floats) -> Floats:
            classes = Classes(values)

            def value(w: Any) -> Floats:
                sums = classes.sums(w)
                drawn = w.sum(axis=1, dtype=np.float64)
                return np.asarray(drawn**2 - np.einsum("ij,ij->i", sums, sums)) / 2

            return each(value)

        def counted(name: str) -> Floats:
            if name == "score":
                return form(signs(x, threshold) * signs(y))
            if name == "agreeing" and not threshold and len(x) in distinct.values():
                # Without pairs tied on both sides it is a sum of the others; all are whole numbers.
                untied_pairs = count("untied_x") + count("untied_y") - count("pairs")
                return np.asarray(count("score") + untied_pairs) / 2
            if name == "agreeing":
                right = (signs(x, threshold) == signs(y)).astype(np.int8)
                np.fill_diagonal(right, 0)
                return form(right)
            if name == "pairs":
                return untied(np.arange(len(x), dtype=np.float64))
            if name == "untied_x" and threshold:
                return form(np.abs(signs(x, threshold)))
            return untied(x if name == "untied_x" else y)

        known: dict[str, Floats] = {}
        distinct = {
            "untied_x": 0 if threshold else len(np.unique(x)),
            "untied_y": len(np.unique(y)),
        }

        def count(name: str) -> Floats:
            # A side without ties ties a caption with its copies alone, which are no pairs.
            same = "pairs" if distinct.get(name) == len(x) else name
            if same not in known:
                known[same] = counted(same)
            return known[same]

        classes = float(min(len(np.unique(x)), distinct["untied_y"]))
        return PairCounts(float(len(x)), classes, count)

    def derivatives(
        self, x: Any, y: Any, counted: Concordance | None, /
    ) -> tuple[PairCounts, dict[str, Floats]]:
        """Return the counts, and the partners of each caption, whose weight moves them so much."""
        found = concordance(x, y) if counted is None else counted
        return found.totals(), found.partners()

    def permuted(
        self, x: Any, y: Any, threshold: float, orders: NDArray[np.int32], /
    ) -> PairCounts:
        """Return the counts if `x` is taken in each order, which leaves the ties of a side."""
        size = len(x)
        if threshold or size > _COMPARED:
            return self.rows(x[orders], y[None], threshold)
        a, b = dense_codes(x), dense_codes(y)
        by_y = np.argsort(b, kind="stable")
        moved = a.astype(np.uint8 if size <= 256 else np.uint16)[orders.T[by_y]]
        first = runs(b[by_y][None])[1][0]
        tied_x, tied_y = (size * (size - 1) / 2 * tie_share(codes) for codes in (a, b))
        concordant = _compared(np.less, moved, np.zeros_like(first), first)
        both = np.zeros(len(orders))
        if tied_x and tied_y:
            both = _compared(np.equal, moved, first, np.arange(size))
        classes = min(a.max(), b.max()) + 1
        return PairCounts.of_ties(size, concordant, tied_x, tied_y, both, classes)


def _compared(
    relation: np.ufunc, codes: NDArray[Any], first: NDArray[np.intp], end: NDArray[np.intp]
) -> Floats:
    """Count, in each column, the places of which one from `first` to `end` stands in a relation."""
    counts = np.zeros(codes.shape[1], dtype=np.int64)
    for place in np.flatnonzero(end > first):
        for start in range(first[place], end[place], _BYTE):
            earlier = codes[start : min(start + _BYTE, end[place])]
            found = relation(earlier, codes[place]).view(np.uint8)
            counts += np.add.reduce(found, axis=0, dtype=np.uint8)
    return counts.astype(np.float64)


def count_pairs(
    x: NDArray[np.generic], y: NDArray[np.generic], *, threshold: float = 0.0
) -> PairCounts:
    """Count the pairs of every row, in any number of rows.

    Parameters
    ----------
    x : (rows, n)
    y : (rows, n) or (1, n)
    threshold : the largest difference of `x` that is a tie; for up to 24 columns

    >>> count_pairs(np.array([[1.0, 2.0, 3.0]]), np.array([[1.0, 3.0, 3.0]])).score
    array([2.])
    """
    rows, width = x.shape
    few = width <= _FEW
    step = max(1, _CHUNK // max(1, width * (width - 1) // 2 if few else width))
    parts = []
    for start in range(0, max(rows, 1), step):
        a = x[start : start + step]
        b = y if len(y) == 1 else y[start : start + step]
        parts.append(_few(a, b, threshold) if few else totals(dense_codes(a), dense_codes(b)))
    return PairCounts.joined(parts)


def _few(x: NDArray[Any], y: NDArray[Any], threshold: float) -> PairCounts:
    """Count every pair of short rows outright; the threshold makes ties of the metric's pairs."""
    first, second = np.triu_indices(x.shape[1], 1)
    dx = x[:, first] - x[:, second]
    if threshold:
        dx[np.abs(dx) <= threshold] = 0.0
    a = np.sign(dx).astype(np.int8)
    b = np.sign(y[:, first] - y[:, second]).astype(np.int8)

    def tied(of: NDArray[Any]) -> Floats:
        return np.asarray(np.count_nonzero(of == 0, axis=1), dtype=np.float64)

    def classes(values: NDArray[np.generic]) -> NDArray[np.intp]:
        ordered = np.sort(values, axis=1)
        return np.asarray(1 + np.count_nonzero(ordered[:, 1:] != ordered[:, :-1], axis=1))

    concordant = np.count_nonzero(a * b > 0, axis=1).astype(np.float64)
    fewest = np.minimum(classes(x), classes(y))
    return PairCounts.of_ties(x.shape[1], concordant, tied(a), tied(b), tied(a | b), fewest)

"""Sums of products of scores or of their ranks: what Pearson's r and Spearman's rho are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capeval.stats.ranks import Classes, average_ranks, dense_codes
from capeval.stats.resampling import Counts
from capeval.stats.values import Floats, Ints

# Sums of squares of numbers up to 1 that are below this, a caption, are rounding errors.
_TINY = 1e-12
# Sums of whole numbers are exact in single precision below 2**24: the cube of so many captions.
_EXACT = 250


@dataclass(frozen=True, slots=True)
class MomentSums:
    """Centred sums of products and squares of two scores; NaN where one is constant."""

    xy: Floats
    xx: Floats
    yy: Floats

    def stepped(self, name: str, step: float) -> MomentSums:
        """Return the sums with a small imaginary part of one of them."""
        return replace(self, **{name: getattr(self, name) + 1j * step})


@dataclass(frozen=True)
class Moments:
    """The kind of Pearson's r, and with `ranked` of Spearman's rho."""

    ranked: bool

    @property
    def pairwise(self) -> bool:
        """They count no pairs."""
        return False

    @property
    def ordinal(self) -> bool:
        """Whether only the order of the scores counts."""
        return self.ranked

    def rows(self, x: Any, y: Any, _threshold: float, /) -> MomentSums:
        """Return the sums of unit vectors of every row."""
        if self.ranked:
            x, y = average_ranks(x), average_ranks(y)
        unit_x, unit_y = _unit(x), _unit(y)
        products = np.einsum("ij,ij->i", unit_x, np.broadcast_to(unit_y, x.shape))
        return MomentSums(products, np.ones(len(x)), np.ones(len(x)))

    def resampled(
        self, x: Floats, y: Floats, _threshold: float, draws: Callable[[], Iterable[Counts]], /
    ) -> MomentSums:
        """Return the sums of resamples."""
        of = _rank_moments(x, y) if self.ranked else _moments(x, y)
        return _checked(np.concatenate([of(counts) for counts in draws()], axis=1), len(x))

    def derivatives(
        self, x: Any, y: Any, _counted: object, /
    ) -> tuple[MomentSums, dict[str, Floats]]:
        """Return the sums, and by how much each caption's weight moves them."""
        if not self.ranked:
            # Scaled, lest squares of very small numbers vanish.
            a, b = (side - side.mean() for side in (x, y))
            a, b = (side / (np.abs(side).max() or 1.0) for side in (a, b))
            moved = {"xy": a * b, "xx": a * a, "yy": b * b}
        else:
            x, y = dense_codes(x), dense_codes(y)
            a, b = (average_ranks(side) - (len(x) + 1) / 2 for side in (x, y))
            # A weight moves the ranks of all captions above its own too.
            moved = {
                "xy": a * b + _above(x, b) + _above(y, a),
                "xx": a * a + 2 * _above(x, a),
                "yy": b * b + 2 * _above(y, b),
            }
        return MomentSums(*(np.array([float(u @ v)]) for u, v in ((a, b), (a, a), (b, b)))), moved

    def permuted(
        self, x: Any, y: Any, _threshold: float, orders: NDArray[np.int32], /
    ) -> MomentSums:
        """Return the sums of unit vectors, of which only the product depends on the order."""
        a, b = (_unit((average_ranks(v) if self.ranked else v)[None])[0] for v in (x, y))
        ones = np.ones(len(orders))
        return MomentSums(a[orders] @ b, ones, ones)


def _checked(sums: Floats, captions: int) -> MomentSums:
    """Return sums without squares that are only rounding errors."""
    xy, xx, yy = sums
    least = _TINY * captions
    return MomentSums(xy, np.where(xx > least, xx, np.nan), np.where(yy > least, yy, np.nan))


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


def _moments(x: Floats, y: Floats) -> Callable[[Counts], Floats]:
    # Centred and scaled, so that the second moments keep their digits.
    a, b = (values - values.mean() for values in (x, y))
    a, b = (values / (np.abs(values).max() or 1.0) for values in (a, b))
    columns = np.stack([np.ones_like(a), a, b, a * a, b * b, a * b], axis=1)

    def value(counts: Counts) -> Floats:
        drawn, sum_a, sum_b, aa, bb, ab = (counts.astype(np.float64) @ columns).T
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.stack(
                [ab - sum_a * sum_b / drawn, aa - sum_a**2 / drawn, bb - sum_b**2 / drawn]
            )

    return value


def _rank_moments(x: Floats, y: Floats) -> Callable[[Counts], Floats]:
    sides = [(Classes(side), _half_signs(side)) for side in (x, y)]

    def value(counts: Counts) -> Floats:
        # Captions down, so that all that follows is done to whole rows.
        drawn: Any = np.ascontiguousarray(counts.T)
        size = drawn.sum(axis=0, dtype=np.float64)
        if size.max() > _EXACT:
            drawn = drawn.astype(np.float64)
        half = (size / 2).astype(drawn.dtype)
        products, squares = drawn, []
        for classes, signs in sides:
            sums = classes.ordered_sums(drawn)
            if drawn.dtype == np.float32 and signs is not None:
                products = products * (signs @ drawn)
            else:
                products = products * (np.cumsum(sums, axis=0) - sums / 2 - half)[classes.codes]
            # The sum of the squares of centred ranks depends on nothing but the ties.
            squares.append((size**3 - (sums * sums * sums).sum(axis=0)) / 12)
        return np.stack([products.sum(axis=0), *squares])

    return value


def _half_signs(values: Floats) -> Any:
    """Return half of the signs of all differences, of so few values that a product is faster."""
    if len(values) > _EXACT:
        return None
    return np.sign(np.subtract.outer(values, values)).astype(np.float32) / 2


def _above(codes: Ints, ranks: Floats) -> Floats:
    """Return for each caption the sum of `ranks` over larger codes, and half of it over equal."""
    sums = np.bincount(codes, weights=ranks)
    larger = sums.sum() - np.cumsum(sums)
    return np.asarray((larger + sums / 2)[codes])

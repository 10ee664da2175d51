"""Statistics of resamples, as functions of how often each caption was drawn.

A resample is a row of counts w. Concordance is then the form w'Sw of the sign matrix S, ranks are
running sums of counts, moments are products with them: thousands of resamples are a few matrix
products, where recomputing each would be thousands of sorts. Where n > 1,500 no n x n matrix is
made, and `intervals` takes the jackknife instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from capeval.stats.design import Design
from capeval.stats.ranks import dense_codes, group_sums
from capeval.stats.values import Floats, Missing, Statistic

FEWEST = 5
"""The fewest videos that are resampled: four have only 35 different resamples, too few to find
where 2.5% of them end.
"""

MANY = 20_000
"""A mean over more videos than this is not resampled: it is as good as normal."""

LARGEST = 1_500
"""The most captions that a matrix of all pairs is made of."""

Counts = NDArray[np.float32]

_CHUNK = 400_000
_KEPT = 6_000_000


def draw_counts(units: int, draws: int, rng: np.random.Generator) -> Iterator[Counts]:
    """Yield (chunk, units) counts of how often each unit is in a resample, `draws` rows in all.

    >>> rng = np.random.default_rng(0)
    >>> sum(int(chunk.sum()) for chunk in draw_counts(3, 10, rng))
    30
    """
    step = max(1, min(draws, _CHUNK // units))
    for start in range(0, draws, step):
        size = min(step, draws - start)
        picks = rng.integers(0, units, size=(size, units), dtype=np.int32)
        picks += np.arange(size, dtype=np.int32)[:, None] * np.int32(units)
        counts = np.bincount(picks.ravel(), minlength=size * units)
        yield counts.reshape(size, units).astype(np.float32)


def same_draws(units: int, draws: int, seed: int) -> Iterator[Counts]:
    """Yield the `draw_counts` of a seed, the same to everyone; those that are small are kept.

    >>> [chunk.shape for chunk in same_draws(3, 10, 0)]
    [(10, 3)]
    """
    if units * draws <= _KEPT:
        return iter(_kept_draws(units, draws, seed))
    return draw_counts(units, draws, np.random.default_rng(seed))


def coins(units: int, draws: int, seed: int) -> Iterator[Counts]:
    """Yield (chunk, units) of 0 and 1 at even odds, `draws` rows in all, the same to everyone.

    >>> sum(len(chunk) for chunk in coins(3, 10, 0))
    10
    """
    if units * draws <= _KEPT:
        return iter(_kept_coins(units, draws, seed))
    return _coins(units, draws, seed)


def _coins(units: int, draws: int, seed: int) -> Iterator[Counts]:
    rng = np.random.default_rng(seed)
    step = max(1, min(draws, _CHUNK // max(units, 1)))
    for start in range(0, draws, step):
        size = (min(step, draws - start), units)
        yield rng.integers(0, 2, size=size, dtype=np.int8).astype(np.float32)


@lru_cache(maxsize=4)
def _kept_coins(units: int, draws: int, seed: int) -> tuple[Counts, ...]:
    chunks = tuple(_coins(units, draws, seed))
    for chunk in chunks:
        chunk.setflags(write=False)
    return chunks


@lru_cache(maxsize=4)
def _kept_draws(units: int, draws: int, seed: int) -> tuple[Counts, ...]:
    chunks = tuple(draw_counts(units, draws, np.random.default_rng(seed)))
    for chunk in chunks:
        chunk.setflags(write=False)
    return chunks


def too_few(units: int, design: Design) -> Missing:
    """Return why there is no interval or bootstrap of so few videos.

    >>> too_few(1, Design.of("a"))
    Missing(reason='1 caption is too few to resample: at least 5')
    """
    what = "video" if design.repeats else "caption"
    subject = f"1 {what} is" if units == 1 else f"{units} {what}s are"
    return Missing(f"{subject} too few to resample: at least {FEWEST}")


def resampled(
    x: Floats, y: Floats, statistic: Statistic, *, threshold: float = 0.0
) -> Callable[[Counts], Floats]:
    """Return the function from (draws, n) counts to the (draws,) values of a statistic.

    A value is what scipy gives for the captions repeated as often as drawn; NaN where a resample
    is constant or too short. Only acc_eq and tau-c leave out pairs of a caption with its own copy:
    they are tied in both, and would be right by themselves or pull tau-c towards 0. The number of
    classes in tau-c's scale is that of the whole sample: fewer in a resample is no property of
    the metric.

    Parameters
    ----------
    x, y : (n,), finite; n <= 1,500 but for spearman and pearson
    threshold : for acc_eq, the largest difference of the metric that is a tie

    Raises
    ------
    ValueError
        A matrix of all pairs would be too large.

    >>> tau = resampled(np.array([1.0, 2, 3]), np.array([1.0, 3, 2]), "kendall_b")
    >>> tau(np.array([[1, 1, 1], [2, 1, 0]], dtype=np.float32)).round(4).tolist()
    [0.3333, 1.0]
    """
    if statistic == "pearson":
        return _moments(x, y)
    if statistic == "spearman":
        return _rank_moments(x, y)
    if statistic == "acc_eq":
        return _accuracies(x, y, threshold)
    taus, which = resampled_taus(x, y), int(statistic == "kendall_c")
    return lambda counts: taus(counts)[which]


def resampled_taus(x: Floats, y: Floats) -> Callable[[Counts], Floats]:
    """Return the function from (draws, n) counts to the (2, draws) values of tau-b and tau-c.

    Both rest on the same products, so the second costs little. Parameters and errors are those
    of `resampled`.
    """
    dx, dy = _differences(x, y)
    signs = (np.sign(dx) * np.sign(dy)).astype(np.float32)
    del dx, dy
    by_x, by_y = _Classes(x), _Classes(y)
    classes = min(len(by_x.starts), len(by_y.starts))
    # tau-c as a multiple of the mean sign of all pairs.
    scale = (len(x) - 1) / len(x) * classes / (classes - 1) if classes > 1 else np.nan

    def value(counts: Counts) -> Floats:
        drawn, exact, score = _form(counts, signs)
        sums_x, sums_y = by_x.sums(exact), by_y.sums(exact)
        untied_x = drawn**2 - np.einsum("ij,ij->i", sums_x, sums_x)
        untied_y = (
            untied_x
            if by_x.single and by_y.single
            else drawn**2 - np.einsum("ij,ij->i", sums_y, sums_y)
        )
        constant = (untied_x == 0) | (untied_y == 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            tau_b = score / np.sqrt(untied_x) / np.sqrt(untied_y)
            tau_c = score / (drawn**2 - np.einsum("ij,ij->i", exact, exact)) * scale
        return np.clip(np.where(constant, np.nan, np.stack([tau_b, tau_c])), -1, 1)

    return value


def _accuracies(x: Floats, y: Floats, threshold: float) -> Callable[[Counts], Floats]:
    dx, dy = _differences(x, y)
    dx[np.abs(dx) <= threshold] = 0.0
    right = (((dx > 0) == (dy > 0)) & ((dx == 0) == (dy == 0))).astype(np.float32)
    np.fill_diagonal(right, 0.0)
    del dx, dy

    def value(counts: Counts) -> Floats:
        drawn, exact, score = _form(counts, right)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(score / (drawn**2 - np.einsum("ij,ij->i", exact, exact)))

    return value


def _differences(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    if len(x) > LARGEST:
        raise ValueError(f"{len(x)} captions are too many for a matrix of all pairs")
    return np.subtract.outer(x, x), np.subtract.outer(y, y)


def _form(counts: Counts, matrix: Counts) -> tuple[Floats, NDArray[np.floating], Floats]:
    """Return the numbers drawn, the counts in a precision that is exact, and their form."""
    drawn = counts.sum(axis=1, dtype=np.float64)
    # All are whole numbers, exact in single precision below 2 ** 24.
    exact = counts if drawn.max(initial=0) <= 4_000 else counts.astype(np.float64)
    return drawn, exact, np.einsum("ij,ij->i", exact @ matrix, exact).astype(np.float64)


class _Classes:
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


def _rank_moments(x: Floats, y: Floats) -> Callable[[Counts], Floats]:
    by_x, by_y = _Classes(x), _Classes(y)

    def value(counts: Counts) -> Floats:
        half = counts.sum(axis=1, dtype=np.float64)[:, None] / 2
        a, b = by_x.ranks(counts) - half, by_y.ranks(counts) - half
        weighted_a, weighted_b = counts * a, counts * b
        return _correlation(
            np.einsum("ij,ij->i", weighted_a, b),
            np.einsum("ij,ij->i", weighted_a, a),
            np.einsum("ij,ij->i", weighted_b, b),
            counts,
        )

    return value


def _moments(x: Floats, y: Floats) -> Callable[[Counts], Floats]:
    # Centred and scaled, so that the second moments keep their digits.
    a, b = (values - values.mean() for values in (x, y))
    a, b = (values / (np.abs(values).max() or 1.0) for values in (a, b))
    columns = np.stack([np.ones_like(a), a, b, a * a, b * b, a * b], axis=1)

    def value(counts: Counts) -> Floats:
        drawn, sum_a, sum_b, aa, bb, ab = (counts.astype(np.float64) @ columns).T
        with np.errstate(invalid="ignore", divide="ignore"):
            return _correlation(
                ab - sum_a * sum_b / drawn,
                aa - sum_a**2 / drawn,
                bb - sum_b**2 / drawn,
                counts,
            )

    return value


def _correlation(ab: Floats, aa: Floats, bb: Floats, counts: Counts) -> Floats:
    tiny = 1e-12 * counts.shape[1]
    fine = (aa > tiny) & (bb > tiny)
    root = np.sqrt(np.where(fine, aa, 1.0)) * np.sqrt(np.where(fine, bb, 1.0))
    return np.where(fine, np.clip(ab / root, -1.0, 1.0), np.nan)

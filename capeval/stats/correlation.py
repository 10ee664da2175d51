"""Correlations of a metric with human scores, by groups of captions, and without each video.

All statistics are functions of a few sums over captions or pairs of captions, `Sums`. The sums of
pairs come from matrices of signs: cell (i, j) says which of captions i and j has the higher score.
A row of such a matrix sums to the centred rank of its caption (times two), so Spearman's rho uses
the same matrices. A video is left out by subtracting what its captions add, so that the values
without each video, on which intervals and comparisons rest, cost no more than the value itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capeval.stats.design import Design, group_means, same_sized
from capeval.stats.values import Floats, GroupingName, Ints, Mask, Missing

LARGEST = 4_000
"""The most captions of one group that matrices of signs are made of: they take 500 MB."""

# Cells of the matrices of small groups that are worked on at once.
_CELLS = 4_000_000
# Of scores whose largest deviation is 1, a mean square below this is rounding error.
_TINY = 1e-12

Signs = NDArray[np.int8]


@dataclass(frozen=True)
class Sums:
    """What statistics are functions of, for a number of samples.

    Attributes
    ----------
    size : (samples,), the number of captions
    score : (samples,), concordant minus discordant pairs
    untied_x, untied_y : (samples,), pairs that a side does not tie
    ranks, scores : (samples, 3), the sums of xy, xx and yy of centred ranks and scores
    """

    size: Floats
    score: Floats
    untied_x: Floats
    untied_y: Floats
    ranks: Floats
    scores: Floats

    @property
    def pairs(self) -> Floats:
        """The number of pairs, (samples,)."""
        return np.asarray(self.size * (self.size - 1) / 2)

    @classmethod
    def joined(cls, parts: list[Sums]) -> Sums:
        """Return the sums of all samples of several."""
        return cls(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(cls)))


@dataclass(frozen=True)
class Statistic:
    """A statistic of paired scores.

    Attributes
    ----------
    name : in files and options
    words : in tables
    of : the function of the sums
    smallest : the fewest captions that it is taken of
    """

    name: str
    words: str
    of: Callable[[Sums], Floats]
    smallest: int = 2

    def values(self, sums: Sums) -> Floats:
        """Return the (samples,) values; NaN where there is none."""
        with np.errstate(invalid="ignore", divide="ignore"):
            found = np.clip(self.of(sums), -1.0, 1.0)
        return np.where(sums.size >= self.smallest, found, np.nan)


def _tau_b(sums: Sums) -> Floats:
    return np.asarray(sums.score / np.sqrt(sums.untied_x * sums.untied_y))


def _product_moment(sums: Floats) -> Floats:
    xy, xx, yy = sums.T
    return np.asarray(xy / (np.sqrt(xx) * np.sqrt(yy)))


STATISTICS: dict[str, Statistic] = {
    one.name: one
    for one in (
        Statistic("kendall_b", "Kendall tau-b", _tau_b),
        Statistic("spearman", "Spearman rho", lambda sums: _product_moment(sums.ranks), 3),
        Statistic("pearson", "Pearson r", lambda sums: _product_moment(sums.scores), 3),
    )
}
"""Kendall's tau-b (1945), Spearman's rho (1904) and Pearson's r (1895), as scipy defines them."""


@dataclass(frozen=True)
class Correlated:
    """A metric and human scores by one grouping.

    Attributes
    ----------
    sums : of every group, (groups,) samples
    without : of every group without each video, (groups, videos) by statistic; None by item, where
        groups are videos, and where it was not asked for. NaN where a group has no value then.
    """

    sums: Sums
    without: dict[str, Floats] | None = None

    def values(self, statistic: Statistic) -> Floats:
        """Return the statistic of every group, (groups,); NaN where there is none."""
        return statistic.values(self.sums)

    def left_out(self, statistic: Statistic, use: Mask) -> Floats:
        """Return the mean over groups without each video, (videos,).

        Parameters
        ----------
        use : (groups,), which groups the mean is over; by item, the videos that are left out
        """
        if self.without is None:
            values = self.values(statistic)[use]
            return np.asarray((values.sum() - values) / max(len(values) - 1, 1))
        return np.asarray(self.without[statistic.name][use].mean(axis=0))

    def ties(self, use: Mask) -> tuple[float, float]:
        """Return the shares of pairs in some groups that the metric and the raters tie.

        NaN without a pair.
        """
        pairs = self.sums.pairs[use].sum()
        if not pairs:
            return float("nan"), float("nan")
        return (
            float(1 - self.sums.untied_x[use].sum() / pairs),
            float(1 - self.sums.untied_y[use].sum() / pairs),
        )


def correlated(
    x: Floats,
    y: Floats,
    design: Design,
    grouping: GroupingName,
    *,
    left_out: bool = False,
) -> Correlated:
    """Return what the statistics of every group are functions of.

    Parameters
    ----------
    x, y : (n,), finite, of the metric and of the human raters
    left_out : whether to leave out each video too, by pooled, within_system and item

    >>> design = Design(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]))
    >>> x, y = np.array([1.0, 2, 3, 4]), np.array([2.0, 1, 3, 4])
    >>> correlated(x, y, design, "item").values(STATISTICS["kendall_b"]).tolist()
    [-1.0, 1.0]
    """
    group = design.groups(grouping)
    if grouping == "system":
        x, y = group_means(x, design.system), group_means(y, design.system)
    if grouping in ("item", "system") or not left_out:
        return Correlated(_of_groups(x, y, group))
    parts = []
    without = {name: np.empty((int(group.max()) + 1, design.videos)) for name in STATISTICS}
    for number in range(int(group.max()) + 1):
        rows = np.flatnonzero(group == number)
        # Captions of one video must follow each other.
        rows = rows[np.argsort(design.video[rows], kind="stable")]
        there, video = np.unique(design.video[rows], return_inverse=True)
        make = _of_many if len(rows) > LARGEST else _without_each
        sums = make(x[rows], y[rows], video)
        parts.append(Sums(*(getattr(sums, f.name)[:1] for f in fields(Sums))))
        for name, statistic in STATISTICS.items():
            whole, *rest = statistic.values(sums)
            without[name][number] = whole
            without[name][number, there] = rest
    return Correlated(Sums.joined(parts), without)


def _of_groups(x: Floats, y: Floats, group: Ints) -> Sums:
    """Return the sums of every group, (groups,) samples."""
    places, parts = [], []
    for groups, rows in same_sized(group):
        size = rows.shape[1]
        if size > LARGEST:
            none = np.zeros(size, dtype=np.int64)
            some = [_of_many(x[row], y[row], none) for row in rows]
            parts += [Sums(*(getattr(s, f.name)[:1] for f in fields(Sums))) for s in some]
        else:
            step = max(1, _CELLS // size**2)
            for start in range(0, len(rows), step):
                those = rows[start : start + step]
                parts.append(sums_of_rows(x[those], y[those]))
        places.append(groups)
    order = np.argsort(np.concatenate(places))
    whole = Sums.joined(parts)
    return Sums(*(getattr(whole, f.name)[order] for f in fields(Sums)))


def sums_of_rows(x: Floats, y: Floats) -> Sums:
    """Return the sums of every row of (rows, n) scores."""
    a, b = _signs(x), _signs(y)
    size = x.shape[1]

    def count(cells: NDArray[np.generic]) -> Floats:
        return np.asarray(np.sum(cells, axis=(1, 2), dtype=np.int64) / 2)

    ranks = [side.sum(axis=2, dtype=np.int64) / 2 for side in (a, b)]
    scores = [_centred(side) for side in (x, y)]
    return Sums(
        size=np.full(len(x), float(size)),
        score=count(a * b),
        untied_x=count(a != 0),
        untied_y=count(b != 0),
        ranks=_products(*ranks),
        scores=_products(*scores),
    )


def _without_each(x: Floats, y: Floats, video: NDArray[np.intp]) -> Sums:
    """Return the sums of a group and, from the second on, those without each of its videos."""
    a, b = _signs(x), _signs(y)
    starts = np.flatnonzero(np.diff(video, prepend=-1))
    captions = np.bincount(video)
    alone = len(captions) == len(x)

    def count(cells: NDArray[np.generic]) -> Floats:
        rows = cells.sum(axis=1, dtype=np.int64)
        moved: NDArray[Any] = np.bincount(video, rows)
        if not alone:
            # Pairs of two captions of the video are in the sums of both.
            of_videos = np.add.reduceat(cells, starts, axis=1, dtype=np.int32)
            moved = moved - np.bincount(video, of_videos[np.arange(len(x)), video]) / 2
        return _whole_first(rows.sum() / 2, moved)

    sides = []
    for signs in (a, b):
        ranks = signs.sum(axis=1, dtype=np.int64) / 2
        # How far each video moves the rank of each caption, (n, videos).
        moved = np.add.reduceat(signs, starts, axis=1, dtype=np.float32) / 2
        sides.append((ranks, moved, ranks - moved[np.arange(len(x)), video]))

    def ranks_of(first: int, second: int) -> Floats:
        (p, moved_p, own_p), (q, moved_q, own_q) = sides[first], sides[second]
        less = p @ moved_q + q @ moved_p - np.einsum("iv,iv->v", moved_p, moved_q, dtype=float)
        return _whole_first(p @ q, less + np.bincount(video, own_p * own_q))

    left = len(x) - captions
    return Sums(
        size=_whole_first(len(x), captions),
        score=count(a * b),
        untied_x=count(a != 0),
        untied_y=count(b != 0),
        ranks=np.stack([ranks_of(0, 1), ranks_of(0, 0), ranks_of(1, 1)], axis=1),
        scores=_scores_without(x, y, video, left),
    )


def _of_many(x: Floats, y: Floats, video: NDArray[np.intp]) -> Sums:
    """Return the same of more captions than matrices are made of, in O(n log n).

    Without a video there are no sums of pairs (NaN), and those of ranks are to first order.
    """
    from scipy.stats import kendalltau, rankdata

    n, captions = len(x), np.bincount(video)
    codes = [np.unique(side, return_inverse=True)[1] for side in (x, y)]
    pairs = n * (n - 1) / 2
    untied_x, untied_y = (
        pairs - (sizes * (sizes - 1.0)).sum() / 2 for sizes in map(np.bincount, codes)
    )
    score = 0.0
    if untied_x and untied_y:
        score = round(kendalltau(x, y).statistic * np.sqrt(untied_x) * np.sqrt(untied_y))
    p, q = (rankdata(side) - (n + 1) / 2 for side in (x, y))
    # A caption that is left out moves the ranks of all above it.
    moved = [
        p * q + _above(codes[0], q) + _above(codes[1], p),
        p * p + 2 * _above(codes[0], p),
        q * q + 2 * _above(codes[1], q),
    ]
    unknown = np.full(len(captions), np.nan)
    return Sums(
        size=_whole_first(n, captions),
        score=np.append(score, unknown),
        untied_x=np.append(untied_x, unknown),
        untied_y=np.append(untied_y, unknown),
        ranks=np.stack(
            [
                _whole_first(float(whole), np.bincount(video, each))
                for whole, each in zip((p @ q, p @ p, q @ q), moved, strict=True)
            ],
            axis=1,
        ),
        scores=_scores_without(x, y, video, n - captions),
    )


def _scores_without(x: Floats, y: Floats, video: NDArray[np.intp], left: Ints) -> Floats:
    """Return the centred products of scores, of all and without each video: (1 + videos, 3)."""
    sides = [_centred(side) for side in (x, y)]
    sums = [np.bincount(video, side) for side in sides]
    found = []
    for first, second in ((0, 1), (0, 0), (1, 1)):
        product = sides[first] * sides[second]
        with np.errstate(invalid="ignore", divide="ignore"):
            moved = np.bincount(video, product) + sums[first] * sums[second] / left
        found.append(_whole_first(product.sum(), moved))
    result = np.stack(found, axis=1)
    result[result[:, 1:].min(axis=1) <= _TINY * len(x)] = np.nan
    return result


def _whole_first(whole: float, less: NDArray[Any]) -> Floats:
    return np.append(float(whole), whole - less)


def _signs(values: Floats) -> Signs:
    """Return the signs of all differences: (..., n, n) of (..., n)."""
    one, other = values[..., :, None], values[..., None, :]
    return np.subtract(one > other, one < other, dtype=np.int8)


def _centred(values: Floats) -> Floats:
    """Return scores minus their mean, of which the largest is 1, along the last axis.

    Where all are equal, they are 0.
    """

    def scaled(cells: Floats) -> Floats:
        top = np.abs(cells).max(axis=-1, keepdims=True)
        return np.asarray(cells / np.where(top > 0, top, 1.0))

    # Scaled first, lest squares of very small or large values leave the range of floats.
    found = scaled(values)
    found = scaled(found - found.mean(axis=-1, keepdims=True))
    return np.where(np.ptp(values, axis=-1, keepdims=True) > 0, found, 0.0)


def _products(x: Floats, y: Floats) -> Floats:
    return np.stack([np.einsum("ri,ri->r", *both) for both in ((x, y), (x, x), (y, y))], axis=1)


def _above(codes: NDArray[np.intp], ranks: Floats) -> Floats:
    """Return for each caption the sum of `ranks` over larger codes, and half of it over equal."""
    sums = np.bincount(codes, weights=ranks)
    larger = sums.sum() - np.cumsum(sums)
    return np.asarray((larger + sums / 2)[codes])


def why_missing(sums: Sums, statistic: Statistic, unit: str = "captions") -> Missing:
    """Return why a statistic has no value in any group; `unit` is what a sample has."""
    if len(sums.size) > 1:
        return Missing(f"no group has {statistic.smallest} {unit} that differ")
    if sums.size[0] < statistic.smallest:
        return Missing(f"fewer than {statistic.smallest} {unit}")
    if sums.untied_x[0] == 0:
        return Missing("the metric is constant")
    if sums.untied_y[0] == 0:
        return Missing("the human scores are constant")
    return Missing("the values differ by less than floating point can hold")

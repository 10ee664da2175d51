"""Correlations of a metric with human scores, by groups of captions, and without each video.

All statistics are functions of a few sums over captions or pairs of captions, `Sums`. The sums of
pairs come from matrices of signs: cell (i, j) says which of captions i and j has the higher score.
A row of such a matrix sums to the centred rank of its caption (times two), so Spearman's rho uses
the same matrices. A video is left out by subtracting what its captions add, so that the values
without each video, on which intervals and comparisons rest, cost little more than the value itself.
The time grows with the square of the captions in a group; the memory does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from capeval.stats.values import Floats, GroupingName, Ints, Mask, Missing, steady

# Cells of the sign matrices per chunk.
_CELLS = 4_000_000
# Of scores whose largest deviation is 1, a mean square below this is rounding error.
_TINY = 1e-12

Signs = NDArray[np.int8]


# ---- Which video and which system a caption is of, and how captions are grouped -----------------


class Grouping(NamedTuple):
    """How captions are grouped before a statistic is taken; its value is the mean over groups.

    They can reverse which of two metrics is better (Deutsch, Dror and Roth, 2021), so all are
    shown.

    Attributes
    ----------
    words : in tables
    of_each : in sentences, the captions that one value is computed from
    unit : what n counts
    """

    words: str
    of_each: str
    unit: str = "captions"


GROUPINGS: dict[GroupingName, Grouping] = {
    "pooled": Grouping("all captions", "all captions"),
    "item": Grouping("captions of one video; mean over videos", "captions of one video"),
    "within_system": Grouping(
        "captions of one system; mean over systems", "captions of one system"
    ),
    "system": Grouping("means of systems", "systems", "systems"),
}


@dataclass(frozen=True)
class Design:
    """The video and the system of each row of scores.

    Attributes
    ----------
    video, system : (n,), integers from 0, every one in use

    >>> design = Design(np.array([0, 0, 1]), np.array([0, 1, 0]))
    >>> design.videos, design.systems, design.repeats
    (2, 2, True)
    """

    video: Ints
    system: Ints

    @property
    def rows(self) -> int:
        return len(self.video)

    @cached_property
    def videos(self) -> int:
        return int(self.video.max(initial=-1)) + 1

    @cached_property
    def systems(self) -> int:
        return int(self.system.max(initial=-1)) + 1

    @property
    def repeats(self) -> bool:
        """Whether any video has more than one caption."""
        return self.videos < self.rows

    def groups(self, grouping: GroupingName) -> Ints:
        """Return the (n,) group of each caption; by system that of each system's mean."""
        if grouping == "item":
            return self.video
        if grouping == "within_system":
            return self.system
        return np.zeros(self.systems if grouping == "system" else self.rows, dtype=np.int64)

    def take(self, rows: Mask) -> Design:
        """Return the design of some rows alone, numbered anew.

        >>> design = Design(np.array([0, 0, 1]), np.array([0, 1, 0]))
        >>> design.take(np.array([True, False, True])).systems
        1
        """
        return Design(
            np.unique(self.video[rows], return_inverse=True)[1].astype(np.int64),
            np.unique(self.system[rows], return_inverse=True)[1].astype(np.int64),
        )


def group_means(values: Floats, group: Ints) -> Floats:
    """Return the (groups,) means of (n,) values; means that are equal as typed are equal.

    >>> group_means(np.array([1.0, 3.0, 5.0]), np.array([0, 0, 1])).tolist()
    [2.0, 5.0]
    """
    means = np.asarray(np.bincount(group, weights=values) / np.bincount(group))
    return steady(means, float(np.abs(values).max(initial=0.0)))


# ---- Statistics and sums ------------------------------------------------------------------------


class Sums(NamedTuple):
    """The sums that statistics are functions of, for a number of samples.

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
    def joined(cls, parts: Iterable[Sums]) -> Sums:
        """Join the samples of several sums."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))


@dataclass(frozen=True)
class Statistic:
    """A statistic of paired scores.

    Attributes
    ----------
    name : in files and options
    words : in tables
    of : the function of the sums
    smallest : the fewest captions that give a value
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
    without : of every group without each video, (groups, videos) by statistic, NaN where a group
        has no value then; None by item, where groups are videos, and by system
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


def correlated(x: Floats, y: Floats, design: Design, grouping: GroupingName) -> Correlated:
    """Return the sums of every group, and the statistics without each video.

    Parameters
    ----------
    x, y : (n,), finite, of the metric and of the human raters

    >>> design = Design(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]))
    >>> x, y = np.array([1.0, 2, 3, 4]), np.array([2.0, 1, 3, 4])
    >>> correlated(x, y, design, "item").values(STATISTICS["kendall_b"]).tolist()
    [-1.0, 1.0]
    """
    group = design.groups(grouping)
    if grouping == "system":
        x, y = group_means(x, design.system), group_means(y, design.system)
    if grouping in ("item", "system"):
        return Correlated(_of_groups(x, y, group))
    parts = []
    without = {name: np.empty((int(group.max()) + 1, design.videos)) for name in STATISTICS}
    for number in range(int(group.max()) + 1):
        rows = np.flatnonzero(group == number)
        # Captions of one video must follow each other.
        rows = rows[np.argsort(design.video[rows], kind="stable")]
        there, video = np.unique(design.video[rows], return_inverse=True)
        sums = _without_each(x[rows], y[rows], video)
        parts.append(Sums(*(each[:1] for each in sums)))
        for name, statistic in STATISTICS.items():
            whole, *rest = statistic.values(sums)
            without[name][number] = whole
            without[name][number, there] = rest
    return Correlated(Sums.joined(parts), without)


def _of_groups(x: Floats, y: Floats, group: NDArray[np.integer[Any]]) -> Sums:
    """Return the sums of every group, (groups,) samples."""
    order, sizes = np.argsort(group, kind="stable"), np.bincount(group)
    starts = np.cumsum(sizes) - sizes
    places, parts = [], []
    for size in np.unique(sizes):
        places.append(np.flatnonzero(sizes == size))
        rows = order[starts[places[-1]][:, None] + np.arange(size)]
        parts.append(sums_of_rows(x[rows], y[rows]))
    back = np.argsort(np.concatenate(places))
    return Sums(*(each[back] for each in Sums.joined(parts)))


def sums_of_rows(x: Floats, y: Floats) -> Sums:
    """Return the sums of every row of (rows, n) scores."""
    rows, size = x.shape
    step = max(1, _CELLS // size**2)
    if rows > step:
        starts = range(0, rows, step)
        return Sums.joined(sums_of_rows(x[at : at + step], y[at : at + step]) for at in starts)
    a, b = (_signs(side, side) for side in (x, y))

    def count(cells: NDArray[np.generic]) -> Floats:
        return np.asarray(np.sum(cells, axis=(1, 2), dtype=np.int64) / 2)

    ranks = [side.sum(axis=2, dtype=np.int64) / 2 for side in (a, b)]
    scores = [_centred(side) for side in (x, y)]
    return Sums(
        size=np.full(rows, float(size)),
        score=count(a * b),
        untied_x=count(a != 0),
        untied_y=count(b != 0),
        ranks=_products(*ranks),
        scores=_products(*scores),
    )


def _without_each(x: Floats, y: Floats, video: NDArray[np.intp]) -> Sums:
    """Return the sums of a group and, from the second on, those without each of its videos."""
    n, captions = len(x), np.bincount(video)
    starts = np.cumsum(captions) - captions
    # Of each caption: its pairs, its centred ranks, and these ranks without its own video.
    pairs, ranks, own = np.empty((3, n)), np.empty((2, n)), np.empty((2, n))
    less = np.zeros((3, len(captions)))
    products = ((0, 1), (0, 0), (1, 1))
    step = max(1, _CELLS // n)
    for at in range(0, n, step):
        here = slice(at, at + step)
        a, b = (_signs(side[here], side) for side in (x, y))
        pairs[:, here] = [cells.sum(axis=1, dtype=np.int64) for cells in (a * b, a != 0, b != 0)]
        ranks[:, here] = [signs.sum(axis=1, dtype=np.int64) / 2 for signs in (a, b)]
        # How far each video moves the rank of each caption, (captions, videos).
        moved = [np.add.reduceat(signs, starts, axis=1, dtype=np.float32) / 2 for signs in (a, b)]
        place = np.arange(len(a)), video[here]
        own[:, here] = ranks[:, here] - [of_side[place] for of_side in moved]
        for at_product, (p, q) in enumerate(products):
            less[at_product] += ranks[p, here] @ moved[q] + ranks[q, here] @ moved[p]
            less[at_product] -= np.einsum("iv,iv->v", moved[p], moved[q], dtype=float)

    # Pairs of two captions of one video are in the sums of both.
    within = _of_groups(x, y, video)
    score, untied_x, untied_y = (
        _whole_first(of_captions.sum() / 2, np.bincount(video, of_captions) - of_videos)
        for of_captions, of_videos in zip(
            pairs, (within.score, within.untied_x, within.untied_y), strict=True
        )
    )
    of_ranks = [
        _whole_first(ranks[p] @ ranks[q], moved_by + np.bincount(video, own[p] * own[q]))
        for (p, q), moved_by in zip(products, less, strict=True)
    ]
    return Sums(
        size=_whole_first(n, captions),
        score=score,
        untied_x=untied_x,
        untied_y=untied_y,
        ranks=np.stack(of_ranks, axis=1),
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


def _signs(rows: Floats, columns: Floats) -> Signs:
    """Return the signs of all differences of two (..., n) arrays: (..., rows, columns)."""
    one, other = rows[..., :, None], columns[..., None, :]
    return np.subtract(one > other, one < other, dtype=np.int8)


def _centred(values: Floats) -> Floats:
    """Return centred scores, scaled so that the largest is 1, along the last axis.

    Where all are equal, they are 0.
    """

    def scaled(cells: Floats) -> Floats:
        top = np.abs(cells).max(axis=-1, keepdims=True)
        return np.asarray(cells / np.where(top > 0, top, 1.0))

    # Scaled first: squares of very small or large values may leave the range of floats.
    found = scaled(values)
    found = scaled(found - found.mean(axis=-1, keepdims=True))
    return np.where(np.ptp(values, axis=-1, keepdims=True) > 0, found, 0.0)


def _products(x: Floats, y: Floats) -> Floats:
    return np.stack([np.einsum("ri,ri->r", *both) for both in ((x, y), (x, x), (y, y))], axis=1)


def why_missing(sums: Sums, statistic: Statistic, unit: str = "captions") -> Missing:
    """Return why a statistic has no value in any group; `unit` is the unit of n."""
    if len(sums.size) > 1:
        return Missing(f"no group has {statistic.smallest} {unit} that differ")
    if sums.size[0] < statistic.smallest:
        return Missing(f"fewer than {statistic.smallest} {unit}")
    if sums.untied_x[0] == 0:
        return Missing("the metric is constant")
    if sums.untied_y[0] == 0:
        return Missing("the human scores are constant")
    return Missing("the values differ by less than floating point can hold")

"""Which pairs two rankings order alike, counted in O(n log n) without an n x n array.

The count of inversions goes down the bits of the second ranking (a wavelet tree; Grossi, Gupta and
Vitter, 2003): at each bit the places that share all higher bits stand together, and a place with a
1 has, of its group, as many smaller codes before it as there are 0s before it. Each level is a few
passes over flat arrays, so that many rankings at once cost what one long ranking costs. One long
ranking with few ties is numbered without any: then all groups but the last are full, and the counts
follow from the places alone. Rankings of few values are counted as a table instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capeval.stats.ranks import dense_codes, runs
from capeval.stats.values import Floats, Ints

_MANY = 256
_LOW = 6


def smaller_before(codes: Ints, *, each: bool = True) -> Ints:
    """Count, for every place of every row, the earlier places with a smaller code.

    Parameters
    ----------
    codes : (rows, n), integers from 0
    each : False for the sum of each row alone, which is cheaper

    Returns
    -------
    (rows, n), or (rows,) where `each` is False.

    >>> smaller_before(np.array([[0, 2, 1, 2]])).tolist()
    [[0, 1, 1, 2]]
    >>> smaller_before(np.array([[0, 2, 1, 2]]), each=False).tolist()
    [4]
    """
    rows, width = codes.shape
    if rows == 1 and each and codes.max(initial=0) >= _MANY:
        return _smaller_before_long(codes[0])[None]
    flat = codes.ravel().astype(np.int32)
    size = flat.size
    counts = np.zeros(size, dtype=np.int32)
    sums = np.zeros(rows, dtype=np.int64)
    if not size:
        return counts.reshape(rows, width).astype(np.int64) if each else sums
    place = np.arange(size, dtype=np.int32)
    origin = place
    starts = np.arange(0, size, width, dtype=np.int32)
    zeros = np.zeros(size + 1, dtype=np.int32)
    for bit in range(int(flat.max()).bit_length() - 1, -1, -1):
        one = (flat >> bit) & 1 == 1
        np.cumsum(~one, out=zeros[1:], dtype=np.int32)
        sizes = np.diff(starts, append=np.int32(size))
        before = zeros[:-1] - np.repeat(zeros[starts], sizes)
        if each:
            counts[origin[one]] += before[one]
        else:
            # Places never leave their row, so its sum is taken where it lies.
            found = np.where(one, before, 0).reshape(rows, width)
            sums += found.sum(axis=1, dtype=np.int64)
        if not bit:
            break
        inside = zeros[starts + sizes] - zeros[starts]
        begin = np.repeat(starts, sizes)
        # Zeros keep their order at the head of the group, ones at its tail.
        to = np.where(one, place - before + np.repeat(inside, sizes), begin + before)
        moved = np.empty_like(flat)
        moved[to] = flat
        flat = moved
        if each:
            carried = np.empty_like(origin)
            carried[to] = origin
            origin = carried
        starts = np.stack([starts, starts + inside.astype(np.int32)], axis=1).ravel()
        # An empty group would start where the next one does.
        starts = starts[np.diff(starts, append=np.int32(size)) > 0]
    return counts.reshape(rows, width).astype(np.int64) if each else sums


def _smaller_before_long(codes: Ints) -> Ints:
    """Count the same of one ranking, from codes of which all but few are in use."""
    size = len(codes)
    # Of equal codes the earlier becomes the larger, and so is never counted.
    order = np.argsort(codes * size + np.arange(size)[::-1])
    return _smaller_before_unique(_inverse(order))


def _inverse(order: NDArray[np.intp]) -> Ints:
    """Return the place of each number in a permutation."""
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.arange(len(order))
    return places


def _smaller_before_unique(unique: Ints) -> Ints:
    """Count the same of a permutation of the numbers from 0."""
    size = len(unique)
    place = np.arange(size)
    # The count rides above the code, so that one array is moved.
    packed = unique.copy()
    for bit in range((size - 1).bit_length() - 1, _LOW - 1, -1):
        half = 1 << bit
        one = (packed & half) != 0
        at = np.flatnonzero(one)
        zeros, ones = packed[~one], packed[at]
        nth = place[: len(at)]
        ones += (at - nth - (nth & -half)) << 32
        whole = size // (2 * half) * half
        packed = np.empty_like(packed)
        halves = packed[: 2 * whole].reshape(-1, 2, half)
        halves[:, 0] = zeros[:whole].reshape(-1, half)
        halves[:, 1] = ones[:whole].reshape(-1, half)
        packed[2 * whole :] = np.concatenate([zeros[whole:], ones[whole:]])
    # The last levels would move all for the sake of a few: in groups so small each is compared.
    group = 1 << _LOW
    low = np.zeros(-(-size // group) * group, dtype=np.uint8)
    low[:size] = packed & (group - 1)
    low = np.ascontiguousarray(low.reshape(-1, group).T)
    inside = np.zeros_like(low)
    for apart in range(1, group):
        inside[apart:] += low[:-apart] < low[apart:]
    counts = np.empty(size, dtype=np.int64)
    counts[packed & (2**32 - 1)] = (packed >> 32) + inside.T.ravel()[:size]
    return counts[unique]


class PairCounts:
    """Unordered pairs, counted when first asked for: (rows,) each.

    Parameters
    ----------
    size : number of captions
    classes : the smaller number of distinct values of the two scores; None to count them as well
    count : the function from a name to the counts

    `score` is concordant − discordant pairs, `agreeing` concordant ones and those tied in both,
    `untied_x` and `untied_y` those that one side does not tie, `pairs` all. In a resample, a
    caption and its own copy are tied, but no pair; `size` and `classes` are those of the sample.
    """

    def __init__(self, size: float, classes: Any, count: Callable[[str], Any]) -> None:
        self.size, self._classes, self._count = size, classes, count

    @cached_property
    def classes(self) -> Any:
        """The smaller number of distinct values."""
        return self._count("classes") if self._classes is None else self._classes

    @cached_property
    def score(self) -> Any:
        """Concordant less discordant pairs."""
        return self._count("score")

    @cached_property
    def agreeing(self) -> Any:
        """Pairs that both order alike or both tie."""
        return self._count("agreeing")

    @cached_property
    def untied_x(self) -> Any:
        """Pairs that the first side does not tie."""
        return self._count("untied_x")

    @cached_property
    def untied_y(self) -> Any:
        """Pairs that the second side does not tie."""
        return self._count("untied_y")

    @cached_property
    def pairs(self) -> Any:
        """All pairs."""
        return self._count("pairs")

    def stepped(self, name: str, step: float) -> PairCounts:
        """Return the counts with a small imaginary part of one of them."""
        return PairCounts(
            self.size,
            self.classes,
            lambda asked: getattr(self, asked) + (1j * step if asked == name else 0),
        )

    @classmethod
    def of_ties(
        cls, size: int, concordant: Any, tied_x: Any, tied_y: Any, both: Any, classes: Any
    ) -> PairCounts:
        """Return the counts of rankings of `size` captions, given what each of them ties."""
        pairs = size * (size - 1) / 2
        known = {
            "score": 2 * concordant - (pairs - tied_x - tied_y + both),
            "agreeing": concordant + both,
            "untied_x": pairs - tied_x,
            "untied_y": pairs - tied_y,
            "pairs": pairs,
        }
        rows = np.shape(concordant)
        known = {name: np.broadcast_to(counts, rows) for name, counts in known.items()}
        of_rows = np.broadcast_to(classes, rows).astype(np.float64)
        return cls(float(size), of_rows, known.__getitem__)

    @classmethod
    def joined(cls, parts: Sequence[PairCounts]) -> PairCounts:
        """Return the counts of several lots of rankings as those of all of them."""
        if len(parts) == 1:
            return parts[0]
        classes = np.concatenate([np.atleast_1d(one.classes) for one in parts])
        return cls(
            parts[0].size,
            classes,
            lambda name: np.concatenate([getattr(one, name) for one in parts]),
        )


def totals(x: Ints, y: Ints) -> PairCounts:
    """Count the pairs of every row that two rankings order alike, unlike or not at all.

    Parameters
    ----------
    x : (rows, n), integers from 0
    y : (rows, n) or (1, n), integers from 0

    >>> found = totals(np.array([[0, 1, 2]]), np.array([[0, 2, 1]]))
    >>> found.score.tolist(), found.pairs.tolist()
    ([1.0], [3.0])
    """
    width = x.shape[1]
    span = int(y.max(initial=0)) + 1
    if (int(x.max(initial=0)) + 1) * span <= 2 * width:
        return _totals_of_tables(x, y)
    # Within equal x the larger y comes first, so that ties in x are never counted as inversions.
    keys = np.sort(x * span + (span - 1 - y), axis=1)
    later = span - 1 - keys % span
    place = np.arange(width)
    new_x, first_x = runs(keys // span)
    _, first_xy = runs(keys)
    new_y, first_y = runs(np.sort(np.broadcast_to(y, (len(y), width)), axis=1))
    tied_x = (place - first_x).sum(axis=1).astype(np.float64)
    tied_xy = (place - first_xy).sum(axis=1).astype(np.float64)
    tied_y = (place - first_y).sum(axis=1).astype(np.float64)
    concordant = smaller_before(later, each=False).astype(np.float64)
    classes = np.minimum(new_x.sum(axis=1), new_y.sum(axis=1))
    return PairCounts.of_ties(width, concordant, tied_x, tied_y, tied_xy, classes)


def _totals_of_tables(x: Ints, y: Ints) -> PairCounts:
    """Count the same where a table of how often which values meet is smaller than the rows."""
    rows, width = x.shape
    across, down = int(y.max(initial=0)) + 1, int(x.max(initial=0)) + 1
    cells = (np.arange(rows)[:, None] * down + x) * across + y
    table = np.bincount(cells.ravel(), minlength=rows * down * across).astype(np.float64)
    table = table.reshape(rows, down, across)
    of_x, of_y = table.sum(axis=2), table.sum(axis=1)
    # How many are less in both: the table summed up to, and not with, each cell.
    less = table[:, :-1].cumsum(axis=1).cumsum(axis=2)[:, :, :-1]
    concordant = np.einsum("rij,rij->r", table[:, 1:, 1:], less)

    def tied(sizes: Floats) -> Floats:
        return np.asarray((np.einsum("ri,ri->r", sizes, sizes) - width) / 2)

    ties = (tied(of_x), tied(of_y), tied(table.reshape(rows, -1)))
    classes = np.minimum(np.count_nonzero(of_x, axis=1), np.count_nonzero(of_y, axis=1))
    return PairCounts.of_ties(width, concordant, *ties, classes)


@dataclass(frozen=True, slots=True)
class Concordance:
    """For every value, its relations to the n - 1 others, counted: (n,) each.

    `score` is concordant − discordant partners, `agreeing` concordant ones and those tied in
    both; `untied_x` and `untied_y` those that are not tied with it; `classes` is the
    smaller number of distinct values.
    """

    score: Floats
    agreeing: Floats
    untied_x: Floats
    untied_y: Floats
    classes: int

    def partners(self) -> dict[str, Floats]:
        """Return how many pairs of each kind each value is in, by the names of `PairCounts`."""
        return {
            "score": self.score,
            "agreeing": self.agreeing,
            "untied_x": self.untied_x,
            "untied_y": self.untied_y,
            "pairs": np.full(len(self.score), len(self.score) - 1.0),
        }

    def totals(self) -> PairCounts:
        """Return the pairs of this one ranking: (1,) each.

        >>> concordance(np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0])).totals().score
        array([1.])
        """
        sums = {name: np.array([float(of.sum()) / 2]) for name, of in self.partners().items()}
        return PairCounts(float(len(self.score)), float(self.classes), sums.__getitem__)


def concordance(x: Floats | Ints, y: Floats | Ints) -> Concordance:
    """Count each value's partners; O(n log n) time, O(n) memory.

    Parameters
    ----------
    x, y : (n,), finite, or codes in their order

    >>> concordance(np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0])).score.tolist()
    [2.0, 0.0, 0.0]
    """
    size = len(x)
    a, b = dense_codes(x), dense_codes(y)
    in_a, in_b = np.bincount(a), np.bincount(b)
    # Within equal a the larger b comes first, so that ties in a are never counted as inversions.
    by_a = np.argsort(a * len(in_b) + (len(in_b) - 1 - b))
    # Of equal b the earlier in that order becomes the larger: falling a, and never counted.
    by_b = np.argsort(b * size + (size - 1 - _inverse(by_a)))
    below = np.empty(size, dtype=np.int64)
    below[by_a] = (
        smaller_before(b[by_a][None])[0]
        if len(in_b) <= _MANY
        else _smaller_before_unique(_inverse(by_b)[by_a])
    )
    less_a, less_b = (np.cumsum(in_a) - in_a)[a], (np.cumsum(in_b) - in_b)[b]
    same_a, same_b = in_a[a] - 1, in_b[b] - 1
    both, same_a_less_b = _joint(a, b, by_a)
    _, same_b_less_a = _joint(b, a, by_b)
    del a, b, by_a, by_b
    # (x less, y more), (x more, y less) and (x more, y more) follow from the margins.
    less_more = less_a - below - same_b_less_a
    more_less = less_b - below - same_a_less_b
    more_same = same_b - same_b_less_a - both
    more_more = (size - 1 - less_a - same_a) - more_less - more_same
    return Concordance(
        score=(below + more_more - less_more - more_less).astype(np.float64),
        agreeing=(below + more_more + both).astype(np.float64),
        untied_x=(size - 1 - same_a).astype(np.float64),
        untied_y=(size - 1 - same_b).astype(np.float64),
        classes=min(len(in_a), len(in_b)),
    )


def _joint(a: Ints, b: Ints, order: NDArray[np.intp]) -> tuple[Ints, Ints]:
    """Return how many others are equal in both, and how many are equal in `a` and less in `b`.

    `order` sorts them by a, and by falling b where a is equal.
    """
    sizes = np.bincount(a)
    if len(sizes) == len(a):
        return np.zeros_like(a), np.zeros_like(a)
    ends = np.cumsum(sizes)[a]
    cells = (a * (int(b.max(initial=0)) + 1) + b)[order]
    starts = np.flatnonzero(np.diff(cells, prepend=-1))
    sizes = np.diff(starts, append=len(order))
    less, equal = np.empty_like(a), np.empty_like(a)
    less[order], equal[order] = np.repeat(starts + sizes, sizes), np.repeat(sizes - 1, sizes)
    return equal, ends - less


def agreeing_pairs(metric: Floats, human: Floats, threshold: float) -> int:
    """Count the pairs on which metric and human raters agree.

    A difference of the metric up to `threshold` is a tie (Deutsch, Foster and Freitag, 2023).

    >>> agreeing_pairs(np.array([1.0, 1.1, 2.0]), np.array([1.0, 1.0, 2.0]), 0.2)
    3
    """
    # In O(n^2) time, which is shorter for few values.
    if len(metric) > _MANY:
        return int(concordance_within(metric, human, threshold).agreeing.sum()) // 2
    order = np.argsort(metric)
    x, y = metric[order], human[order]
    agreed = 0
    for i in range(len(x) - 1):
        tied = x[i + 1 :] - x[i] <= threshold
        gap = y[i + 1 :] - y[i]
        agreed += int(np.count_nonzero(np.where(tied, gap == 0, gap > 0)))
    return agreed


def concordance_within(metric: Floats, human: Floats, threshold: float) -> Concordance:
    """Count each value's partners where a difference of the metric up to `threshold` is a tie.

    In O(n log n) time and O(n) memory.

    >>> found = concordance_within(np.array([1.0, 1.1, 2.0]), np.array([1.0, 1.0, 2.0]), 0.2)
    >>> found.agreeing.tolist(), found.untied_x.tolist()
    ([2.0, 2.0, 2.0], [1.0, 1.0, 2.0])
    """
    size = len(metric)
    order = np.argsort(metric, kind="stable")
    y = dense_codes(human)[order]
    # The values that tie with one are those from its start up to, and without, its end.
    ends = _ends(metric[order], threshold)
    starts = np.searchsorted(ends, np.arange(size), side="right")
    sizes = np.bincount(y)
    less_before, same_before = _among_first(y, starts)
    less_inside, same_inside = _among_first(y, ends)
    less_after = (np.cumsum(sizes) - sizes)[y] - less_inside
    more_after = size - ends - less_after - (sizes[y] - same_inside)
    more_before = starts - less_before - same_before
    both = same_inside - same_before - 1
    agreed = less_before + more_after
    score, agreeing, untied_x, untied_y = np.empty((4, size))
    score[order] = agreed - more_before - less_after
    agreeing[order] = agreed + both
    untied_x[order], untied_y[order] = starts + size - ends, size - sizes[y]
    classes = min(len(np.unique(metric)), len(sizes))
    return Concordance(score, agreeing, untied_x, untied_y, classes)


def _ends(values: Floats, threshold: float) -> Ints:
    """Return up to where the values after each one differ from it by no more than a threshold.

    `values` rise. A difference is compared as it is rounded, which searching for a sum is not.
    """
    size = len(values)
    ends = np.searchsorted(values, values + threshold, side="right")
    further = (ends < size) & (values[np.minimum(ends, size - 1)] - values <= threshold)
    shorter = values[np.maximum(ends - 1, 0)] - values > threshold
    wrong = np.flatnonzero(further | shorter)
    # Rounded differences rise too, so that the few that are wrong can be bisected.
    low, high = wrong + 1, np.full(len(wrong), size)
    while (low < high).any():
        middle = (low + high) // 2
        tied = values[np.minimum(middle, size - 1)] - values[wrong] <= threshold
        low = np.where(tied & (low < high), middle + 1, low)
        high = np.where(tied, high, middle)
    ends[wrong] = low
    return ends


def _among_first(codes: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """Count, for each place, the smaller and the equal codes among the first `ends` of it.

    `ends` do not fall. Each code is put in once more at its end; what these come to by themselves
    is taken off.
    """
    size = len(codes)
    place = np.arange(size)
    order = np.argsort(np.concatenate([2 * place + 1, 2 * ends]), kind="stable")
    merged = smaller_before(np.concatenate([codes, codes])[order][None])[0]
    less = merged[_inverse(order)[size:]] - smaller_before(codes[None])[0]
    keys = np.sort(codes * (size + 1) + place)
    first = np.cumsum(np.bincount(codes)) - np.bincount(codes)
    return less, np.searchsorted(keys, codes * (size + 1) + ends) - first[codes]

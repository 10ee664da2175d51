"""Pairwise accuracy with ties, acc_eq (Deutsch, Foster and Freitag, "Ties Matter", 2023).

A pair of captions counts when the metric orders it as human raters do, a tie included. A metric's
difference up to a threshold is a tie; the threshold that makes the accuracy highest is found on
the same pairs (as WMT 2023 does, so it flatters) and, beside it, on pairs of other videos. Because
human raters tie often, a constant metric can do well: its value is given with every value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from capeval.stats.design import same_sized
from capeval.stats.groupings import Grouping, grouping_of
from capeval.stats.pair import Pair
from capeval.stats.ranks import dense_codes, runs
from capeval.stats.statistic import ACC_EQ
from capeval.stats.values import Floats, Ints, Mask, Missing, Value

CALIBRATED = 5_000
"""The most captions of which all pairs are used to calibrate a threshold: 5 s and 500 MB."""

SAMPLED = 1_000_000
"""How many pairs are sampled of more captions: an accuracy is then known to .0005 (its error)."""

# A pair across two of them leaves three to calibrate on.
_FOLDS = 5
_FOLD_PAIRS = [(a, b) for a in range(_FOLDS) for b in range(a, _FOLDS)]
_BLOCK = 1_000_000
_SLICE = 4_000_000
_SHORT = 64
# Ranges of gaps by which the pairs beyond the last useful threshold are left unsorted.
_RANGES = 512


@dataclass(frozen=True, slots=True)
class Calibration:
    """acc_eq and its threshold.

    Attributes
    ----------
    value : of all pairs, with the threshold found on the same pairs or on a sample of them
    threshold : the smallest of the best; a difference up to it is a tie
    cross_fitted : with thresholds found on pairs of other videos
    untied : with the threshold 0
    constant : the value of a constant metric: the share of pairs that human raters tie
    groups, dropped : number of groups with a pair, and of those without
    """

    value: Value
    threshold: Value
    cross_fitted: Value
    untied: Value
    constant: Value
    groups: int
    dropped: int


def constant_accuracy(human: ArrayLike, group: Ints) -> Value:
    """Return what a constant metric gets: the mean over groups of the share of tied pairs.

    >>> constant_accuracy([1, 1, 2, 3], np.array([0, 0, 1, 1]))
    0.5
    """
    codes = dense_codes(np.asarray(human))
    span = int(codes.max(initial=0)) + 1
    cells = np.sort(group * span + codes)
    # Every value that a group has makes a pair with each one before it that is equal.
    behind = np.arange(len(cells)) - runs(cells[None])[1][0]
    sizes = np.bincount(group).astype(np.float64)
    tied = np.bincount(cells // span, weights=behind, minlength=len(sizes))
    some = sizes > 1
    if not some.any():
        return Missing("no group has a pair")
    sizes = sizes[some]
    return float((tied[some] / (sizes * (sizes - 1) / 2)).mean())


def calibrate(pair: Pair, by: Grouping | str, *, seed: int = 0) -> Calibration:
    """Return acc_eq with its threshold, found in-sample and across videos.

    One threshold serves all groups: the one that makes the mean over groups highest, of 0 and all
    differences. For the cross-fitted value, videos are dealt into five folds, and a pair is judged
    with the threshold of the pairs that share no fold with it: so no video judges itself, and
    every pair counts once. O(p log p) time for p pairs; memory for at most `_SLICE` of them.

    Of more captions than `CALIBRATED`, or groups with as many pairs, the thresholds are found on
    `SAMPLED` random pairs, evenly of all groups, and the cross-fitted value is of these. As by the
    authors' program; but the value is of all pairs.

    Parameters
    ----------
    by : `system` is never calibrated: its means are too few
    seed : of the generator that deals the videos

    >>> from capeval.stats.design import Design
    >>> found = calibrate(Pair.of([1, 2, 9, 10], [1, 1, 2, 2], Design.of(range(4))), "pooled")
    >>> found.value, found.threshold, found.untied, found.constant
    (1.0, 1.0, 0.6666666666666666, 0.3333333333333333)
    """
    grouping = grouping_of(by)
    return pair.kept(("calibrated", grouping, seed), lambda: _made(pair, grouping, seed))


def _made(pair: Pair, grouping: Grouping, seed: int) -> Calibration:
    design = pair.design
    x, y, group = pair.sides(grouping)
    sizes = np.bincount(group).astype(np.float64)
    each = sizes * (sizes - 1) / 2
    groups = int((each > 0).sum())
    dropped = len(sizes) - groups
    if not groups:
        none = Missing("no group has a pair")
        return Calibration(none, none, none, none, none, 0, dropped)
    untied = float(np.nanmean(pair.values(ACC_EQ, grouping)))
    constant = constant_accuracy(pair.codes(grouping)[1], group)
    if grouping.means:
        none = Missing("the means of systems are too few to calibrate a threshold on")
        return Calibration(none, none, none, untied, constant, groups, dropped)

    rng = np.random.default_rng(seed)
    fold = (rng.permutation(design.videos) % _FOLDS)[design.video]
    # At least one pair of each group, however many groups there are.
    sampled = each.sum() > CALIBRATED * (CALIBRATED - 1) / 2
    used = np.minimum(each, -(-SAMPLED // groups)) if sampled else each
    # Groups weigh alike; where they are of one size the weight is 1 and every sum exact.
    least = used[used > 0].min()
    pairs = _Pairs(x, y, group, least / np.maximum(used, 1.0), fold, used, rng)
    trained, thresholds, best = _thresholds(pairs)
    total = groups * least
    value, threshold = float(best[0] / total), float(thresholds[0])
    if sampled:
        value = float(np.nanmean(pair.values(ACC_EQ, grouping, threshold=threshold)))
        # What is best for a sample may be worse than 0 for all.
        value, threshold = (value, threshold) if value > untied else (untied, 0.0)
    crossed: Value
    if trained.all():
        crossed = float(_held_out(pairs, thresholds[1:]) / total)
    else:
        crossed = Missing("too few videos to calibrate on others than those judged")
    return Calibration(
        value=value,
        threshold=threshold,
        cross_fitted=crossed,
        untied=untied,
        constant=constant,
        groups=groups,
        dropped=dropped,
    )


@dataclass(frozen=True, slots=True)
class _Block:
    """Some pairs, (pairs,) each.

    `gap` is the metric's absolute difference; a pair counts where it is a tie if raters tie
    (`tied`), and else if the metric orders it as they do (`ordered`).
    """

    gap: Floats
    tied: Mask
    ordered: Mask
    weight: Floats
    label: NDArray[np.int8]


@dataclass(frozen=True)
class _Pairs:
    """Pairs within groups, made block by block, each time anew unless they are few.

    A pair's label identifies the (unordered) pair of folds that its videos are in. `used` is the
    number of pairs of each group; if these are not all, they are random, and kept.
    """

    x: Floats
    y: Floats
    group: Ints
    weight: Floats
    fold: Ints
    used: Floats
    rng: np.random.Generator

    @cached_property
    def widest(self) -> float:
        """The largest difference that there can be."""
        return float(np.ptp(self.x))

    def blocks(self) -> Iterable[_Block]:
        return self._kept if self.used.sum() <= _SLICE else self._made()

    @cached_property
    def _kept(self) -> list[_Block]:
        return list(self._made())

    def _made(self) -> Iterator[_Block]:
        label = np.zeros((_FOLDS, _FOLDS), dtype=np.int8)
        for number, (a, b) in enumerate(_FOLD_PAIRS):
            label[a, b] = label[b, a] = number
        for first, second in self._rows():
            dx, dy = self.x[first] - self.x[second], self.y[first] - self.y[second]
            yield _Block(
                gap=np.abs(dx),
                tied=dy == 0,
                ordered=((dx > 0) & (dy > 0)) | ((dx < 0) & (dy < 0)),
                weight=self.weight[self.group[first]],
                label=label[self.fold[first], self.fold[second]],
            )

    def _rows(self) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        for groups, rows in same_sized(self.group):
            size = rows.shape[1]
            if size < 2:
                continue
            count = int(self.used[groups[0]])
            if count < size * (size - 1) // 2:
                step = max(1, _BLOCK // count)
                for start in range(0, len(rows), step):
                    some = rows[start : start + step]
                    one = self.rng.integers(size, size=(len(some), count))
                    other = self.rng.integers(size - 1, size=one.shape)
                    other += other >= one
                    first = np.take_along_axis(some, one, axis=1).ravel()
                    yield first, np.take_along_axis(some, other, axis=1).ravel()
                continue
            if size <= _SHORT:
                first, second = np.triu_indices(size, 1)
                step = max(1, _BLOCK // len(first))
                for start in range(0, len(rows), step):
                    some = rows[start : start + step]
                    yield some[:, first].ravel(), some[:, second].ravel()
                continue
            step = max(1, _BLOCK // size)
            for row in rows:
                for start in range(0, size - 1, step):
                    here = np.arange(start, min(start + step, size - 1))
                    others = size - 1 - here
                    first = np.repeat(here, others)
                    behind = np.cumsum(others) - others
                    second = np.arange(len(first)) - np.repeat(behind - here - 1, others)
                    yield row[first], row[second]


def _thresholds(pairs: _Pairs) -> tuple[Mask, Floats, Floats]:
    """Find the best threshold for all pairs, and for each label on pairs that share no fold.

    Returns whether each label that has pairs has others to train on, (labels,); and the
    thresholds with the weighted counts that they reach, (1 + labels,).
    """
    labels = _FOLD_PAIRS
    trains = np.ones((1 + len(labels), len(labels)))
    for number, (a, b) in enumerate(labels):
        trains[number + 1] = [not {a, b} & {c, d} for c, d in labels]
    # At threshold 0: every pair whose metrics are equal is a tie, every other is not.
    at_zero, counts = np.zeros(len(labels)), np.zeros(len(labels))
    sample, positive = [], 0
    exact = bool((pairs.weight == 1).all())
    won, lost = np.zeros((2, (_RANGES + 1) * len(labels)))
    for block in pairs.blocks():
        right = np.where(block.gap == 0, block.tied, block.ordered) * block.weight
        at_zero += np.bincount(block.label, weights=right, minlength=len(labels))
        counts += np.bincount(block.label, minlength=len(labels))
        turns = (block.gap > 0) & (block.tied | block.ordered)
        turning = block.gap[turns]
        positive += len(turning)
        sample.append(turning[::97])
        if exact and len(turning):
            ranges = (turning / pairs.widest * _RANGES).astype(np.int32)
            cells = ranges * len(labels) + block.label[turns]
            tied = block.tied[turns]
            won += np.bincount(cells[tied], minlength=len(won))
            lost += np.bincount(cells[~tied], minlength=len(lost))
    trained = (trains[1:] @ counts > 0) | (counts == 0)
    reached = trains @ at_zero
    best, thresholds = reached.copy(), np.zeros(len(trains))
    # Sums of fractions depend on their order, so that all have to be added.
    last = np.inf
    if exact:
        shape = (_RANGES + 1, len(labels))
        last = pairs.widest * _last_useful(trains, reached, won.reshape(shape), lost.reshape(shape))
    slices = -(-positive // _SLICE)
    edges = [0.0]
    if slices > 1:
        inner = np.quantile(np.concatenate(sample), np.arange(1, slices) / slices)
        edges += np.unique(inner[(inner > 0) & (inner < last)]).tolist()
    edges += [last] if last else []
    for low, high in pairwise(edges):
        gaps, gains, kinds = _slice(pairs, low, high)
        if not len(gaps):
            continue
        repeated = bool((gaps[1:] == gaps[:-1]).any())
        for number, train in enumerate(trains > 0):
            those = np.flatnonzero(train[kinds])
            if not len(those):
                continue
            gained = np.cumsum(gains[those])
            score = reached[number] + gained
            if repeated:
                # A threshold takes in all pairs of one gap together.
                ends = gaps[those]
                score[:-1][ends[1:] == ends[:-1]] = -np.inf
            place = int(np.argmax(score))
            if score[place] > best[number]:
                best[number], thresholds[number] = score[place], gaps[those[place]]
            reached[number] += gained[-1]
    return trained, thresholds, best


def _last_useful(trains: Floats, reached: Floats, won: Floats, lost: Floats) -> float:
    """Return the share of the widest gap above which no threshold is the best; 0 if none is.

    Parameters
    ----------
    trains : (thresholds, labels)
    reached : (thresholds,), with the threshold 0
    won, lost : (ranges, labels) pairs that a threshold above their gaps wins and loses
    """
    gained = trains @ won.T
    ends = reached[:, None] + np.cumsum(gained - trains @ lost.T, axis=1)
    most = ends + trains @ lost.T
    least = np.maximum(reached, ends.max(axis=1))[:, None]
    useful = ((most >= least) & (gained > 0)).any(axis=0)
    # A little more, lest rounding puts a gap into the range above its own.
    return (int(np.flatnonzero(useful)[-1]) + 1.001) / _RANGES if useful.any() else 0.0


def _slice(pairs: _Pairs, low: float, high: float) -> tuple[Floats, Floats, NDArray[np.int8]]:
    """Collect the pairs with low < gap <= high that a threshold wins or loses, by gap."""
    gaps, gains, labels = [], [], []
    for block in pairs.blocks():
        use = (block.gap > low) & (block.gap <= high) & (block.tied | block.ordered)
        gaps.append(block.gap[use])
        weight = block.weight[use]
        gains.append(np.where(block.tied[use], weight, -weight))
        labels.append(block.label[use])
    gap = np.concatenate(gaps)
    order = np.argsort(gap)
    return gap[order], np.concatenate(gains)[order], np.concatenate(labels)[order]


def _held_out(pairs: _Pairs, thresholds: Floats) -> float:
    """Return the weighted count of pairs that are right by the thresholds of their labels."""
    right = 0.0
    for block in pairs.blocks():
        tie = block.gap <= thresholds[block.label]
        right += float((np.where(tie, block.tied, block.ordered) * block.weight).sum())
    return right

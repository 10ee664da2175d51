"""What two metrics come to when they change places in some videos, for many such swaps at once.

With s = 1 for a video whose metrics are swapped and 0 for another, the pairs that a metric and
people order alike are a quadratic form in s, and so is the covariance of their ranks, which is a
sum over pairs as well. What the two metrics have after a swap and after its opposite shares that
form. The sizes of the classes of equal values, on which ties rest, are linear in s. So thousands of
swaps are a few matrix products, and tau-b, tau-c, acc_eq and rho share them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from capeval.stats.concordance import Totals, totals
from capeval.stats.correlation import correlate_rows, count_pairs, from_totals
from capeval.stats.design import Design, group_means
from capeval.stats.ranks import average_ranks, dense_codes
from capeval.stats.resampling import LARGEST, Counts
from capeval.stats.values import OF_PAIRS, Floats, Ints, Statistic

__all__ = ["GroupSwap", "SystemSwap", "on_one_scale"]

_DIGITS = 10


def on_one_scale(values: Floats, statistic: Statistic) -> Floats:
    """Return ranks, for Pearson's r standardised values: the swap must not see another unit.

    >>> on_one_scale(np.array([5.0, 7.0, 6.0]), "spearman").tolist()
    [1.0, 3.0, 2.0]
    """
    if statistic != "pearson":
        return average_ranks(values)
    top = np.abs(values).max(initial=0.0)
    scaled = values / top if top > 0 else values
    centred = scaled - scaled.mean()
    spread = centred.std()
    return np.asarray(centred / (spread if spread > 0 else 1.0))


class GroupSwap:
    """Differences after swaps in one group of captions.

    Parameters
    ----------
    a, b, y : (n,), the two metrics and people
    video : (n,), the video of each caption
    """

    def __init__(self, a: Floats, b: Floats, y: Floats, video: Ints) -> None:
        order = np.argsort(video, kind="stable")
        self.raw = a[order], b[order]
        self.y = y[order]
        self.columns, self.starts = np.unique(video[order], return_index=True)
        self.sizes = np.diff(self.starts, append=len(y))

    def differences(
        self, swapped: Counts, statistics: Sequence[Statistic]
    ) -> dict[Statistic, Floats]:
        """Return (draws,) differences, first less second, of (draws, videos) swaps."""
        here = swapped[:, self.columns]
        result: dict[Statistic, Floats] = {}
        if "pearson" in statistics:
            result["pearson"] = self._pearson(here)
        ordinal = [one for one in statistics if one != "pearson"]
        if ordinal:
            few = len(self.y) <= LARGEST
            result |= self._by_forms(here, ordinal) if few else self._anew(here, ordinal)
        return result

    def _pearson(self, here: Counts) -> Floats:
        a, b = (on_one_scale(values, "pearson") for values in self.raw)
        y = on_one_scale(self.y, "pearson")
        size = len(y)

        def parts(of_a: Floats, of_b: Floats) -> tuple[Floats, Floats]:
            """Return the sum over captions before, (2,), and by how much each video changes it."""
            change = np.add.reduceat(of_b - of_a, self.starts)
            return np.array([of_a.sum(), of_b.sum()]), change

        columns = [parts(a, b), parts(a * a, b * b), parts(a * y, b * y)]
        moved = here.astype(np.float64) @ np.stack([change for _, change in columns], axis=1)
        values = []
        for side, sign in ((0, 1), (1, -1)):
            total, squares, products = (columns[k][0][side] + sign * moved[:, k] for k in range(3))
            spread = squares - total**2 / size
            fine = spread > 1e-12 * size
            root = np.sqrt(np.where(fine, spread, 1.0) * size)
            values.append(np.where(fine, np.clip(products / root, -1.0, 1.0), np.nan))
        return np.asarray(values[0] - values[1])

    def _ranks(self) -> tuple[Ints, Ints]:
        # Average ranks are halves, so twice the rank is a whole number.
        first, second = ((2 * average_ranks(values)).astype(np.int64) for values in self.raw)
        return first, second

    def _anew(self, here: Counts, statistics: Sequence[Statistic]) -> dict[Statistic, Floats]:
        """Count every swapped ranking by itself: no n x n array."""
        a, b = self._ranks()
        swap = np.repeat(here > 0, self.sizes, axis=1)
        sides = np.where(swap, b, a), np.where(swap, a, b)
        result: dict[Statistic, Floats] = {}
        taus = [one for one in statistics if one in OF_PAIRS]
        if taus:
            codes = dense_codes(self.y)[None]
            counted = [totals(side, codes) for side in sides]
            for one in taus:
                x1, x2 = (from_totals(found, len(self.y), one) for found in counted)
                result[one] = x1 - x2
        if "spearman" in statistics:
            y = self.y[None]
            x1, x2 = (correlate_rows(side.astype(np.float64), y, "spearman") for side in sides)
            result["spearman"] = x1 - x2
        return result

    def _by_forms(self, here: Counts, statistics: Sequence[Statistic]) -> dict[Statistic, Floats]:
        a, b = self._ranks()
        size = len(a)
        taus = [one for one in statistics if one in OF_PAIRS]
        signs = [_signs(a, a), _signs(a, b), _signs(b, b)]
        result: dict[Statistic, Floats] = {}
        codes_y = dense_codes(self.y)
        ranks_y = (2 * average_ranks(self.y)).astype(np.int64)
        by_value = _Classes(a, b, self.starts)
        sums = [by_value.sums(here, side) for side in (0, 1)]
        if taus:
            scores = self._scores(here, signs, _signs(codes_y, codes_y))
            tied_y = _tied(np.bincount(codes_y))
            both = None
            if tied_y and "acc_eq" in taus:
                span = int(codes_y.max()) + 1
                both = _Classes(a * span + codes_y, b * span + codes_y, self.starts)
            pairs = size * (size - 1) / 2
            sides: list[dict[Statistic, Floats]] = []
            for side in (0, 1):
                score, found = scores[side] / 2, sums[side]
                tied_x = (found.squares - size) / 2
                tied_both = (
                    np.zeros(len(here))
                    if both is None
                    else (both.sums(here, side).squares - size) / 2
                )
                ordered = pairs - tied_x - tied_y + tied_both
                counted = Totals(
                    concordant=(ordered + score) / 2,
                    discordant=(ordered - score) / 2,
                    untied_x=pairs - tied_x,
                    untied_y=np.full(len(here), pairs - tied_y),
                    tied_both=tied_both,
                    classes_x=found.classes,
                    classes_y=np.full(len(here), int(codes_y.max()) + 1),
                )
                sides.append({one: from_totals(counted, size, one) for one in taus})
            result |= {one: sides[0][one] - sides[1][one] for one in taus}
        if "spearman" in statistics:
            scores = self._scores(here, signs, (ranks_y[:, None] - ranks_y).astype(np.float32))
            squares_y = float(((ranks_y - ranks_y.mean()) ** 2).sum()) / 4
            values = []
            for side in (0, 1):
                # The sum of squares of average ranks is short of n^3 / 12 by that of tied classes.
                squares_x = (float(size) ** 3 - sums[side].cubes) / 12
                fine = (squares_x > 0) & (squares_y > 0)
                root = np.sqrt(np.where(fine, squares_x * squares_y, 1.0))
                values.append(np.where(fine, np.clip(scores[side] / 8 / root, -1, 1), np.nan))
            result["spearman"] = values[0] - values[1]
        return result

    def _scores(self, here: Counts, signs: Sequence[Counts], weights: Counts) -> list[Floats]:
        """Return the weighted sums of the signs of all ordered pairs, of both sides.

        `signs` are those of a less a, a less b and b less b; those of b less a are the second's,
        turned and negated, and so are the weights.
        """
        of_a, mixed, of_b = (self._by_video(one * weights) for one in signs)
        constant = of_a.sum(dtype=np.float64)
        linear = 2 * (mixed.sum(axis=0, dtype=np.float64) - of_a.sum(axis=1, dtype=np.float64))
        form = of_a - mixed - mixed.T + of_b
        whole = form.sum(axis=1, dtype=np.float64)
        # Whole numbers below 2 ** 24, so single precision is exact until they are summed.
        drawn = np.einsum("ij,ij->i", (here @ form).astype(np.float64), here)
        first = constant + here @ linear + drawn
        second = constant + linear.sum() + whole.sum() - here @ (linear + 2 * whole) + drawn
        return [first, second]

    def _by_video(self, matrix: Counts) -> Counts:
        if len(self.starts) == len(matrix):
            return matrix
        rows = np.add.reduceat(matrix, self.starts, axis=0)
        return np.asarray(np.add.reduceat(rows, self.starts, axis=1))


def _signs(a: Ints, b: Ints) -> Counts:
    return np.asarray(np.sign(a[:, None] - b), dtype=np.float32)


def _tied(sizes: NDArray[np.integer]) -> float:
    return float((sizes * (sizes - 1.0)).sum()) / 2


class _Sums:
    """Sums of squared and cubed sizes of the classes of equal values in each draw, and how many."""

    def __init__(self, sizes: Counts) -> None:
        squared = sizes * sizes
        self.squares = squared.sum(axis=1, dtype=np.float64)
        self.cubes = np.einsum("ij,ij->i", squared.astype(np.float64), sizes)
        self.classes = np.count_nonzero(sizes, axis=1)


class _Classes:
    """Sizes of classes of equal values after swaps."""

    def __init__(self, a: Ints, b: Ints, starts: NDArray[np.intp]) -> None:
        codes = dense_codes(np.concatenate([a, b]))
        in_a, in_b = codes[: len(a)], codes[len(a) :]
        video = np.zeros(len(a), dtype=np.int64)
        video[starts[1:]] = 1
        video = np.cumsum(video)
        count = int(codes.max()) + 1
        change = np.zeros((len(starts), count), dtype=np.float32)
        np.add.at(change, (video, in_b), 1.0)
        np.add.at(change, (video, in_a), -1.0)
        self.change = change
        self.sides = [np.bincount(one, minlength=count).astype(np.float32) for one in (in_a, in_b)]

    def sums(self, here: Counts, side: int) -> _Sums:
        moved = here @ self.change
        return _Sums(self.sides[0] + moved if side == 0 else self.sides[1] - moved)


class SystemSwap:
    """Differences after swaps, for the means of systems; parameters as of `GroupSwap`."""

    def __init__(self, a: Floats, b: Floats, y: Floats, design: Design) -> None:
        # Means of ranks would order the systems otherwise than means do: so standardised always.
        a, b = on_one_scale(a, "pearson"), on_one_scale(b, "pearson")
        self.a, self.b = group_means(a, design.system), group_means(b, design.system)
        self.y = group_means(y, design.system)
        self.move = np.zeros((design.videos, design.systems))
        sizes = np.bincount(design.system)[design.system]
        self.move[design.video, design.system] = (b - a) / sizes

    def differences(
        self, swapped: Counts, statistics: Sequence[Statistic]
    ) -> dict[Statistic, Floats]:
        """Return (draws,) differences of (draws, videos) swaps."""
        moved = swapped.astype(np.float64) @ self.move
        exact = [self.a + moved, self.b - moved]
        # Rounded, so that means that are equal are ties whatever was added to get them.
        sides = [np.round(side, _DIGITS) for side in exact]
        y = self.y[None]
        width = sides[0].shape[1]
        result: dict[Statistic, Floats] = {}
        taus = [one for one in statistics if one in OF_PAIRS and width > 1]
        if taus:
            counted = [count_pairs(side, y) for side in sides]
            for one in taus:
                x1, x2 = (from_totals(found, width, one) for found in counted)
                result[one] = x1 - x2
        for one in statistics:
            if one not in result:
                of = exact if one == "pearson" else sides
                x1, x2 = (correlate_rows(side, y, one) for side in of)
                result[one] = x1 - x2
        return result

"""What two metrics come to when they change places in some videos, for many such swaps at once.

With s = 1 for a video whose metrics are swapped and 0 for another, the pairs that a metric and
raters order alike are a quadratic form in s, and so is the covariance of their ranks, which is a
sum over pairs as well. What the two metrics have after a swap and after its opposite shares that
form, and of acc_eq it cancels. Ties are such a form too, or follow from the sizes of the classes of
equal values, which are linear in s. So thousands of swaps are a few matrix products.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from capeval.stats.concordance import totals
from capeval.stats.correlation import correlate_rows, count_pairs, from_totals
from capeval.stats.design import group_means
from capeval.stats.pair import Pair
from capeval.stats.ranks import average_ranks, dense_codes
from capeval.stats.resampling import LARGEST, Counts, coins
from capeval.stats.values import OF_PAIRS, Floats, Ints, Statistic

_DIGITS = 10
_EXACT = 256


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
    a, b, y : (n,), the two metrics and the human scores
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
        y = dense_codes(self.y)
        size, classes_y = len(a), int(y.max()) + 1
        signs = [_signs(a, a), _signs(a, b), _signs(b, b)]
        signs_y = _signs(y, y)
        result: dict[Statistic, Floats] = {}
        if "acc_eq" in statistics:
            right = _Form([self._by_video((one == signs_y).astype(np.float32)) for one in signs])
            result["acc_eq"] = right.difference(here) / (size * (size - 1.0))
        if not set(statistics) - {"acc_eq"}:
            return result
        tied = _Form([self._by_video(1 - np.abs(one)) for one in signs]).values(here)
        sums = self._classes(here, a, b, tied)
        taus = [one for one in statistics if one in {"kendall_b", "kendall_c"}]
        if taus:
            score = _Form([self._by_video(one * signs_y) for one in signs]).values(here)
            untied_y = float(np.abs(signs_y).sum(dtype=np.float64)) / 2
            sides: list[dict[Statistic, Floats]] = []
            for side in (0, 1):
                untied_x = (float(size) ** 2 - tied[side]) / 2
                with np.errstate(invalid="ignore", divide="ignore"):
                    tau_b = score[side] / 2 / np.sqrt(untied_x * untied_y)
                    classes = np.minimum(sums[side][1], classes_y)
                    tau_c = score[side] / (float(size) ** 2 * (classes - 1) / classes)
                found: dict[Statistic, Floats] = {"kendall_b": tau_b, "kendall_c": tau_c}
                sides.append({one: np.clip(found[one], -1.0, 1.0) for one in taus})
            result |= {one: sides[0][one] - sides[1][one] for one in taus}
        if "spearman" in statistics:
            ranks_y = (2 * average_ranks(self.y)).astype(np.int64)
            weights = (ranks_y[:, None] - ranks_y).astype(np.float32)
            score = _Form([self._by_video(one * weights) for one in signs]).values(here)
            squares_y = float(((ranks_y - ranks_y.mean()) ** 2).sum()) / 4
            values = []
            for side in (0, 1):
                # The sum of squares of average ranks is short of n^3 / 12 by that of tied classes.
                squares_x = (float(size) ** 3 - sums[side][0]) / 12
                fine = (squares_x > 0) & (squares_y > 0)
                root = np.sqrt(np.where(fine, squares_x * squares_y, 1.0))
                values.append(np.where(fine, np.clip(score[side] / 8 / root, -1, 1), np.nan))
            result["spearman"] = values[0] - values[1]
        return result

    def _classes(
        self, here: Counts, a: Ints, b: Ints, tied: Sequence[Floats]
    ) -> list[tuple[Floats, Floats]]:
        """Return for both sides the sum of cubed sizes of the classes, and how many there are."""
        size = len(a)
        codes = dense_codes(np.concatenate([a, b]))
        count = int(codes.max()) + 1
        in_a, in_b = codes[:size], codes[size:]
        before = [np.bincount(one, minlength=count).astype(np.float32) for one in (in_a, in_b)]
        if max(one.max() for one in before) == 1:
            # Without ties of their own, two metrics make classes of one or two.
            doubles = [(one - size) / 2 for one in tied]
            return [(size + 6 * two, size - two) for two in doubles]
        video = np.repeat(np.arange(len(self.starts)), self.sizes)
        change = np.zeros((len(self.starts), count), dtype=np.float32)
        np.add.at(change, (video, in_b), 1.0)
        np.add.at(change, (video, in_a), -1.0)
        moved = here @ change
        result = []
        for sizes in (before[0] + moved, before[1] - moved):
            # Below 256 captions every cube is exact in single precision.
            exact = sizes if size <= _EXACT else sizes.astype(np.float64)
            cubes = np.einsum("ij,ij->i", exact * exact, exact).astype(np.float64)
            result.append((cubes, np.count_nonzero(sizes, axis=1).astype(np.float64)))
        return result

    def _by_video(self, matrix: Counts) -> Counts:
        if len(self.starts) == len(matrix):
            return matrix
        rows = np.add.reduceat(matrix, self.starts, axis=0)
        return np.asarray(np.add.reduceat(rows, self.starts, axis=1))


def _signs(a: Ints, b: Ints) -> Counts:
    return np.asarray(np.sign(a[:, None] - b), dtype=np.float32)


class _Form:
    """The sum over ordered pairs of captions of what a matrix has for them, after swaps.

    Parameters
    ----------
    matrices : (videos, videos) each, of pairs of a and a, of a and b, of b and b; what pairs of b
        and a have is the second one turned
    """

    def __init__(self, matrices: Sequence[Counts]) -> None:
        of_a, mixed, of_b = matrices
        self.constant = of_a.sum(dtype=np.float64)
        self.linear = 2 * (mixed.sum(axis=0, dtype=np.float64) - of_a.sum(axis=1, dtype=np.float64))
        self.form = of_a - mixed - mixed.T + of_b
        self.whole = self.form.sum(axis=1, dtype=np.float64)

    def values(self, here: Counts) -> list[Floats]:
        """Return (draws,) sums after (draws, videos) swaps, and after the opposite ones."""
        # Whole numbers below 2 ** 24, so single precision is exact until they are summed.
        drawn = np.einsum("ij,ij->i", (here @ self.form).astype(np.float64), here)
        first = self.constant + here @ self.linear + drawn
        return [first, first - self.difference(here)]

    def difference(self, here: Counts) -> Floats:
        """Return the first less the second, in which the form cancels."""
        total = self.linear.sum() + self.whole.sum()
        return np.asarray(2 * (here @ (self.linear + self.whole)) - total)


class SystemSwaps:
    """Differences of every two metrics after the same swaps, for the means of systems.

    By how much a swap moves a mean is a sum over the videos that are swapped, of each metric by
    itself: it is summed once for every metric, and what is left are a few columns of means.

    Parameters
    ----------
    metrics : of the same human scores and design
    draws, seed : of the swaps
    """

    def __init__(self, metrics: Sequence[Pair], draws: int, seed: int) -> None:
        design = metrics[0].design
        systems = design.systems
        self.y = group_means(metrics[0].y, design.system)
        # Means of ranks would order the systems otherwise than means do: so standardised always.
        scores = [on_one_scale(metric.x, "pearson") for metric in metrics]
        self.means = [group_means(values, design.system) for values in scores]
        sizes = np.bincount(design.system)[design.system]
        parts = np.zeros((design.videos, len(metrics) * systems))
        for number, values in enumerate(scores):
            parts[design.video, number * systems + design.system] = values / sizes
        sums = [swapped.astype(np.float64) @ parts for swapped in coins(design.videos, draws, seed)]
        self.sums = np.concatenate(sums).reshape(draws, len(metrics), systems)

    def differences(
        self, first: int, second: int, statistics: Sequence[Statistic]
    ) -> dict[Statistic, Floats]:
        """Return (draws,) differences of two of the metrics, by their numbers."""
        moved = self.sums[:, second] - self.sums[:, first]
        exact = [self.means[first] + moved, self.means[second] - moved]
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

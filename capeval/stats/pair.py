"""Scores of a metric with the human scores, and what the statistics of them share."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from capeval.stats.concordance import Concordance, PairCounts, concordance
from capeval.stats.design import Design, Kept, group_means, same_sized
from capeval.stats.estimate import Estimate
from capeval.stats.groupings import POOLED, Grouping, grouping_of
from capeval.stats.of_pairs import count_pairs
from capeval.stats.ranks import dense_codes, tie_share
from capeval.stats.resampling import LARGEST
from capeval.stats.statistic import Statistic, statistic_of
from capeval.stats.values import Floats, Ints, Mask, as_pairs


class Pair:
    """A metric's and the human scores of the same captions; shared work is done once.

    An interval, a p and a value of tau-b, tau-c and acc_eq all rest on the same counts of pairs,
    and all of rho on the same ranks. Nothing is changed once it is made.

    Attributes
    ----------
    x, y : (n,), of the metric and of the human raters
    design : of the same n rows

    >>> pair = Pair.of([1, 2, 3, 4], [1, 2, 4, 3], Design.of("abcd"))
    >>> pair.values("kendall_b", "pooled").round(2), pair.ties("pooled")
    (array([0.67]), (0.0, 0.0))
    """

    def __init__(self, x: Floats, y: Floats, design: Design) -> None:
        self.x, self.y, self.design = x, y, design
        self.kept = Kept()

    @classmethod
    def of(cls, metric: ArrayLike, human: ArrayLike, design: Design) -> Pair:
        """Check the scores.

        Raises
        ------
        ValueError
            The lengths differ or a value is not finite.
        """
        x, y = as_pairs(metric, human)
        if len(x) != design.rows:
            raise ValueError(f"{len(x)} scores but {design.rows} rows in the design")
        return cls(x, y, design)

    def sides(self, by: Grouping | str) -> tuple[Floats, Floats, Ints]:
        """Return the scores that a grouping is of, captions' or systems' means, and groups."""
        grouping, system = grouping_of(by), self.design.system
        group = grouping.groups(self.design)
        if not grouping.means:
            return self.x, self.y, group
        return self.kept(
            "means", lambda: (group_means(self.x, system), group_means(self.y, system), group)
        )

    def codes(self, grouping: Grouping = POOLED) -> tuple[Ints, Ints]:
        """Return integers in the order of the scores: all that tau and rho look at."""
        x, y, _ = self.sides(grouping)
        return self.kept(("codes", grouping.means), lambda: (dense_codes(x), dense_codes(y)))

    def ties(self, by: Grouping | str) -> tuple[float, float]:
        """Return the shares of pairs that the metric and the raters tie, of those in one group.

        NaN where no group has two captions.

        >>> pair = Pair.of([1, 1, 2, 2], [1, 2, 1, 2], Design.of("aabb", "xyxy"))
        >>> [pair.ties(grouping) for grouping in ("item", "within_system")]
        [(1.0, 0.0), (0.0, 1.0)]
        """
        grouping = self.alike(grouping_of(by))

        def make() -> tuple[float, float]:
            if grouping.whole:
                a, b = self.codes(grouping)
                return tie_share(a), tie_share(b)
            untied, pairs = np.zeros(2), 0.0
            for block, (_, rows) in enumerate(self.blocks(grouping)):
                count, width = rows.shape
                if width > 1:
                    # What tau counts anyway.
                    found = self._counts(grouping, block)
                    untied += found.untied_x.sum(), found.untied_y.sum()
                    pairs += count * width * (width - 1) / 2
            tied = 1 - untied / pairs if pairs else np.full(2, np.nan)
            return float(tied[0]), float(tied[1])

        return self.kept(("ties", grouping), make)

    def alike(self, grouping: Grouping) -> Grouping:
        """Return the grouping under which the same was found: one group is all captions."""
        return grouping if grouping.whole or grouping.groups(self.design).any() else POOLED

    def blocks(self, grouping: Grouping) -> list[tuple[Ints, NDArray[np.intp]]]:
        """Return the numbers and rows of the groups, one size at a time, as `same_sized` does."""
        group = self.sides(grouping)[2]
        return self.kept(("blocks", self.alike(grouping)), lambda: list(same_sized(group)))

    def values(
        self, which: Statistic | str, by: Grouping | str, *, threshold: float = 0.0
    ) -> Floats:
        """Return the statistic of every group, (groups,); NaN where there is none."""
        statistic, grouping = statistic_of(which), grouping_of(by)

        def make() -> Floats:
            x, y, group = self.sides(grouping)
            result = np.full(int(group.max(initial=-1)) + 1, np.nan)
            # A difference up to a threshold is no matter of order.
            if statistic.kind.ordinal and not threshold:
                x, y = self.codes(grouping)  # type: ignore[assignment]
            for block, (groups, rows) in enumerate(self.blocks(grouping)):
                if rows.shape[1] < statistic.smallest:
                    continue
                if statistic.kind.pairwise and not threshold:
                    result[groups] = statistic.values(self._counts(grouping, block))
                else:
                    result[groups] = statistic.rows(x[rows], y[rows], threshold=threshold)
            return result

        return self.kept(("values", statistic, self.alike(grouping), threshold), make)

    def by(
        self,
        which: Statistic | str,
        by: Grouping | str,
        *,
        threshold: float = 0.0,
        only: Mask | None = None,
    ) -> Estimate:
        """Return a statistic by a grouping, of which there may be an interval and a p."""
        return Estimate(self, statistic_of(which), grouping_of(by), threshold, only)

    def concordance(self, grouping: Grouping, number: int, rows: NDArray[np.intp]) -> Concordance:
        """Return the concordance of each caption of a group with the others."""
        a, b = self.codes(grouping)
        key = ("concordance", self.alike(grouping), number)
        return self.kept(key, lambda: concordance(a[rows], b[rows]))

    def _counts(self, grouping: Grouping, block: int) -> PairCounts:
        groups, rows = self.blocks(grouping)[block]

        def make() -> PairCounts:
            a, b = self.codes(grouping)
            if rows.shape[1] > LARGEST:
                # The jackknife will ask for the count of every caption.
                each = zip(groups, rows, strict=True)
                counted = [self.concordance(grouping, int(n), row) for n, row in each]
                return PairCounts.joined([one.totals() for one in counted])
            return count_pairs(a[rows], b[rows])

        return self.kept(("totals", self.alike(grouping), block), make)

"""A statistic by a grouping: a group without a value is dropped and counted, never taken as 0."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from capeval.stats.groupings import Grouping
from capeval.stats.statistic import Statistic, missing_of
from capeval.stats.values import Floats, Mask, Missing, Value

if TYPE_CHECKING:
    from capeval.stats.pair import Pair

_T = TypeVar("_T")


@dataclass(frozen=True, eq=False)
class Estimate:
    """What intervals, p-values and comparisons are of; `Pair.by` makes one.

    Attributes
    ----------
    pair, statistic, grouping : the scores, and what is taken of them
    threshold : for acc_eq, the largest difference of the metric that is a tie; taken as known, so
        that its calibration adds nothing to an interval
    only : (groups,), the groups to use, as `common_to` finds them; default all that have a value

    >>> from capeval.stats.design import Design
    >>> from capeval.stats.pair import Pair
    >>> pair = Pair.of([1, 2, 3, 4], [2, 1, 3, 4], Design.of([0, 0, 1, 1], [0, 1, 0, 1]))
    >>> found = pair.by("kendall_b", "item")
    >>> found.value, found.n, found.used, found.dropped
    (0.0, 4, 2, 0)
    """

    pair: Pair
    statistic: Statistic
    grouping: Grouping
    threshold: float = 0.0
    only: Mask | None = None

    @property
    def values(self) -> Floats:
        """The statistic of every group, (groups,); NaN where there is none."""
        return self.pair.values(self.statistic, self.grouping, threshold=self.threshold)

    @cached_property
    def use(self) -> Mask:
        """Which groups have a value, (groups,), of those in `only`."""
        there = ~np.isnan(self.values)
        return there if self.only is None else there & self.only

    @property
    def value(self) -> Value:
        """The mean over the groups used."""
        values = self.values[self.use]
        if len(values):
            return float(values.mean())
        if len(self.use) <= 1:
            return missing_of(*self.pair.sides(self.grouping)[:2], self.statistic)
        smallest = self.statistic.smallest
        return Missing(f"none of {len(self.use)} groups has {smallest} captions that differ")

    @property
    def n(self) -> int:
        """The number of captions, or systems, in the groups used."""
        return int(np.bincount(self.pair.sides(self.grouping)[2])[self.use].sum())

    @property
    def used(self) -> int:
        """The number of groups used."""
        return int(self.use.sum())

    @property
    def dropped(self) -> int:
        """The number of other groups."""
        return max(len(self.use), 1) - self.used

    @property
    def groups(self) -> dict[int, NDArray[np.intp]]:
        """The rows of each group that is used, by its number."""
        blocks = (zip(*block, strict=True) for block in self.pair.blocks(self.grouping))
        return {int(number): rows for number, rows in chain(*blocks) if self.use[number]}

    def nothing(self) -> Missing:
        """Return why there is nothing to resample where no group has a value."""
        if self.grouping.whole:
            return missing_of(*self.pair.sides(self.grouping)[:2], self.statistic)
        return Missing("no group has a value")

    def of(self, statistic: Statistic) -> Estimate:
        """Return the same of another statistic, without a threshold."""
        return replace(self, statistic=statistic, threshold=0.0)

    def kept(self, key: tuple[Hashable, ...], make: Callable[[], _T]) -> _T:
        """Return what `make` returned when the same was first asked of the same groups."""
        alike = self.pair.alike(self.grouping)
        mine = (self.statistic, alike, self.threshold, self.use.tobytes())
        return self.pair.kept((*key, *mine), make)


def common_to(pairs: Sequence[Pair], statistic: Statistic | str, by: Grouping | str) -> Mask:
    """Return the (groups,) in which the statistic has a value for every metric.

    Metrics are compared on these alone: a metric must not gain by having no value where the
    others do badly.

    >>> from capeval.stats.design import Design
    >>> from capeval.stats.pair import Pair
    >>> design = Design.of([0, 0, 1, 1], [0, 1, 0, 1])
    >>> common_to([Pair.of([1, 2, 3, 3], [1, 2, 1, 2], design)], "kendall_b", "item").tolist()
    [True, False]
    """
    return np.asarray(np.all([pair.by(statistic, by).use for pair in pairs], axis=0))

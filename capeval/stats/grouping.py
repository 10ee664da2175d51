"""A statistic by a grouping: a group without a value is dropped and counted, never taken as 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from capeval.stats.design import Design
from capeval.stats.groupings import Grouping, grouping_of
from capeval.stats.pair import Pair
from capeval.stats.statistic import Statistic, statistic_of, why_missing
from capeval.stats.values import Mask, Missing, Value


@dataclass(frozen=True, slots=True)
class Grouped:
    """A statistic by groups.

    `value` is the mean over the groups used; `n` the captions (or systems) in those; `used` and
    `dropped` count groups.
    """

    value: Value
    n: int
    used: int
    dropped: int


def grouped(
    metric: ArrayLike,
    human: ArrayLike,
    design: Design,
    which: Statistic | str,
    by: Grouping | str,
    *,
    threshold: float = 0.0,
    only: Mask | None = None,
    pair: Pair | None = None,
) -> Grouped:
    """Return a statistic by a grouping, and the groups that it was taken of.

    Parameters
    ----------
    metric, human : (n,), finite
    design : of the same n rows
    threshold : for acc_eq, the largest difference of the metric that is a tie
    only : (groups,), the groups to use, as `common_to` finds them; default all
    pair : of these very scores, if more is taken of them

    Raises
    ------
    ValueError
        The lengths differ or a value is not finite.

    >>> design = Design.of([0, 0, 1, 1], [0, 1, 0, 1])
    >>> grouped([1, 2, 3, 4], [2, 1, 3, 4], design, "kendall_b", "item")
    Grouped(value=0.0, n=4, used=2, dropped=0)
    """
    statistic, grouping = statistic_of(which), grouping_of(by)
    pair = Pair.of(metric, human, design) if pair is None else pair
    values = pair.values(statistic, grouping, threshold=threshold)
    use = pair.used(statistic, grouping, threshold=threshold, only=only)
    used = int(use.sum())
    x, y, group = pair.sides(grouping)
    if not used:
        reason = (
            why_missing(x, y, statistic)
            if len(values) == 1
            else f"none of {len(values)} groups has {statistic.smallest} captions that differ"
        )
        return Grouped(Missing(reason), 0, 0, max(len(values), 1))
    sizes = np.bincount(group)
    return Grouped(float(values[use].mean()), int(sizes[use].sum()), used, len(values) - used)


def common_to(pairs: Sequence[Pair], statistic: Statistic | str, by: Grouping | str) -> Mask:
    """Return the (groups,) in which the statistic has a value for every metric.

    Metrics are compared on these alone: a metric must not gain by having no value where the
    others do badly.

    >>> design = Design.of([0, 0, 1, 1], [0, 1, 0, 1])
    >>> common_to([Pair.of([1, 2, 3, 3], [1, 2, 1, 2], design)], "kendall_b", "item").tolist()
    [True, False]
    """
    values = [pair.values(statistic, by) for pair in pairs]
    return np.asarray(~np.isnan(values).any(axis=0))

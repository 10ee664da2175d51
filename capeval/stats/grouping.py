"""The ways in which captions are grouped before a statistic is taken.

- `pooled`: one group of all captions, of every system and video;
- `item`: one group for each video (the captions of its systems); the mean over videos;
- `within_system`: one group for each system (its captions of all videos); the mean over systems;
- `system`: one group of the systems' means.

They can reverse which metric is the better one (Deutsch, Dror and Roth, 2021), so all are shown.
A group in which a statistic has no value is dropped and counted, never taken as 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from capeval.stats.design import Design
from capeval.stats.pair import Pair
from capeval.stats.statistic import Statistic, statistic_of, why_missing
from capeval.stats.values import Grouping, Mask, Missing, Value


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
    grouping: Grouping,
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
    statistic = statistic_of(which)
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


def common_to(pairs: Sequence[Pair], statistic: Statistic | str, grouping: Grouping) -> Mask:
    """Return the (groups,) in which the statistic has a value for every metric.

    Metrics are compared on these alone: a metric must not gain by having no value where the
    others do badly.

    >>> design = Design.of([0, 0, 1, 1], [0, 1, 0, 1])
    >>> common_to([Pair.of([1, 2, 3, 3], [1, 2, 1, 2], design)], "kendall_b", "item").tolist()
    [True, False]
    """
    values = [pair.values(statistic, grouping) for pair in pairs]
    return np.asarray(~np.isnan(values).any(axis=0))

"""The ways in which captions are grouped before a statistic is taken.

- `pooled`: one group of all captions, whoever wrote them, whatever the video;
- `item`: one group for each video (the captions of its systems); the mean over videos;
- `within_system`: one group for each system (its captions of all videos); the mean over systems;
- `system`: one group of the systems' means.

They can reverse which metric is the better one (Deutsch, Dror and Roth, 2021), so all are shown.
A group in which a statistic has no value is dropped and counted, never taken as 0.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from capeval.stats.correlation import correlate_rows, why_missing
from capeval.stats.values import (
    SMALLEST,
    Floats,
    Grouping,
    Ints,
    Mask,
    Missing,
    Statistic,
    Value,
    as_pairs,
)

__all__ = [
    "Design",
    "Grouped",
    "common_groups",
    "group_means",
    "group_values",
    "grouped",
    "same_sized",
]


@dataclass(frozen=True)
class Design:
    """Which video and which system each row of scores belongs to.

    Attributes
    ----------
    video, system : (n,), integers from 0, every one in use

    >>> design = Design.of(["v1", "v1", "v2"], ["a", "b", "a"])
    >>> design.videos, design.systems, design.repeats, design.grid is None
    (2, 2, True, True)
    """

    video: Ints
    system: Ints

    @classmethod
    def of(cls, video: Sequence[Hashable], system: Sequence[Hashable] | None = None) -> Design:
        """Number the names; without systems all captions are of one.

        Raises
        ------
        ValueError
            The lengths differ, or a video and system stand in two rows.
        """
        videos = _numbered(video)
        systems = np.zeros_like(videos) if system is None else _numbered(system)
        if len(videos) != len(systems):
            raise ValueError(f"{len(videos)} videos but {len(systems)} systems")
        cells = videos * (systems.max(initial=0) + 1) + systems
        if len(np.unique(cells)) < len(cells):
            raise ValueError("a video and system stand in more than one row")
        return cls(videos, systems)

    @property
    def rows(self) -> int:
        """The number of captions."""
        return len(self.video)

    @cached_property
    def videos(self) -> int:
        """The number of videos."""
        return int(self.video.max(initial=-1)) + 1

    @cached_property
    def systems(self) -> int:
        """The number of systems."""
        return int(self.system.max(initial=-1)) + 1

    @property
    def repeats(self) -> bool:
        """Whether any video has more than one caption."""
        return self.videos < self.rows

    @cached_property
    def grid(self) -> NDArray[np.intp] | None:
        """The (videos, systems) row numbers where every system has every video, else None."""
        if self.rows != self.videos * self.systems:
            return None
        return np.lexsort((self.system, self.video)).reshape(self.videos, self.systems)

    def groups(self, grouping: Grouping) -> Ints:
        """Return the (n,) group of each row; not for `system`, whose rows are means."""
        if grouping == "item":
            return self.video
        if grouping == "within_system":
            return self.system
        return np.zeros(self.rows, dtype=np.int64)

    def take(self, rows: Mask) -> Design:
        """Return the design of some rows alone, numbered anew.

        >>> Design.of("aab", "xyx").take(np.array([False, True, True])).systems
        2
        """
        return Design(
            np.unique(self.video[rows], return_inverse=True)[1].astype(np.int64),
            np.unique(self.system[rows], return_inverse=True)[1].astype(np.int64),
        )


def _numbered(names: Sequence[Hashable]) -> Ints:
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.int64)


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


def same_sized(group: Ints) -> Iterator[tuple[Ints, NDArray[np.intp]]]:
    """Yield, one size at a time, the (groups,) numbers and (groups, size) rows of groups.

    >>> [(g.tolist(), r.tolist()) for g, r in same_sized(np.array([0, 1, 1]))]
    [([0], [[0]]), ([1], [[1, 2]])]
    """
    order = np.argsort(group, kind="stable")
    sizes = np.bincount(group)
    starts = np.cumsum(sizes) - sizes
    for size in np.unique(sizes[sizes > 0]):
        those = np.flatnonzero(sizes == size)
        yield those, order[starts[those][:, None] + np.arange(size)]


def group_values(
    metric: Floats,
    human: Floats,
    group: Ints,
    statistic: Statistic,
    *,
    threshold: float = 0.0,
) -> Floats:
    """Return the statistic of every group; NaN where there is none.

    Parameters
    ----------
    metric, human : (n,)
    group : (n,), integers from 0
    threshold : for acc_eq, the largest difference of the metric that is a tie

    Returns
    -------
    (groups,)

    >>> group_values(np.array([1.0, 2, 1]), np.array([2.0, 1, 1]), np.array([0, 0, 1]), "kendall_b")
    array([-1., nan])
    """
    result = np.full(int(group.max(initial=-1)) + 1, np.nan)
    for groups, rows in same_sized(group):
        if rows.shape[1] >= SMALLEST[statistic]:
            result[groups] = correlate_rows(
                metric[rows], human[rows], statistic, threshold=threshold
            )
    return result


def group_means(values: Floats, group: Ints) -> Floats:
    """Return the (groups,) means of (n,) values.

    >>> group_means(np.array([1.0, 3.0, 5.0]), np.array([0, 0, 1])).tolist()
    [2.0, 5.0]
    """
    return np.asarray(np.bincount(group, weights=values) / np.bincount(group))


def grouped(
    metric: ArrayLike,
    human: ArrayLike,
    design: Design,
    statistic: Statistic,
    grouping: Grouping,
    *,
    threshold: float = 0.0,
    only: Mask | None = None,
) -> Grouped:
    """Return a statistic by a grouping, and the groups that it was taken of.

    Parameters
    ----------
    metric, human : (n,), finite
    design : of the same n rows
    threshold : for acc_eq, the largest difference of the metric that is a tie
    only : (groups,), the groups to use, as `common_groups` finds them; default all

    Raises
    ------
    ValueError
        The lengths differ or a value is not finite.

    >>> design = Design.of([0, 0, 1, 1], [0, 1, 0, 1])
    >>> grouped([1, 2, 3, 4], [2, 1, 3, 4], design, "kendall_b", "item")
    Grouped(value=0.0, n=4, used=2, dropped=0)
    """
    x, y = as_pairs(metric, human)
    if len(x) != design.rows:
        raise ValueError(f"{len(x)} scores but {design.rows} rows in the design")
    if grouping == "system":
        x, y = group_means(x, design.system), group_means(y, design.system)
        group = np.zeros(len(x), dtype=np.int64)
    else:
        group = design.groups(grouping)
    values = group_values(x, y, group, statistic, threshold=threshold)
    use = ~np.isnan(values) if only is None else only & ~np.isnan(values)
    used = int(use.sum())
    if not used:
        reason = (
            why_missing(x, y, statistic)
            if len(values) == 1
            else f"none of {len(values)} groups has {SMALLEST[statistic]} captions that differ"
        )
        return Grouped(Missing(reason), 0, 0, max(len(values), 1))
    return Grouped(float(values[use].mean()), int(use[group].sum()), used, len(values) - used)


def common_groups(
    metrics: Sequence[Floats],
    human: Floats,
    design: Design,
    statistic: Statistic,
    grouping: Grouping,
) -> Mask:
    """Return the (groups,) in which the statistic has a value for every metric.

    Metrics are compared on these alone: a metric must not gain by having no value where the
    others do badly.

    >>> design = Design.of([0, 0, 1, 1], [0, 1, 0, 1])
    >>> metrics = [np.array([1.0, 2, 3, 4]), np.array([1.0, 2, 3, 3])]
    >>> common_groups(metrics, np.array([1.0, 2, 1, 2]), design, "kendall_b", "item").tolist()
    [True, False]
    """
    fine: Mask | None = None
    for metric in metrics:
        if grouping == "system":
            x, y = group_means(metric, design.system), group_means(human, design.system)
            group = np.zeros(len(x), dtype=np.int64)
        else:
            x, y, group = metric, human, design.groups(grouping)
        here = ~np.isnan(group_values(x, y, group, statistic))
        fine = here if fine is None else fine & here
    if fine is None:
        raise ValueError("no metrics")
    return fine

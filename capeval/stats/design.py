"""Which video and which system a caption is of, and how captions are grouped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from capeval.stats.values import Floats, GroupingName, Ints, Mask, steady


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
    """Which video and which system each row of scores belongs to.

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


def group_means(values: Floats, group: Ints) -> Floats:
    """Return the (groups,) means of (n,) values, so that what is equal as typed is equal.

    >>> group_means(np.array([1.0, 3.0, 5.0]), np.array([0, 0, 1])).tolist()
    [2.0, 5.0]
    """
    means = np.asarray(np.bincount(group, weights=values) / np.bincount(group))
    return steady(means, float(np.abs(values).max(initial=0.0)))

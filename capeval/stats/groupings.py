"""What a grouping is: one object, which values, resamples, tests and comparisons only ask.

They can reverse which metric is the better one (Deutsch, Dror and Roth, 2021), so all are shown.
A grouping says how captions are grouped and what it declares of its groups; the rest follows, so
that a new one is one object: see `tests/stats/test_new_grouping.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import get_args

import numpy as np

from capeval.stats.design import Design
from capeval.stats.values import GroupingName, Ints


@dataclass(frozen=True)
class Grouping:
    """A way of grouping captions before a statistic is taken; its value is the mean over groups.

    Attributes
    ----------
    name : in files and options
    words : in tables
    of_each : names, in sentences, the captions that one value is computed from
    of : the function from a design to the (n,) group of each caption: integers from 0, every one in
        use. None if the statistic is taken of the means of systems, in one group
    whole : whether there is one group, whatever the design
    by_video : whether each group is a video, so that the values of groups are independent: they
        are resampled and their signs are flipped. Else videos have captions in several groups, or
        several captions in one: whole videos are resampled, left out or permuted
    """

    name: str
    words: str
    of_each: str
    of: Callable[[Design], Ints] | None = field(repr=False)
    whole: bool = False
    by_video: bool = False

    @property
    def means(self) -> bool:
        """Whether the statistic is taken of the means of systems."""
        return self.of is None

    @property
    def unit(self) -> str:
        """What n counts."""
        return "systems" if self.means else "captions"

    def groups(self, design: Design) -> Ints:
        """Return the (n,) group of each caption, or the (systems,) zeros of the means."""
        of = self.of
        if of is None:
            return np.zeros(design.systems, dtype=np.int64)
        return design.kept(("groups", self), lambda: of(design))

    def repeats(self, design: Design) -> bool:
        """Return whether a group has several captions of a video, which no order of videos keeps.

        >>> design = Design.of("aabb", "xyxy")
        >>> POOLED.repeats(design), WITHIN_SYSTEM.repeats(design)
        (True, False)
        """

        def make() -> bool:
            cells = np.sort(self.groups(design) * design.videos + design.video)
            return bool((cells[1:] == cells[:-1]).any())

        return design.repeats and design.kept(("repeats", self), make)


POOLED = Grouping(
    "pooled",
    "all captions",
    "all captions",
    lambda design: np.zeros(design.rows, dtype=np.int64),
    whole=True,
)
ITEM = Grouping(
    "item",
    "captions of one video; mean over videos",
    "captions of one video",
    lambda design: design.video,
    by_video=True,
)
WITHIN_SYSTEM = Grouping(
    "within_system",
    "captions of one system; mean over systems",
    "captions of one system",
    lambda design: design.system,
)
SYSTEM = Grouping("system", "means of systems", "systems", None, whole=True)

GROUPINGS: tuple[GroupingName, ...] = get_args(GroupingName)
"""The names that files and options have."""
_BY_NAME = {one.name: one for one in (POOLED, ITEM, WITHIN_SYSTEM, SYSTEM)}


def grouping_of(which: Grouping | str) -> Grouping:
    """Return a grouping, by its name if that is given.

    >>> grouping_of("item").words
    'captions of one video; mean over videos'
    """
    return _BY_NAME[which] if isinstance(which, str) else which

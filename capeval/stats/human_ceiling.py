"""How well human raters agree with one another, by the statistics used for metrics."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from capeval.stats.design import Design
from capeval.stats.groupings import ITEM, POOLED, Grouping, grouping_of
from capeval.stats.intervals import bootstrap_bounds
from capeval.stats.pair import Pair
from capeval.stats.raters import How, combine_others
from capeval.stats.resampling import FEWEST
from capeval.stats.statistic import Statistic, statistic_of, why_missing
from capeval.stats.values import Interval, Ints, Missing, Value
from capeval.stats.video_bootstrap import bootstrap_values

# Each rater is resampled: with more raters, captions or resamples it would take minutes.
_RATERS = 10
_CAPTIONS = 1_500
_DRAWS = 1_000


@dataclass(frozen=True, slots=True)
class Ceiling:
    """How well human raters agree with one another.

    `value` is the mean over the raters that have one; `each` holds every rater's.
    """

    value: Value
    each: tuple[Value, ...]


class RatersApart:
    """Each rater and the combined score of the others, on the captions that both have.

    A metric is compared with the aggregated score of all raters, which is steadier than that of all
    but one. So what is found here is no upper bound for a metric.

    Parameters
    ----------
    ratings : (raters, n), NaN where a rater gave none
    design : of the same n captions; without it each is of a video of its own
    how : as for `combine`

    Raises
    ------
    ValueError
        `ratings` has not two dimensions or holds an infinity, or the design does not fit.

    >>> RatersApart([[1, 2, 3, 4], [2, 4, 6, 8], [1, 2, 3, 9]]).ceiling("kendall_b").value
    1.0
    """

    def __init__(
        self, ratings: ArrayLike, design: Design | None = None, *, how: How = "mean"
    ) -> None:
        self.ratings = np.asarray(ratings, dtype=np.float64)
        self.others = combine_others(self.ratings, how)
        captions = self.ratings.shape[1]
        self.design = Design.of(range(captions)) if design is None else design
        if self.design.rows != captions:
            raise ValueError(f"{captions} captions but {self.design.rows} rows in the design")
        self._there = ~np.isnan(self.ratings) & ~np.isnan(self.others)
        self._pairs: dict[Grouping, tuple[Pair, Ints]] = {}

    @cached_property
    def symmetric(self) -> bool:
        """Whether there are two raters, who are compared with each other and have one value."""
        return len(self.ratings) == 2

    def ceiling(self, which: Statistic | str, by: Grouping | str = POOLED) -> Ceiling:
        """Return each rater's agreement with the others, and the mean over raters."""
        statistic, grouping = statistic_of(which), grouping_of(by)
        if len(self.ratings) < 2:
            return Ceiling(Missing("one rater alone sets no ceiling"), ())
        pair, owner = self._pair(grouping)
        values = pair.values(statistic, ITEM)
        fine = ~np.isnan(values)
        raters = len(self.ratings)
        count = np.bincount(owner[fine], minlength=raters)
        total = np.bincount(owner[fine], weights=values[fine], minlength=raters)
        each: list[Value] = [
            float(total[rater] / count[rater])
            if count[rater]
            else self._why(rater, statistic, grouping)
            for rater in range(raters)
        ]
        numbers = [value for value in each if not isinstance(value, Missing)]
        reasons = dict.fromkeys(one.reason for one in each if isinstance(one, Missing))
        mean: Value = sum(numbers) / len(numbers) if numbers else Missing("; ".join(reasons))
        return Ceiling(mean, tuple(each))

    def interval(
        self,
        which: Statistic | str,
        by: Grouping | str = POOLED,
        *,
        draws: int | None = None,
        seed: int = 0,
    ) -> Interval | Missing:
        """Return the percentile interval of the mean over raters: whole videos are resampled.

        All raters are taken on the same resamples, so every one of them must have every caption.

        Parameters
        ----------
        draws : number of resamples; 1,000 without
        seed : of `numpy.random.default_rng`
        """
        statistic, grouping = statistic_of(which), grouping_of(by)
        if not 2 <= len(self.ratings) <= _RATERS or self.design.rows > _CAPTIONS:
            return Missing(f"above {_RATERS} raters or {_CAPTIONS:,} captions none is taken")
        if not self._there.all():
            return Missing("not every rater rated every caption")
        if self.design.videos < FEWEST:
            return Missing(f"fewer than {FEWEST} videos are too few to resample")
        found = []
        for own, others in zip(self.ratings, self.others, strict=True):
            pair = Pair.of(own, others, self.design)
            one = pair.by(statistic, grouping)
            values = bootstrap_values(one, draws=draws or _DRAWS, seed=seed)
            if isinstance(values, Missing):
                return values
            found.append(values)
            if self.symmetric:
                break
        value = self.ceiling(statistic, grouping).value
        if isinstance(value, Missing):
            return value
        values, videos = np.mean(found, axis=0), self.design.videos
        same = grouping.means
        return bootstrap_bounds(values, value, statistic, self.design, videos, one=same)

    def _pair(self, grouping: Grouping) -> tuple[Pair, Ints]:
        """Return the scores in one group for each rater and group, and whose each group is."""
        if grouping not in self._pairs:
            raters, captions = np.nonzero(self._there)
            own, others = self.ratings[self._there], self.others[self._there]
            if grouping.means:
                of_system = _numbered(raters * self.design.systems + self.design.system[captions])
                one, first = Pair.of(own, others, Design(of_system, of_system)), _first(of_system)
                # Means are made as a metric's are.
                own, others, _ = one.sides(grouping)
                raters, captions = raters[first], captions[first]
                group = raters
            else:
                of_caption = grouping.groups(self.design)[captions]
                group = raters * (int(of_caption.max(initial=0)) + 1) + of_caption
            group = _numbered(group)
            self._pairs[grouping] = (
                Pair.of(own, others, Design(group, np.zeros_like(group))),
                raters[_first(group)],
            )
        return self._pairs[grouping]

    def _why(self, rater: int, statistic: Statistic, grouping: Grouping) -> Missing:
        pair, owner = self._pair(grouping)
        # Groups are numbered, and rows ordered, rater by rater.
        first, end = np.searchsorted(owner, [rater, rater + 1])
        if end - first > 1:
            lacking = f"has {statistic.smallest} captions that differ"
            return Missing(f"none of {end - first} groups {lacking}")
        rows = slice(*np.searchsorted(pair.design.video, [first, end]))
        reason = why_missing(pair.x[rows], pair.y[rows], statistic)
        return Missing(reason.replace("the metric", "the rater"))


def _numbered(names: Ints) -> Ints:
    return np.unique(names, return_inverse=True)[1].astype(np.int64)


def _first(group: Ints) -> Ints:
    """Return the row at which each group is first seen."""
    return np.unique(group, return_index=True)[1].astype(np.int64)

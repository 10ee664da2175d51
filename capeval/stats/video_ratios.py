"""Ratios of sums over videos, such as accuracies, with intervals over resampled videos.

Questions about one video are alike, so whole videos are drawn, the same ones above and below the
line and in every column.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from capeval.stats.jackknife import FEWEST
from capeval.stats.ratio_ends import ratio_ends, share_ends, widened
from capeval.stats.resampling import percentiles, resample_counts
from capeval.stats.values import Floats, Interval, Mask, Missing

MANY_VIDEOS = 3_000
"""With more videos, intervals of shares have the ends of `share_ends` alone: they are as good, and
10,000 resamples would take seconds."""

# Values of resamples that differ by less are one value.
_SLACK = 1e-12


class VideoRatios:
    """Sums over videos above and below a line, in columns such as a task's.

    Each method takes the number of a column and returns a 95% interval. Percentiles are expanded
    for few videos (Hesterberg, 2015). They are too near to shares and ratios that few videos
    decide: the intervals of both reach at least to the ends of `ratio_ends`.

    Parameters
    ----------
    upper : (videos, columns), at least 0, such as numbers of right answers
    lower : (videos, columns), at least 0, such as numbers of questions
    resamples, seed : of the bootstrap

    >>> found = VideoRatios(np.ones((20, 1)), np.full((20, 1), 2.0), resamples=200).share(0)
    >>> round(found.low, 2), round(found.high, 2)
    (0.34, 0.66)
    >>> right_with_16 = np.array([[2.0], [1.0], [1.0], [0.0], [2.0], [1.0]])
    >>> right_with_1 = np.array([[1.0], [1.0], [0.0], [0.0], [1.0], [1.0]])
    >>> found = VideoRatios(right_with_16, right_with_1).ratio(0, right_with_1[:, 0] >= 0)
    >>> round(found.low, 2), round(found.high, 2)
    (0.96, 6.0)
    """

    def __init__(
        self, upper: Floats, lower: Floats, *, resamples: int = 10_000, seed: int = 0
    ) -> None:
        self._upper, self._lower = upper, lower
        self._resamples, self._seed = resamples, seed
        self.videos, self.columns = upper.shape

    @cached_property
    def _sums(self) -> tuple[Floats, Floats]:
        """Sums of resamples, (resamples, columns) each."""
        # Counts of resamples are of this type too; whole sums are exact up to 16 million.
        both = np.hstack([self._upper, self._lower]).astype(np.float32)
        drawn = [
            counts @ both for counts in resample_counts(self.videos, self._resamples, self._seed)
        ]
        sums = np.concatenate(drawn)
        return sums[:, : self.columns], sums[:, self.columns :]

    @cached_property
    def _shares(self) -> Floats:
        above, below = self._sums
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.divide(above, below, dtype=np.float64)

    def share(self, column: int) -> Interval | Missing:
        """Return the interval of a share: what is above the line is part of what is below it.

        Where it is 0 or 1, resamples do not differ: the interval then ends at the share that this
        many videos could have missed (Clopper and Pearson, 1934).
        """
        part, whole = self._upper[:, column], self._lower[:, column]
        videos = int((whole > 0).sum())
        if videos < FEWEST:
            return Missing(f"fewer than {FEWEST} videos")
        total = float(whole.sum())
        value = float(part.sum()) / total
        if value in (0.0, 1.0):
            missed = 1 - 0.025 ** (1 / videos)
            return Interval(max(0.0, value - missed), min(1.0, value + missed))
        ends = share_ends(part[whole > 0], whole[whole > 0])
        if self.videos > MANY_VIDEOS:
            return Interval(*ends)
        found = percentiles(self._shares[:, column], units=videos, around=value)
        if isinstance(found, Missing):
            return found
        return widened(Interval(max(0.0, found.low), min(1.0, found.high)), ends)

    def share_change(self, column: int, base: int) -> Interval | Missing:
        """Return the interval of one column's share divided by another's, minus 1."""
        part, whole = self._upper[:, [column, base]], self._lower[:, [column, base]]
        videos = int((whole > 0).sum(axis=0).min())
        if videos < FEWEST:
            return Missing(f"fewer than {FEWEST} videos")
        if not part.any(axis=0).all():
            return Missing("no answer of one side is right")
        shares = part.sum(axis=0) / whole.sum(axis=0)
        change = float(shares[0] / shares[1])
        if self.videos > MANY_VIDEOS:
            deviations = (part - shares * whole) / part.sum(axis=0)
            low, high = ratio_ends(change, deviations[:, 0], deviations[:, 1], videos)
            return Interval(low - 1, high - 1)
        with np.errstate(invalid="ignore", divide="ignore"):
            values = self._shares[:, column] / self._shares[:, base]
        values[~np.isfinite(values)] = np.nan
        found = percentiles(values, units=videos, around=change)
        if isinstance(found, Missing):
            return found
        return Interval(max(found.low, 0.0) - 1, found.high - 1)

    def ratio(self, column: int, present: Mask) -> Interval | Missing:
        """Return the interval of a ratio of any size; where the lower sum is 0 there is none.

        What a video's questions have in common above and below the line cancels.

        Parameters
        ----------
        present : (videos,), whether the column has questions about a video
        """
        videos = int(present.sum())
        with np.errstate(divide="ignore", invalid="ignore"):
            observed = float(self._upper[:, column].sum() / self._lower[:, column].sum())
        if not np.isfinite(observed):
            return Missing("there is no value")
        if videos < FEWEST:
            return Missing(f"fewer than {FEWEST} videos")
        above, below = (sums[:, column].astype(np.float64) for sums in self._sums)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where(below > 0, above / below, np.nan)
        found = percentiles(ratios, units=videos, around=observed)
        if isinstance(found, Missing):
            return found
        if found.high - found.low <= _SLACK:
            return Missing("all resamples have one value")
        found = Interval(max(found.low, 0.0), found.high)
        # Where nothing is above the line all resamples are 0, so that there is a logarithm here.
        upper, lower = self._upper[:, column], self._lower[:, column]
        ends = ratio_ends(observed, upper / upper.sum(), lower / lower.sum(), videos)
        return widened(found, ends)

"""Accuracies and their ratios in resamples of whole videos.

Questions about one video are alike, so the video is what is drawn.
"""

from __future__ import annotations

import numpy as np

from capeval.stats.percentiles import percentiles
from capeval.stats.ratio_ends import ratio_ends, share_ends, widened
from capeval.stats.resampling import FEWEST, same_draws
from capeval.stats.values import Floats, Interval, Missing

MANY_VIDEOS = 3_000
"""With more videos, intervals have the ends of `ratio_ends` alone: they are as good, and 10,000
resamples would take seconds."""


class VideoRatios:
    """Sums of right answers and of questions per video, in columns such as a task's.

    Parameters
    ----------
    right : (videos, columns) number of right answers
    asked : (videos, columns) number of questions, 0 where a column has none of a video

    >>> one = VideoRatios(np.ones((20, 1)), np.full((20, 1), 2.0), draws=200)
    >>> found = one.interval(0)
    >>> round(found.low, 2), round(found.high, 2), found.method
    (0.34, 0.66, 'bootstrap')
    """

    def __init__(self, right: Floats, asked: Floats, *, draws: int = 10_000, seed: int = 0) -> None:
        self._right, self._asked = right, asked
        self.videos = right.shape[0]
        self._values: Floats | None = None
        if FEWEST <= self.videos <= MANY_VIDEOS:
            both = np.hstack([right, asked]).astype(np.float32)
            sums = np.concatenate(
                [counts @ both for counts in same_draws(self.videos, draws, seed)]
            )
            columns = right.shape[1]
            with np.errstate(invalid="ignore", divide="ignore"):
                self._values = (sums[:, :columns] / sums[:, columns:]).astype(np.float64)

    def interval(self, column: int) -> Interval | Missing:
        """Return the 95% interval of a column's share of right answers.

        It reaches at least to the ends of `share_ends`: percentiles alone are too near to shares
        that a few videos decide.

        Where all answers are right, or all are wrong, resamples do not differ: the interval then
        ends at the share that this many videos could have missed (Clopper and Pearson, 1934).
        """
        asked, right = self._asked[:, column], self._right[:, column]
        videos = int((asked > 0).sum())
        if videos < FEWEST:
            return Missing(f"fewer than {FEWEST} videos")
        total = float(asked.sum())
        value = float(right.sum()) / total
        if value in (0.0, 1.0):
            missed = 1 - 0.025 ** (1 / videos)
            return Interval(max(0.0, value - missed), min(1.0, value + missed), "exact")
        ends = share_ends(right[asked > 0], asked[asked > 0])
        if self._values is None:
            return Interval(*ends, "score")
        found = percentiles(self._values[:, column], units=videos, around=value)
        if isinstance(found, Missing):
            return found
        return widened(Interval(max(0.0, found.low), min(1.0, found.high), found.method), ends)

    def change(self, column: int, base: int) -> Interval | Missing:
        """Return the 95% interval of one column's share divided by another's, minus 1."""
        both = [column, base]
        right, asked = self._right[:, both], self._asked[:, both]
        videos = int((asked > 0).sum(axis=0).min())
        if videos < FEWEST:
            return Missing(f"fewer than {FEWEST} videos")
        if not right.any(axis=0).all():
            return Missing("no answer of one side is right")
        shares = right.sum(axis=0) / asked.sum(axis=0)
        ratio = float(shares[0] / shares[1])
        if self._values is None:
            parts = (right - shares * asked) / right.sum(axis=0)
            low, high = ratio_ends(ratio, parts[:, 0], parts[:, 1], videos)
            return Interval(low - 1, high - 1, "t of the logarithm")
        with np.errstate(invalid="ignore", divide="ignore"):
            values = self._values[:, column] / self._values[:, base]
        values[~np.isfinite(values)] = np.nan
        found = percentiles(values, units=videos, around=ratio)
        if isinstance(found, Missing):
            return found
        return Interval(max(found.low, 0.0) - 1, found.high - 1, found.method)

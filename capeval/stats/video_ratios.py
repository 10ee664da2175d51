"""Accuracies and their ratios in resamples of whole videos.

Questions about one video are alike, so the video is what is drawn.
"""

from __future__ import annotations

import numpy as np

from capeval.stats.percentiles import percentiles
from capeval.stats.resampling import FEWEST, same_draws
from capeval.stats.values import Floats, Interval, Missing

MANY_VIDEOS = 3_000
"""With more videos, the interval of a mean is that of the normal distribution: it is as good, and
10,000 resamples would take seconds."""

_Z = 1.959963984540054


class VideoRatios:
    """Sums of right answers and of questions per video, in columns such as a task's.

    Parameters
    ----------
    right : (videos, columns) number of right answers
    asked : (videos, columns) number of questions, 0 where a column has none of a video

    >>> one = VideoRatios(np.ones((20, 1)), np.full((20, 1), 2.0), draws=200)
    >>> one.interval(0)
    Interval(low=0.5, high=0.5, method='bootstrap')
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
        if self._values is None:
            spread = float(np.sqrt(np.sum((right - value * asked) ** 2))) / total
            return Interval(max(0.0, value - _Z * spread), min(1.0, value + _Z * spread), "normal")
        found = percentiles(self._values[:, column], units=videos, around=value)
        if isinstance(found, Missing):
            return found
        return Interval(max(0.0, found.low), min(1.0, found.high), found.method)

    def change(self, column: int, base: int) -> Interval | Missing:
        """Return the 95% interval of one column's share divided by another's, minus 1."""
        shared = min(int((self._asked[:, one] > 0).sum()) for one in (column, base))
        if shared < FEWEST:
            return Missing(f"fewer than {FEWEST} videos")
        if self._values is None:
            return Missing(f"more than {MANY_VIDEOS:,} videos")
        with np.errstate(invalid="ignore", divide="ignore"):
            values = self._values[:, column] / self._values[:, base] - 1
        values[~np.isfinite(values)] = np.nan
        return percentiles(values, units=shared)

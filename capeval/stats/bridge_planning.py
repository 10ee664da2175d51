"""How many videos two judges must both judge for a bridged score of some precision."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, replace

from capeval.stats.bridge_line import FEWEST_SYSTEMS, FEWEST_VIDEOS, Line
from capeval.stats.calibration import FEWEST_LABELLED
from capeval.stats.values import Floats


@dataclass(frozen=True)
class Spread:
    """The residual standard deviation of old scores of videos given new ones, with a 95% range."""

    sd: float
    low: float
    high: float
    videos: int


def residual_spread(old: Floats, new: Floats) -> Spread | None:
    """Return how far one judge's scores of videos are off the other's.

    The slope is kept within 0 and 1, as in the estimate that the plan is for. None below 10 videos
    or where nothing varies: it would promise an interval of width 0.

    Parameters
    ----------
    old, new : (videos,) without NaN
    """
    from scipy.special import chdtri

    n = len(old)
    if n < FEWEST_LABELLED:
        return None
    x, y = new - new.mean(), old - old.mean()
    s_xx = float(x @ x)
    slope = min(1.0, max(0.0, float(x @ y) / s_xx)) if s_xx else 0.0
    left = float(((y - slope * x) ** 2).sum())
    if left <= 1e-12:
        return None
    low, high = (math.sqrt(left / float(chdtri(n - 2, p))) for p in (0.025, 0.975))
    return Spread(math.sqrt(left / (n - 2)), low, high, n)


def videos_for_anchor(sd: float, half_width: float, videos: int) -> int:
    """Return how many of a run's videos the old judge must judge.

    It is the smallest n from 10 on with `t(n-2) sd sqrt(1/n - 1/N) <= half_width`; all N if none
    is smaller.

    >>> videos_for_anchor(0.12, 0.023, 1000)
    97
    """
    from scipy.special import stdtrit

    def is_enough(n: int) -> bool:
        error = sd * math.sqrt(1 / n - 1 / videos)
        return bool(float(stdtrit(max(n - 2, 1), 0.975)) * error <= half_width)

    least = min(FEWEST_LABELLED, videos)
    # The half-width falls with n, and is zero for all videos.
    return least + bisect_left(range(least, videos), True, key=is_enough)


def videos_for_line(line: Line, half_width: float, videos: int) -> int | None:
    """Return how many videos each anchor of a line needs, for a target at the anchors' mean.

    None if all are too few: then only more anchors help.
    """

    def is_enough(n: int) -> bool:
        planned = replace(
            line,
            # Of it, the part that more videos do not reduce.
            s_res=math.sqrt(max(0.0, line.s_res**2 - line.ms_res / line.videos)),
            systems=max(line.systems, FEWEST_SYSTEMS),
            videos=n,
        )
        return planned.half_width(line.center, videos) <= half_width

    # The half-width falls with n.
    n = FEWEST_VIDEOS + bisect_left(range(FEWEST_VIDEOS, videos + 1), True, key=is_enough)
    return n if n <= videos else None

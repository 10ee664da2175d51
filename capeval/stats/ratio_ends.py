"""Ends of intervals of shares and of ratios, in closed form, for few or unequal videos.

Percentiles of bootstrap values lie too near to the value where few videos decide it: shares near 0
or 1, and ratios to a small number. Intervals reach at least to the ends given here.
"""

from __future__ import annotations

import numpy as np

from capeval.stats.values import UPPER, Floats, Interval

Ends = tuple[float, float]


def share_ends(right: Floats, asked: Floats) -> Ends:
    """Return the 95% ends of the share of right answers, of videos with a question each or more.

    Wilson's score interval with Student's t, of as many independent questions as have the variance
    that is seen between videos; these are never more than were asked.

    Parameters
    ----------
    right : (videos,) number of right answers; neither all nor none
    asked : (videos,) number of questions, at least 1

    References
    ----------
    E. L. Korn and B. I. Graubard (1998), Confidence intervals for proportions with small expected
    number of positive counts estimated from survey data, Survey Methodology 24, 193-201.

    >>> low, high = share_ends(np.array([2.0, 2, 2, 2, 2, 2, 2, 0]), np.full(8, 2.0))
    >>> round(low, 2), round(high, 2)
    (0.43, 0.98)
    """
    from scipy.special import stdtrit

    videos, questions = len(asked), float(asked.sum())
    share = float(right.sum()) / questions
    variance = _variance((right - share * asked) / questions, videos)
    independent = min(share * (1 - share) / variance, questions) if variance else questions
    t = float(stdtrit(videos - 1, UPPER))
    shrink = 1 + t * t / independent
    centre = (share + t * t / (2 * independent)) / shrink
    spread = share * (1 - share) / independent + (t / (2 * independent)) ** 2
    half = t / shrink * float(np.sqrt(spread))
    return max(0.0, centre - half), min(1.0, centre + half)


def ratio_ends(value: float, upper: Floats, lower: Floats, videos: int) -> Ends:
    """Return the 95% ends of a ratio: a t interval of its logarithm.

    Parameters
    ----------
    value : the ratio, above 0
    upper, lower : (videos,) each video's part of the relative deviation above and below the line,
        such as its share of a sum; a video that is on both sides cancels
    videos : how many count as independent

    >>> low, high = ratio_ends(2.0, np.full(8, 1 / 8), np.array([1, 1, 1, 1, 0, 0, 0, 0]) / 4, 8)
    >>> round(low, 2), round(high, 2)
    (0.82, 4.89)
    """
    from scipy.special import stdtrit

    side = float(stdtrit(videos - 1, UPPER)) * float(np.sqrt(_variance(upper - lower, videos)))
    return value * float(np.exp(-side)), value * float(np.exp(side))


def widened(found: Interval, ends: Ends) -> Interval:
    """Return the interval with the outer of two ends on each side.

    >>> widened(Interval(0.2, 0.4), (0.3, 0.5))
    Interval(low=0.2, high=0.5)
    """
    return Interval(min(found.low, ends[0]), max(found.high, ends[1]))


def _variance(parts: Floats, videos: int) -> float:
    """Return the variance of a sum to which each video adds one part; the parts add up to 0."""
    return float((parts**2).sum()) * videos / (videos - 1)

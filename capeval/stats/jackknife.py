"""Intervals, p-values and comparisons over videos, from the values without each of them.

All are on Fisher's scale, with Student's t: neither resamples nor a seed are needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from capeval.stats.values import UPPER, Floats, Interval, Missing

FEWEST = 5
"""The fewest videos that have an interval: with fewer, its width says more of t than of them."""

# On Fisher's scale, which ends at infinity: values that differ from 1 by rounding.
_PERFECT = 12.0
_SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class Inference(Interval):
    """A 95% interval, and p of the hypothesis of no relation or no difference, two-sided.

    The interval includes 0 exactly where p is above .05.
    """

    p: float


def too_few(videos: int) -> Missing:
    """Return why there is no interval over so few videos.

    >>> too_few(1).reason
    '1 video is too few for an interval: at least 5'
    """
    subject = "1 video is" if videos == 1 else f"{videos} videos are"
    return Missing(f"{subject} too few for an interval: at least {FEWEST}")


def jackknife(value: float, without: Floats) -> Inference | Missing:
    """Return the interval of a value over other videos, and its p.

    Its middle is the value minus the jackknife's estimate of its bias.

    Parameters
    ----------
    value : of all videos
    without : (videos,), without each in turn; NaN where it has no value

    >>> found = jackknife(0.5, np.array([0.4, 0.45, 0.5, 0.55, 0.6, 0.5]))
    >>> round(found.low, 2), round(found.high, 2), round(found.p, 3)
    (0.03, 0.77, 0.041)
    """
    scaled, n = _fisher(np.append(value, without)), len(without)
    if reason := _unusable(scaled):
        return reason
    error, _ = _error(scaled[1:])
    if error <= _SLACK:
        return Missing("no video changes the value")
    middle = float(n * scaled[0] - (n - 1) * scaled[1:].mean())
    half, p = _student(middle, error, n - 1)
    low, high = np.tanh(middle + np.array([-half, half]))
    return Inference(min(float(low), value), max(float(high), value), p)


def difference(values: tuple[float, float], without: tuple[Floats, Floats]) -> Inference | Missing:
    """Return the interval and p of the difference of two metrics, first − second.

    The difference is taken on Fisher's scale, with Satterthwaite's degrees of freedom: a few videos
    that move it most are a small sample. The ends are brought back to the scale of the values with
    the middle of the two held.

    Parameters
    ----------
    values : of all videos
    without : (videos,) each, without each video in turn
    """
    first, second = (
        _fisher(np.append(value, rest)) for value, rest in zip(values, without, strict=True)
    )
    if reason := _unusable(first) or _unusable(second):
        return reason
    apart = first - second
    error, freedom = _error(apart[1:])
    if error <= _SLACK:
        if abs(apart[0]) <= _SLACK:
            return Missing("the metrics do not differ in any video")
        return Missing("no video changes the difference")
    half, p = _student(float(apart[0]), error, freedom)
    middle = (first[0] + second[0]) / 2
    ends = apart[0] + np.array([-half, half])
    ends = np.tanh(middle + ends / 2) - np.tanh(middle - ends / 2)
    observed = values[0] - values[1]
    return Inference(min(float(ends[0]), observed), max(float(ends[1]), observed), p)


def _fisher(values: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        # Rounding can make a perfect value the next number after 1.
        return np.asarray(np.arctanh(np.minimum(values, 1.0)))


def _unusable(scaled: Floats) -> Missing | None:
    """Return why a value and the values without each video have no interval, or None."""
    if len(scaled) <= FEWEST:
        return too_few(len(scaled) - 1)
    if np.isnan(scaled).any():
        return Missing("there is no value without one of the videos")
    if np.abs(scaled).max() >= _PERFECT:
        return Missing("the value, or that without one of the videos, is perfect")
    return None


def _error(without: Floats) -> tuple[float, float]:
    """Return the jackknife's standard error, and Satterthwaite's degrees of freedom for it."""
    n = len(without)
    moved = (without - without.mean()) ** 2
    squares = float(moved.sum())
    if not squares:
        return 0.0, n - 1.0
    freedom = 3 * squares**2 / float((moved**2).sum()) - 2
    return math.sqrt(squares * (n - 1) / n), float(np.clip(freedom, 1.0, n - 1))


def _student(value: float, error: float, freedom: float) -> tuple[float, float]:
    """Return half of the interval's width and p."""
    from scipy.special import stdtr, stdtrit

    p = 2 * float(stdtr(freedom, -abs(value) / error))
    return float(stdtrit(freedom, UPPER)) * error, max(p, float(np.finfo(float).tiny))

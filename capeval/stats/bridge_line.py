"""The system line: one judge's score of a system from another judge's, by linear regression.

Both judges have scored k anchor systems on the same videos. The line `old = a + b new` is fitted to
the systems' means, never to videos or labels: how often the old judge says "entailment" where the
new one does depends on how good the captions are, so labels of one judge cannot be turned into
those of another.

The half-width of a prediction at `x`, for N videos of which the anchors have n, is::

    sqrt((t(k-2) max(s_res, sqrt(MS_res/n)))^2 (1 + 1/k + (x-X)^2/Sxx) + 4 V)
    V = max(0, (MS_video - MS_res)/k) (1/n - 1/N)

with the mean squares of the two-way (system x video) analysis of the differences old - new. The
line is refused, rather than used with a warning, where the data contradict it: where a paired t
test over videos finds an anchor off the line of the others (Holm p < .05, and at least 3 points).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from capeval.stats.multiple_testing import holm
from capeval.stats.values import Floats

FEWEST_SYSTEMS = 5
"""A line of fewer anchors leaves at most two degrees of freedom: t(2) is 4.3."""

FEWEST_VIDEOS = 30
"""With fewer videos, the leave-one-out test finds only shifts of 20 points."""

ALPHA = 0.05
"""The chance of refusing a line that fits, over all of its anchors (Holm)."""

LEAST_SHIFT = 0.03
"""Anchors that are less far off are scatter, which `s_res` measures and the half-width contains.

A thousand videos make a shift of half a point significant. To refuse every such line would refuse
nearly all of them, and accept those whose scatter looks too small by chance: with 10 anchors, 1,000
videos and shifts of 1 point, 94% were refused and the others covered 77%. From 3 points on, 11% are
refused and the others cover 97%. At 5 x 100, no smaller shift is significant.
"""

MAX_ERROR = 0.08
"""The widest half-width that is of use: most published systems differ by less than 8 points."""

LARGEST_EXTRAPOLATION = 0.5
"""How far beyond the anchors a target may lie, in ranges of the anchors' scores."""

_NORMAL = 1.959963984540054
"""The 97.5% quantile of the normal distribution."""

_NOISE = 1e-9
"""Differences of scores below this are the rounding errors of floating-point sums."""

Rule = Literal["systems", "videos", "equal", "misfit", "width", "range", "beyond", "target"]


@dataclass(frozen=True)
class Refusal:
    """Which rule refuses a line, or its use for one target, and the figures that decided.

    `rule` is `systems` (too few anchors), `videos` (too few), `equal` (the new scores of the
    anchors do not differ), `misfit` (an anchor is off the line of the others), `width` (the
    prediction is too inexact), `range` (the target is too far from the anchors), `beyond` (the
    line predicts no fraction from 0 to 1) or `target` (the target has no score by the new judge).
    """

    rule: Rule
    figures: Mapping[str, float | str] = field(default_factory=dict)


@dataclass(frozen=True)
class LeftOutSystem:
    """How far one anchor is off the line of the others: a paired t test over videos.

    `system` is its place; `p` is None where the others have no line; `adjusted` is p after Holm.
    """

    system: int
    shift: float | None = None
    error: float | None = None
    p: float | None = None
    adjusted: float | None = None


@dataclass(frozen=True)
class Line:
    """A fitted line and what the error of its predictions depends on.

    `s_res` is the residual standard deviation of the systems (k - 2 degrees of freedom); `ms_res`
    and `ms_video` are mean squares of the differences old - new; `center`, `sxx`, `low` and `high`
    describe the new scores of the anchors.
    """

    intercept: float
    slope: float
    s_res: float
    ms_res: float
    ms_video: float
    systems: int
    videos: int
    center: float
    sxx: float
    low: float
    high: float

    def predict(self, new: float) -> float:
        """Return the old judge's score of a system with this score by the new judge."""
        return self.intercept + self.slope * new

    def half_width(self, new: float, videos: float) -> float:
        """Return the half-width of the 95% interval of `predict`, for a target of N `videos`."""
        from scipy.special import stdtrit

        k, n = self.systems, self.videos
        scale = float(stdtrit(k - 2, 0.975)) * max(self.s_res, math.sqrt(self.ms_res / n))
        spread = 1 + 1 / k + (new - self.center) ** 2 / self.sxx
        shared = max(0.0, (self.ms_video - self.ms_res) / k) * max(0.0, 1 / n - 1 / videos)
        return math.sqrt(scale**2 * spread + 4 * shared)


@dataclass(frozen=True)
class FittedLine:
    """The line of one measure and type, or why there is none.

    `line` is None where nothing can be fitted; with any of `refusals`, it must not be used.
    `means` are the (k, 2) old and new scores of the anchors on the videos that all share.
    """

    line: Line | None
    systems: int
    videos: int
    refusals: tuple[Refusal, ...]
    left_out: tuple[LeftOutSystem, ...] = ()
    means: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class Prediction:
    """The score that a line gives a target, with its 95% intervals; or the refusals alone.

    `same_low` and `same_high` are for the old judge's mean over these same videos; `low` and `high`
    for new videos like these.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    same_low: float | None = None
    same_high: float | None = None
    refusals: tuple[Refusal, ...] = ()


def fit_line(old: ArrayLike, new: ArrayLike) -> FittedLine:
    """Fit the line of two judges' scores.

    Parameters
    ----------
    old, new : (k systems, videos) scores from 0 to 1, NaN where a video has none; only videos with
        a score of every system by both judges are used

    Raises
    ------
    ValueError
        The shapes differ.

    Example
    -------
    >>> rng = np.random.default_rng(0)
    >>> new = rng.normal(np.linspace(0.4, 0.6, 5)[:, None], 0.1, (5, 60))
    >>> fitted = fit_line(0.9 * new + rng.normal(0, 0.05, new.shape), new)
    >>> fitted.refusals, round(fitted.line.slope, 1)
    ((), 0.9)
    """
    y, x = np.atleast_2d(np.asarray(old, float)), np.atleast_2d(np.asarray(new, float))
    if y.shape != x.shape:
        raise ValueError(f"the scores of two judges differ in shape: {y.shape} and {x.shape}")
    used = np.isfinite(y).all(axis=0) & np.isfinite(x).all(axis=0)
    y, x = y[:, used], x[:, used]
    k, n = y.shape
    refusals = []
    if k < FEWEST_SYSTEMS:
        refusals.append(Refusal("systems", {"systems": k, "least": FEWEST_SYSTEMS}))
    if n < FEWEST_VIDEOS:
        refusals.append(Refusal("videos", {"videos": n, "least": FEWEST_VIDEOS}))
    if not k or not n:
        return FittedLine(None, k, n, tuple(refusals))
    old_means, new_means = y.mean(axis=1), x.mean(axis=1)
    means = tuple(zip(old_means.tolist(), new_means.tolist(), strict=True))
    if float(np.ptp(new_means)) <= _NOISE:
        refusals.append(Refusal("equal", {"score": float(new_means[0])}))
    if k < 3 or n < 2 or (refusals[-1:] and refusals[-1].rule == "equal"):
        return FittedLine(None, k, n, tuple(refusals), (), means)
    left_out = tuple(_leave_one_out(y, x))
    for one in left_out:
        if one.adjusted is None:
            refusals.append(Refusal("equal", {"system": one.system}))
        elif one.shift is None or one.error is None:
            continue
        elif one.adjusted < ALPHA and abs(one.shift) >= LEAST_SHIFT:
            refusals.append(
                Refusal(
                    "misfit",
                    {
                        "system": one.system,
                        "shift": one.shift,
                        "error": one.error,
                        "p": one.adjusted,
                    },
                )
            )
    return FittedLine(_line(y, x, old_means, new_means), k, n, tuple(refusals), left_out, means)


def predict(
    fitted: FittedLine,
    new: float | None,
    *,
    videos: int,
    error: float = 0.0,
    max_error: float = MAX_ERROR,
) -> Prediction:
    """Return the old judge's score of a target, or why it is refused.

    The interval for new videos takes the anchors' videos as a sample without end, and adds the
    error of the target's own score, times the slope.

    Parameters
    ----------
    new : the target's score by the new judge, None if it has none
    videos : how many videos that score is of
    error : its standard error, as a mean over videos
    max_error : the largest half-width that is accepted for these same videos, a fraction
    """
    line, refusals = fitted.line, [*fitted.refusals]
    if new is None or not videos:
        return Prediction(refusals=(*refusals, Refusal("target")))
    if line is None or refusals:
        return Prediction(refusals=tuple(refusals))
    value, half = line.predict(new), line.half_width(new, videos)
    outside = max(line.low - new, new - line.high)
    if half > max_error:
        refusals.append(Refusal("width", {"error": half, "most": max_error}))
    if outside > LARGEST_EXTRAPOLATION * (line.high - line.low):
        figures = {"score": new, "low": line.low, "high": line.high, "outside": outside}
        refusals.append(Refusal("range", figures))
    if not -_NOISE <= value <= 1 + _NOISE:
        refusals.append(Refusal("beyond", {"value": value}))
    if refusals:
        return Prediction(refusals=tuple(refusals))
    value = min(1.0, max(0.0, value))
    wide = math.hypot(line.half_width(new, math.inf), _NORMAL * line.slope * error)
    low, same_low = (max(0.0, value - of) for of in (wide, half))
    high, same_high = (min(1.0, value + of) for of in (wide, half))
    return Prediction(value, low, high, same_low, same_high)


def _line(y: Floats, x: Floats, old: Floats, new: Floats) -> Line:
    k, n = y.shape
    slope, sxx = _slope(old, new)
    intercept = float(old.mean() - slope * new.mean())
    residuals = old - intercept - slope * new
    difference = y - x
    of_video = difference.mean(axis=0) - difference.mean()
    rest = difference - difference.mean(axis=1, keepdims=True) - of_video
    return Line(
        intercept=intercept,
        slope=slope,
        s_res=math.sqrt(float(residuals @ residuals) / (k - 2)),
        ms_res=float((rest**2).sum() / ((k - 1) * (n - 1))),
        ms_video=float(k * (of_video**2).sum() / (n - 1)),
        systems=k,
        videos=n,
        center=float(new.mean()),
        sxx=sxx,
        low=float(new.min()),
        high=float(new.max()),
    )


def _slope(old: Floats, new: Floats) -> tuple[float, float]:
    centered = new - new.mean()
    sxx = float(centered @ centered)
    return float(centered @ old) / sxx, sxx


def _leave_one_out(y: Floats, x: Floats) -> list[LeftOutSystem]:
    """Return how far each system is off the line of the others, tested over videos.

    The line's value at the system is a weighted sum of the others' old means. The test is of the
    same sum in every video, so that what all systems share in a video cancels.
    """
    from scipy.special import stdtr

    k, n = y.shape
    old, new = y.mean(axis=1), x.mean(axis=1)
    found = []
    for system in range(k):
        others = np.arange(k) != system
        if float(np.ptp(new[others])) <= _NOISE:
            found.append(LeftOutSystem(system))
            continue
        slope, sxx = _slope(old[others], new[others])
        center = new[others].mean()
        weights = np.zeros(k)
        weights[others] = -1 / (k - 1) - (new[system] - center) * (new[others] - center) / sxx
        weights[system] = 1.0
        # To first order, the error of a new score enters through the slope.
        gaps = weights @ (y - slope * x)
        shift, error = float(gaps.mean()), float(gaps.std(ddof=1)) / math.sqrt(n)
        if error > _NOISE:
            p = 2 * float(stdtr(n - 1, -abs(shift) / error))
        else:
            p = 1.0 if abs(shift) <= _NOISE else 0.0
        found.append(LeftOutSystem(system, shift, error, p))
    adjusted = iter(holm([one.p for one in found if one.p is not None]))
    return [
        one
        if one.p is None
        else LeftOutSystem(one.system, one.shift, one.error, one.p, float(next(adjusted)))  # type: ignore[arg-type]
        for one in found
    ]

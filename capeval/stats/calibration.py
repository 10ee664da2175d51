"""Correct the mean of an automatic judge's scores with human scores of some of the videos.

The judge scored all N videos, human raters n of them. The regression estimator of survey sampling
(Cochran, 1977, section 7.1) moves the mean human score by what the judge says about the rest:

    estimate = mean_L(Y) + b (mean(f) - mean_L(f)),  b = S_Yf / S_ff on the labelled videos

with b kept within 0 and 1. It is nearly unbiased whatever the judge's errors are, and a judge that
says nothing about the human score leaves the human mean as it is. Prediction-powered inference
(Angelopoulos et al., 2023) is the same estimate with another slope and variance; its intervals rest
on large samples, those here on n - 2 degrees of freedom.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from capeval.stats.values import Floats, Ints, Mask

FEWEST_LABELLED = 10
"""Below this the slope is too uncertain: simulated intervals cover less than 90%."""

FEW_LABELLED = 20
"""From here on simulated intervals of F1 and recall cover 93% to 97%; below, warn."""

_FEWEST_FOR_SLOPE = 3
"""A line through two points leaves nothing to estimate its error from."""

_LABELS_PER_STRATUM = 3
"""With fewer, strata would cost more degrees of freedom than they gain."""

_NO_RESIDUAL = 1e-9
"""Residuals below this share of the largest score are rounding errors."""


@dataclass(frozen=True)
class Calibration:
    """Calibrated means of many columns, each (columns,); NaN where there is none.

    Attributes
    ----------
    value : the calibrated mean; NaN below three labelled videos
    slope : b, from 0 (the judge is ignored) to 1
    low, high : its interval, for new videos like these
    same_low, same_high : its interval for the mean human score of these same videos
    human, human_low, human_high : the mean of the human scores alone and its t interval, for new
        videos like these
    labelled : number of videos with both a human score and a judge's, n
    videos : number of videos with a judge's score, N
    r2 : share of the variance of human scores that the judge explains with this slope
    worth : number of labelled videos that would give as narrow an interval without the judge
    residual : s^2, the variance of human scores that the judge leaves
    explained : b (2 B - b) S_f^2, the variance that it explains
    reasons : why a column has no interval, or None if it has one
    """

    value: Floats
    slope: Floats
    low: Floats
    high: Floats
    same_low: Floats
    same_high: Floats
    human: Floats
    human_low: Floats
    human_high: Floats
    labelled: Floats
    videos: Floats
    r2: Floats
    worth: Floats
    residual: Floats
    explained: Floats
    reasons: tuple[str | None, ...]


def calibrate(
    judge: ArrayLike,
    human: ArrayLike,
    rows: ArrayLike,
    *,
    strata: ArrayLike | None = None,
    sizes: Sequence[int] | None = None,
    bounds: tuple[float, float] | None = None,
    confidence: float = 0.95,
) -> Calibration:
    """Return the judge's mean of every column, calibrated with human scores of some rows.

    With s^2 = RSS / (n - 2), d = mean(f) - mean_L(f) and v the variance of f among the labelled
    videos (divided by n), the variance for these same videos is s^2 (1/n - 1/N) (1 + d^2 / v). For
    new videos like these, (s^2 + b (2 B - b) S_f^2) / N is added, where B is the slope before it
    was kept within 0 and 1: unless it was, that is (s^2 + b^2 S_f^2) / N. Quantiles are those of t
    with n - 2 degrees of freedom. Without d^2 / v, the error of the slope, intervals from 10 to 20
    labels cover half a point less often. No interval is wider than that of the human scores alone
    by more than the degree of freedom of the slope costs: where the judge only adds noise, b = 0.

    With strata, each labelled video is weighted by (size of its stratum) / (labelled videos in it),
    and the variance for these videos is that of a stratified sample, linearised. Residuals are
    pooled over strata for the degrees of freedom, of which each further stratum takes one and
    unequal weights take a share. A column with fewer than three labelled videos per stratum keeps
    the weights and is otherwise treated as if it had no strata, which is conservative for strata
    sampled in proportion to their size.

    Parameters
    ----------
    judge : (N, columns) or (N,), NaN where a video is not in a column
    human : (n, columns) or (n,), NaN where there is no human score
    rows : (n,) distinct places of the labelled videos among the N
    strata : (n,), the stratum of each labelled video, from 0; without, one random sample of all
    sizes : number of videos in each stratum that could have been sampled
    bounds : ends of the scale, which no estimate or interval exceeds
    confidence : between 0 and 1

    Raises
    ------
    ValueError
        Shapes do not fit, a row is out of range or repeated, or a stratum has no size.

    >>> judge = np.array([0.2, 0.4, 0.6, 0.8] * 10)
    >>> found = calibrate(judge, judge[:12] / 2 + [0.1, 0.12] * 6, range(12))
    >>> [round(float(x[0]), 3) for x in (found.value, found.slope, found.low, found.high)]
    [0.36, 0.52, 0.318, 0.402]
    """
    f, y, places = _columns(judge), _columns(human), np.asarray(rows, dtype=np.int64)
    _check(f, y, places)
    there = ~np.isnan(y) & ~np.isnan(f[places])
    n = there.sum(axis=0).astype(np.float64)
    stratum, size = _design(there, strata, sizes)
    with np.errstate(invalid="ignore", divide="ignore"):
        labelled = np.bincount(stratum, there.any(axis=1), len(size)).astype(np.float64)
        weights = np.where(there, (size / labelled)[stratum][:, None], 0.0)
        weights /= weights.sum(axis=0)
        videos, mean, variance = _moments(f)
        human_mean, y = _centred(y, there, weights)
        judge_mean, g = _centred(f[places], there, weights)
        s_ff, s_yf, s_yy = (
            (weights * one * two).sum(axis=0) for one, two in ((g, g), (y, g), (y, y))
        )
        # Rounding errors are no variance: they would give a slope of any size.
        tiny = (_NO_RESIDUAL * _largest(_columns(human), there)) ** 2
        s_ff = np.where(s_ff > (_NO_RESIDUAL * _largest(f[places], there)) ** 2, s_ff, 0.0)
        s_yy = np.where(s_yy > tiny, s_yy, 0.0)
        steep = np.where((s_ff > 0) & (s_yy > 0), s_yf / s_ff, 0.0)
        slope = np.clip(steep, 0.0, 1.0)

        lost, of_sample = _sampling(there, weights, n, videos, stratum, size, labelled)
        pooled = n / (n - lost - 1)
        residuals = y - slope * g
        sampled = pooled * of_sample(residuals)
        left = (weights * residuals**2).sum(axis=0)
        explained = slope * (2 * steep - slope) * variance
        rest = (n / (n - 2) * left + explained) / videos
        # What the human scores alone give with the same degrees of freedom.
        alone = pooled * of_sample(y)
        alone_new = alone + n / (n - 2) * s_yy / videos
        worse = (sampled + rest > alone_new) | (sampled > alone)
        # The farther the labelled videos are from the rest, the more an error of the slope moves.
        apart = np.where(slope > 0, (mean - judge_mean) ** 2 / s_ff, 0.0)
        same = np.minimum(sampled * (1 + apart), alone)
        new = np.minimum(sampled * (1 + apart) + rest, alone_new)
        slope, left = np.where(worse, 0.0, slope), np.where(worse, s_yy, left)
        explained = np.where(worse, 0.0, explained)
        same, new = np.where(worse, alone, same), np.where(worse, alone_new, new)
        human_new = n / (n - lost) * of_sample(y) + n / (n - 1) * s_yy / videos

        value = np.where(n < _FEWEST_FOR_SLOPE, np.nan, human_mean + slope * (mean - judge_mean))
        r2 = np.where(n < _FEWEST_FOR_SLOPE, np.nan, 1 - left / s_yy)
        worth = n / (1 - r2 * (1 - n / videos))
        # With unequal weights, an estimate rests on fewer videos (Satterthwaite).
        even = (weights**2).sum(axis=0) ** 2 / (n * (weights**4).sum(axis=0))
    reasons = tuple(map(_reason, n, left <= tiny, s_yy == 0))
    sure = np.array([reason is None for reason in reasons], dtype=bool)
    quantile, human_quantile = (_t(even * (n - spent - lost), confidence) for spent in (1, 0))

    def ends(middle: Floats, squared: Floats, t: Floats, given: Mask) -> tuple[Floats, Floats]:
        half = np.where(given, t * np.sqrt(np.where(given, squared, 0.0)), np.nan)
        return inside(middle - half), inside(middle + half)

    def inside(values: Floats) -> Floats:
        return values if bounds is None else np.clip(values, *bounds)

    low, high = ends(value, new, quantile, sure)
    same_low, same_high = ends(value, same, quantile, sure)
    human_low, human_high = ends(
        human_mean, human_new, human_quantile, (n >= FEWEST_LABELLED) & (s_yy > 0)
    )
    return Calibration(
        value=inside(value),
        slope=np.where(n < _FEWEST_FOR_SLOPE, np.nan, slope),
        low=low,
        high=high,
        same_low=same_low,
        same_high=same_high,
        human=human_mean,
        human_low=human_low,
        human_high=human_high,
        labelled=n,
        videos=videos,
        r2=r2,
        worth=worth,
        residual=n / np.where(n > 2, n - 2, np.nan) * left,
        explained=explained,
        reasons=reasons,
    )


def _columns(values: ArrayLike) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    return array[:, None] if array.ndim == 1 else array


def _largest(values: Floats, there: Mask) -> Floats:
    return np.asarray(np.abs(np.where(there, values, 0.0)).max(axis=0, initial=0.0))


def _check(judge: Floats, human: Floats, rows: Ints) -> None:
    if judge.ndim != 2 or human.ndim != 2 or judge.shape[1] != human.shape[1]:
        raise ValueError("judge and human scores need the same columns")
    if rows.shape != (len(human),) or len(np.unique(rows)) != len(rows):
        raise ValueError("each row of human scores needs its own row of the judge's")
    if len(rows) and not 0 <= rows.min() <= rows.max() < len(judge):
        raise ValueError(f"rows from 0 to {len(judge) - 1}")


def _design(
    there: Mask, strata: ArrayLike | None, sizes: Sequence[int] | None
) -> tuple[Ints, Floats]:
    """Return the stratum of each labelled video, and the size of each stratum."""
    if strata is None or sizes is None:
        return np.zeros(len(there), dtype=np.int64), np.ones(1)
    stratum, size = np.asarray(strata, dtype=np.int64), np.asarray(sizes, dtype=np.float64)
    if stratum.shape != (len(there),) or (len(stratum) and stratum.min() < 0):
        raise ValueError("a stratum from 0 for each labelled video")
    if len(stratum) and (stratum.max() >= len(size) or not (size[stratum] > 0).all()):
        raise ValueError("each stratum needs its number of videos")
    return stratum, size


def _moments(values: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the number, mean and sample variance of what each column has."""
    there = ~np.isnan(values)
    n = there.sum(axis=0).astype(np.float64)
    mean = np.where(there, values, 0.0).sum(axis=0) / n
    squares = (np.where(there, values - mean, 0.0) ** 2).sum(axis=0)
    return n, mean, squares / (n - 1)


def _centred(values: Floats, there: Mask, weights: Floats) -> tuple[Floats, Floats]:
    """Return each column's weighted mean, and deviations from it: 0 where there is no value."""
    filled = np.where(there, values, 0.0)
    mean = np.where(there.any(axis=0), (weights * filled).sum(axis=0), np.nan)
    return mean, np.where(there, filled - mean, 0.0)


def _sampling(
    there: Mask,
    weights: Floats,
    n: Floats,
    videos: Floats,
    stratum: Ints,
    size: Floats,
    labelled: Floats,
) -> tuple[Floats, Callable[[Floats], Floats]]:
    """Return how many means each column spends on its strata, and its sampling variance.

    The variance is a function of residuals, before the correction for degrees of freedom.
    """
    one = 1 - n / videos
    cells = np.zeros((len(size), there.shape[1]), dtype=bool)
    np.logical_or.at(cells, stratum, there)
    used = cells.sum(axis=0)
    stratified = (used > 1) & (n >= _LABELS_PER_STRATUM * used)
    if not stratified.any():
        return np.ones_like(n), lambda residuals: one * ((weights * residuals) ** 2).sum(axis=0)
    unsampled = np.clip(1 - labelled / size, 0.0, 1.0)

    def variance(residuals: Floats) -> Floats:
        parts = weights * residuals
        total = np.zeros_like(n)
        for h in np.flatnonzero(labelled):
            of = parts[stratum == h]
            total += unsampled[h] * ((of**2).sum(axis=0) - of.sum(axis=0) ** 2 / labelled[h])
        return np.where(stratified, total, one * (parts**2).sum(axis=0))

    return np.where(stratified, used, 1).astype(np.float64), variance


def _t(df: Floats, confidence: float) -> Floats:
    from scipy.special import stdtrit

    return np.asarray(stdtrit(np.maximum(df, 1.0), (1 + confidence) / 2), dtype=np.float64)


def _reason(n: float, no_residual: bool, no_variance: bool) -> str | None:
    if n < FEWEST_LABELLED:
        videos = "video is" if n == 1 else "videos are"
        return f"{int(n)} labelled {videos} too few: at least {FEWEST_LABELLED} are needed"
    if no_variance:
        return "the human scores are all equal"
    return "the judge's scores leave no residual variance" if no_residual else None


def labels_needed(
    half_width: float,
    residual: float,
    explained: float,
    videos: int,
    *,
    confidence: float = 0.95,
) -> int | None:
    """Return how many labelled videos give an interval of this half-width, for new videos.

    The smallest n from `FEWEST_LABELLED` to N with t(n - 2) sqrt(s^2 / n + v / N) at most the
    half-width; None where even N labels do not suffice.

    Parameters
    ----------
    half_width : in the unit of the scores
    residual, explained : s^2 and v, as in `Calibration`
    videos : N

    >>> labels_needed(0.03, 0.02, 0.02, 1000), labels_needed(0.005, 0.02, 0.02, 1000)
    (97, None)
    """
    n = np.arange(FEWEST_LABELLED, videos + 1, dtype=np.float64)
    half = _t(n - 2, confidence) * np.sqrt(residual / n + explained / videos)
    enough = np.flatnonzero(half <= half_width)
    return int(n[enough[0]]) if len(enough) else None


def variance_range(
    variance: float, degrees: float, confidence: float = 0.95
) -> tuple[float, float]:
    """Return the interval of a variance that was estimated with so many degrees of freedom.

    The chi-squared interval for normal residuals; it spans a factor of four at 18 degrees.

    >>> low, high = variance_range(1.0, 18)
    >>> round(low, 2), round(high, 2)
    (0.57, 2.19)
    """
    from scipy.special import chdtri

    tail = (1 - confidence) / 2
    return (
        float(degrees * variance / chdtri(degrees, tail)),
        float(degrees * variance / chdtri(degrees, 1 - tail)),
    )

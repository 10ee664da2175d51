"""Correct the mean of an automatic judge's scores with labels of some of the videos.

The judge scored all N videos; human raters, or another judge, labelled n of them. The regression
estimator of survey sampling (Cochran, 1977, section 7.1) moves the mean labelled score by what the
judge says about the rest:

    estimate = mean_L(Y) + b (mean(f) - mean_L(f)),  b = S_Yf / S_ff on the labelled videos

with b kept within 0 and 1. It is nearly unbiased whatever the judge's errors are, and a judge that
says nothing about the labels leaves their mean as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from capeval.stats.values import UPPER

FEWEST_LABELLED = 20
"""Below this there is no interval: it would miss too often where captions fail altogether."""

FEW_LABELLED = 40
"""Below this, intervals are shown with a note."""

_FEWEST_FOR_SLOPE = 3
"""A line through two points leaves nothing to estimate its error from."""

_ROUNDING = 1e-18
"""A variance of scores below this is only rounding error."""

_NO_COVARIANCE = 1e-15
"""The same for a covariance, whose sign is then chance."""

Ends = tuple[float, float] | None
"""The 95% interval of a mean; None if there is none."""


@dataclass(frozen=True)
class Calibration:
    """A calibrated mean.

    Attributes
    ----------
    value : the calibrated mean; None below three labelled videos
    interval : its interval, for new videos like these
    same_videos : its interval for the mean label of these same videos
    alone, alone_interval : the mean of the labels without the judge, for new videos like these
    slope : b, from 0 (the judge is ignored) to 1
    r2 : the share of the variance of labels that the judge explains with this slope
    labelled, videos : n and N
    reason : why there is no interval, or None if there is one
    """

    value: float | None
    interval: Ends
    same_videos: Ends
    alone: float | None
    alone_interval: Ends
    slope: float | None
    r2: float | None
    labelled: int
    videos: int
    reason: str | None


def calibrate(judge: ArrayLike, labels: ArrayLike) -> Calibration:
    """Return the judge's mean, calibrated with labels of some videos, which are a random sample.

    With s^2 = RSS / (n - 2), the variance of labels that the judge leaves, d = mean(f) - mean_L(f)
    and v the variance of f among the labelled videos (divided by n), the variance for these same
    videos is s^2 (1/n - 1/N) (1 + d^2 / v): that of a fitted line at mean(f). For new videos like
    these, their own variance over N is added: (s^2 + b (2 B - b) S_f^2) / N, where B is the slope
    before it was kept within 0 and 1; unless it was, that is (s^2 + b^2 S_f^2) / N. Quantiles are
    those of t with n - 2 degrees of freedom.

    Parameters
    ----------
    judge : (N,) from 0 to 1, NaN where a video has no score
    labels : (N,) scores by the labels, NaN where a video is not labelled

    >>> judge = np.array([0.2, 0.4, 0.6, 0.8] * 10)
    >>> labels = np.where(np.arange(40) < 24, judge / 2 + [0.1, 0.12] * 20, np.nan)
    >>> found = calibrate(judge, labels)
    >>> round(found.value, 3), round(found.slope, 3), [round(end, 3) for end in found.interval]
    (0.36, 0.52, [0.321, 0.399])
    """
    scores, given = np.asarray(judge, dtype=np.float64), np.asarray(labels, dtype=np.float64)
    labelled = ~np.isnan(scores) & ~np.isnan(given)
    f, y, scores = scores[labelled], given[labelled], scores[~np.isnan(scores)]
    n, videos = len(y), len(scores)
    if n < _FEWEST_FOR_SLOPE:
        mean = float(y.mean()) if n else None
        return Calibration(None, None, None, mean, None, None, None, n, videos, _too_few(n))
    mean, s_ff, s_yy = float(y.mean()), float(f.var()), float(y.var())
    covariance = float(np.mean((f - f.mean()) * (y - mean)))
    steep = covariance / s_ff if s_ff > _ROUNDING and abs(covariance) > _NO_COVARIANCE else 0.0
    slope = min(max(steep, 0.0), 1.0)
    left = float(np.var(y - slope * f))
    apart = float(scores.mean() - f.mean())
    value = mean + slope * apart
    residual = left * n / (n - 2)
    of_slope = apart**2 / s_ff if slope else 0.0
    same = residual * (1 / n - 1 / videos) * (1 + of_slope)
    new = same + (residual + slope * (2 * steep - slope) * float(scores.var(ddof=1))) / videos
    reason = _too_few(n) if n < FEWEST_LABELLED else None
    if reason is None and left <= _ROUNDING:
        reason = "the labels are an exact linear function of the judge's scores"

    def ends(middle: float, variance: float, degrees: int) -> Ends:
        from scipy.special import stdtrit

        half = float(stdtrit(degrees, UPPER)) * variance**0.5
        low, high = np.clip([middle - half, middle + half], 0, 1).tolist()
        return None if reason else (low, high)

    return Calibration(
        value=float(np.clip(value, 0, 1)),
        interval=ends(value, new, n - 2),
        same_videos=ends(value, same, n - 2),
        alone=mean,
        alone_interval=ends(mean, s_yy / (n - 1), n - 1),
        slope=slope,
        r2=1 - left / s_yy if s_yy > _ROUNDING else None,
        labelled=n,
        videos=videos,
        reason=reason,
    )


def _too_few(labelled: int) -> str:
    videos = "video is" if labelled == 1 else "videos are"
    return f"{labelled} labelled {videos} too few: at least {FEWEST_LABELLED} are needed"

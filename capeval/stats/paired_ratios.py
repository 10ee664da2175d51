"""Ratios of sums over videos, such as of two accuracies, with paired bootstrap intervals."""

from __future__ import annotations

import numpy as np

from capeval.stats.design import Design
from capeval.stats.percentiles import percentiles
from capeval.stats.ratio_ends import ratio_ends, widened
from capeval.stats.resampling import FEWEST, same_draws, too_few
from capeval.stats.values import Floats, Interval, Mask, Missing

# Values of resamples that differ by less are one value.
_SLACK = 1e-12


def ratio_intervals(
    upper: Floats,
    lower: Floats,
    present: Mask,
    *,
    draws: int = 10_000,
    seed: int = 0,
) -> list[Interval | Missing]:
    """Return the interval of the ratio of two sums, one for each column.

    Whole videos are resampled, the same ones above and below the line and in every column, so that
    what a video's questions have in common cancels. Percentiles are expanded for few videos
    (Hesterberg, 2015). A resample in which the lower sum is 0 has no ratio. Intervals reach at
    least to the ends of `ratio_ends`: percentiles alone are too near to a ratio to a small sum.

    Parameters
    ----------
    upper, lower : (videos, columns), at least 0
    present : (videos, columns), whether a column has questions about a video

    Raises
    ------
    ValueError
        The arrays differ in shape.

    >>> right_with_16 = np.array([[2.0], [1.0], [1.0], [0.0], [2.0], [1.0]])
    >>> right_with_1 = np.array([[1.0], [1.0], [0.0], [0.0], [1.0], [1.0]])
    >>> [found] = ratio_intervals(right_with_16, right_with_1, right_with_1 >= 0)
    >>> round(found.low, 2), round(found.high, 2), found.method
    (0.96, 6.0, 'bootstrap')
    """
    if not upper.shape == lower.shape == present.shape:
        raise ValueError(f"shapes differ: {upper.shape}, {lower.shape} and {present.shape}")
    videos, columns = upper.shape
    if not videos or not columns:
        return [too_few(0, _VIDEOS)] * columns
    # Counts of resamples are of this type too; sums of whole numbers are exact up to 16 million.
    both = np.hstack([upper, lower]).astype(np.float32)
    drawn = [counts @ both for counts in same_draws(videos, draws, seed)]
    sums = np.concatenate(drawn).astype(np.float64)
    above, below = sums[:, :columns], sums[:, columns:]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(below > 0, above / below, np.nan)
        observed = upper.sum(axis=0) / lower.sum(axis=0)
    return [
        _interval(ratios[:, at], float(observed[at]), upper[:, at], lower[:, at], present[:, at])
        for at in range(columns)
    ]


# Only so that messages count videos and not captions.
_VIDEOS = Design.of([0, 0], [0, 1])


def _interval(
    ratios: Floats, observed: float, upper: Floats, lower: Floats, present: Mask
) -> Interval | Missing:
    videos = int(present.sum())
    if not np.isfinite(observed):
        return Missing("there is no value")
    if videos < FEWEST:
        return too_few(videos, _VIDEOS)
    found = percentiles(ratios, units=videos, around=observed)
    if isinstance(found, Missing):
        return found
    if found.high - found.low <= _SLACK:
        return Missing("all resamples have one value")
    found = Interval(max(found.low, 0.0), found.high, found.method)
    # Where nothing is above the line all resamples are 0, so that there is a logarithm here.
    ends = ratio_ends(observed, upper / upper.sum(), lower / lower.sum(), videos)
    return widened(found, ends)

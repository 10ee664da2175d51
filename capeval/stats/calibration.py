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
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from capeval.stats.values import CONFIDENCE, UPPER, Floats, Ints, Mask

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


_SLOPE_COST = 3
"""Left-out residuals and the distance of the labelled videos from the rest add this share of s^2,
divided by n, in the mean of simulated studies: 15% of it with 20 labels, 3% with 100."""

_LONE = 1e-9
"""A video with more than 1 minus this leverage fixes the slope alone."""


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
) -> Calibration:
    """Return the judge's mean of every column, calibrated with human scores of some rows.

    With p^2 = PRESS / n, the mean squared residual from the line through the other labelled videos,
    d = mean(f) - mean_L(f) and v the variance of f among the labelled videos (divided by n), the
    variance for these same videos is p^2 (1/n - 1/N) (1 + d^2 / v). Ordinary residuals, with
    s^2 = RSS / (n - 2), are too small where one video far from the others draws the line to itself,
    as the rare caption with precision 0 does; p^2 is never taken below s^2. For new videos like
    these, (s^2 + b (2 B - b) S_f^2) / N is added, where B is the slope before it was kept within 0
    and 1: unless it was, that is (s^2 + b^2 S_f^2) / N. Quantiles are those of t with n - 2 degrees
    of freedom. Without d^2 / v, the error of the slope, intervals from 10 to 20 labels cover half a
    point less often. No interval is wider than that of the human scores alone by more than the
    degree of freedom of the slope costs: where the judge only adds noise, b = 0.

    With strata, each labelled video is weighted by (size of its stratum) / (labelled videos in it),
    and the variance for these videos is that of a stratified sample, linearised, with the degrees
    of freedom of Satterthwaite. Strata with one labelled video are collapsed for it with those of
    the nearest weight. A column with fewer than three labelled videos per stratum keeps the weights
    and is otherwise treated as if it had no strata, which is conservative for strata sampled in
    proportion to their size.

    Parameters
    ----------
    judge : (N, columns) or (N,), NaN where a video is not in a column
    human : (n, columns) or (n,), NaN where there is no human score
    rows : (n,) distinct places of the labelled videos among the N
    strata : (n,), the stratum of each labelled video, from 0; without, one random sample of all
    sizes : number of videos in each stratum that could have been sampled
    bounds : ends of the scale, which no estimate or interval exceeds

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
    # Cells without a value are NaN until they are left out, and columns without any stay it.
    with np.errstate(invalid="ignore", divide="ignore"):
        sample = _sample(f, y, places, strata, sizes)
        line = _line(f, y, places, sample)
        variances = _variances(line, sample)
        n = sample.n
        known = n >= _FEWEST_FOR_SLOPE
        value = np.where(known, line.human + variances.slope * line.apart, np.nan)
        r2 = np.where(known, 1 - variances.left / line.s_yy, np.nan)
        worth = n / (1 - r2 * (1 - n / sample.videos))
    reasons = tuple(map(_reason, n, variances.left <= line.tiny, line.s_yy == 0))
    sure = np.array([reason is None for reason in reasons], dtype=bool)
    human_sure = (n >= FEWEST_LABELLED) & (line.s_yy > 0)

    def ends(
        middle: Floats, variance: Floats, degrees: Floats, given: Mask
    ) -> tuple[Floats, Floats]:
        t = _t(degrees)
        half = np.where(given, t * np.sqrt(np.where(given, variance, 0.0)), np.nan)
        return inside(middle - half), inside(middle + half)

    def inside(values: Floats) -> Floats:
        return values if bounds is None else np.clip(values, *bounds)

    alone, with_slope = sample.degrees
    low, high = ends(value, variances.new, with_slope, sure)
    same_low, same_high = ends(value, variances.same, with_slope, sure)
    human_low, human_high = ends(line.human, variances.human, alone, human_sure)
    return Calibration(
        value=inside(value),
        slope=np.where(known, variances.slope, np.nan),
        low=low,
        high=high,
        same_low=same_low,
        same_high=same_high,
        human=line.human,
        human_low=human_low,
        human_high=human_high,
        labelled=n,
        videos=sample.videos,
        r2=r2,
        worth=worth,
        residual=n / np.where(n > 2, n - 2, np.nan) * variances.left,
        explained=variances.explained,
        reasons=reasons,
    )


@dataclass(frozen=True)
class _Sample:
    """The labelled videos of each column, and how they were sampled.

    `there` and `weights` are (labelled videos, columns), the weights of a column sum to 1; `n` and
    `videos` are those of `Calibration`. `variance` gives the sampling variance of a weighted mean
    from its residuals, as if these had no line fitted to them; `inflation` corrects it. `of_mean`,
    (labelled videos, columns), is the leverage that fitting the mean gives each video, or 0 where
    `variance` makes up for it.

    Each of `degrees` and `inflation` has two rows: without a slope, and with one.
    """

    there: Mask
    weights: Floats
    n: Floats
    videos: Floats
    variance: Callable[[Floats], Floats]
    of_mean: Floats
    inflation: tuple[Floats, Floats]
    degrees: tuple[Floats, Floats]


@dataclass(frozen=True)
class _Line:
    """The least-squares line of human scores on the judge's, (columns,) unless said otherwise.

    `y` and `g` are (labelled videos, columns): human and judge's scores, centred. `human` is the
    mean human score, `apart` how far the judge's mean of all videos is from that of the labelled
    ones, `steep` the slope before it was kept within 0 and 1, `s_ff` and `s_yy` the variances of
    labelled scores (divided by n), `tiny` what is a rounding error of the latter, and `variance`
    that of all of the judge's scores.
    """

    y: Floats
    g: Floats
    human: Floats
    apart: Floats
    steep: Floats
    slope: Floats
    s_ff: Floats
    s_yy: Floats
    tiny: Floats
    variance: Floats


@dataclass(frozen=True)
class _Variances:
    """Squared standard errors: for these same videos, for new ones, and of human scores alone.

    `slope` is 0 where the judge only adds noise; `left` is the variance of human scores that it
    leaves (divided by n) and `explained` that of `Calibration`.
    """

    same: Floats
    new: Floats
    human: Floats
    slope: Floats
    left: Floats
    explained: Floats


def _sample(
    f: Floats,
    y: Floats,
    places: Ints,
    strata: ArrayLike | None,
    sizes: Sequence[int] | None,
) -> _Sample:
    there = ~np.isnan(y) & ~np.isnan(f[places])
    n = there.sum(axis=0).astype(np.float64)
    videos = (~np.isnan(f)).sum(axis=0).astype(np.float64)
    stratum, size = _design(there, strata, sizes)
    labelled = np.bincount(stratum, there.any(axis=1), len(size)).astype(np.float64)
    weights = np.where(there, (size / labelled)[stratum][:, None], 0.0)
    weights /= weights.sum(axis=0)
    # An estimate with unequal weights rests on fewer videos (Satterthwaite).
    even = (weights**2).sum(axis=0) ** 2 / (n * (weights**4).sum(axis=0))
    simple = _Sample(
        there,
        weights,
        n,
        videos,
        lambda residuals: (1 - n / videos) * ((weights * residuals) ** 2).sum(axis=0),
        weights,
        (n / (n - 1), n / (n - 2)),
        (even * (n - 1), even * (n - 2)),
    )
    return simple if len(size) < 2 else _stratified(simple, stratum, size, labelled)


def _stratified(sample: _Sample, stratum: Ints, size: Floats, labelled: Floats) -> _Sample:
    """Return the sample with the variance of a stratified one, for columns with labels enough."""
    there, weights, n = sample.there, sample.weights, sample.n
    group = _collapsed(size, labelled)
    inside = group[stratum]
    count = np.bincount(group, labelled)
    # Strata without any labelled video have no part in the sample.
    unsampled = np.clip(1 - count / np.bincount(group, np.where(labelled > 0, size, 0.0)), 0, 1)
    cells, squares = np.zeros((2, len(count), len(n)))
    np.add.at(cells, inside, there)
    np.add.at(squares, inside, weights**2)
    used = (cells > 0).sum(axis=0)
    enough = (used > 1) & (n >= _LABELS_PER_STRATUM * used)
    if not enough.any():
        return sample

    def variance(residuals: Floats) -> Floats:
        parts = weights * residuals
        total = np.zeros_like(n)
        for g, number in enumerate(count):
            of = parts[inside == g]
            within = (of**2).sum(axis=0) - of.sum(axis=0) ** 2 / number
            total += unsampled[g] * number / (number - 1) * within
        return np.where(enough, total, sample.variance(residuals))

    # Satterthwaite's, as if residuals had one variance: two of them do not tell that of a stratum.
    degrees = squares.sum(axis=0) ** 2 / (squares**2 / np.maximum(cells - 1, 1)).sum(axis=0)
    # The slope is of all labelled videos, and takes its share.
    left = 1 - 1 / (n - used)
    return replace(
        sample,
        variance=variance,
        of_mean=np.where(enough, 0.0, sample.of_mean),
        inflation=(
            np.where(enough, 1.0, sample.inflation[0]),
            np.where(enough, 1 / left, sample.inflation[1]),
        ),
        degrees=(
            np.where(enough, degrees, sample.degrees[0]),
            np.where(enough, left * degrees, sample.degrees[1]),
        ),
    )


def _collapsed(size: Floats, labelled: Floats) -> Ints:
    """Return the group of each stratum, with two labelled videos at least: one has no variance.

    Strata are collapsed with those of the nearest weight.
    """
    group = np.zeros(len(size), dtype=np.int64)
    there = np.flatnonzero(labelled)
    at = count = 0
    for h in there[np.argsort(size[there] / labelled[there], kind="stable")]:
        group[h] = at
        count += int(labelled[h])
        if count > 1:
            at, count = at + 1, 0
    return np.minimum(group, max(0, at - 1))


def _line(f: Floats, y: Floats, places: Ints, sample: _Sample) -> _Line:
    there, weights = sample.there, sample.weights
    mean, variance = _moments(f)
    human, of_human = _centred(y, there, weights)
    labelled, of_judge = _centred(f[places], there, weights)
    s_ff, s_yf, s_yy = (
        (weights * one * two).sum(axis=0)
        for one, two in ((of_judge, of_judge), (of_human, of_judge), (of_human, of_human))
    )
    # Rounding errors are no variance: they would give a slope of any size.
    tiny = (_NO_RESIDUAL * _largest(y, there)) ** 2
    s_ff = np.where(s_ff > (_NO_RESIDUAL * _largest(f[places], there)) ** 2, s_ff, 0.0)
    s_yy = np.where(s_yy > tiny, s_yy, 0.0)
    steep = np.where((s_ff > 0) & (s_yy > 0), s_yf / s_ff, 0.0)
    return _Line(
        y=of_human,
        g=of_judge,
        human=human,
        apart=mean - labelled,
        steep=steep,
        slope=np.clip(steep, 0.0, 1.0),
        s_ff=s_ff,
        s_yy=s_yy,
        tiny=tiny,
        variance=variance,
    )


def _variances(line: _Line, sample: _Sample) -> _Variances:
    n, videos, slope = sample.n, sample.videos, line.slope
    inflation, with_slope = sample.inflation
    residuals = line.y - slope * line.g
    sampled = with_slope * sample.variance(residuals)
    left = (sample.weights * residuals**2).sum(axis=0)
    explained = slope * (2 * line.steep - slope) * line.variance
    rest = (n / (n - 2) * left + explained) / videos
    # What the human scores alone give with the same degrees of freedom.
    of_human = sample.variance(line.y)
    alone = with_slope * of_human
    alone_new = alone + n / (n - 2) * line.s_yy / videos
    worse = (sampled + rest > alone_new) | (sampled > alone)
    from_others = np.maximum(sampled, sample.variance(_left_out(line, sample)))
    # The farther the labelled videos are from the rest, the more an error of the slope moves.
    moved = from_others * (1 + np.where(slope > 0, line.apart**2 / line.s_ff, 0.0))
    return _Variances(
        same=np.where(worse, alone, np.minimum(moved, alone)),
        new=np.where(worse, alone_new, np.minimum(moved + rest, alone_new)),
        human=inflation * of_human + n / (n - 1) * line.s_yy / videos,
        slope=np.where(worse, 0.0, slope),
        left=np.where(worse, line.s_yy, left),
        explained=np.where(worse, 0.0, explained),
    )


def _left_out(line: _Line, sample: _Sample) -> Floats:
    """Return the residual of each labelled video from the line through the others."""
    leverage = np.where(line.slope > 0, sample.weights * line.g**2 / line.s_ff, 0.0)
    rest = 1 - sample.of_mean - leverage
    # Where all others have one score of the judge, they give no slope.
    lone = rest < _LONE
    residuals = line.y - np.where(lone, 0.0, line.slope) * line.g
    return np.asarray(residuals / np.where(lone, 1 - sample.of_mean, rest))


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


def _moments(values: Floats) -> tuple[Floats, Floats]:
    """Return the mean and sample variance of what each column has."""
    there = ~np.isnan(values)
    n = there.sum(axis=0).astype(np.float64)
    mean = np.where(there, values, 0.0).sum(axis=0) / n
    squares = (np.where(there, values - mean, 0.0) ** 2).sum(axis=0)
    return mean, squares / (n - 1)


def _centred(values: Floats, there: Mask, weights: Floats) -> tuple[Floats, Floats]:
    """Return each column's weighted mean, and deviations from it: 0 where there is no value."""
    filled = np.where(there, values, 0.0)
    mean = np.where(there.any(axis=0), (weights * filled).sum(axis=0), np.nan)
    return mean, np.where(there, filled - mean, 0.0)


def _t(df: Floats) -> Floats:
    from scipy.special import stdtrit

    return np.asarray(stdtrit(np.maximum(df, 1.0), UPPER), dtype=np.float64)


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
) -> int | None:
    """Return how many labelled videos give an interval of this half-width, for new videos.

    The smallest n from `FEWEST_LABELLED` to N with t(n - 2) sqrt(s^2 / n (1 + 3 / n) + v / N) at
    most the half-width; None where even N labels do not suffice.

    Parameters
    ----------
    half_width : in the unit of the scores
    residual, explained : s^2 and v, as in `Calibration`
    videos : N

    >>> labels_needed(0.03, 0.02, 0.02, 1000), labels_needed(0.005, 0.02, 0.02, 1000)
    (99, None)
    """
    n = np.arange(FEWEST_LABELLED, videos + 1, dtype=np.float64)
    half = _t(n - 2) * np.sqrt(residual / n * (1 + _SLOPE_COST / n) + explained / videos)
    enough = np.flatnonzero(half <= half_width)
    return int(n[enough[0]]) if len(enough) else None


def variance_range(variance: float, degrees: float) -> tuple[float, float]:
    """Return the interval of a variance that was estimated with so many degrees of freedom.

    The chi-squared interval for normal residuals; it spans a factor of four at 18 degrees.

    >>> low, high = variance_range(1.0, 18)
    >>> round(low, 2), round(high, 2)
    (0.57, 2.19)
    """
    from scipy.special import chdtri

    tail = (1 - CONFIDENCE) / 2
    return (
        float(degrees * variance / chdtri(degrees, tail)),
        float(degrees * variance / chdtri(degrees, 1 - tail)),
    )

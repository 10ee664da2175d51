"""Confidence intervals of a statistic: which of them a grouping and a design have.

Whole videos are resampled, as captions of one video are alike. Where no video repeats, Pearson's r
has Fisher's interval; groups too large for a bootstrap use the jackknife, and a mean over very
many videos Student's t.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from capeval.stats.analytic import fisher_interval, t_interval
from capeval.stats.design import Design
from capeval.stats.estimate import Estimate
from capeval.stats.jackknife import jackknife_interval
from capeval.stats.percentiles import percentiles
from capeval.stats.resampling import FEWEST, MANY, too_few
from capeval.stats.statistic import PEARSON, Statistic
from capeval.stats.values import Floats, Interval, Missing
from capeval.stats.video_bootstrap import bootstrap_values, too_large

Kind = Literal["bootstrap", "analytic", "none"]

# Values of resamples that differ by less are one value.
_SLACK = 1e-12


def interval(
    estimate: Estimate, *, ci: Kind | None = None, draws: int = 10_000, seed: int = 0
) -> Interval | Missing:
    """Return the 95% confidence interval of a statistic by a grouping.

    By default a percentile bootstrap of whole videos, expanded where videos repeat and for r, whose
    plain one covers 92% instead of 95% of 40 videos, and for systems' means without and with a
    correction for their errors; Fisher's for a pooled r when no video
    repeats; the jackknife where a group has more than 1,500 captions; Student's t for the mean of
    more than 20,000 videos.

    Parameters
    ----------
    ci : "bootstrap" or "analytic" (Fisher, t or jackknife) wherever there is one; "none" for none
    draws : number of resamples
    seed : of `numpy.random.default_rng`; every metric sees the same resamples

    >>> from capeval.stats.pair import Pair
    >>> rng = np.random.default_rng(1)
    >>> x = rng.random(40)
    >>> pair = Pair.of(x, x + rng.random(40), Design.of(range(40)))
    >>> found = interval(pair.by("pearson", "pooled"))
    >>> found.method, round(found.low, 2), round(found.high, 2)
    ('fisher', 0.45, 0.81)
    """
    pair, statistic, grouping = estimate.pair, estimate.statistic, estimate.grouping
    design = pair.design
    if ci == "none":
        return Missing("no interval was asked for")
    fisher = statistic is PEARSON and grouping.whole and not (grouping.means or design.repeats)
    if fisher and ci != "bootstrap":
        value = float(estimate.values[0])
        return estimate.nothing() if np.isnan(value) else fisher_interval(value, len(pair.x))
    values = estimate.values[estimate.use]
    units = len(values) if grouping.by_video else design.videos
    if not len(values):
        return estimate.nothing()
    if units < FEWEST:
        return too_few(units, design)
    if grouping.by_video:
        if ci == "analytic" or len(values) > MANY:
            return t_interval(values)
    elif not grouping.means:
        if ci == "analytic" or too_large(design, grouping):
            return jackknife_interval(estimate)
    elif ci == "analytic":
        return Missing("the means of systems have no analytic interval")
    found = bootstrap_values(estimate, draws=draws, seed=seed)
    if isinstance(found, Missing):
        return found
    one = grouping.means and all(np.ptp(side) > 0 for side in pair.sides(grouping)[:2])
    return bootstrap_bounds(found, float(values.mean()), statistic, design, units, one=one)


def bootstrap_bounds(
    found: Floats,
    value: float,
    statistic: Statistic,
    design: Design,
    units: int,
    *,
    one: bool = False,
) -> Interval | Missing:
    """Return the interval of bootstrap values around the observed value, within the scale.

    Parameters
    ----------
    found, units : as for `percentiles`
    one : whether resamples that all have one value make an interval of it. If all have one order
        of the systems, that is what they say; if captions have, it is not.
    """
    # The plain percentiles of r cover 92% instead of 95% of 40 videos.
    expanded = design.repeats or not statistic.kind.ordinal
    bounds = percentiles(found, units=units if expanded else None, around=value)
    if isinstance(bounds, Missing):
        return bounds
    if bounds.high - bounds.low <= _SLACK and not one:
        return Missing("all resamples have one value")
    # Resamples with one value may differ from it by rounding.
    low, high = min(max(bounds.low, statistic.lowest), value), max(min(bounds.high, 1.0), value)
    return Interval(low, high, bounds.method)

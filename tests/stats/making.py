"""Scores of a metric and of people that share what a video is like."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from capeval.stats.comparison import MetricComparison, compare
from capeval.stats.design import Design
from capeval.stats.groupings import Grouping
from capeval.stats.pair import Pair
from capeval.stats.resampling import Counts, draw_counts
from capeval.stats.statistic import Statistic
from capeval.stats.values import Floats, Value

__all__ = ["compared", "correlate_arrays", "counts", "scores"]


def scores(videos: int, systems: int, seed: int = 0) -> tuple[Floats, Floats, Design]:
    rng = np.random.default_rng(seed)
    design = Design(np.repeat(np.arange(videos), systems), np.tile(np.arange(systems), videos))
    video = rng.normal(size=videos)[design.video]
    x = (video + rng.normal(size=design.rows) + design.system / 3).round(1)
    return x, (x + video + rng.normal(size=design.rows)).round(1), design


def counts(units: int, draws: int) -> Counts:
    return np.concatenate(list(draw_counts(units, draws, np.random.default_rng(0))))


def correlate_arrays(
    metric: ArrayLike, human: ArrayLike, which: Statistic | str, *, threshold: float = 0.0
) -> Value:
    """Return a statistic of scores of one caption for each video."""
    design = Design.of(range(np.size(np.asarray(metric))))
    return Pair.of(metric, human, design).by(which, "pooled", threshold=threshold).value


def compared(
    first: Floats,
    second: Floats,
    human: Floats,
    design: Design,
    statistic: Statistic | str,
    grouping: Grouping | str,
    *,
    draws: int = 1_000,
    thresholds: Sequence[float] = (),
    resamples: int = 0,
) -> MetricComparison:
    """Compare two metrics by one statistic."""
    pairs = [Pair.of(x, human, design) for x in (first, second)]
    (found,) = compare(
        pairs, [statistic], grouping, draws=draws, thresholds=thresholds, resamples=resamples
    ).values()
    return found[0]

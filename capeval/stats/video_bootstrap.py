"""Statistics in resamples of whole videos, by every grouping.

Captions of one video are alike, so the video is what is drawn, whatever the grouping. Where no
video repeats, that is the ordinary bootstrap of captions.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from capeval.stats.design import Design
from capeval.stats.estimate import Estimate
from capeval.stats.groupings import Grouping
from capeval.stats.resampling import LARGEST, Counts, same_draws
from capeval.stats.system_means import system_values
from capeval.stats.values import Floats, Missing

# Pairs of captions, captions and groups above which 10,000 resamples take a minute and more.
_PAIRS, _ROWS, _GROUPS = 12_000_000, 100_000, 1_000
# Sums of resamples are kept for the other statistics up to so many numbers, 40 MB.
_KEPT = 5_000_000
# And counts of captions for the other metrics, 80 MB.
_COUNTS = 20_000_000
# Counts that are worked on at once: larger arrays are allocated anew each time, which takes longer.
_CELLS = 100_000


def too_large(design: Design, grouping: Grouping) -> bool:
    """Return whether groups of captions use the jackknife, as a bootstrap would take too long.

    The number of resamples plays no part: it must not change the method.

    >>> from capeval.stats.groupings import POOLED
    >>> too_large(Design.of(range(1501)), POOLED), too_large(Design.of(range(1500)), POOLED)
    (True, False)
    """
    sizes = np.bincount(grouping.groups(design)).astype(np.float64)
    many = len(sizes) > _GROUPS or design.rows > _ROWS
    return bool(many or sizes.max() > LARGEST or sizes @ sizes > _PAIRS)


def bootstrap_values(estimate: Estimate, *, draws: int = 10_000, seed: int = 0) -> Floats | Missing:
    """Return the (draws,) values of a statistic by a grouping in resamples of whole videos.

    NaN where a resample has no value; (2, draws) for `system`, see `system_values`. Parameters are
    those of `interval`. Pairs of a caption and its own copy are left out where they would count as
    agreement: they are tied in both. The classes in tau-c's scale are those of the whole sample:
    fewer in a resample is no property of the metric.

    >>> from capeval.stats.pair import Pair
    >>> design = Design.of([0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1])
    >>> pair = Pair.of([1, 2, 2, 1, 1, 3], [1, 2, 1, 2, 3, 4], design)
    >>> found = bootstrap_values(pair.by("kendall_b", "item"), draws=50)
    >>> np.unique(found.round(2)).tolist()
    [-1.0, -0.33, 0.33, 1.0]
    """
    pair, statistic = estimate.pair, estimate.statistic
    if estimate.grouping.means:
        return system_values(pair, statistic, draws, seed)
    if estimate.grouping.by_video:
        values = estimate.values[estimate.use]
        if len(values) < 2:
            return Missing("fewer than two groups have a value")
        counted = same_draws(len(values), draws, seed)
        return np.concatenate([counts @ values / len(values) for counts in counted])
    groups = estimate.groups.values()
    if not groups:
        return estimate.nothing()
    if statistic.kind.pairwise and max(map(len, groups)) > LARGEST:
        return Missing(f"a group of more than {LARGEST} captions is not bootstrapped")
    # Every metric uses the same counts.
    known = ("counts", draws, seed) if pair.design.rows * draws <= _COUNTS else None
    few = len(groups) * draws <= _KEPT

    def value(rows: NDArray[np.intp]) -> Floats:
        def sums() -> object:
            counts = partial(same_draws, pair.design.videos, draws, seed)
            return weighted_sums(estimate, rows, counts, known=known)

        # Other statistics of the same sums, and the p of this one, use the same resamples.
        key = ("sums", statistic.kind, draws, seed, estimate.threshold, rows.tobytes())
        return statistic.values(pair.kept(key, sums) if few else sums())

    return estimate.kept(("drawn", draws, seed), lambda: mean_of_groups(map(value, groups)))


def weighted_sums(
    estimate: Estimate,
    rows: NDArray[np.intp],
    of_videos: Callable[[], Iterable[Counts]],
    *,
    known: Hashable = None,
) -> object:
    """Return the sums that a statistic of a group is a function of, if videos have weights.

    `known` names weights that are kept for other metrics.
    """
    pair = estimate.pair
    video = pair.design.video[rows]
    step = max(1, _CELLS // len(rows))
    # In a complete grid every system has all videos in their order, and nothing is copied.
    columns = slice(None) if np.array_equal(video, np.arange(pair.design.videos)) else video

    def drawn() -> Iterator[Counts]:
        for counts in of_videos():
            for start in range(0, len(counts), step):
                yield counts[start : start + step, columns]

    def kept() -> Iterable[Counts]:
        if known is None or columns is not video:
            return drawn()
        return pair.design.kept((known, video.tobytes()), lambda: list(drawn()))

    x, y = pair.x[rows], pair.y[rows]
    return estimate.statistic.kind.resampled(x, y, estimate.threshold, kept)


def mean_of_groups(values: Iterable[Floats]) -> Floats:
    """Return the mean over groups of their values, (draws,) each, where they have one.

    >>> mean_of_groups([np.array([1.0, np.nan]), np.array([0.0, np.nan])]).tolist()
    [0.5, nan]
    """
    sums, number = np.zeros(1), np.zeros(1)
    for found in values:
        there = ~np.isnan(found)
        sums = sums + np.where(there, found, 0.0)
        number = number + there
    return np.where(number > 0, sums / np.maximum(number, 1), np.nan)

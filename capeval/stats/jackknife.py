"""The jackknife over videos: for groups too large for a bootstrap, and to compare two metrics.

The infinitesimal jackknife sums up what each caption of a video moves a statistic by
(`Statistic.influence`). The jackknife proper leaves out one video at a time.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from capeval.stats.concordance import concordance_within
from capeval.stats.estimate import Estimate
from capeval.stats.resampling import LARGEST, Counts
from capeval.stats.values import UPPER, Floats, Interval, Missing
from capeval.stats.video_bootstrap import mean_of_groups, weighted_sums

# More groups would take minutes.
_GROUPS = 5_000
_PERFECT = 1 - 1e-12
_SLACK = 1e-12
# Times that videos are left out, at once.
_AT_ONCE = 256

MANY = 100
"""With so many videos, the infinitesimal jackknife is as good as the other. Of 100 there are 4,950
pairs, half as many as an interval has resamples; above, what is counted twice is 5% of the variance
and less.
"""


def jackknife_variance(moved: Floats) -> float:
    """Return the variance from derivatives, each that of all captions of a unit together.

    Parameters
    ----------
    moved : (units,) derivatives

    >>> jackknife_variance(np.array([0.5, -0.5]))
    1.0
    """
    units = len(moved)
    return float(moved @ moved * units / (units - 1)) if units > 1 else float("nan")


def video_influence(estimate: Estimate) -> tuple[float, Floats] | Missing:
    """Return a statistic by `pooled` or `within_system`, and how much each of (videos,) moves it.

    >>> from capeval.stats.design import Design
    >>> from capeval.stats.pair import Pair
    >>> pair = Pair.of([1, 2, 3, 4], [1, 2, 4, 3], Design.of("aabb", "xyxy"))
    >>> video_influence(pair.by("kendall_b", "pooled"))[1].round(6).tolist()
    [0.333333, -0.333333]
    """
    pair, statistic, threshold = estimate.pair, estimate.statistic, estimate.threshold
    count = estimate.used
    if not count:
        return estimate.nothing()
    if count > _GROUPS:
        return Missing(f"{count} groups are too many for a jackknife")

    def make() -> tuple[float, Floats] | Missing:
        total, value = np.zeros(len(pair.x)), 0.0
        codes = pair.codes()
        x, y = codes if statistic.kind.ordinal and not threshold else (pair.x, pair.y)
        for number, rows in estimate.groups.items():
            # Some statistics have a value in a group that is constant, but no derivative.
            if any(np.ptp(side[rows]) == 0 for side in codes):
                return (
                    estimate.nothing()
                    if estimate.grouping.whole
                    else Missing("a group is constant")
                )
            counted = None
            if threshold:
                counted = concordance_within(pair.x[rows], pair.y[rows], threshold)
            elif statistic.kind.pairwise:
                counted = pair.concordance(estimate.grouping, number, rows)
            one, moved = statistic.influence(x[rows], y[rows], counted=counted)
            value += one / count
            total[rows] = moved / count
        sums = np.bincount(pair.design.video, weights=total, minlength=pair.design.videos)
        return float(value), np.asarray(sums)

    return estimate.kept(("influence",), make)


def jackknife_interval(estimate: Estimate) -> Interval | Missing:
    """Return the jackknife interval by `pooled` or `within_system`.

    It is put around correlations on Fisher's scale, where it ends before 1.

    >>> from capeval.stats.design import Design
    >>> from capeval.stats.pair import Pair
    >>> x = np.arange(50.0)
    >>> jackknife_interval(Pair.of(x, x % 7, Design.of(range(50))).by("kendall_b", "pooled")).method
    'jackknife'
    """
    from scipy.special import stdtrit

    found = video_influence(estimate)
    if isinstance(found, Missing):
        return found
    value, moved = found
    error = np.sqrt(jackknife_variance(moved))
    half = float(stdtrit(len(moved) - 1, UPPER)) * error
    if not np.isfinite(half):
        return Missing("too few videos for an interval")
    if half <= _SLACK:
        return Missing("no video moves the value")
    if estimate.statistic.lowest == 0:
        return Interval(float(max(value - half, 0)), float(min(value + half, 1)), "jackknife")
    if abs(value) >= _PERFECT:
        return Missing("a perfect correlation has no analytic interval")
    middle, half = np.arctanh(value), half / (1 - value**2)
    return Interval(float(np.tanh(middle - half)), float(np.tanh(middle + half)), "jackknife")


def without_each_video(estimate: Estimate) -> Floats | Missing:
    """Return a statistic by `pooled` or `within_system` without each video in turn: (videos,).

    Each is the statistic of a resample that lacks one video. In a group of more than 1,500 captions
    of more than 100 videos, or with a threshold, it is the value less what the video moves it by
    instead.

    >>> from capeval.stats.design import Design
    >>> from capeval.stats.pair import Pair
    >>> pair = Pair.of([1, 2, 4, 3], [1, 2, 3, 4], Design.of("abcd"))
    >>> without_each_video(pair.by("kendall_b", "pooled")).round(2).tolist()
    [0.33, 0.33, 1.0, 1.0]
    """
    pair, statistic = estimate.pair, estimate.statistic
    videos = pair.design.videos
    groups = estimate.groups.values()

    def anew(video: int) -> float:
        kept = (rows[pair.design.video[rows] != video] for rows in groups)
        found = (statistic.rows(pair.x[None, rows], pair.y[None, rows])[0] for rows in kept)
        return float(np.nanmean(list(found)))

    def make() -> Floats | Missing:
        if max(map(len, groups)) <= LARGEST:
            return _without(estimate, np.arange(videos)[:, None])
        # Counting anew with a threshold takes n^2 steps for each video.
        if videos <= MANY and not estimate.threshold:
            return np.array([anew(video) for video in range(videos)])
        found = video_influence(estimate)
        return found if isinstance(found, Missing) else found[0] - found[1]

    return estimate.kept(("without",), make)


def without_two_videos(estimate: Estimate) -> Floats | None:
    """Return a statistic by `pooled` or `within_system` without each two videos in turn.

    In the order of `numpy.triu_indices(videos, 1)`; None above 100 videos or 1,500 captions of a
    group, where it would take long and change nothing.

    >>> from capeval.stats.design import Design
    >>> from capeval.stats.pair import Pair
    >>> pair = Pair.of([1, 2, 4, 3], [1, 2, 3, 4], Design.of("abcd"))
    >>> without_two_videos(pair.by("kendall_b", "pooled")).tolist()
    [-1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    """
    videos = estimate.pair.design.videos
    if videos > MANY or max(map(len, estimate.groups.values())) > LARGEST:
        return None
    two = np.stack(np.triu_indices(videos, 1), axis=1)
    return estimate.kept(("without two",), lambda: _without(estimate, two))


def _without(estimate: Estimate, videos: NDArray[np.intp]) -> Floats:
    """Return a statistic without some videos, (times,), given (times, left out at once)."""

    def left_out() -> Iterator[Counts]:
        for start in range(0, len(videos), _AT_ONCE):
            some = videos[start : start + _AT_ONCE]
            counts = np.ones((len(some), estimate.pair.design.videos), dtype=np.float32)
            np.put_along_axis(counts, some, 0.0, axis=1)
            yield counts

    sums = (weighted_sums(estimate, rows, left_out) for rows in estimate.groups.values())
    return mean_of_groups(map(estimate.statistic.values, sums))

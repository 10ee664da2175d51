"""The jackknife over videos: for groups too large for a bootstrap, and to compare two metrics.

The infinitesimal jackknife sums up what each caption of a video moves a statistic by
(`Statistic.influence`). The jackknife proper leaves out one video at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from capeval.stats.concordance import concordance_within
from capeval.stats.groupings import Grouping
from capeval.stats.pair import Pair
from capeval.stats.resampling import LARGEST, Counts
from capeval.stats.statistic import Statistic, missing_of
from capeval.stats.values import Floats, Interval, Mask, Missing
from capeval.stats.video_bootstrap import mean_of_groups, weighted_sums

# More groups would take minutes.
_GROUPS = 5_000
_PERFECT = 1 - 1e-12
_SLACK = 1e-12
# Videos that are left out at a time.
_AT_ONCE = 256
# With so many videos, the infinitesimal jackknife is as good as the other.
_MANY = 100


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


def video_influence(
    pair: Pair,
    statistic: Statistic,
    grouping: Grouping,
    *,
    only: Mask | None = None,
    threshold: float = 0.0,
) -> tuple[float, Floats] | Missing:
    """Return a statistic by `pooled` or `within_system`, and how much each video moves it.

    Parameters
    ----------
    pair : the scores
    only : (groups,), the groups to use; default all that have a value
    threshold : for acc_eq; taken as known

    Returns
    -------
    value, derivatives : a number and (videos,)

    >>> from capeval.stats.design import Design
    >>> from capeval.stats.groupings import POOLED
    >>> from capeval.stats.statistic import KENDALL_B
    >>> pair = Pair.of([1, 2, 3, 4], [1, 2, 4, 3], Design.of("aabb", "xyxy"))
    >>> video_influence(pair, KENDALL_B, POOLED)[1].round(6).tolist()
    [0.333333, -0.333333]
    """

    def make() -> tuple[float, Floats] | Missing:
        use = pair.used(statistic, grouping, threshold=threshold, only=only)
        count = np.count_nonzero(use)
        if not count:
            return pair.no_group(statistic, grouping)
        if count > _GROUPS:
            return Missing(f"{count} groups are too many for a jackknife")
        total, value = np.zeros(len(pair.x)), 0.0
        codes = pair.codes()
        x, y = codes if statistic.kind.ordinal and not threshold else (pair.x, pair.y)
        for number, rows in pair.groups(grouping, use).items():
            # Some statistics have a value in a group that is constant, but no derivative.
            if any(np.ptp(side[rows]) == 0 for side in codes):
                if grouping.whole:
                    return missing_of(pair.x, pair.y, statistic)
                return Missing("a group is constant")
            counted = None
            if threshold:
                counted = concordance_within(pair.x[rows], pair.y[rows], threshold)
            elif statistic.kind.pairwise:
                counted = pair.concordance(grouping, number, rows)
            one, moved = statistic.influence(x[rows], y[rows], counted=counted)
            value += one / count
            total[rows] = moved / count
        sums = np.bincount(pair.design.video, weights=total, minlength=pair.design.videos)
        return float(value), np.asarray(sums)

    chosen = None if only is None else only.tobytes()
    return pair.kept(("influence", statistic, pair.alike(grouping), chosen, threshold), make)


def jackknife_interval(
    pair: Pair,
    statistic: Statistic,
    grouping: Grouping,
    *,
    confidence: float = 0.95,
    only: Mask | None = None,
    threshold: float = 0.0,
) -> Interval | Missing:
    """Return the jackknife interval by `pooled` or `within_system`; parameters as of `interval`.

    It is put around correlations on Fisher's scale, where it ends before 1.

    >>> from capeval.stats.design import Design
    >>> from capeval.stats.groupings import POOLED
    >>> from capeval.stats.statistic import KENDALL_B
    >>> x = np.arange(50.0)
    >>> pair = Pair.of(x, x % 7, Design.of(range(50)))
    >>> isinstance(jackknife_interval(pair, KENDALL_B, POOLED), Interval)
    True
    """
    from scipy.special import stdtrit

    found = video_influence(pair, statistic, grouping, only=only, threshold=threshold)
    if isinstance(found, Missing):
        return found
    value, moved = found
    error = np.sqrt(jackknife_variance(moved))
    half = float(stdtrit(pair.design.videos - 1, (1 + confidence) / 2)) * error
    if not np.isfinite(half):
        return Missing("too few videos for an interval")
    if half <= _SLACK:
        return Missing("no video moves the value")
    if statistic.lowest == 0:
        return Interval(float(max(value - half, 0)), float(min(value + half, 1)), "jackknife")
    if abs(value) >= _PERFECT:
        return Missing("a perfect correlation has no analytic interval")
    middle, half = np.arctanh(value), half / (1 - value**2)
    return Interval(float(np.tanh(middle - half)), float(np.tanh(middle + half)), "jackknife")


def without_each_video(
    pair: Pair, statistic: Statistic, grouping: Grouping, only: Mask, threshold: float = 0.0
) -> Floats | Missing:
    """Return a statistic by `pooled` or `within_system` without each video in turn: (videos,).

    Each is the statistic of a resample that lacks one video. In a group of more than 1,500 captions
    of more than 100 videos, or with a threshold, it is the value less what the video moves it by
    instead.

    >>> from capeval.stats.design import Design
    >>> from capeval.stats.groupings import POOLED
    >>> from capeval.stats.statistic import KENDALL_B
    >>> pair = Pair.of([1, 2, 4, 3], [1, 2, 3, 4], Design.of("abcd"))
    >>> only = np.array([True])
    >>> without_each_video(pair, KENDALL_B, POOLED, only).round(2).tolist()
    [0.33, 0.33, 1.0, 1.0]
    """
    videos = pair.design.videos
    use = pair.used(statistic, grouping, threshold=threshold, only=only)
    groups = pair.groups(grouping, use).values()

    def left_out() -> Iterator[Counts]:
        for start in range(0, videos, _AT_ONCE):
            here = np.arange(start, min(start + _AT_ONCE, videos))
            counts = np.ones((len(here), videos), dtype=np.float32)
            counts[np.arange(len(here)), here] = 0.0
            yield counts

    def anew(video: int) -> float:
        kept = (rows[pair.design.video[rows] != video] for rows in groups)
        found = (statistic.rows(pair.x[None, rows], pair.y[None, rows])[0] for rows in kept)
        return float(np.nanmean(list(found)))

    def make() -> Floats | Missing:
        if max(map(len, groups)) <= LARGEST:
            sums: Iterable[object] = (
                weighted_sums(pair, statistic, rows, left_out, threshold) for rows in groups
            )
            return mean_of_groups(map(statistic.values, sums))
        # Counting anew with a threshold takes n^2 steps for each video.
        if videos <= _MANY and not threshold:
            return np.array([anew(video) for video in range(videos)])
        found = video_influence(pair, statistic, grouping, only=use, threshold=threshold)
        return found if isinstance(found, Missing) else found[0] - found[1]

    return pair.kept(("without", statistic, pair.alike(grouping), use.tobytes(), threshold), make)

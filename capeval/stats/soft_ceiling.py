"""How well human raters agree with one another by soft pairwise accuracy."""

from __future__ import annotations

import numpy as np

from capeval.stats.human_ceiling import Ceiling, RatersApart
from capeval.stats.pair import Pair
from capeval.stats.percentiles import percentiles
from capeval.stats.resampling import FEWEST
from capeval.stats.soft_accuracy import UNASKED, resampled_soft, soft_accuracy
from capeval.stats.values import Interval, Missing, Value


def soft_ceiling(
    apart: RatersApart, *, seed: int = 0, resamples: int = 0
) -> tuple[Ceiling, Interval | Missing]:
    """Return each rater's soft pairwise accuracy with the others, the mean, and its interval.

    Parameters
    ----------
    apart : each rater and the others
    seed : of the permutations and of the resamples of videos
    resamples : for the interval; none for no interval

    >>> from capeval.stats.design import Design
    >>> design = Design.of("aabbccddeeff", "xyxyxyxyxyxy")
    >>> ratings = np.array([3.0, 1, 4, 1, 5, 2, 6, 3, 5, 2, 7, 4])
    >>> soft_ceiling(RatersApart([ratings, ratings * 2], design))[0].value
    1.0
    """
    if len(apart.ratings) < 2:
        alone = Missing("one rater alone sets no ceiling")
        return Ceiling(alone, ()), alone
    there = ~np.isnan(apart.ratings) & ~np.isnan(apart.others)
    each: list[Value] = []
    pairs: list[Pair] = []
    for rows, own, others in zip(there, apart.ratings, apart.others, strict=True):
        pair = Pair(own[rows], others[rows], apart.design.take(rows))
        value = soft_accuracy(pair, seed=seed, draws=1).value if rows.any() else _NONE
        if isinstance(value, Missing):
            value = Missing(value.reason.replace("the metric", "the rater"))
        each.append(value)
        pairs.append(pair)
    numbers = [value for value in each if not isinstance(value, Missing)]
    reasons = dict.fromkeys(one.reason for one in each if isinstance(one, Missing))
    if not numbers:
        none = Missing("; ".join(reasons))
        return Ceiling(none, tuple(each)), none
    mean = float(np.mean(numbers))
    found = Ceiling(mean, tuple(each))
    if not resamples:
        return found, UNASKED
    if not there.all() or reasons:
        return found, Missing("not every rater rated every caption")
    if apart.design.videos < FEWEST:
        return found, Missing(f"fewer than {FEWEST} videos are too few to resample")
    values = np.mean([resampled_soft(pair, resamples, seed) for pair in pairs], axis=0)
    return found, percentiles(values, units=apart.design.videos, around=mean)


_NONE = Missing("no caption was rated by another")

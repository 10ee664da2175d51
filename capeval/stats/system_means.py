"""Statistics of the systems' means in resamples of whole videos.

What is estimated is the statistic of the means over very many videos. The means of n videos have
errors, which attenuate a correlation; the means of a resample have these errors and once more as
much. So the values of resamples as they are lie too low, and they are taken again of means whose
spread is reduced by that of the errors (errors in variables; Fuller, 1987, section 1.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from capeval.stats.design import Design, group_means
from capeval.stats.groupings import SYSTEM
from capeval.stats.pair import Pair
from capeval.stats.resampling import MANY, same_draws
from capeval.stats.statistic import Statistic, missing_of
from capeval.stats.values import Floats, Mask, Missing, steady

# Systems times resamples that fit into memory.
_SYSTEMS = 20_000_000

# How often the errors' spread is taken off that of resampled means, which have it twice. By
# simulation, once covers 92% where r is .97, and twice 98% and more (docs/statistics.md).
_TAKEN_OFF = 1.1
# Of a spread that is mostly error, at least this share stays: 0.1 to 0.3 cover alike.
_LEFT = 0.15
# Means in one line have no inverse of their scatter.
_IN_LINE = 1 - 1e-9


def system_values(pair: Pair, statistic: Statistic, draws: int, seed: int) -> Floats | Missing:
    """Return the (2, draws) values of a statistic of the systems' means; NaN where there is none.

    The second row is of the means without their errors. Over more than 20,000 videos the means are
    drawn from their normal distribution.

    Parameters
    ----------
    pair : the scores
    draws : number of resamples, fewer where there are very many systems
    seed : of `numpy.random.default_rng`

    >>> from capeval.stats.design import Design
    >>> design = Design.of("aabbcc", "xyxyxy")
    >>> pair = Pair.of([1, 2, 2, 1, 1, 3], [1, 2, 1, 2, 3, 4], design)
    >>> from capeval.stats.statistic import KENDALL_B
    >>> values = system_values(pair, KENDALL_B, 50, 0)
    >>> values.shape, np.unique(values[~np.isnan(values)]).tolist()
    ((2, 50), [-1.0, 1.0])
    """
    x, y, _ = pair.sides(SYSTEM)
    if np.isnan(pair.values(statistic, SYSTEM)[0]):
        return missing_of(x, y, statistic)
    systems = pair.design.systems
    if systems * 1_000 > _SYSTEMS or systems * min(pair.design.videos, MANY) > _SYSTEMS:
        return Missing(f"{systems} systems are too many to resample their means")
    draws = min(draws, _SYSTEMS // systems)
    # For the differences of metrics, which are of the same resamples.
    key = ("system values", statistic, draws, seed)
    return pair.kept(key, lambda: _values(pair, statistic, draws, seed))


def _values(pair: Pair, statistic: Statistic, draws: int, seed: int) -> Floats:
    gap, both = pair.kept(("system means", draws, seed), lambda: _both_means(pair, draws, seed))
    values = np.full((2, len(gap)), np.nan)
    for row, (x, y) in enumerate(both):
        if len(x):
            key = ("system sums", statistic.kind, row, draws, seed)
            sums = pair.kept(key, partial(statistic.kind.rows, x, y, 0.0))
            values[row, ~gap] = statistic.values(sums)
    return values


def _both_means(pair: Pair, draws: int, seed: int) -> tuple[Mask, list[tuple[Floats, Floats]]]:
    """Return which resamples have no value, and of the others the means with and without errors."""
    systems = pair.design.systems
    means = _drawn_means(pair, draws, seed)
    # A system that is in no video of a resample has no mean, and the resample no value.
    gap = np.asarray(np.isnan(means).any(axis=1))
    some = means[~gap]
    both = [some]
    if len(some):
        both.append(
            _without_errors(some, np.concatenate(pair.sides(SYSTEM)[:2]), pair.design.videos)
        )
    return gap, [(of[:, :systems], of[:, systems:]) for of in both]


def _without_errors(means: Floats, observed: Floats, videos: int) -> Floats:
    """Return resampled means of which the spread between systems is reduced by that of errors.

    The scatter of the two scores' means between systems is a 2 x 2 matrix in each resample. Its
    expected part that is error is taken off, and the means are mapped to what is left, by the
    symmetric roots of both.

    Parameters
    ----------
    means : (draws, 2 systems), of the metric and of the human scores
    observed : (2 systems,)
    videos : how many are resampled
    """
    shape = (-1, 2, len(observed) // 2)
    centred = means.reshape(shape) - means.reshape(shape).mean(axis=2, keepdims=True)
    moved = (means - observed).reshape(shape)
    moved = moved - moved.mean(axis=2, keepdims=True)
    errors = np.einsum("dis,djs->ij", moved, moved) / len(means) * videos / (videos - 1)
    spread = np.sqrt(np.einsum("dis,dis->di", centred, centred))
    constant = spread == 0
    spread[constant] = 1.0
    unit = centred / spread[:, :, None]
    whole = np.einsum("dis,djs->dij", unit, unit)
    left = whole - _TAKEN_OFF * errors / (spread[:, :, None] * spread[:, None, :])
    for matrix, least in ((left, _LEFT), (whole, 1.0)):
        for side in (0, 1):
            matrix[:, side, side] = np.maximum(matrix[:, side, side], least)
        limit = _IN_LINE * np.sqrt(matrix[:, 0, 0] * matrix[:, 1, 1])
        matrix[:, 0, 1] = matrix[:, 1, 0] = np.clip(matrix[:, 0, 1], -limit, limit)
    mapped = _root(left) @ _inverse(_root(whole)) @ unit
    mapped[constant] = 0.0
    return np.asarray(steady(mapped, 1.0).reshape(means.shape))


def _root(matrix: Floats) -> Floats:
    """Return the symmetric roots of positive (draws, 2, 2) matrices."""
    root = np.sqrt(_determinant(matrix))[:, None, None]
    trace = matrix[:, 0, 0] + matrix[:, 1, 1]
    return np.asarray((matrix + root * np.eye(2)) / np.sqrt(trace[:, None, None] + 2 * root))


def _inverse(matrix: Floats) -> Floats:
    turned = matrix[:, ::-1, ::-1] * np.array([[1.0, -1.0], [-1.0, 1.0]])
    return np.asarray(turned / _determinant(matrix)[:, None, None])


def _determinant(matrix: Floats) -> Floats:
    return np.asarray(matrix[:, 0, 0] * matrix[:, 1, 1] - matrix[:, 0, 1] * matrix[:, 1, 0])


def _drawn_means(pair: Pair, draws: int, seed: int) -> Floats:
    """Return the (draws, 2 systems) means of resamples, of the metric and of the human scores."""
    design, systems = pair.design, pair.design.systems
    if design.videos > MANY:
        return normal_means(design, [pair.x, pair.y], draws, seed)
    place = (design.video, design.system)
    parts = np.zeros((design.videos, 3 * systems))
    parts[place] = pair.x
    parts[design.video, systems + design.system] = pair.y
    parts[design.video, 2 * systems + design.system] = 1.0
    means = []
    for counts in same_draws(design.videos, draws, seed):
        sums = counts @ parts
        with np.errstate(invalid="ignore", divide="ignore"):
            means.append(sums[:, : 2 * systems] / np.tile(sums[:, 2 * systems :], 2))
    found = np.concatenate(means)
    # Means that are equal must be so to the last digit, or they would be no tie.
    found[:, :systems], found[:, systems:] = steady(found[:, :systems]), steady(found[:, systems:])
    return found


def normal_means(design: Design, scores: Sequence[Floats], draws: int, seed: int) -> Floats:
    """Return (draws, scores x systems) means drawn from their normal distribution."""
    systems = design.systems
    sizes = np.bincount(design.system)[design.system]
    middle = [group_means(one, design.system) for one in scores]
    moved = np.zeros((design.videos, len(scores) * systems))
    for number, (one, means) in enumerate(zip(scores, middle, strict=True)):
        column = number * systems + design.system
        moved[design.video, column] = (one - means[design.system]) / sizes
    rng = np.random.default_rng(seed)
    covariance = moved.T @ moved
    drawn = rng.multivariate_normal(np.concatenate(middle), covariance, size=draws, method="svd")
    return steady(drawn)

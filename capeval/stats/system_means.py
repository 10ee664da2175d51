"""Correlations of the systems' means: intervals over other videos, p over other systems.

There are few means, and leaving out one video rarely changes their order, so their errors are
simulated: means are drawn from the normal distribution that the videos give them. What is estimated
is the statistic of the means over very many videos. The means of n videos have errors, which
attenuate a correlation, and drawn means have these errors twice. So the values of drawn means are
too low, and they are computed again for means whose spread is reduced by that of the errors (errors
in variables; Fuller, 1987, section 1.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np

from capeval.stats.correlation import STATISTICS, Design, Statistic, group_means, sums_of_rows
from capeval.stats.values import FEWEST_LEFT_OUT, UPPER, Floats, Inference, Missing, steady, too_few

_DRAWS = 5_000
# Normal numbers per chunk: 80 MB.
_CELLS = 10_000_000
# Two systems have two orders, often the same in all draws.
_FEWEST_SYSTEMS = 3
# Multiple of the errors' spread subtracted from drawn means', which have it twice. By simulation,
# once covers 92% where r is .97, and 1.25 times 98% of close systems (docs/statistics.md).
_TAKEN_OFF = 1.1
# Of a spread that is mostly error, at least this share stays: 0.1 to 0.3 cover alike.
_LEFT = 0.15
# Means in one line have no inverse of their scatter.
_IN_LINE = 1 - 1e-9
# For up to six systems, all orders are enumerated.
_EVERY_ORDER = 6
_PERMUTATIONS = 2_000
_SLACK = 1e-12

Values = dict[str, Floats]
"""By statistic the (2, draws) values of drawn means, as they are and minus their errors."""


def drawn_values(
    metrics: Sequence[Floats], human: Floats, design: Design, seed: int
) -> list[Values] | Missing:
    """Return the statistics of drawn means of each metric; all are of the same draws.

    Parameters
    ----------
    metrics, human : (n,) each, the scores of captions
    seed : of `numpy.random.default_rng`
    """
    systems, scores = design.systems, [*metrics, human]
    if design.videos < FEWEST_LEFT_OUT:
        return too_few(design.videos)
    if systems < _FEWEST_SYSTEMS:
        return Missing(f"{systems} systems have few orders: an interval needs {_FEWEST_SYSTEMS}")
    if np.bincount(design.system).min() < 2:
        return Missing("a system has one caption, whose error is unknown")
    sizes = np.bincount(design.system)[design.system]
    errors = np.zeros((design.videos, len(scores), systems))
    means = np.array([group_means(one, design.system) for one in scores])
    for number, one in enumerate(scores):
        moved = one - means[number][design.system]
        # So that the squares of a column add up to the variance of its mean.
        moved /= np.sqrt(sizes * (sizes - 1))
        errors[design.video, number, design.system] = moved
    rng, flat = np.random.default_rng(seed), errors.reshape(design.videos, -1)
    step = max(1, _CELLS // design.videos)
    counts = (min(step, _DRAWS - at) for at in range(0, _DRAWS, step))
    parts = [rng.standard_normal((count, design.videos)) @ flat for count in counts]
    moves = np.concatenate(parts)
    drawn = means + steady(moves).reshape(_DRAWS, *means.shape)
    found = []
    for number in range(len(metrics)):
        both = drawn[:, [number, -1]]
        kinds = [both, _without_errors(both, means[[number, -1]])]
        sums = [sums_of_rows(steady(kind[:, 0]), steady(kind[:, 1])) for kind in kinds]
        found.append(
            {s.name: np.stack([s.values(one) for one in sums]) for s in STATISTICS.values()}
        )
    return found


def _without_errors(drawn: Floats, observed: Floats) -> Floats:
    """Return drawn means with the spread between systems reduced by the spread of the errors.

    The scatter of the two scores' means between systems is a 2 x 2 matrix in each draw. The
    expected scatter of the errors is subtracted, and the means are mapped to the remaining scatter
    with the symmetric roots of both matrices.

    Parameters
    ----------
    drawn : (draws, 2, systems), of the metric and of the human scores
    observed : (2, systems)
    """
    centred = drawn - drawn.mean(axis=2, keepdims=True)
    moved = drawn - observed
    moved = moved - moved.mean(axis=2, keepdims=True)
    errors = np.einsum("dis,djs->ij", moved, moved) / len(drawn)
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
    mapped = _root(left) @ np.linalg.inv(_root(whole)) @ unit
    mapped[constant] = 0.0
    return np.asarray(mapped)


def _root(matrices: Floats) -> Floats:
    """Return the symmetric roots of positive (draws, 2, 2) matrices."""
    root = np.sqrt(np.linalg.det(matrices))[:, None, None]
    trace = np.trace(matrices, axis1=1, axis2=2)[:, None, None]
    return np.asarray((matrices + root * np.eye(2)) / np.sqrt(trace + 2 * root))


def interval_of(value: float, drawn: Floats, videos: int) -> Inference | Missing:
    """Return the interval that includes the value and the 95% percentiles of both kinds of draws.

    With few videos the percentiles lie further out, as Student's t does. p is the largest level at
    which the interval still includes 0.

    Parameters
    ----------
    value : a value of the systems' means, or the difference of two metrics
    drawn : (2, draws)
    """
    from scipy.special import ndtr, ndtri, stdtr, stdtrit

    if np.isnan(drawn).any(axis=0).mean() > 0.5:
        return Missing("most draws have no value")
    tail = float(ndtr(stdtrit(videos - 1, 1 - UPPER)))
    ends = np.nanquantile(drawn, [tail, 1 - tail], axis=1)
    # A draw without a value counts on either side of 0.
    beyond = ~(drawn * np.sign(value) > 0)
    share = float(np.clip(beyond.mean(axis=1).max(), 1 / (drawn.shape[1] + 1), 0.5))
    p = 2 * float(stdtr(videos - 1, ndtri(share))) if value else 1.0
    return Inference(min(float(ends[0].min()), value), max(float(ends[1].max()), value), p)


def permutation_p(metric: Floats, human: Floats, statistic: Statistic, seed: int) -> float:
    """Return p of a correlation of systems' means over permutations of the systems, two-sided.

    Up to 6 systems, all orders are used; for more, 2,000 random ones and the observed one.

    Parameters
    ----------
    metric, human : (systems,)

    >>> x = np.arange(4.0)
    >>> round(permutation_p(x, x, STATISTICS["kendall_b"], 0), 3)
    0.083
    """
    systems = len(metric)
    if systems <= _EVERY_ORDER:
        orders = np.array(list(permutations(range(systems))))
    else:
        rng = np.random.default_rng(seed)
        orders = rng.permuted(np.tile(np.arange(systems), (_PERMUTATIONS + 1, 1)), axis=1)
        orders[0] = np.arange(systems)
    sums = sums_of_rows(metric[orders], np.broadcast_to(human, orders.shape))
    values = np.abs(statistic.values(sums))
    at_least = values >= abs(values[0]) - _SLACK
    return float(at_least.mean())

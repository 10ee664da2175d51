"""Proportions of clustered observations: elements within a video are right or wrong together."""

from __future__ import annotations

import math

from capeval.stats.values import Floats

LEAST_CORRELATION = 0.1
"""The correlation within a cluster that is assumed at least.

Where everything is right, it cannot be estimated, and with 20 to 40 clusters the estimate is too
low as often as not. With this floor, simulated intervals of beta-binomial clusters (10 to 240 of
them, 0.4 to 17 observations in each, proportions from .80 to .995, correlations up to .2) cover at
least 92%, and 90% where 15 to 25 observations are right at .99 or more; without it, as few as 81%.
"""

FEWEST_CLUSTERS = 10
"""With fewer, a variance between clusters cannot be estimated: each counts as one observation."""

_Z = 1.959963984540054


def wilson(proportion: float, n: float) -> tuple[float, float]:
    """Return the 95% score interval of a proportion of `n` observations (Wilson, 1927).

    `n` need not be whole: it may be an effective number. The interval is not empty at 0 and 1.

    >>> low, high = wilson(1.0, 50)
    >>> round(low, 3), round(high, 3)
    (0.929, 1.0)
    """
    if n <= 0:
        return 0.0, 1.0
    scale = 1 + _Z * _Z / n
    center = proportion + _Z * _Z / (2 * n)
    reach = _Z * math.sqrt(proportion * (1 - proportion) / n + _Z * _Z / (4 * n * n))
    return max(0.0, (center - reach) / scale), min(1.0, (center + reach) / scale)


def design_effect(correct: Floats, n: Floats) -> float:
    """Return by how much the variance of a proportion exceeds that of independent observations.

    The variance between clusters is that of a ratio, by linearisation (Kish, 1965; for proportions
    Rao and Scott, 1992). The effect is at least 1, and at least that of the correlation
    `LEAST_CORRELATION`; with fewer than `FEWEST_CLUSTERS` clusters, it is that of a correlation of
    1.

    Parameters
    ----------
    correct, n : of each cluster, shape (clusters,); clusters without observations do not count

    >>> import numpy as np
    >>> design_effect(np.full(40, 17.0), np.full(40, 17.0))
    2.6
    >>> design_effect(np.array([1.0, 0.0]), np.array([1.0, 1.0]))
    1.0
    """
    used = n > 0
    correct, n = correct[used], n[used]
    total, clusters = float(n.sum()), len(n)
    if not clusters:
        return 1.0
    size = float((n * n).sum()) / total
    floor = max(1.0, 1 + LEAST_CORRELATION * (size - 1))
    if clusters < FEWEST_CLUSTERS:
        return max(floor, size)
    proportion = float(correct.sum()) / total
    independent = proportion * (1 - proportion) / total
    if independent == 0:
        return floor
    between = clusters / (clusters - 1) * float(((correct - proportion * n) ** 2).sum()) / total**2
    return max(floor, between / independent)

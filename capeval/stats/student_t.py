"""Quantiles of Student's t for whole degrees of freedom; importing scipy would take longer."""

from __future__ import annotations

from functools import lru_cache
from math import atan, cos, exp, lgamma, log1p, pi, sin, sqrt
from statistics import NormalDist

_LARGE = 200
"""From here on, the expansion about the normal quantile is exact to 10 digits."""


@lru_cache(4096)
def t_quantile(probability: float, freedom: int) -> float:
    """Return the quantile of Student's t.

    Parameters
    ----------
    probability : between 0.5 and 1
    freedom : degrees of freedom, 2 or more

    References
    ----------
    Abramowitz and Stegun (1964), 26.7.3 to 26.7.5.

    >>> round(t_quantile(0.975, 9), 6)
    2.262157
    """
    z, v = NormalDist().inv_cdf(probability), freedom
    t = (
        z
        + (z**3 + z) / (4 * v)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)
        + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * v**4)
    )
    for _ in range(8 if v < _LARGE else 0):
        density = exp(lgamma((v + 1) / 2) - lgamma(v / 2) - (v + 1) / 2 * log1p(t * t / v)) / sqrt(
            pi * v
        )
        t -= ((1 + _within(t, v)) / 2 - probability) / density
    return t


def _within(t: float, freedom: int) -> float:
    """Return the probability between -t and t."""
    angle = atan(t / sqrt(freedom))
    odd = freedom % 2
    term = cos(angle) if odd else 1.0
    total = term if freedom > 1 else 0.0
    for k in range(3 if odd else 2, freedom, 2):
        term *= cos(angle) ** 2 * (k - 1) / k
        total += term
    total *= sin(angle)
    return 2 / pi * (angle + total) if odd else total

"""How much each caption moves a statistic: the infinitesimal jackknife.

After Jaeckel (1972) and Efron (1982). Give every caption a weight, write the statistic as a
function of the weights, and take the derivative D by each weight where all are 1. The variance of
the statistic is then about the sum over independent units of the squared sum of their D. It costs
as much as the statistic itself, so it serves where a bootstrap would cost thousands of times that.
"""

from __future__ import annotations

import numpy as np

from capeval.stats.concordance import Concordance, concordance
from capeval.stats.ranks import average_ranks, dense_codes
from capeval.stats.values import Floats, Ints, Statistic


def influence(
    x: Floats | Ints,
    y: Floats | Ints,
    statistic: Statistic,
    *,
    pairs: Concordance | None = None,
) -> tuple[float, Floats]:
    """Return a statistic and its derivative by the weight of each caption; O(n log n).

    Parameters
    ----------
    x, y : (n,), finite, neither constant; codes in their order will do but for Pearson's r
    statistic : of `STATISTICS`; acc_eq with threshold 0
    pairs : `concordance(x, y)` if it is at hand, for the statistics of pairs

    Returns
    -------
    value, derivatives : a number and (n,); the derivatives sum to 0.

    >>> value, moved = influence(np.array([1.0, 2, 3, 4]), np.array([1.0, 2, 4, 3]), "kendall_b")
    >>> round(value, 6), moved.round(6).tolist()
    (0.666667, [0.166667, 0.166667, -0.166667, -0.166667])
    """
    size = float(len(x))
    if statistic == "pearson":
        a, b = x - x.mean(), y - y.mean()
        return _ratio(float(a @ b), float(a @ a), float(b @ b), a * b, a * a, b * b)
    if statistic == "spearman":
        x, y = dense_codes(x), dense_codes(y)
        a, b = average_ranks(x) - (size + 1) / 2, average_ranks(y) - (size + 1) / 2
        # A weight moves the ranks of all captions above its own too.
        on_a, on_b = _above(x, b), _above(y, a)
        return _ratio(
            float(a @ b),
            float(a @ a),
            float(b @ b),
            a * b + on_a + on_b,
            a * a + 2 * _above(x, a),
            b * b + 2 * _above(y, b),
        )
    found = concordance(x, y) if pairs is None else pairs
    if statistic == "acc_eq":
        count = size * (size - 1)
        accuracy = found.agreeing.sum() / count
        return float(accuracy), 2 * (found.agreeing - accuracy * (size - 1)) / count
    if statistic == "kendall_c":
        scale = size**2 * (found.classes - 1) / found.classes
        tau = found.score.sum() / scale
        return float(tau), 2 * found.score / scale - 2 * tau / size
    total = (found.score.sum(), found.untied_x.sum(), found.untied_y.sum())
    return _ratio(*total, 2 * found.score, 2 * found.untied_x, 2 * found.untied_y)


def _ratio(
    c: float, a: float, b: float, by_c: Floats, by_a: Floats, by_b: Floats
) -> tuple[float, Floats]:
    """Return c / sqrt(a b) and its derivatives from those of c, a and b."""
    root = np.sqrt(a) * np.sqrt(b)
    value = c / root
    return float(value), by_c / root - value / 2 * (by_a / a + by_b / b)


def _above(codes: Ints, ranks: Floats) -> Floats:
    """Return for each caption the sum of `ranks` over larger codes, and half of it over equal."""
    sums = np.bincount(codes, weights=ranks)
    larger = sums.sum() - np.cumsum(sums)
    return np.asarray((larger + sums / 2)[codes])


def jackknife_variance(moved: Floats) -> float:
    """Return the variance from derivatives, each that of all captions of a unit together.

    Parameters
    ----------
    moved : (units,) derivatives

    >>> jackknife_variance(np.array([0.5, -0.5]))
    1.0
    """
    units = len(moved)
    if units < 2:
        return float("nan")
    return float(moved @ moved * units / (units - 1))

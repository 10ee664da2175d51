"""What a statistic is: one object, which groupings, resamples, tests and comparisons only ask.

A statistic is a function of a few sums over captions or pairs of captions, its `Kind`. A kind
says what these sums are in a sample, in resamples and in permutations, so all that
a new statistic adds is the function: see `tests/stats/test_new_statistic.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from capeval.stats.concordance import PairCounts
from capeval.stats.of_moments import Moments, MomentSums
from capeval.stats.of_pairs import Pairs
from capeval.stats.resampling import Counts
from capeval.stats.values import Floats, Missing


class Kind(Protocol):
    """The sums that a statistic is a function of."""

    @property
    def pairwise(self) -> bool:
        """Whether they count pairs of captions."""
        ...

    @property
    def ordinal(self) -> bool:
        """Whether codes in the order of the scores will do."""
        ...

    def rows(self, x: Any, y: Any, threshold: float, /) -> Any:
        """Return the sums of every row of (rows, n) scores: attributes of (rows,) each."""
        ...

    def resampled(
        self, x: Floats, y: Floats, threshold: float, draws: Callable[[], Iterable[Counts]], /
    ) -> Any:
        """Return the sums of resamples, given how often each caption is drawn."""
        ...

    def derivatives(self, x: Any, y: Any, counted: Any, /) -> tuple[Any, dict[str, Floats]]:
        """Return the sums, (1,) each, and by how much the weight of each caption moves them."""
        ...

    def permuted(self, x: Any, y: Any, threshold: float, orders: NDArray[np.int32], /) -> Any:
        """Return the sums of (n,) scores if `x` is taken in each of (draws, n) orders."""
        ...


@dataclass(frozen=True)
class Statistic:
    """A statistic of paired scores.

    Attributes
    ----------
    name : in files and options
    words : in tables
    kind : the sums that it is a function of
    of : the function; its derivative is taken by a complex step, so it must be analytic
    smallest : the fewest pairs that it is taken of
    chance : the value without a relation, which tests are about; None if that depends on ties: then
        permutations test it around their mean, and resamples test `tested` instead
    lowest : the least possible value; the largest is 1
    """

    name: str
    words: str
    kind: Kind = field(repr=False)
    of: Callable[[Any], Floats] = field(repr=False)
    smallest: int = 2
    chance: float | None = 0.0
    lowest: float = -1.0

    @property
    def tested(self) -> Statistic:
        """The statistic whose resamples say whether this one is chance."""
        return self if self.chance is not None else KENDALL_B

    def values(self, sums: Any) -> Floats:
        """Return the statistic of sums; NaN where there is none."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.clip(self.of(sums), self.lowest, 1.0))

    def rows(self, x: Any, y: Any, *, threshold: float = 0.0) -> Floats:
        """Return the statistic of every row of scores: (rows,); NaN where there is none.

        Parameters
        ----------
        x : (rows, n)
        y : (rows, n) or (1, n)
        threshold : the largest difference of `x` that is a tie, for statistics of pairs

        Raises
        ------
        ValueError
            The threshold is negative or not a number.

        >>> metric = np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])
        >>> SPEARMAN.rows(metric, metric[:1]).tolist()
        [1.0, -1.0]
        """
        if not threshold >= 0:
            raise ValueError(f"the threshold is {threshold}; it must be 0 or more")
        if x.shape[1] < self.smallest:
            return np.full(len(x), np.nan)
        return self.values(self.kind.rows(x, y, threshold))

    def influence(self, x: Any, y: Any, *, counted: Any = None) -> tuple[float, Floats]:
        """Return the statistic and its derivative by the weight of each caption; O(n log n).

        After Jaeckel (1972) and Efron (1982): its variance is about the sum over independent units
        of the squared sum of their derivatives. That costs as much as the statistic itself, so it
        serves where a bootstrap would cost thousands of times that.

        Parameters
        ----------
        x, y : (n,), neither constant; codes in their order if `kind.ordinal`
        counted : `concordance(x, y)` if it is at hand, for statistics of pairs

        >>> value, moved = KENDALL_B.influence(np.array([1.0, 2, 3, 4]), np.array([1.0, 2, 4, 3]))
        >>> round(value, 6), moved.round(6).tolist()
        (0.666667, [0.166667, 0.166667, -0.166667, -0.166667])
        """
        sums, moved = self.kind.derivatives(x, y, counted)
        total = np.zeros(len(x))
        for name, by_caption in moved.items():
            total += float(self.of(sums.stepped(name, _STEP))[0].imag) / _STEP * by_caption
        return float(self.of(sums)[0]), total


# So small that the square of a complex step vanishes beside 1, which makes the derivative exact.
_STEP = 1e-20


def _tau_b(pairs: PairCounts) -> Floats:
    return np.asarray(pairs.score / np.sqrt(pairs.untied_x * pairs.untied_y))


def _tau_c(pairs: PairCounts) -> Floats:
    share = pairs.pairs / (pairs.size * (pairs.size - 1) / 2)
    scale = share * pairs.size**2 * (pairs.classes - 1) / pairs.classes
    constant = (pairs.untied_x == 0) | (pairs.untied_y == 0)
    return np.asarray(np.where(constant, np.nan, 2 * pairs.score / scale))


def _accuracy(pairs: PairCounts) -> Floats:
    return np.asarray(pairs.agreeing / pairs.pairs)


def _product_moment(sums: MomentSums) -> Floats:
    return np.asarray(sums.xy / (np.sqrt(sums.xx) * np.sqrt(sums.yy)))


_PAIRS, _SCORES, _RANKS = Pairs(), Moments(ranked=False), Moments(ranked=True)

KENDALL_B = Statistic("kendall_b", "Kendall tau-b", _PAIRS, _tau_b)
KENDALL_C = Statistic("kendall_c", "Kendall tau-c", _PAIRS, _tau_c)
SPEARMAN = Statistic("spearman", "Spearman rho", _RANKS, _product_moment, smallest=3)
PEARSON = Statistic("pearson", "Pearson r", _SCORES, _product_moment, smallest=3)
ACC_EQ = Statistic("acc_eq", "acc_eq", _PAIRS, _accuracy, chance=None, lowest=0.0)

STATISTICS: dict[str, Statistic] = {
    one.name: one for one in (KENDALL_B, KENDALL_C, SPEARMAN, PEARSON, ACC_EQ)
}
"""By name: Kendall's tau-b (1945), Stuart's tau-c (1953), Spearman's rho (1904) and Pearson's r
(1895), as scipy defines them, and pairwise accuracy (Deutsch, Foster and Freitag, 2023).
"""


def statistic_of(which: Statistic | str) -> Statistic:
    """Return a statistic, by its name if that is given.

    Raises
    ------
    ValueError
        There is none of this name.

    >>> statistic_of("kendall_b").words
    'Kendall tau-b'
    """
    if isinstance(which, Statistic):
        return which
    if which not in STATISTICS:
        raise ValueError(f"the statistic {which!r} is unknown; one of {', '.join(STATISTICS)}")
    return STATISTICS[which]


def why_missing(metric: Floats, human: Floats, statistic: Statistic) -> str:
    """Return the reason for which a statistic of these has no value.

    >>> why_missing(np.array([1.0]), np.array([1.0]), PEARSON)
    '1 pair; pearson needs 3'
    """
    if len(metric) < statistic.smallest:
        plural = "" if len(metric) == 1 else "s"
        return f"{len(metric)} pair{plural}; {statistic.name} needs {statistic.smallest}"
    if np.ptp(metric) == 0:
        return "the metric is constant"
    if np.ptp(human) == 0:
        return "the human scores are constant"
    return "the values differ by less than floating point can hold"


def missing_of(metric: Floats, human: Floats, statistic: Statistic) -> Missing:
    """Return `why_missing` as a missing value."""
    return Missing(why_missing(metric, human, statistic))

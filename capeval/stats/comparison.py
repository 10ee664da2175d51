"""Is one metric closer to people than another? Paired tests, corrected, and clusters of rank.

The paired permutation swaps the two metrics in whole videos (in the manner of Deutsch, Dror and
Roth, 2021), after putting them on one scale: on ranks for statistics of order, standardised for
Pearson's r. If the two are equally good, a video does not care which is which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from capeval.stats.correlation import correlate_rows, tau_rows, why_missing
from capeval.stats.design import Design, group_means, same_sized
from capeval.stats.grouping import Grouped, common_groups, grouped
from capeval.stats.pair import group_values
from capeval.stats.ranks import average_ranks, dense_codes
from capeval.stats.significance import add_one, sign_flip
from capeval.stats.values import (
    Floats,
    Grouping,
    Ints,
    Mask,
    Missing,
    Statistic,
    Value,
    as_pairs,
)

__all__ = [
    "Comparison",
    "holm",
    "leave_one_system_out",
    "paired_permutation",
    "rank_clusters",
    "williams",
]

_CHUNK = 1_000_000
_SLACK = 1e-12


@dataclass(frozen=True, slots=True)
class Comparison:
    """The difference of two metrics, first less second.

    `p` is two-sided; `n` counts captions (or systems), `used` and `dropped` groups.
    """

    difference: Value
    p: Value
    method: str
    n: int
    used: int
    dropped: int


def paired_permutation(
    first: ArrayLike,
    second: ArrayLike,
    human: ArrayLike,
    design: Design,
    statistic: Statistic,
    grouping: Grouping,
    *,
    draws: int = 1_000,
    seed: int = 0,
    thresholds: tuple[float, float] = (0.0, 0.0),
) -> Comparison:
    """Test whether two metrics agree with people equally well.

    Both are taken on the groups where both have a value. Each draw swaps the metrics in a random
    half of the videos, in all captions of a video at once; p is the share of draws, with the
    observed one, whose difference is at least as large either way. Of the means of few systems,
    tau and rho take few values, and the test is careful: with 4 it rejects equals 1% of the time
    at 5%, with 12 as it should.

    Parameters
    ----------
    first, second, human : (n,), finite
    design : of the same n rows
    draws : number of random swaps
    seed : of `numpy.random.default_rng`; every pair of metrics sees the same swaps
    thresholds : of the metrics, for acc_eq; other than 0 for grouping `item` alone, because
        a threshold has no meaning on another metric's scale

    Raises
    ------
    ValueError
        The lengths differ or a value is not finite.

    >>> rng = np.random.default_rng(0)
    >>> human = rng.random(60)
    >>> good, poor = human + rng.random(60) / 5, rng.random(60)
    >>> design = Design.of(range(60))
    >>> paired_permutation(good, poor, human, design, "kendall_b", "pooled", draws=999).p
    0.001
    """
    (a, y), (b, _) = as_pairs(first, human), as_pairs(second, human)
    if len(y) != design.rows:
        raise ValueError(f"{len(y)} scores but {design.rows} rows in the design")
    if any(thresholds) and grouping != "item":
        missing = Missing("a threshold cannot be swapped between metrics; compare by item")
        return Comparison(missing, missing, "permutation", 0, 0, 0)
    use = common_groups([a, b], y, design, statistic, grouping)
    one = grouped(a, y, design, statistic, grouping, threshold=thresholds[0], only=use)
    two = grouped(b, y, design, statistic, grouping, threshold=thresholds[1], only=use)
    if isinstance(one.value, Missing) or isinstance(two.value, Missing):
        missing = one.value if isinstance(one.value, Missing) else Missing("")
        missing = two.value if isinstance(two.value, Missing) else missing
        return Comparison(missing, missing, "permutation", 0, 0, one.dropped)
    difference = one.value - two.value
    rng = np.random.default_rng(seed)
    if grouping == "item":
        gaps = group_values(a, y, design.video, statistic, threshold=thresholds[0])
        gaps -= group_values(b, y, design.video, statistic, threshold=thresholds[1])
        # Swapping two metrics in a video swaps their values for that video.
        p = sign_flip(gaps[use], draws=draws, rng=rng)
    else:
        step = max(1, _CHUNK // design.rows)
        values = []
        swap = (
            _SystemSwap(a, b, y, design, statistic)
            if grouping == "system"
            else _RowSwap(a, b, y, design, statistic, design.groups(grouping), use)
        )
        for start in range(0, draws, step):
            size = min(step, draws - start)
            swapped = rng.integers(0, 2, size=(size, design.videos), dtype=np.int8) == 1
            values.append(swap.differences(swapped))
        found = np.concatenate(values)
        # A swap without a value counts against a difference.
        extreme = ~(np.abs(found) < abs(difference) - _SLACK)
        p = add_one(int(extreme.sum()), draws)
    return Comparison(difference, p, "permutation", one.n, one.used, one.dropped)


class _RowSwap:
    """Differences after swaps, for groups of rows: `pooled` and `within_system`."""

    def __init__(
        self,
        a: Floats,
        b: Floats,
        y: Floats,
        design: Design,
        statistic: Statistic,
        group: Ints,
        use: Mask,
    ) -> None:
        self.statistic, self.video = statistic, design.video
        self.groups = []
        for numbers, rows in same_sized(group):
            for one in rows[use[numbers]]:
                sides = [_on_one_scale(values[one], statistic) for values in (a, b)]
                self.groups.append((one, sides[0], sides[1], y[one]))

    def differences(self, swapped: Mask) -> Floats:
        """Return (draws,) differences of the means over groups, from (draws, videos) swaps."""
        total = np.zeros(len(swapped))
        for rows, a, b, y in self.groups:
            here = swapped[:, self.video[rows]]
            total += self._values(np.where(here, b, a), y) - self._values(np.where(here, a, b), y)
        return total / len(self.groups)

    def _values(self, x: Floats, y: Floats) -> Floats:
        if self.statistic in {"pearson", "spearman"}:
            return correlate_rows(x, y[None], self.statistic)
        # Average ranks are halves, so twice the rank is a whole number.
        return tau_rows((2 * x).astype(np.int64), dense_codes(y)[None], self.statistic)


class _SystemSwap:
    """Differences after swaps, for the means of systems."""

    def __init__(
        self, a: Floats, b: Floats, y: Floats, design: Design, statistic: Statistic
    ) -> None:
        self.statistic = statistic
        # Means of ranks would order the systems otherwise than means do: so standardised always.
        a, b = _on_one_scale(a, "pearson"), _on_one_scale(b, "pearson")
        self.a, self.b = group_means(a, design.system), group_means(b, design.system)
        self.y = group_means(y, design.system)
        self.move = np.zeros((design.videos, design.systems))
        sizes = np.bincount(design.system)[design.system]
        self.move[design.video, design.system] = (b - a) / sizes

    def differences(self, swapped: Mask) -> Floats:
        """Return (draws,) differences from (draws, videos) swaps."""
        moved = swapped.astype(np.float64) @ self.move
        first = correlate_rows(self.a + moved, self.y[None], self.statistic)
        second = correlate_rows(self.b - moved, self.y[None], self.statistic)
        return np.asarray(first - second)


def _on_one_scale(values: Floats, statistic: Statistic) -> Floats:
    if statistic != "pearson":
        return average_ranks(values)
    spread = values.std()
    return np.asarray((values - values.mean()) / (spread if spread > 0 else 1.0))


def williams(first: ArrayLike, second: ArrayLike, human: ArrayLike, design: Design) -> Comparison:
    """Test whether two pooled Pearson's r with the same human scores differ (Williams, 1959).

    The t of Steiger (1980, equation 7) with n - 3 degrees of freedom. It takes captions as
    independent and normal, so there is none where a video repeats.

    Parameters
    ----------
    first, second, human : (n,), finite; n >= 4
    design : of the same n rows

    Raises
    ------
    ValueError
        The lengths differ or a value is not finite.

    >>> rng = np.random.default_rng(0)
    >>> human = rng.random(60)
    >>> good, poor = human + rng.random(60), rng.random(60)
    >>> williams(good, poor, human, Design.of(range(60))).p < 0.001
    True
    """
    (a, y), (b, _) = as_pairs(first, human), as_pairs(second, human)
    n = len(y)

    def none(reason: str, difference: Value | None = None) -> Comparison:
        missing = Missing(reason)
        return Comparison(
            missing if difference is None else difference, missing, "williams", n, 1, 0
        )

    if design.repeats:
        return none("Williams' test needs captions of different videos")
    if n < 4:
        return none(f"{n} pairs; Williams' test needs 4")
    for values in (a, b):
        if np.ptp(values) == 0 or np.ptp(y) == 0:
            return none(why_missing(values, y, "pearson"))
    ay, by, ab = correlate_rows(np.stack([a, b, a]), np.stack([y, y, b]), "pearson")
    difference = float(ay - by)
    left = 1 - ay**2 - by**2 - ab**2 + 2 * ay * by * ab
    spread = 2 * left * (n - 1) / (n - 3) + ((ay + by) / 2) ** 2 * (1 - ab) ** 3
    if ab >= 1 - 1e-12 or spread <= 0:
        return none("one metric is a linear function of the other", difference)
    from scipy.special import stdtr

    t = difference * np.sqrt((n - 1) * (1 + ab) / spread)
    p = max(2 * float(stdtr(n - 3, -abs(t))), float(np.finfo(float).tiny))
    return Comparison(difference, p, "williams", n, 1, 0)


def holm(p_values: Sequence[Value]) -> list[Value]:
    """Return p-values adjusted for their number (Holm, 1979); missing ones stay and do not count.

    >>> holm([0.01, 0.04, Missing("constant"), 0.03])
    [0.03, 0.06, Missing(reason='constant'), 0.06]
    """
    result = list(p_values)
    there = [(p, place) for place, p in enumerate(p_values) if not isinstance(p, Missing)]
    highest = 0.0
    for rank, (p, place) in enumerate(sorted(there)):
        highest = max(highest, min(1.0, p * (len(there) - rank)))
        result[place] = highest
    return result


def rank_clusters(
    values: Sequence[Value], p_values: Sequence[Sequence[Value]], *, alpha: float = 0.05
) -> list[int | None]:
    """Return the cluster of each metric, from 1 for the best; None for one without a value.

    From the best down, a metric opens a new cluster when it is worse than every member of the
    cluster above; a test that is missing is no proof of that.

    Parameters
    ----------
    values : (metrics,)
    p_values : (metrics, metrics), two-sided, adjusted; the diagonal is not read
    alpha : what p must not exceed

    >>> rank_clusters([0.5, 0.3, 0.45], [[1, 0.01, 0.2], [0.01, 1, 0.04], [0.2, 0.04, 1]])
    [1, 2, 1]
    """
    result: list[int | None] = [None] * len(values)
    there = [(-v, place) for place, v in enumerate(values) if not isinstance(v, Missing)]
    cluster, members = 1, list[int]()
    for _, place in sorted(there):
        tests = [p_values[place][other] for other in members]
        if members and all(not isinstance(p, Missing) and p <= alpha for p in tests):
            cluster, members = cluster + 1, []
        members.append(place)
        result[place] = cluster
    return result


def leave_one_system_out(
    metric: ArrayLike,
    human: ArrayLike,
    design: Design,
    statistic: Statistic,
    grouping: Grouping,
    *,
    threshold: float = 0.0,
) -> list[Grouped]:
    """Return the statistic without each system in turn: one extreme system can make a correlation.

    >>> design = Design.of([0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2])
    >>> x, y = [1, 2, 9, 2, 1, 9], [2, 1, 9, 1, 2, 9]
    >>> [found.value for found in leave_one_system_out(x, y, design, "kendall_b", "item")]
    [1.0, 1.0, -1.0]
    """
    x, y = as_pairs(metric, human)
    result = []
    for system in range(design.systems):
        rest = design.system != system
        if not rest.any():
            result.append(Grouped(Missing("there is only one system"), 0, 0, 1))
            continue
        result.append(
            grouped(x[rest], y[rest], design.take(rest), statistic, grouping, threshold=threshold)
        )
    return result

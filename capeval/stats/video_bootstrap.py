"""Statistics in resamples of whole videos, by every grouping.

Captions of one video are alike, so the video is what is drawn, whatever the grouping. Where no
video repeats, that is the ordinary bootstrap of captions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from capeval.stats.design import Design
from capeval.stats.pair import Pair
from capeval.stats.resampling import LARGEST, Counts, resampled, resampled_taus, same_draws
from capeval.stats.system_means import system_values
from capeval.stats.values import OF_PAIRS, Floats, Grouping, Mask, Missing, Statistic

_CELLS = 20_000_000
_PAIRS = 12_000_000
_ROWS = 100_000
_GROUPS = 1_000


def too_large(design: Design, grouping: Grouping) -> bool:
    """Return whether groups of captions use the jackknife, as a bootstrap would take too long.

    The number of resamples plays no part: it must not change the method.

    >>> too_large(Design.of(range(1501)), "pooled"), too_large(Design.of(range(1500)), "pooled")
    (True, False)
    """
    sizes = np.bincount(design.groups(grouping)).astype(np.float64)
    many = len(sizes) > _GROUPS or design.rows > _ROWS
    return bool(many or sizes.max() > LARGEST or sizes @ sizes > _PAIRS)


def bootstrap_values(
    metric: Floats,
    human: Floats,
    design: Design,
    statistic: Statistic,
    grouping: Grouping,
    *,
    draws: int = 10_000,
    seed: int = 0,
    threshold: float = 0.0,
    only: Mask | None = None,
    pair: Pair | None = None,
) -> Floats | Missing:
    """Return the (draws,) values of a statistic by a grouping in resamples of whole videos.

    NaN where a resample has no value. Parameters are those of `interval`. Means of systems over
    more than 20,000 videos are drawn from their normal distribution.

    >>> design = Design.of([0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1])
    >>> x, y = np.array([1.0, 2, 2, 1, 1, 3]), np.array([1.0, 2, 1, 2, 3, 4])
    >>> found = bootstrap_values(x, y, design, "kendall_b", "item", draws=50)
    >>> np.unique(found.round(2)).tolist()
    [-1.0, -0.33, 0.33, 1.0]
    """
    pair = Pair.of(metric, human, design) if pair is None else pair
    if grouping == "system":
        return system_values(pair, statistic, draws, seed)
    values = pair.values(statistic, grouping, threshold=threshold)
    use = ~np.isnan(values) if only is None else only & ~np.isnan(values)
    if grouping == "item":
        values = values[use]
        if len(values) < 2:
            return Missing("fewer than two groups have a value")
        counted = same_draws(len(values), draws, seed)
        return np.concatenate([counts @ values / len(values) for counts in counted])
    if not use.any():
        return pair.no_group(statistic, grouping)
    groups = [
        rows
        for numbers, block in pair.blocks(grouping)
        for number, rows in zip(numbers, block, strict=True)
        if use[number]
    ]
    if statistic in OF_PAIRS and max(map(len, groups)) > LARGEST:
        return Missing(f"a group of more than {LARGEST} captions is not bootstrapped")
    tau = statistic in {"kendall_b", "kendall_c"}

    def prepare(rows: NDArray[np.intp]) -> Callable[[Counts], Floats]:
        if tau:
            return resampled_taus(pair.x[rows], pair.y[rows])
        return resampled(pair.x[rows], pair.y[rows], statistic, threshold=threshold)

    # The interval and p use the same resamples.
    found = pair.kept(
        ("drawn", "tau" if tau else statistic, grouping, draws, seed, threshold, use.tobytes()),
        lambda: _resampled_means(prepare, groups, design, draws, seed),
    )
    return np.asarray(found[int(statistic == "kendall_c")] if tau else found)


def _resampled_means(
    prepare: Callable[[NDArray[np.intp]], Callable[[Counts], Floats]],
    groups: list[NDArray[np.intp]],
    design: Design,
    draws: int,
    seed: int,
) -> Floats:
    """Return the means over groups in each resample, along the last axis."""
    sums, number = np.zeros(draws), np.zeros(draws)
    for batch in _batches(groups):
        of_group = [(prepare(rows), rows) for rows in batch]
        parts = []
        for counts in same_draws(design.videos, draws, seed):
            found = [value(counts[:, design.video[rows]]) for value, rows in of_group]
            there = [~np.isnan(one) for one in found]
            parts.append(
                (
                    sum(np.where(fine, one, 0.0) for fine, one in zip(there, found, strict=True)),
                    sum(fine.astype(np.float64) for fine in there),
                )
            )
        sums = sums + np.concatenate([part[0] for part in parts], axis=-1)
        number = number + np.concatenate([part[1] for part in parts], axis=-1)
    return np.where(number > 0, sums / np.maximum(number, 1), np.nan)


def _batches(groups: list[NDArray[np.intp]]) -> Iterator[list[NDArray[np.intp]]]:
    """Yield as many groups at a time as have room for their matrices of all pairs."""
    batch: list[NDArray[np.intp]] = []
    cells = 0
    for rows in groups:
        if batch and cells + len(rows) ** 2 > _CELLS:
            yield batch
            batch, cells = [], 0
        batch.append(rows)
        cells += len(rows) ** 2
    yield batch

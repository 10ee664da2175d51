"""Which units are in a resample, the same for every metric, and how many units there must be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from capeval.stats.design import Design
from capeval.stats.values import Missing

FEWEST = 5
"""The fewest videos that are resampled: four have only 35 different resamples, too few to find
where 2.5% of them end.
"""

MANY = 20_000
"""A mean over more videos than this is not resampled: it is as good as normal."""

LARGEST = 1_500
"""The most captions that a matrix of all pairs is made of."""

Counts = NDArray[np.float32]

# Counts that are worked on at once, so that they stay in the processor's cache.
_CHUNK = 400_000
# Up to so many counts, 80 MB, resamples are drawn once: 10,000 of 1,500 videos are fewer.
_KEPT = 20_000_000


def draw_counts(units: int, draws: int, rng: np.random.Generator) -> Iterator[Counts]:
    """Yield (chunk, units) counts of how often each unit is in a resample, `draws` rows in all.

    >>> rng = np.random.default_rng(0)
    >>> sum(int(chunk.sum()) for chunk in draw_counts(3, 10, rng))
    30
    """
    step = max(1, min(draws, _CHUNK // units))
    for start in range(0, draws, step):
        size = min(step, draws - start)
        picks = rng.integers(0, units, size=(size, units), dtype=np.int32)
        picks += np.arange(size, dtype=np.int32)[:, None] * np.int32(units)
        counts = np.bincount(picks.ravel(), minlength=size * units)
        yield counts.reshape(size, units).astype(np.float32)


def same_draws(units: int, draws: int, seed: int) -> Iterable[Counts]:
    """Return the `draw_counts` of a seed, the same to everyone; those that are small are kept.

    >>> [chunk.shape for chunk in same_draws(3, 10, 0)]
    [(10, 3)]
    """
    return _same(draw_counts, units, draws, seed)


def coins(units: int, draws: int, seed: int) -> Iterable[Counts]:
    """Return (chunk, units) of 0 and 1 at even odds, `draws` rows in all, likewise.

    >>> sum(len(chunk) for chunk in coins(3, 10, 0))
    10
    """
    return _same(_coins, units, draws, seed)


def _coins(units: int, draws: int, rng: np.random.Generator) -> Iterator[Counts]:
    step = max(1, min(draws, _CHUNK // max(units, 1)))
    for start in range(0, draws, step):
        size = (min(step, draws - start), units)
        yield rng.integers(0, 2, size=size, dtype=np.int8).astype(np.float32)


_Make = Callable[[int, int, "np.random.Generator"], Iterator[Counts]]


def _same(make: _Make, units: int, draws: int, seed: int) -> Iterable[Counts]:
    if units * draws <= _KEPT:
        return _kept(make, units, draws, seed)
    return make(units, draws, np.random.default_rng(seed))


@lru_cache(maxsize=4)
def _kept(make: _Make, units: int, draws: int, seed: int) -> tuple[Counts, ...]:
    chunks = tuple(make(units, draws, np.random.default_rng(seed)))
    for chunk in chunks:
        chunk.setflags(write=False)
    return chunks


def too_few(units: int, design: Design | None = None) -> Missing:
    """Return why there is no interval or bootstrap of so few videos.

    >>> too_few(1, Design.of("a"))
    Missing(reason='1 caption is too few to resample: at least 5')
    """
    what = "caption" if design and not design.repeats else "video"
    subject = f"1 {what} is" if units == 1 else f"{units} {what}s are"
    return Missing(f"{subject} too few to resample: at least {FEWEST}")

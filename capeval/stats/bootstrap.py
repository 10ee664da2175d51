"""Percentile bootstrap of many means at once, all from the same resamples."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from capeval.stats.resampling import FEWEST

_CHUNK = 500
_BLOCK = 1024


def bootstrap_means(
    values: NDArray[np.float64],
    *,
    draws: int = 10_000,
    confidence: float = 0.95,
    seed: int = 0,
    per_draw: int | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the lower and upper percentile bounds of the mean of every column.

    Rows (videos) are resampled with replacement; all columns share the draws, so that numbers of
    one table move together. NaN marks a row that a column does not have: its mean is over the
    rows that it has, and a resample without any of them is left out (Efron and Tibshirani, 1993,
    section 13.3).

    Parameters
    ----------
    values : (rows, columns)
    draws : number of resamples
    seed : of `numpy.random.default_rng`
    per_draw : rows in a resample; else as many as there are. Where every video has the same number
        of rows, as many as there are videos draws a video and one of its rows each time.

    Returns
    -------
    low, high : (columns,), NaN where a column has fewer than `FEWEST` rows.

    >>> low, high = bootstrap_means(np.array([[0.0], [1.0]] * 2 + [[1.0]]), draws=1000, seed=0)
    >>> float(low[0]), float(high[0])
    (0.2, 1.0)
    """
    rows, columns = values.shape
    if columns > _BLOCK:
        # The same seed gives every block the same draws, so blocks only bound the memory.
        blocks = [
            bootstrap_means(
                values[:, at : at + _BLOCK],
                draws=draws,
                confidence=confidence,
                seed=seed,
                per_draw=per_draw,
            )
            for at in range(0, columns, _BLOCK)
        ]
        lows, highs = zip(*blocks, strict=True)
        return np.concatenate(lows), np.concatenate(highs)
    low, high = np.full(columns, np.nan), np.full(columns, np.nan)
    present = ~np.isnan(values)
    wide = present.sum(axis=0) >= FEWEST
    if not wide.any():
        return low, high
    # Columns that are missing in the same rows share one count of rows in a resample.
    masks, which = np.unique(present[:, wide], axis=1, return_inverse=True)
    both = np.hstack([np.where(present, values, 0.0)[:, wide], masks.astype(np.float64)])
    width = int(wide.sum())

    rng = np.random.default_rng(seed)
    means = np.empty((draws, width))
    for start in range(0, draws, _CHUNK):
        size = min(_CHUNK, draws - start)
        picks = rng.integers(0, rows, size=(size, per_draw or rows), dtype=np.int32)
        picks += np.arange(size, dtype=np.int32)[:, None] * np.int32(rows)
        times = np.bincount(picks.ravel(), minlength=size * rows).reshape(size, rows)
        sums = times.astype(np.float64) @ both
        with np.errstate(invalid="ignore"):
            means[start : start + size] = sums[:, :width] / sums[:, width:][:, which.ravel()]

    tail = (1 - confidence) / 2
    gaps = np.isnan(means).any(axis=0)
    bounds = np.empty((2, width))
    bounds[:, ~gaps] = np.quantile(means[:, ~gaps], [tail, 1 - tail], axis=0, overwrite_input=False)
    if gaps.any():
        bounds[:, gaps] = np.nanquantile(means[:, gaps], [tail, 1 - tail], axis=0)
    low[wide], high[wide] = bounds
    return low, high

"""Monotone alignment of a caption's events with the reference events."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def align(scores: NDArray[np.floating], skip: float) -> list[int | None]:
    """Give each candidate one reference, or none, so that the summed score is the highest.

    `scores` is (candidates x references) and finite; `skip` is what a candidate earns that has no
    reference. References never decrease along the candidates (TUNA, 4.1), and several candidates
    may share one. A candidate has a reference only where that is better than `skip`; among equal
    alignments it has the earliest. Time and memory grow with candidates x references.

    Returns one reference (from 0) or None per candidate; raises ValueError unless `scores` has
    two axes.

    >>> align(np.array([[0.1, 0.4], [0.8, 0.2], [0.0, 0.7]]), skip=0.3)
    [None, 0, 1]
    """
    if scores.ndim != 2:
        raise ValueError(f"scores has {scores.ndim} axes, not 2")
    candidates, references = scores.shape
    if candidates == 0 or references == 0:
        return [None] * candidates
    # An alignment cuts the candidates into one run per reference, and within its run a candidate
    # is matched or skipped: the search is for the cuts, one reference after the other.
    earned = np.maximum(scores, skip).astype(np.float64)
    sums = np.zeros((references, candidates + 1))
    np.cumsum(earned.T, axis=1, out=sums[:, 1:])
    best = sums[0]
    gains = []
    for total in sums[1:]:
        gain = best - total
        gains.append(gain)
        best = total + np.maximum.accumulate(gain)
    owner = np.zeros(candidates, dtype=np.intp)
    end = candidates
    for reference in range(references - 1, 0, -1):
        gain = gains[reference - 1][end::-1]
        start = end - int(np.argmax(gain))
        owner[start:end] = reference
        end = start
    matched = scores[np.arange(candidates), owner] > skip
    return [
        int(reference) if kept else None for reference, kept in zip(owner, matched, strict=True)
    ]

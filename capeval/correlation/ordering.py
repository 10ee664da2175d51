"""Captions in the order of their names, so that the order of a file's rows changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import overload

import numpy as np
from numpy.typing import NDArray

from capeval.correlation.joining import Joined
from capeval.files.ratings import Key, Keys
from capeval.stats.design import Design, first_rows
from capeval.stats.values import Ints

__all__ = ["in_order"]


def in_order(joined: Joined) -> Joined:
    """Return the same with captions by the names of video and system, and so numbered."""
    design, keys = joined.design, joined.keys
    # The columns of a million keys are at hand, where a million keys would have to be made.
    videos = keys.videos if isinstance(keys, Keys) else [video for video, _ in keys]
    video = _by_name([videos[row] for row in first_rows(design.video)])[design.video]
    named = [keys[row][1] or "" for row in first_rows(design.system)]
    system = _by_name(named)[design.system]
    cells = video * design.systems + system
    if (cells[1:] > cells[:-1]).all():
        return replace(joined, design=Design(video, system))
    order = np.argsort(cells)
    return replace(
        joined,
        keys=_Reordered(joined.keys, order),
        ratings=joined.ratings[:, order],
        metrics={name: values[order] for name, values in joined.metrics.items()},
        design=Design(video[order], system[order]),
    )


def _by_name(names: list[str]) -> Ints:
    """Return the place of each name among the sorted ones."""
    places = np.empty(len(names), dtype=np.int64)
    places[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    return places


class _Reordered(Sequence[Key]):
    """Keys in another order, without a copy of a million of them."""

    def __init__(self, keys: Sequence[Key], order: NDArray[np.intp]) -> None:
        self._keys, self._order = keys, order

    def __len__(self) -> int:
        return len(self._order)

    @overload
    def __getitem__(self, at: int) -> Key: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Key]: ...
    def __getitem__(self, at: int | slice) -> Key | Sequence[Key]:
        if isinstance(at, slice):
            return _Reordered(self._keys, self._order[at])
        return self._keys[int(self._order[at])]

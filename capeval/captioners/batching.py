"""How many videos go through a model at a time."""

from __future__ import annotations

from typing import Literal

from capeval.errors import UsageError

__all__ = ["BatchSize"]

_MOST = 64
_FASTEST_GROWTH = 4
# What a longer caption, a larger frame or fragmentation may take more than the videos so far.
_KEPT_FREE = 0.2


class BatchSize:
    """A batch size that halves when memory runs out and, when automatic, grows into what is free.

    An automatic one starts with a single video. After each batch it divides the memory that was
    free before by what the batch took per video at its peak, keeps a fifth free, and grows at most
    fourfold; it never comes back to a size that failed. Where the peak is unknown (a processor, or
    mps) it stays at 1.

    >>> size = BatchSize("auto")
    >>> size.done(1, peak=10, free=100); size.value
    4
    >>> size.done(4, peak=40, free=100); size.value
    8
    >>> size.failed(8); size.value
    4
    >>> size.done(4, peak=40, free=100); size.value
    7
    """

    def __init__(self, wanted: int | Literal["auto"]) -> None:
        if wanted != "auto" and wanted < 1:
            raise UsageError(f"--batch-size {wanted}: must be at least 1, or auto")
        self._automatic = wanted == "auto"
        self._ceiling = _MOST if wanted == "auto" else wanted
        self.value = 1 if wanted == "auto" else wanted

    def done(self, videos: int, *, peak: int | None, free: int | None) -> None:
        """Note that a batch of `videos` passed, which took `peak` bytes of the `free` ones."""
        if not self._automatic or not peak or not free:
            return
        fit = int(free * (1 - _KEPT_FREE) / (peak / videos))
        self.value = max(1, min(fit, _FASTEST_GROWTH * videos, self._ceiling))

    def failed(self, videos: int) -> None:
        """Note that a batch of `videos` ran out of memory."""
        self._ceiling = max(1, min(self._ceiling, videos - 1))
        self.value = max(1, videos // 2)

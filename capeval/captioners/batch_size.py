"""How many videos a model in this process takes at a time."""

from __future__ import annotations

from typing import Literal

# A batch that runs out of memory is repeated: a larger one would lose more work.
_MOST = 64
# The first batch measures only one video, which is not enough for a large step.
_FASTEST_GROWTH = 4
# Reserved for longer captions, larger frames and fragmentation than those of the videos so far.
_KEPT_FREE = 0.2
# Batches without a failure after which a larger one is tried again: it costs a batch if it fails.
_PATIENCE = 16


class BatchSize:
    """A batch size that halves when memory runs out and, when automatic, grows into what is free.

    An automatic one starts with a single video. After each batch it divides the memory that was
    free before by what the batch took per video at its peak, keeps a fifth free, and grows at most
    fourfold. Where the peak is unknown (a CPU, or mps) it stays at 1. Videos with more frames than
    those of the last batch are counted as so many more of them.

    A size that was halved is a limit, which doubles after each sixteen batches that succeed.

    >>> size = BatchSize("auto")
    >>> size.done(1, peak=10, free=100); size.value
    4
    >>> size.done(4, peak=40, free=100); size.value
    8
    >>> size.failed(8); size.value
    4
    """

    def __init__(self, wanted: int | Literal["auto"]) -> None:
        self._automatic = wanted == "auto"
        self._most = self._limit = _MOST if wanted == "auto" else wanted
        self._frames: int | None = None
        self._successes = 0
        self.value = 1 if wanted == "auto" else wanted

    def of(self, frames: int) -> int:
        """Return how many videos of up to `frames` frames fit at present.

        >>> size = BatchSize("auto")
        >>> size.done(1, peak=10, free=100, frames=30); size.of(30), size.of(60), size.of(10)
        (4, 2, 12)
        """
        if not self._automatic or not self._frames:
            return self.value
        return max(1, min(self.value * self._frames // max(1, frames), self._limit))

    def done(
        self, videos: int, *, peak: int | None, free: int | None, frames: int | None = None
    ) -> None:
        """Record that a batch of `videos` succeeded and used `peak` of the `free` bytes.

        `frames` is how many the longest of them had.
        """
        self._successes += 1
        if self._successes % _PATIENCE == 0:
            self._limit = min(2 * self._limit, self._most)
        if not self._automatic:
            self.value = self._limit
        elif peak and free:
            fit = int(free * (1 - _KEPT_FREE) / (peak / videos))
            self.value = max(1, min(fit, _FASTEST_GROWTH * videos, self._limit))
            self._frames = frames

    def failed(self, videos: int) -> None:
        """Record that a batch of `videos` ran out of memory."""
        self._successes = 0
        self._limit = self.value = max(1, videos // 2)

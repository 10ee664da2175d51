"""How many videos a model in this process takes at a time."""

from __future__ import annotations

from typing import Literal

# A batch that runs out of memory is repeated: a larger one would lose more work.
_MOST = 64
# Batches without a failure after which a larger one is tried again: it costs a batch if it fails.
_PATIENCE = 16


class BatchSize:
    """A batch size that halves when memory runs out and, when automatic, doubles until it does.

    An automatic one begins with a single video; where running out of memory would end the process
    (without `grows`) it stays there. A size that was halved is a limit, which doubles after each
    sixteen batches that succeed.

    >>> size = BatchSize("auto")
    >>> size.done(1); size.done(2); size.value
    4
    >>> size.failed(4); size.done(2); size.value
    2
    """

    def __init__(self, wanted: int | Literal["auto"], *, grows: bool = True) -> None:
        self._most = wanted if wanted != "auto" else _MOST if grows else 1
        self._limit = self._most
        self._successes = 0
        self.value = 1 if wanted == "auto" else wanted

    def done(self, videos: int) -> None:
        """Record that a batch of `videos` succeeded."""
        self._successes += 1
        if self._successes % _PATIENCE == 0:
            self._limit = min(2 * self._limit, self._most)
        if videos >= self.value:
            self.value = min(2 * self.value, self._limit)

    def failed(self, videos: int) -> None:
        """Record that a batch of `videos` ran out of memory."""
        self._successes = 0
        self._limit = self.value = max(1, videos // 2)

"""When a run whose captions fail is to stop."""

from __future__ import annotations

from capeval.captioners.protocol import Captioned, Uncaptioned
from capeval.errors import CapevalError, ModelDown, UsageError
from capeval.text import counted

# So many requests that are refused for one reason are no fault of the videos. Files that cannot be
# decoded do not count.
FAILURES_BEFORE_STOPPING = 20
# A GPU whose context is lost fails every call from then on. A bad video fails its own; three in a
# row, with eight videos, are no coincidence, and few videos are decoded in vain.
_CALLS_IN_A_ROW = 3
_VIDEOS_IN_A_ROW = 8


class FailFast:
    """Stops a run whose first videos fail for one reason, or whose model fails again and again."""

    def __init__(self) -> None:
        self._reason: str | None = None
        self._failures = 0
        self._is_over = False
        self._calls = self._videos = 0

    def record(self, outcome: Captioned | Uncaptioned) -> CapevalError | None:
        """Count an outcome; return the error to stop with where the first share one reason."""
        if isinstance(outcome, Captioned) or (self._failures and outcome.reason != self._reason):
            self._is_over = True
        if self._is_over or isinstance(outcome, Captioned):
            return None
        self._failures, self._reason = self._failures + 1, outcome.reason
        if self._failures < FAILURES_BEFORE_STOPPING:
            return None
        return UsageError(
            f"the first {self._failures} videos all failed for the same reason: {outcome.reason}"
        )

    def called(self, failure: str | None, videos: int) -> CapevalError | None:
        """Count a call with so many videos; `failure` is what the model raised, if it did.

        Returns the error to stop with after several calls in a row that raised.

        >>> watch = FailFast()
        >>> [watch.called("CUDA error", 4) for _ in range(2)]
        [None, None]
        >>> print(watch.called("CUDA error", 4))
        the model failed on 3 calls in a row (12 videos), the last time with: CUDA error
        """
        if failure is None:
            self._calls = self._videos = 0
            return None
        self._calls, self._videos = self._calls + 1, self._videos + videos
        if self._calls < _CALLS_IN_A_ROW or self._videos < _VIDEOS_IN_A_ROW:
            return None
        return ModelDown(
            f"the model failed on {self._calls} calls in a row ({counted(self._videos, 'video')})"
            f", the last time with: {failure}"
        )

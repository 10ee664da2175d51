"""Progress of work that is not resumable: numbers computed one after the other."""

from __future__ import annotations

import time

from capeval.runs.engine import Labels, Progress, Status

# Work that takes no longer shows nothing.
_SECONDS = 3.0


class Steps:
    """Counts steps, and shows them once the work has taken three seconds."""

    def __init__(self, name: str, total: int, progress: Progress | None) -> None:
        self._name, self._total, self._progress = name, total, progress
        self._began, self._done, self._shown = time.monotonic(), 0, False

    def __call__(self) -> None:
        """Count a step that is done."""
        self._done += 1
        seconds = time.monotonic() - self._began
        if self._progress is None or seconds < _SECONDS:
            return
        if not self._shown:
            self._shown = True
            self._progress.update(self._status(0, 0.0))
        self._progress.update(self._status(self._done, seconds))

    def _status(self, done: int, seconds: float) -> Status:
        labels = Labels(doing="computing", item="statistic", done="computed", failed="missing")
        return Status(self._name, labels, 0, self._total, done=done, seconds=seconds)

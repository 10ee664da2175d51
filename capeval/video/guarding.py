"""Run work on a possibly hostile file with a time limit and cancellation."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from capeval.errors import VideoError

T = TypeVar("T")

# Short enough for Ctrl-C, long enough to cost nothing.
_POLL = 0.05


class Stopped(Exception):
    """The frames are no longer needed."""


class Guard:
    """Called by the work after each step, to report progress and to learn whether to end.

    The limit applies to each step, not to the whole: a long video may take long.
    """

    def __init__(self, path: Path, seconds: float) -> None:
        self._path, self._seconds = path, seconds
        self._end = time.monotonic() + seconds
        self._stopped = threading.Event()
        self._on_stop: list[Callable[[], None]] = []

    @property
    def left(self) -> float:
        """Seconds left for this step; below 0 if it is late."""
        return self._end - time.monotonic()

    def check(self) -> None:
        """Report a step; raise if it took too long or the frames are no longer needed."""
        if self._stopped.is_set():
            raise Stopped
        now = time.monotonic()
        if now > self._end:
            raise self.too_long()
        self._end = now + self._seconds

    def on_stop(self, action: Callable[[], None]) -> None:
        """Call `action` when the work is stopped from outside."""
        self._on_stop.append(action)
        if self._stopped.is_set():
            action()

    def stop(self) -> None:
        """Make the work end."""
        self._stopped.set()
        for action in self._on_stop:
            action()

    def too_long(self) -> VideoError:
        """Return the error for a file on which the decoder makes no progress."""
        return VideoError(f"the decoder stood still for {self._seconds:g} s", file=self._path)


def guarded(
    work: Callable[[Guard], T], path: Path, seconds: float, cancel: threading.Event | None
) -> T:
    """Run `work` in a separate thread, which is abandoned if it is stuck in native code."""
    guard = Guard(path, seconds)
    results: list[T] = []
    faults: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            results.append(work(guard))
        except BaseException as fault:
            faults.append(fault)
        finally:
            done.set()

    # A daemon: Python does not wait for it at exit if it never returns.
    threading.Thread(target=run, name=f"decode {path.name}", daemon=True).start()
    try:
        while not done.wait(_POLL):
            if cancel is not None and cancel.is_set():
                raise Stopped
            # A moment more than the work's own limit, so that it can end by itself.
            if guard.left < -2 * _POLL:
                raise guard.too_long()
    finally:
        if not done.is_set():
            guard.stop()
    if faults:
        raise faults[0]
    return results[0]

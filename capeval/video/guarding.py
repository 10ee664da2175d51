"""Work on a hostile file that must end: in time, on request, or abandoned."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from capeval.errors import VideoError

__all__ = ["Guard", "guarded"]

T = TypeVar("T")

_POLL = 0.05


class Stopped(Exception):
    """Whoever asked for the frames no longer wants them."""


class Guard:
    """What work calls now and then to learn that it should end."""

    def __init__(self, path: Path, seconds: float) -> None:
        self._path, self._seconds = path, seconds
        self._end = time.monotonic() + seconds
        self._stopped = threading.Event()
        self._on_stop: list[Callable[[], None]] = []

    @property
    def left(self) -> float:
        """Seconds left, always above 0."""
        return max(self._end - time.monotonic(), 0.001)

    def check(self) -> None:
        """Raise where the time is up or nobody waits any longer."""
        if self._stopped.is_set():
            raise Stopped
        if time.monotonic() > self._end:
            raise self.too_long()

    def on_stop(self, action: Callable[[], None]) -> None:
        """Have `action` called where work must be stopped from outside."""
        self._on_stop.append(action)
        if self._stopped.is_set():
            action()

    def stop(self) -> None:
        """Make the work end."""
        self._stopped.set()
        for action in self._on_stop:
            action()

    def too_long(self) -> VideoError:
        """Return the error of a file that took too long."""
        return VideoError(f"was not decoded within {self._seconds:g} s", file=self._path)


def guarded(
    work: Callable[[Guard], T],
    path: Path,
    *,
    seconds: float,
    cancel: threading.Event | None,
) -> T:
    """Run `work` in a thread of its own; one stuck in native code is abandoned in time.

    Raises
    ------
    VideoError
        The time is up.
    """
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
        # A moment more than the work's own limit, so that it can end by itself.
        end = time.monotonic() + seconds + 2 * _POLL
        while not done.wait(_POLL):
            if cancel is not None and cancel.is_set():
                raise Stopped
            if time.monotonic() > end:
                raise guard.too_long()
    finally:
        if not done.is_set():
            guard.stop()
    if faults:
        raise faults[0]
    return results[0]

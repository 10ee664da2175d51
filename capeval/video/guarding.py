"""Work on a hostile file that must end: in time, on request, or abandoned."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from capeval.errors import VideoError

T = TypeVar("T")

_POLL = 0.05


class Stopped(Exception):
    """Whoever asked for the frames no longer wants them."""


class Guard:
    """What work calls whenever it got on, and so learns whether it should end.

    The limit is on standing still, not on the whole: a long video may take long.
    """

    def __init__(self, path: Path, seconds: float) -> None:
        self._path, self._seconds = path, seconds
        self._end = time.monotonic() + seconds
        self._stopped = threading.Event()
        self._on_stop: list[Callable[[], None]] = []

    @property
    def left(self) -> float:
        """Seconds left until it must have got on; below 0 where it is late."""
        return self._end - time.monotonic()

    def check(self) -> None:
        """Say that the work got on; raise where that took too long or nobody waits any longer."""
        if self._stopped.is_set():
            raise Stopped
        now = time.monotonic()
        if now > self._end:
            raise self.too_long()
        self._end = now + self._seconds

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
        """Return the error of a file that a decoder cannot get past."""
        return VideoError(f"the decoder stood still for {self._seconds:g} s", file=self._path)


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
        The work stood still for so many seconds.
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

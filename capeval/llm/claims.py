"""Claims on calls: of several processes that need one reply, one makes the call, the others wait.

A claim is a lock on one byte of a file beside the cache. The operating system releases it when its
process ends, however that ends, so a claim never outlives its owner and needs no expiry. Without
such locks (a folder that cannot be written, some network file systems) nothing is coordinated, and
processes that run at the same time may then pay for the same call twice.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

if sys.platform != "win32":
    import fcntl

# Characters of a key, in hexadecimal, that choose its byte: two calls in flight never share one.
_DIGITS = 15


_guard = threading.Lock()
# Closing any descriptor of a file releases all locks of the process on it: it has only one.
_open: dict[str, Claims] = {}


def open_claims(cache: Path) -> Claims | None:
    """Return the claims beside a cache, None where there can be none; `close` them."""
    path = os.path.realpath(cache) + "-claims"
    with _guard:
        claims = _open.get(path)
        if claims is None:
            try:
                Path(path).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            except OSError:
                return None
            claims = _open[path] = Claims(path, descriptor)
        claims.users += 1
        return claims


class Claims:
    """The claims of this process on the keys of one cache; `users` must each close them."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.users = 0
        self._path, self._descriptor = path, descriptor
        self._mine: set[int] = set()

    def take(self, key: str) -> bool:
        """Claim a key unless it is claimed elsewhere; raises OSError without locks."""
        byte = int(key[:_DIGITS], 16)
        with _guard:
            if byte in self._mine:
                return False
            if sys.platform == "win32":
                raise OSError("no locks of single bytes")
            try:
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
            except (BlockingIOError, PermissionError):
                return False
            self._mine.add(byte)
            return True

    def release(self, key: str) -> None:
        """Give up a claim."""
        byte = int(key[:_DIGITS], 16)
        with _guard:
            self._mine.discard(byte)
            if sys.platform != "win32":
                fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, byte)

    def close(self) -> None:
        """Close the file once nobody in this process uses it."""
        with _guard:
            self.users -= 1
            if not self.users:
                os.close(self._descriptor)
                del _open[self._path]

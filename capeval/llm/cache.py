"""Replies that were paid for, kept in one SQLite file that any number of processes share.

A reply is `validated`; or `refused`, part of a conversation that goes on with a complaint about
it; or `exhausted`, part of one that ended without a value: kept for inspection, never served.

Reading happens in the calling thread and never waits for a lock there; writing happens in a thread
of its own (`capeval.llm.cache_writer`). What is not written yet is served from memory.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, get_args

from capeval.errors import InputError
from capeval.llm.cache_writer import (
    LOCKED,
    UNSTORABLE,
    CacheWriter,
    FileReplacedError,
    connect,
    error_code,
    layout_of,
)
from capeval.llm.claims import Claims, open_claims
from capeval.llm.redact import public_url
from capeval.llm.request_identity import (
    RequestIdentity,
    encoded_once,
    identify,
    request_differences,
)
from capeval.llm.types import ChatReply, ChatRequest, State
from capeval.llm.wire import MOST_TOKENS
from capeval.schema.usage import Usage
from capeval.text import Loss, one_line
from capeval.tracing import trace

T = TypeVar("T")

GET = """SELECT state, reply, finish_reason, snapshot, fingerprint, calls, input_tokens,
    cached_tokens, output_tokens, left_off FROM replies WHERE key = ?"""
STATES = frozenset(get_args(State))
_CANNOT_OPEN = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR}
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
# Another process locks the file against reading for milliseconds, if at all.
BUSY_SECONDS = 2.0
# A claim is waited for as long as its owner's call may take with its retries; a process that was
# stopped holds its claims for good.
CLAIM_SECONDS = 3600.0


class _LockedError(Exception):
    """The file is locked against reading."""


STATE_NAMES = {
    "validated": "accepted",
    "refused": "not accepted, and asked again",
    "exhausted": "not accepted, and the caption left out",
}
"""What became of a reply, by its stored state."""


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """The contents of a cache: `bytes` on disk, replies by state and by requested model.

    The states are those that are stored; `STATE_NAMES` has the words that commands print for them.
    """

    path: Path
    bytes: int
    states: dict[str, int]
    models: dict[str, int]

    @property
    def entries(self) -> int:
        """Replies in all states."""
        return sum(self.states.values())


def default_cache_path() -> Path:
    """Return the path of this user's cache."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("capeval")) / "replies.sqlite"


class ReplyCache:
    """The cache in the file at `path`, opened at first use; a failing disk never stops a run.

    Each problem is reported once to `on_notice` and kept in `notices`; without the file the
    cache is empty. A file that cannot be written is still read.
    """

    def __init__(
        self, path: str | Path | None = None, *, on_notice: Callable[[str], None] | None = None
    ) -> None:
        self.path = default_cache_path() if path is None else Path(path)
        self.notices: list[str] = []
        self._on_notice = on_notice
        self._reader: sqlite3.Connection | None = None
        self._writer: CacheWriter | None = None
        self._claims: Claims | None = None
        self._claims_unusable = False
        self._unusable = False
        self._retry_reading = 0.0

    def get(self, key: str) -> tuple[ChatReply, State] | None:
        """Return the reply that may be served for a key and its state, validated or refused."""
        return _served(self.look(key))

    async def find(self, key: str) -> tuple[ChatReply, State] | None:
        """Return the same as `get`; other tasks continue while the file is locked."""
        for pause in _pauses():
            try:
                return _served(self._look(key))
            except _LockedError as error:
                if pause is None:
                    self._cannot_read(error)
                    break
            await asyncio.sleep(pause)
        return None

    def look(self, key: str) -> tuple[ChatReply, State] | None:
        """Return the reply that is stored for a key, in any state, to be shown to the user."""
        return self._patiently(lambda: self._look(key))

    def _look(self, key: str) -> tuple[ChatReply, State] | None:
        kept = self._writer.kept(key) if self._writer else None
        if isinstance(kept, tuple):
            return replace(kept[0], cached=True), kept[1]
        row = self._read(lambda db: db.execute(GET, (key,)).fetchone())
        found = None if row is None else _reply_in(row)
        # Only its state was changed since.
        return found if found is None or kept is None else (found[0], kept)

    def put(self, request: RequestIdentity, reply: ChatReply, state: State) -> None:
        """Keep a reply, in place of one that is stored for the same request."""
        usage = reply.usage
        row = (
            request.key, state, request.model, request.base_url, request.messages, request.text,
            reply.text, reply.finish_reason, reply.model, reply.fingerprint, usage.calls,
            usage.input_tokens, usage.cached_tokens, usage.output_tokens,
            encoded_once(reply.left_off), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        )  # fmt: skip
        self._writing().put(request.key, reply, state, row)

    def mark(self, keys: Iterable[str], state: State) -> None:
        """Change the state of stored replies, all or none."""
        self._writing().mark(keys, state)

    async def stored(self) -> None:
        """Wait until everything is in the file, but no longer than one failure to write takes."""
        if self._writer is not None:
            await self._writer.stored()

    async def claim(self, key: str) -> bool:
        """Wait while another process makes the call of this key, then claim it.

        Returns whether `release` must be called; False where claims are impossible.
        """
        if self._claims is None and not self._claims_unusable:
            self._claims = open_claims(self.path)
            self._claims_unusable = self._claims is None
        waited, pause = 0.0, 0.02
        while self._claims is not None and waited < CLAIM_SECONDS:
            try:
                if self._claims.take(key):
                    return True
            except OSError:
                self._claims.close()
                self._claims, self._claims_unusable = None, True
                break
            if not waited:
                trace("another process makes the call", key=key[:12])
                self._report(f"{self.path}: waiting for replies that another process asked for")
            await asyncio.sleep(pause)
            waited, pause = waited + pause, min(0.25, 1.5 * pause)
        return False

    def release(self, key: str) -> None:
        """Give up a claim."""
        if self._claims is not None:
            self._claims.release(key)

    def info(self) -> CacheInfo:
        """Count what is stored."""

        def count(db: sqlite3.Connection) -> tuple[dict[str, int], dict[str, int]]:
            by = (
                "SELECT CAST({0} AS TEXT) AS name, count(*) FROM replies "
                "WHERE typeof({0}) = 'text' GROUP BY name ORDER BY name"
            )
            states, models = (dict(db.execute(by.format(c)).fetchall()) for c in ("state", "model"))
            return states, models

        self.flush()
        states, models = self._patiently(lambda: self._read(count)) or ({}, {})
        return CacheInfo(self.path, sum(_size(path) for path in self._files()), states, models)

    def clear(self, model: str | None = None) -> int:
        """Remove the replies of one model asked, or all; return how many; raises `InputError`."""
        self.close()
        if not self.path.exists():
            return 0
        where, values = ("", ()) if model is None else (" WHERE model = ?", (model,))
        try:
            with closing(connect(self.path)) as db:
                removed = db.execute(f"DELETE FROM replies{where}", values).rowcount  # noqa: S608
                db.execute("VACUUM")
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                return removed
        except (sqlite3.Error, ValueError) as error:
            if model is not None or isinstance(error, sqlite3.OperationalError):
                why = f"the reply cache cannot be cleared: {error}"
                raise InputError(why, file=self.path) from None
        # It cannot be read as a cache at all, so the file itself is removed.
        try:
            for path in self._files():
                path.unlink(missing_ok=True)
        except OSError as error:
            raise InputError(f"cannot be removed: {error.strerror}", file=self.path) from None
        self._unusable = False
        return 0

    def reason_for_miss(self, request: ChatRequest, base_url: str) -> str:
        """Return in a few words why no reply is served for a request."""
        asked = identify(request, public_url(base_url))

        def look(db: sqlite3.Connection) -> str:
            if db.execute("SELECT 1 FROM replies WHERE key = ?", (asked.key,)).fetchone():
                return "the stored replies all broke their contract, so it is asked again"
            near = db.execute(
                "SELECT base_url, request FROM replies WHERE messages = ? LIMIT 50",
                (asked.messages,),
            ).fetchall()
            differences = [found for row in near if (found := request_differences(asked, *row))]
            if differences:
                nearest = min(differences, key=len)
                return f"the same messages are stored, but with {', '.join(nearest)}"
            for_model = "SELECT count(*) FROM replies WHERE model = ?"
            count = db.execute(for_model, (request.model,)).fetchone()[0]
            if not count:
                return f"nothing is stored for {request.model}"
            return f"{count} replies are stored for {request.model}, none for these messages"

        self.flush()
        found = self._patiently(lambda: self._read(look))
        return found or f"nothing is stored at {self.path}"

    def flush(self) -> None:
        """Wait until everything is written, or cannot be."""
        if self._writer is not None:
            self._writer.flush()

    def close(self, *, hurry: bool = False) -> None:
        """Write what is left and close the file; the next use opens it again.

        A file that another process locks is waited for; with `hurry`, about a second.
        """
        # The last connection to close moves everything into the main file, if it may write.
        self._close_reader()
        if self._writer is not None:
            if not hurry and self._writer.is_locked_out:
                self._report(f"{self.path}: trying once more to store replies, up to 10 s")
            lost = self._writer.close(hurry=hurry)
            self._writer = None
            if lost and not self._unusable:
                replies = "reply was" if lost == 1 else "replies were"
                self._report(
                    Loss(
                        f"{self.path}: {lost} {replies} not stored in the reply cache: what still "
                        "needs them is paid for again"
                    )
                )
        if self._claims is not None:
            self._claims.close()
            self._claims = None

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    # Reading

    def _patiently(self, work: Callable[[], T | None]) -> T | None:
        for pause in _pauses():
            try:
                return work()
            except _LockedError as error:
                if pause is None:
                    self._cannot_read(error)
                    break
            time.sleep(pause)
        return None

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """Return the result of reading, None where nothing can be read; raises `_LockedError`."""
        if self._unusable or (self._reader is None and not self.path.exists()):
            return None
        try:
            if self._reader is None:
                self._reader = _open_reader(self.path, is_written=self._is_written())
            return None if self._reader is None else work(self._reader)
        except (sqlite3.Error, OSError, ValueError) as error:
            if error_code(error) in LOCKED:
                if time.monotonic() < self._retry_reading:
                    return None
                raise _LockedError(str(error)) from None
            # A text that is not UTF-8 has no code of SQLite's: it damages one row.
            if self._reader is None or error_code(error):
                self._cannot_read(error)
        return None

    def _cannot_read(self, error: Exception) -> None:
        is_locked = isinstance(error, _LockedError)
        if is_locked:
            # Every other call would wait as long for nothing.
            self._retry_reading = time.monotonic() + BUSY_SECONDS
        elif self._reader is None or error_code(error) in _DAMAGED:
            self._unusable = True
            self._close_reader()
        what = "be used" if self._unusable else "read"
        self._notice(f"cannot {what}: {error}; going on without it")

    # Writing

    def _writing(self) -> CacheWriter:
        if self._writer is None:
            self._writer = CacheWriter(self.path, self._cannot_write, usable=not self._unusable)
        return self._writer

    def _cannot_write(self, error: Exception, *, for_good: bool) -> None:
        if isinstance(error, FileReplacedError):
            self._close_reader()
            self._report(Loss(f"{self.path}: {error}"))
        elif isinstance(error, UNSTORABLE):
            self._notice(f"cannot store a reply: {error}")
        elif for_good:
            self._notice(f"cannot be used: {error}; going on without it")
        else:
            self._notice(f"cannot write: {error}; replies are kept in memory until it can")

    def _is_written(self) -> bool:
        return self._writer is not None and not self._writer.is_failing

    def _files(self) -> list[Path]:
        return [self.path.with_name(self.path.name + end) for end in ("", "-wal", "-shm")]

    def _notice(self, message: str) -> None:
        self._report(Loss(one_line(f"{self.path}: the reply cache {message}")))

    def _report(self, notice: str) -> None:
        if notice not in self.notices:
            self.notices.append(notice)
            trace("cache", notice=notice)
            if self._on_notice is not None:
                self._on_notice(notice)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _pauses() -> Iterator[float | None]:
    """Yield the seconds to wait before each new attempt at a locked file, and None at the end."""
    end, pause = time.monotonic() + BUSY_SECONDS, 0.005
    while time.monotonic() < end:
        yield pause
        pause = min(0.1, 2 * pause)
    yield None


def _open_reader(path: Path, *, is_written: bool) -> sqlite3.Connection | None:
    """Open a file for reading; return None while it has no table yet.

    `is_written` says that this process is writing it, so that what it lacks now will be there soon.
    """
    address = path.resolve().as_uri()
    for mode in ("mode=ro", "mode=ro&immutable=1"):
        db = sqlite3.connect(
            f"{address}?{mode}", uri=True, timeout=0, isolation_level=None, check_same_thread=False
        )
        try:
            if layout_of(db):
                return db
        except (sqlite3.Error, ValueError) as error:
            db.close()
            # Reading needs two files beside it, which cannot be made in a read-only folder.
            # There nothing changes, so it can be read without them.
            if mode == "mode=ro" and error_code(error) in _CANNOT_OPEN:
                if is_written:
                    return None
                continue
            raise
        db.close()
        break
    return None


def _served(found: tuple[ChatReply, State] | None) -> tuple[ChatReply, State] | None:
    return None if found is None or found[1] == "exhausted" else found


def _reply_in(row: tuple[Any, ...]) -> tuple[ChatReply, State] | None:
    """Return the reply of a row; a damaged one is a miss, and the next reply replaces it."""
    state, text, finish, snapshot, fingerprint, *counts, left_off = row
    texts = (text, snapshot, *(t for t in (finish, fingerprint) if t is not None), left_off)
    if state not in STATES or not all(type(t) is str for t in texts):
        return None
    if not all(type(n) is int and 0 <= n <= MOST_TOKENS for n in counts):
        return None
    try:
        names = json.loads(left_off)
    except (ValueError, RecursionError):
        return None
    if not isinstance(names, list) or not all(type(name) is str for name in names):
        return None
    calls, asked, cached, answered = counts
    usage = Usage(calls=calls, input_tokens=asked, cached_tokens=cached, output_tokens=answered)
    return ChatReply(text, finish, snapshot, fingerprint, usage, True, tuple(names)), state

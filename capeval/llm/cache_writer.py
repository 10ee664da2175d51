"""The thread that writes replies into the cache: all that came since its last write, at once.

A process that is killed loses what is not in the file. So whoever continues because of a reply
(asks again, appends a verdict) waits for `stored` first; other tasks continue meanwhile.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, groupby
from pathlib import Path
from typing import Any, Protocol

from capeval.llm.types import ChatReply, State

LAYOUT = 1
SCHEMA = """
CREATE TABLE IF NOT EXISTS replies (
    key TEXT PRIMARY KEY, state TEXT NOT NULL, model TEXT NOT NULL, base_url TEXT NOT NULL,
    messages TEXT NOT NULL, request TEXT NOT NULL, reply TEXT NOT NULL, finish_reason TEXT,
    snapshot TEXT NOT NULL, fingerprint TEXT, calls INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL, cached_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL,
    left_off TEXT NOT NULL, created TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS replies_by_messages ON replies (messages);
"""
PUT = "INSERT OR REPLACE INTO replies VALUES"
# One statement for all of them: with 16 values each, below the 999 of the oldest SQLite.
ROWS_AT_ONCE = 60
# Another process writes for milliseconds. After this, calls no longer wait for the file, which is
# tried again as often, and once more for longer at the end.
BUSY_SECONDS = 2.0
RETRY_SECONDS = 5.0
CLOSING_SECONDS = 10.0
# Faults of one reply, not of the file.
UNSTORABLE = (UnicodeError, sqlite3.DataError, sqlite3.InterfaceError)
LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
# After Ctrl-C.
HURRIED_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class _Kept:
    reply: ChatReply
    state: State
    row: tuple[Any, ...]


# What is to be written for one key: a reply with its state, or the new state of a stored reply.
_Change = _Kept | State


class FileReplacedError(Exception):
    """The file is no longer the one that was opened."""


class Failed(Protocol):
    """Called with a failure to write; it is `for_good` if trying again cannot help."""

    def __call__(self, error: Exception, *, for_good: bool) -> None:
        """Report it; called in the thread that uses the cache."""


class CacheWriter:
    """Writes to the file at `path`, which it creates with the first reply; `close` it."""

    def __init__(self, path: Path, on_failure: Failed, *, usable: bool = True) -> None:
        self._path, self._on_failure = path, on_failure
        self._changed = threading.Condition()
        self._waiting: dict[str, _Change] = {}
        self._under_way: dict[str, _Change] = {}
        # Changes are counted: how many came, were taken to be written, and are in the file.
        self._count = self._taken = self._written = 0
        self._failing = self._for_good = not usable
        self._closing = self._hurry = self._locked_out = False
        self._failures: deque[tuple[Exception, bool]] = deque()
        self._waiters: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        # A run that crashes must not wait for it.
        self._thread = threading.Thread(target=self._run, name="capeval-cache", daemon=True)
        self._thread.start()

    def put(self, key: str, reply: ChatReply, state: State, row: tuple[Any, ...]) -> None:
        """Write a reply soon; `row` has a value per column."""
        self._add({key: _Kept(reply, state, row)})

    def mark(self, keys: Iterable[str], state: State) -> None:
        """Change the state of replies soon, all or none."""
        self._add(dict.fromkeys(keys, state))

    def _add(self, changes: Mapping[str, _Change]) -> None:
        with self._changed:
            _add_to(self._waiting, changes)
            self._count += 1
            self._changed.notify()

    def kept(self, key: str) -> tuple[ChatReply, State] | State | None:
        """Return a reply, or the new state of a stored one, that is not in the file yet."""
        with self._changed:
            older, newer = self._under_way.get(key), self._waiting.get(key)
        change = newer if older is None else _latest(older, newer)
        return (change.reply, change.state) if isinstance(change, _Kept) else change

    async def stored(self) -> None:
        """Wait until all changes so far are in the file; not while the file cannot be written."""
        self._loop = asyncio.get_running_loop()
        if self._failing or self._written >= self._count:
            return
        waiter = self._loop.create_future()
        self._waiters.append((self._count, waiter))
        with suppress(TimeoutError):  # a disk that hangs: SQLite's own limit is for locks alone
            async with asyncio.timeout(2 * BUSY_SECONDS):
                await waiter

    def flush(self) -> None:
        """Wait until all changes so far are in the file, or cannot be written."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._failing or self._written >= self._count, 2 * BUSY_SECONDS
            )
        self._report()

    @property
    def is_failing(self) -> bool:
        """Whether the last attempt to write failed."""
        return self._failing

    @property
    def is_locked_out(self) -> bool:
        """Whether the last attempt to write failed because another process locks the file."""
        return self._failing and self._locked_out

    def close(self, *, hurry: bool = False) -> int:
        """Write what is left; return how many replies could not be written.

        With `hurry`, a file that is locked is not waited for.
        """
        with self._changed:
            self._closing = True
            self._hurry = hurry
            self._changed.notify_all()
        self._thread.join(HURRIED_SECONDS if hurry else BUSY_SECONDS + 2 * CLOSING_SECONDS)
        self._settle()
        with self._changed:
            left = [*self._under_way.values(), *self._waiting.values()]
        return sum(isinstance(change, _Kept) for change in left)

    def _settle(self) -> None:
        """Wake those who wait, and report failures, in the thread that uses the cache."""
        while self._waiters and (self._failing or self._waiters[0][0] <= self._written):
            _, waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
        self._report()

    def _report(self) -> None:
        while self._failures:
            error, for_good = self._failures.popleft()
            self._on_failure(error, for_good=for_good)

    # In the thread

    def _run(self) -> None:
        db: sqlite3.Connection | None = None
        place = None
        is_last = False
        while not is_last:
            with self._changed:
                is_last = self._wait_for_work()
                if self._for_good or not self._waiting:
                    continue
                self._under_way, self._waiting = self._waiting, {}
                self._taken = self._count
            try:
                seconds = CLOSING_SECONDS if is_last else BUSY_SECONDS
                if self._hurry:
                    seconds = HURRIED_SECONDS / 2
                if db is not None and _place_of(self._path) != place:
                    db.close()
                    db = None
                    lost = FileReplacedError(
                        "the reply cache was removed or replaced: a new one is begun, and replies "
                        "stored before are paid for again if they are needed"
                    )
                    self._failures.append((lost, False))
                if db is None:
                    db = connect(self._path, seconds)
                    place = _place_of(self._path)
                if is_last:
                    db.execute(f"PRAGMA busy_timeout = {1000 * seconds:.0f}")
                try:
                    _write(db, list(self._under_way.items()))
                except UNSTORABLE as error:
                    self._failures.append((error, False))
                    _write_each(db, list(self._under_way.items()))
            except Exception as error:  # whatever it is, the calls go on
                for_good = not isinstance(error, sqlite3.OperationalError | OSError)
                self._failures.append((error, for_good))
                with self._changed:
                    newer, self._waiting = self._waiting, self._under_way
                    _add_to(self._waiting, newer)
                    self._failing, self._for_good = True, for_good
                    self._locked_out = error_code(error) in LOCKED
            else:
                self._failing, self._written = False, self._taken
            with self._changed:
                self._under_way = {}
                self._changed.notify_all()
            if self._loop is not None:
                with suppress(RuntimeError):  # the loop is closed
                    self._loop.call_soon_threadsafe(self._settle)
        if db is not None:
            db.close()

    def _wait_for_work(self) -> bool:
        """Wait for changes that can be tried now; return whether this is the last time."""
        again = time.monotonic() + (RETRY_SECONDS if self._failing else 0.0)
        while not self._closing:
            seconds = again - time.monotonic()
            if self._waiting and not self._for_good and seconds <= 0:
                break
            self._changed.wait(seconds if self._waiting and seconds > 0 else None)
        return self._closing


def _latest(older: _Change, newer: _Change | None = None) -> _Change:
    """Return what two changes of one key are together."""
    if isinstance(older, _Kept) and isinstance(newer, str):
        return replace(older, state=newer, row=(older.row[0], newer, *older.row[2:]))
    return older if newer is None else newer


def _add_to(changes: dict[str, _Change], newer: Mapping[str, _Change]) -> None:
    for key, change in newer.items():
        changes[key] = _latest(changes[key], change) if key in changes else change


def _write(db: sqlite3.Connection, changes: Sequence[tuple[str, _Change]]) -> None:
    """Write changes in their order, all or none."""
    statements: list[tuple[str, Sequence[Any]]] = []
    for state, group in groupby(changes, lambda item: item[1] if isinstance(item[1], str) else ""):
        items = list(group)
        for start in range(0, len(items), ROWS_AT_ONCE):
            part = items[start : start + ROWS_AT_ONCE]
            if state:
                sql = f"UPDATE replies SET state = ? WHERE key IN ({_marks(len(part))})"  # noqa: S608
                statements.append((sql, [state, *(key for key, _ in part)]))
            else:
                rows = [change.row for _, change in part if isinstance(change, _Kept)]
                sql = f"{PUT} {', '.join([f'({_marks(len(rows[0]))})'] * len(rows))}"
                statements.append((sql, list(chain.from_iterable(rows))))
    if len(statements) == 1:  # a transaction by itself
        db.execute(*statements[0])
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        for sql, values in statements:
            db.execute(sql, values)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _write_each(db: sqlite3.Connection, changes: Sequence[tuple[str, _Change]]) -> None:
    """Write what can be stored: one reply that cannot must not keep the others out."""
    for change in changes:
        with suppress(*UNSTORABLE):
            _write(db, [change])


def _marks(count: int) -> str:
    return ", ".join("?" * count)


def _place_of(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def connect(path: Path, seconds: float = BUSY_SECONDS) -> sqlite3.Connection:
    """Open the file for writing, and create it first; wait so many seconds where it is locked.

    Raises `sqlite3.Error`, OSError and ValueError.
    """
    if not path.parent.exists():
        path.parent.mkdir(parents=True, mode=0o700)
    db = sqlite3.connect(path, timeout=seconds, isolation_level=None)
    try:
        _log_ahead(db, seconds)
        # Written through to the system at each commit: a killed process loses nothing.
        db.execute("PRAGMA synchronous=NORMAL")
        if not layout_of(db):
            db.executescript(f"BEGIN IMMEDIATE;{SCHEMA}PRAGMA user_version={LAYOUT};COMMIT;")
    except BaseException:
        db.close()
        raise
    return db


def _log_ahead(db: sqlite3.Connection, seconds: float) -> None:
    """Switch to a write-ahead log; SQLite itself does not wait for a reader here."""
    end = time.monotonic() + seconds
    while True:
        try:
            db.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error_code(error) not in LOCKED or time.monotonic() >= end:
                raise
        time.sleep(0.005)


def layout_of(db: sqlite3.Connection) -> int:
    """Return the layout of a file, 0 if it has none yet; raises ValueError if it is unknown."""
    layout: int = db.execute("PRAGMA user_version").fetchone()[0]
    if layout not in {0, LAYOUT}:
        raise ValueError(f"it was made by another version of capeval (layout {layout})")
    return layout


def error_code(error: Exception) -> int:
    """Return SQLite's primary result code of an error, 0 if it is not SQLite's."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF

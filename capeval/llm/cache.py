"""Replies that were paid for, kept in one SQLite file that any number of processes share.

A reply is `validated`; or `refused`, part of a conversation that goes on with a complaint about
it; or `exhausted`, part of one that ended without a value: kept for inspection, never served.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from capeval.errors import InputError
from capeval.llm.redact import public_url
from capeval.llm.types import ChatReply, ChatRequest
from capeval.schema.usage import Usage
from capeval.text import one_line
from capeval.tracing import trace

T = TypeVar("T")
State = Literal["validated", "refused", "exhausted"]

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
GET = """SELECT state, reply, finish_reason, snapshot, fingerprint, calls, input_tokens,
    cached_tokens, output_tokens, left_off FROM replies WHERE key = ?"""
PUT = f"INSERT OR REPLACE INTO replies VALUES ({', '.join('?' * 16)})"  # noqa: S608 - question marks
# Another process writes for milliseconds; waiting longer would hold up a run.
BUSY_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """The contents of a cache: `bytes` on disk, replies by state and by requested model."""

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
    cache is empty.
    """

    def __init__(
        self, path: str | Path | None = None, *, on_notice: Callable[[str], None] | None = None
    ) -> None:
        self.path = default_cache_path() if path is None else Path(path)
        self.notices: list[str] = []
        self._on_notice = on_notice
        self._db: sqlite3.Connection | None = None
        self._given_up = False

    def get(self, key: str) -> tuple[ChatReply, State] | None:
        """Return the reply that may be served for a key and its state, validated or refused."""
        found = self.look(key)
        return None if found is None or found[1] == "exhausted" else found

    def look(self, key: str) -> tuple[ChatReply, State] | None:
        """Return the reply that is stored for a key, in any state, to be shown to the user."""
        row = self._try("read", lambda db: db.execute(GET, (key,)).fetchone())
        if row is None:
            return None
        state, text, finish, snapshot, fingerprint, calls, asked, cached, answered, left_off = row
        try:
            usage = Usage(
                calls=calls, input_tokens=asked, cached_tokens=cached, output_tokens=answered
            )
            reply = ChatReply(
                text, finish, snapshot, fingerprint, usage, True, tuple(json.loads(left_off))
            )
        except ValueError:
            return None  # a damaged row is a miss; the next reply replaces it
        return reply, state

    def put(
        self, key: str, request: ChatRequest, base_url: str, reply: ChatReply, state: State
    ) -> None:
        """Keep a reply, in place of one that is stored for the same key."""
        whole = plain(request)
        usage = reply.usage
        row = (
            key, state, request.model, base_url, digest(whole["messages"]),
            json.dumps(whole), reply.text, reply.finish_reason, reply.model,
            reply.fingerprint, usage.calls, usage.input_tokens, usage.cached_tokens,
            usage.output_tokens, json.dumps(reply.left_off),
            time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        )  # fmt: skip
        self._try("write", lambda db: db.execute(PUT, row))

    def mark(self, keys: Iterable[str], state: State) -> None:
        """Change the state of stored replies, all or none."""
        rows = [(state, key) for key in keys]

        def update(db: sqlite3.Connection) -> None:
            db.execute("BEGIN IMMEDIATE")
            try:
                db.executemany("UPDATE replies SET state = ? WHERE key = ?", rows)
            except sqlite3.Error:
                db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")

        if rows:
            self._try("write", update)

    def info(self) -> CacheInfo:
        """Count what is stored."""

        def count(db: sqlite3.Connection) -> tuple[dict[str, int], dict[str, int]]:
            by = "SELECT {0}, count(*) FROM replies GROUP BY {0} ORDER BY {0}"
            states, models = (dict(db.execute(by.format(c)).fetchall()) for c in ("state", "model"))
            return states, models

        states, models = self._try("read", count) or ({}, {})
        return CacheInfo(self.path, sum(_size(path) for path in self._files()), states, models)

    def clear(self, model: str | None = None) -> int:
        """Remove the replies of one model asked, or all; return how many; raises `InputError`."""

        def delete(db: sqlite3.Connection) -> int:
            where, values = ("", ()) if model is None else (" WHERE model = ?", (model,))
            removed = db.execute(f"DELETE FROM replies{where}", values).rowcount  # noqa: S608
            db.execute("VACUUM")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return removed

        if not self.path.exists():
            return 0
        removed = self._try("write", delete)
        if removed is None and model is None and self._given_up:
            # It cannot be read as a cache at all, so the file itself is removed.
            try:
                for path in self._files():
                    path.unlink(missing_ok=True)
            except OSError as error:
                raise InputError(f"cannot be removed: {error.strerror}", file=self.path) from None
            self._given_up = False
            return 0
        if removed is None:
            raise InputError(self.notices[-1] if self.notices else "not usable", file=self.path)
        return removed

    def reason_for_miss(self, request: ChatRequest, base_url: str) -> str:
        """Return in a few words why no reply is served for a request."""
        url, whole = public_url(base_url), plain(request)

        def look(db: sqlite3.Connection) -> str:
            key = request_key(request, url)
            if db.execute("SELECT 1 FROM replies WHERE key = ?", (key,)).fetchone():
                return "the stored replies all broke their contract, so it is asked again"
            near = db.execute(
                "SELECT base_url, request FROM replies WHERE messages = ? LIMIT 50",
                (digest(whole["messages"]),),
            ).fetchall()
            differences = [_differences(url, whole, stored_url, text) for stored_url, text in near]
            if differences:
                nearest = min(differences, key=len)
                return f"the same messages are stored, but with {', '.join(nearest)}"
            for_model = "SELECT count(*) FROM replies WHERE model = ?"
            count = db.execute(for_model, (request.model,)).fetchone()[0]
            if not count:
                return f"nothing is stored for {request.model}"
            return f"{count} replies are stored for {request.model}, none for these messages"

        return self._try("read", look) or f"nothing is stored at {self.path}"

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def _try(self, what: str, work: Callable[[sqlite3.Connection], T]) -> T | None:
        if self._given_up or (what == "read" and self._db is None and not self.path.exists()):
            return None
        try:
            if self._db is None:
                self._db = self._open()
            return work(self._db)
        except sqlite3.OperationalError as error:
            # Locked for long, full or read-only: that can pass, so the next call tries again.
            self._given_up = self._db is None
            self._notice(f"cannot {what}: {error}")
        except (sqlite3.Error, OSError, ValueError, OverflowError) as error:
            damaged = isinstance(error, sqlite3.DatabaseError | OSError)
            self._given_up = self._db is None or (damaged and "malformed" in str(error))
            self._notice(f"cannot {what}: {error}")
        if self._given_up:
            self.close()
        return None

    def _open(self) -> sqlite3.Connection:
        if not self.path.parent.exists():
            self.path.parent.mkdir(parents=True, mode=0o700)
        db = sqlite3.connect(
            self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            db.execute("PRAGMA journal_mode=WAL")
            # Written through to the system at each commit: a killed process loses nothing.
            db.execute("PRAGMA synchronous=NORMAL")
            layout = db.execute("PRAGMA user_version").fetchone()[0]
            if layout not in {0, LAYOUT}:
                raise ValueError(f"it was made by another version of capeval (layout {layout})")
            if layout == 0:
                db.executescript(f"BEGIN IMMEDIATE;{SCHEMA}PRAGMA user_version={LAYOUT};COMMIT;")
        except BaseException:
            db.close()
            raise
        return db

    def _files(self) -> list[Path]:
        return [self.path.with_name(self.path.name + end) for end in ("", "-wal", "-shm")]

    def _notice(self, message: str) -> None:
        notice = one_line(f"{self.path}: the reply cache {message}; going on without it")
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


def _differences(url: str, asked: dict[str, object], stored_url: str, text: str) -> list[str]:
    stored = json.loads(text)
    found = [f"base URL {stored_url}"] if stored_url != url else []
    found += [
        f"{name} {stored.get(name)}"
        for name in ("model", "temperature", "repeat", "max_tokens")
        if stored.get(name) != asked[name]
    ]
    if stored.get("schema") != json.loads(json.dumps(asked["schema"])):
        found.append("another reply schema")
    return found


# Shorter ones cost nothing to store.
LONG_DATA_URL = 1000


def plain(request: ChatRequest) -> dict[str, Any]:
    """Return a request as JSON values, long data URLs (frames are megabytes) replaced by a hash."""
    schema = request.schema
    return {
        "model": request.model,
        "messages": [shown(dict(message)) for message in request.messages],
        "max_tokens": request.max_tokens,
        "temperature": None if request.temperature is None else float(request.temperature),
        "repeat": request.repeat,
        "schema": schema and {"name": schema.name, "schema": dict(schema.schema)},
    }


def digest(value: object) -> str:
    """Return the SHA-256 of the canonical JSON of `value`, in hexadecimal."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def request_key(request: ChatRequest, base_url: str) -> str:
    """Return the cache key of a whole request to one endpoint."""
    return digest({"base_url": base_url, "request": plain(request)})


def shown(value: object) -> object:
    """Return JSON values with long data URLs replaced by their hash."""
    if isinstance(value, str) and len(value) > LONG_DATA_URL and value.startswith("data:"):
        head = value[:60].partition(",")[0]
        name = hashlib.sha256(value.encode("utf-8", "replace")).hexdigest()
        return f"{head},[{len(value)} characters, sha256 {name}]"
    if isinstance(value, dict):
        return {key: shown(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [shown(item) for item in value]
    return value

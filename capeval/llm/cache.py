"""Replies that were paid for, kept in one SQLite file that any number of processes share.

A reply is `validated`; or `refused`, part of a conversation that goes on with a complaint about it;
or `exhausted`, part of one that ended without a value: kept for inspection, never served.

A reply is written when it arrives, which takes a tenth of a millisecond: a process that is killed
pays again only for calls in flight. A file that cannot be used never stops a run: calls go
uncached, and one notice says so.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capeval.llm.replies import ChatReply, ChatRequest, State
from capeval.llm.tracing import trace
from capeval.schema import Usage
from capeval.text import Loss, one_line

TABLE = """
CREATE TABLE IF NOT EXISTS replies (
    key TEXT PRIMARY KEY, state TEXT NOT NULL, model TEXT NOT NULL,
    request TEXT NOT NULL, reply TEXT NOT NULL)
"""
# Another process writes for milliseconds, and all calls of this one wait meanwhile. After that,
# replies are kept in memory, and written with a later one.
BUSY_SECONDS = 0.3
RETRY_SECONDS = 3.0
LONG_DATA_URL = 1000

STATE_NAMES = {
    "validated": "accepted",
    "refused": "rejected, and asked again",
    "exhausted": "rejected for the last time; the item was left out",
}
"""The outcome of a reply, by its stored state."""


@dataclass(frozen=True, slots=True)
class RequestIdentity:
    """A request to one endpoint as the cache knows it; long data URLs are replaced by a hash.

    `text` is canonical JSON; `key` joins the SHA-256 of the messages and of the text.
    """

    key: str
    model: str
    text: str


def identify(request: ChatRequest, base_url: str, weights: str = "") -> RequestIdentity:
    """Return the identity of a request to an endpoint's public URL, for a model's `weights`."""
    messages = [_shortened(message) for message in request.messages]
    schema, temperature = request.schema, request.temperature
    optional = {"media": request.media, "scope": request.scope, "weights": weights}
    text = _canonical(
        {
            "base_url": base_url,
            "max_tokens": request.max_tokens,
            "messages": messages,
            "model": request.model,
            "reasoning": request.reasoning,
            "repeat": request.repeat,
            "schema": schema and {"name": schema.name, "schema": dict(schema.schema)},
            "temperature": None if temperature is None else float(temperature),
            **{name: value for name, value in optional.items() if value},
        }
    )
    key = _sha256(_canonical(messages))[:32] + _sha256(text)[:32]
    return RequestIdentity(key, request.model, text)


_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _shortened(value: object) -> object:
    if isinstance(value, str):
        if len(value) <= LONG_DATA_URL or not value.startswith("data:"):
            return value
        head = value[:60].partition(",")[0]
        return f"{head},[{len(value)} characters, sha256 {_sha256(value)}]"
    if isinstance(value, Mapping):
        return {key: _shortened(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_shortened(item) for item in value]
    return value


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """The contents of a cache: `bytes` on disk, replies by stored state and by requested model."""

    path: Path
    bytes: int
    states: dict[str, int]
    models: dict[str, int]

    @property
    def entries(self) -> int:
        return sum(self.states.values())


class ReplyCache:
    """The cache in the file at `path`, by default this user's; the first reply creates it.

    A damaged file is moved aside. Each problem is reported once to `on_notice`.
    """

    def __init__(
        self, path: str | Path | None = None, *, on_notice: Callable[[str], None] | None = None
    ) -> None:
        if path is None:
            import platformdirs

            path = Path(platformdirs.user_cache_dir("capeval"), "replies.sqlite")
        self.path = Path(path)
        self._on_notice = on_notice
        self._notices: set[str] = set()
        self._db: sqlite3.Connection | None = None
        self._unwritten: dict[str, tuple[str, ...]] = {}
        self._next_write = 0.0

    def get(self, key: str) -> tuple[ChatReply, State] | None:
        """Return the reply to serve for a key, and its state, which is never `exhausted`."""
        if row := self._unwritten.get(key):
            text, state = row[-1], row[1]
        elif rows := self._run("SELECT reply, state FROM replies WHERE key = ?", key):
            ((text, state),) = rows
        else:
            return None
        return None if state == "exhausted" else (_reply_in(text), state)  # type: ignore[return-value]

    def last_weights(self, base_url: str, model: str) -> str:
        last = """
            SELECT json_extract(request, '$.weights') FROM replies
            WHERE model = ? AND json_valid(request) AND json_extract(request, '$.base_url') = ?
            ORDER BY rowid DESC LIMIT 1"""
        rows = self._run(last, model, base_url)
        return rows[0][0] or "" if rows else ""

    def put(self, asked: RequestIdentity, reply: ChatReply, state: State) -> None:
        row = (asked.key, state, asked.model, asked.text, _text_of(reply))
        self._unwritten[asked.key] = row
        self._write()

    def mark(self, keys: Iterable[str], state: State) -> None:
        for key in keys:
            self._run("UPDATE replies SET state = ? WHERE key = ?", state, key, writes=True)

    def _write(self) -> None:
        if time.monotonic() < self._next_write:
            return
        insert = "INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?, ?)"
        for key, row in list(self._unwritten.items()):
            if self._run(insert, *row, writes=True) is None:
                self._next_write = time.monotonic() + RETRY_SECONDS
                return
            del self._unwritten[key]

    def info(self) -> CacheInfo:
        count = "SELECT {0}, count(*) FROM replies GROUP BY {0} ORDER BY {0}"
        states, models = (dict(self._run(count.format(each)) or ()) for each in ("state", "model"))
        size = sum(path.stat().st_size for path in self._files() if path.exists())
        return CacheInfo(self.path, size, states, models)

    def close(self) -> None:
        """Write what is left and close the file; the next use opens it again."""
        self._next_write = 0.0
        self._write()
        self._disconnect()

    def _disconnect(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def _run(self, sql: str, *values: str, writes: bool = False) -> list[Any] | None:
        """Return the rows of a statement; None if the file is unusable."""
        if self._db is None and not writes and not self.path.exists():
            return []
        try:
            if self._db is None:
                self._db = _open(self.path)
            return self._db.execute(sql, values).fetchall()
        except (sqlite3.OperationalError, OSError) as error:  # locked, full or read-only
            how = "written" if writes else "read"
            self._report(f"cannot be {how}: {error}; missing replies are paid for again")
        except sqlite3.DatabaseError as error:
            self._disconnect()
            now = time.strftime("%Y%m%d-%H%M%S")
            aside = self.path.with_name(f"{self.path.name}-damaged-{now}")
            with suppress(OSError):  # then the next call reports that it cannot be used
                self.path.replace(aside)
                for path in self._files():
                    path.unlink(missing_ok=True)
            begun = f"renamed to {aside.name}, and a new one is used"
            self._report(f"cannot be used ({error}): {begun}; its replies are paid for again")
        return None

    def _files(self) -> list[Path]:
        return [self.path.with_name(self.path.name + end) for end in ("", "-wal", "-shm")]

    def _report(self, what: str) -> None:
        if what not in self._notices:
            self._notices.add(what)
            trace("cache", notice=what)
            if self._on_notice is not None:
                self._on_notice(Loss(one_line(f"{self.path}: the reply cache {what}", 600)))


def _open(path: Path) -> sqlite3.Connection:
    """Open the file, and create it first; raises `sqlite3.Error` and OSError."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        with suppress(sqlite3.OperationalError):  # another process is just doing it
            db.execute("PRAGMA journal_mode = WAL")
        # Written through to the system at each commit: a killed process loses nothing.
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute(TABLE)
    except BaseException:
        db.close()
        raise
    return db


def _text_of(reply: ChatReply) -> str:
    fields = {name: getattr(reply, name) for name in _FIELDS}
    # ASCII: replies may contain unpaired surrogates, which SQLite does not store.
    own = {"usage": reply.usage.model_dump(), "day": reply.day or time.strftime("%Y-%m-%d")}
    return json.dumps(fields | own)


_FIELDS = ("text", "finish_reason", "model", "fingerprint", "left_off")


def _reply_in(text: str) -> ChatReply:
    fields = json.loads(text)
    own = {"usage": Usage(**fields["usage"]), "left_off": tuple(fields["left_off"]), "cached": True}
    return ChatReply(**(fields | own))

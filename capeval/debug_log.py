"""The debug log: what was asked, answered, retried and cached, without keys, images or captions.

One JSON object a line: `time`, `event`, `process`, and the event's own fields.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from capeval.errors import UsageError
from capeval.llm.redact import (
    SHORTEST_REAL_KEY,
    Redactor,
    is_secret_name,
    known_secrets,
    public_command,
    secrets_in,
)
from capeval.runs.outputs import check_output, is_debug_log
from capeval.text import one_line
from capeval.tracing import LOG, trace
from capeval.version import __version__

_PACKAGES = ("aiohttp", "av", "numpy", "pydantic", "torch", "transformers", "typer")
# Enough for any useful traceback or message; a hostile endpoint's may be megabytes.
_MOST_CHARACTERS = 20_000


def start_debug_log(path: Path) -> None:
    """Record this process's events in a new or an existing debug log; raises `UsageError`."""
    check_output(path, (), option="--debug")
    try:
        if path.exists() and path.stat().st_size and not is_debug_log(path):
            raise UsageError(f"--debug: {path} exists and is not a debug log; name another file")
        path.parent.mkdir(parents=True, exist_ok=True)
        # Readable by its owner alone: it names files, models and addresses.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError as error:
        raise UsageError(f"--debug: {path} cannot be written ({error.strerror})") from None
    stop_debug_log()
    LOG.addHandler(_Handler(path, descriptor))
    LOG.setLevel(logging.DEBUG)
    # The root logger's handlers are the user's own program's.
    LOG.propagate = False
    trace(
        "start",
        capeval=__version__,
        python=platform.python_version(),
        platform=platform.platform(),
        packages=_versions(),
        command=public_command(sys.argv),
    )


def stop_debug_log() -> None:
    """Stop recording and close the file."""
    for handler in [each for each in LOG.handlers if isinstance(each, _Handler)]:
        LOG.removeHandler(handler)
        handler.close()
        LOG.setLevel(logging.NOTSET)
        LOG.propagate = True


class _Handler(logging.Handler):
    """Writes each record with one call, so that several processes can share a file."""

    def __init__(self, path: Path, descriptor: int) -> None:
        super().__init__()
        self._path, self._descriptor = path, descriptor
        self._outer = {
            value
            for name, value in os.environ.items()
            if is_secret_name(name) and len(value) >= SHORTEST_REAL_KEY
        }
        # Nothing is parsed yet: what was typed, and the environment's, may be in any message.
        self._outer |= secrets_in(" ".join([*sys.argv, *os.environ.values()]))
        self._redact, self._redacted = Redactor(self._outer, in_logs=True), -1

    def emit(self, record: logging.LogRecord) -> None:
        if self._descriptor < 0:
            return
        # Clients are opened, and their keys known, only after the log is.
        known = known_secrets()
        if len(known) != self._redacted:
            self._redact = Redactor([*self._outer, *known], in_logs=True)
            self._redacted = len(known)
        try:
            os.write(self._descriptor, self._line(record).encode("utf-8", "replace"))
        except Exception as error:  # a full disk, or a value that cannot be shown
            self.close()
            why = getattr(error, "strerror", None) or type(error).__name__
            where = one_line(str(self._path))
            sys.stderr.write(f"capeval: {where}: cannot be written ({why}); going on without it\n")

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        super().close()

    def _line(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "event": record.getMessage(),
            "process": record.process,
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = logging.Formatter().formatException(record.exc_info)
        return json.dumps(self._hidden(line), ensure_ascii=False) + "\n"

    def _hidden(self, value: Any, depth: int = 6) -> Any:
        """Return JSON values with every secret hidden, before they are escaped."""
        if value is None or isinstance(value, bool | int | float):
            return value
        if depth and isinstance(value, Mapping):
            return {
                self._redact(str(key)): self._hidden(item, depth - 1) for key, item in value.items()
            }
        if depth and isinstance(value, list | tuple):
            return [self._hidden(item, depth - 1) for item in value]
        return self._redact(str(value)[:_MOST_CHARACTERS])


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found

"""The debug log: what was asked, answered, retried and cached, without keys, images or captions.

One JSON object a line: `time`, `event`, `process`, and the event's own fields.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path

from capeval.errors import UsageError
from capeval.llm.redact import redact
from capeval.runs.outputs import check_output, is_debug_log
from capeval.text import one_line
from capeval.tracing import LOG, trace
from capeval.version import __version__

_PACKAGES = {"aiohttp", "av", "numpy", "openai", "pydantic", "torch", "transformers", "typer"}


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
        packages={one.name: one.version for one in distributions() if one.name in _PACKAGES},
        command=sys.argv,
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

    def emit(self, record: logging.LogRecord) -> None:
        if self._descriptor < 0:
            return
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "event": record.getMessage(),
            "process": record.process,
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = logging.Formatter().formatException(record.exc_info)
        try:
            text = redact(json.dumps(line, ensure_ascii=False, default=str))
            os.write(self._descriptor, f"{text}\n".encode("utf-8", "replace"))
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

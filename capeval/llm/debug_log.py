"""The file of `--debug FILE`: a line for each request, reply, retry and cache hit, without keys."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress
from pathlib import Path

from capeval.errors import UsageError
from capeval.llm.redact import redact
from capeval.tracing import LOG, trace


def start_log(path: Path, begin: str) -> None:
    """Write this process's events to a new file, the first with `begin`; raises `UsageError`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Readable by its owner alone: it names files, models and addresses.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        handler = _LogFile(path, encoding="utf-8", errors="backslashreplace")
    except FileExistsError:
        raise UsageError(f"--debug: {path} exists; name a new file") from None
    except OSError as error:
        raise UsageError(f"--debug: {path} cannot be written ({error.strerror})") from None
    handler.setFormatter(_Redacted("%(asctime)s %(message)s"))
    LOG.addHandler(handler)
    LOG.setLevel(logging.DEBUG)
    # The root logger's handlers are the user's own program's.
    LOG.propagate = False
    trace(begin, command=sys.argv)


class _Redacted(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))


class _LogFile(logging.FileHandler):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """End the log and not the run, for instance on a full disk."""
        del record
        LOG.removeHandler(self)
        LOG.setLevel(logging.NOTSET)
        why = getattr(sys.exc_info()[1], "strerror", None) or "an error"
        with suppress(OSError):
            self.close()
        sys.stderr.write(f"capeval: {self.baseFilename}: cannot be written ({why}); no log\n")

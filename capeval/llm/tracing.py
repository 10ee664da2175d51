"""The log of `--debug FILE`, and the secrets that no log line, message or file may contain.

Every package may record events, which have no captions, replies or images. Recording costs almost
nothing without a log.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from capeval.errors import UsageError

LOG = logging.getLogger("capeval")

_about: ContextVar[dict[str, Any] | None] = ContextVar("capeval_about", default=None)


def trace(event: str, /, *, failure: BaseException | None = None, **fields: Any) -> None:
    """Record an event with its fields; `failure` adds its traceback."""
    if is_tracing():
        named = {**(_about.get() or {}), **fields}
        said = " ".join([event, *(f"{name}={value!r}" for name, value in named.items())])
        LOG.debug("%s", said, exc_info=failure)


def is_tracing() -> bool:
    """Return whether a log is being written: computing a field may cost time."""
    return LOG.isEnabledFor(logging.DEBUG)


def about(**fields: Any) -> None:
    """Add fields, such as the video's index, to all further events of this task."""
    if is_tracing():
        _about.set({**(_about.get() or {}), **fields})


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
    # The root logger's handlers belong to the user's own program.
    LOG.propagate = False
    trace(begin, command=sys.argv)


class _Redacted(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))


class _LogFile(logging.FileHandler):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """End the log and not the run, for instance on a full disk."""
        LOG.removeHandler(self)
        LOG.setLevel(logging.NOTSET)
        why = getattr(sys.exc_info()[1], "strerror", None) or "an error"
        with suppress(OSError):
            self.close()
        sys.stderr.write(f"capeval: {self.baseFilename}: cannot be written ({why}); no log\n")


_HIDDEN = "[hidden]"
# Local servers take any "key": a very short one would blank out ordinary words.
_SHORTEST = 6
_known: set[str] = set()

# A header: "Authorization: Bearer KEY", "api-key: KEY". The lengths are limited, so that a hostile
# text cannot make matching slow.
_HEADER = (
    r"(?i)\b(authorization|(?:x-)?api-key)([\"']?\s{0,9}[:=]\s{0,9}[\"']?)"
    r"(?:(?:bearer|basic)\s{1,9})?[^\s\"',}\\]+"
)
# The user and password of an address, and the values of its parameters.
_LOGIN = r"(?i)(\b[a-z][a-z0-9+.\-]{0,20}://)[^\s/@?#\"\\]{1,500}@"
_PARAMETER = r"([?&][\w.\-]{1,80}=)[^&#\s\"'<>\\]+"


def remember_secrets(secrets: Iterable[str]) -> None:
    """Add secrets that this process uses, which `redact` then hides."""
    _known.update(secret for secret in secrets if len(secret) >= _SHORTEST)


def redact(text: str) -> str:
    """Hide the secrets of this process, and those in headers and addresses.

    >>> redact("refused: Authorization: Bearer abc at https://me:pw@host/v1?version=2&sig=abc")
    'refused: Authorization: [hidden] at https://[hidden]@host/v1?version=[hidden]&sig=[hidden]'
    """
    for secret in sorted(_known, key=len, reverse=True):
        text = text.replace(secret, _HIDDEN)
    text = re.sub(_HEADER, rf"\1\2{_HIDDEN}", text)
    text = re.sub(_LOGIN, rf"\1{_HIDDEN}@", text)
    return re.sub(_PARAMETER, rf"\1{_HIDDEN}", text)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A base URL split into its parts; its repr has no secrets.

    `url` is normalised, without user, password and query: it may be shown and stored. `is_local` is
    whether it is on this machine, and `login` has user and password.
    """

    url: str
    is_local: bool
    query: dict[str, str] = field(repr=False)
    login: tuple[str, str] | None = field(repr=False)


def parse_endpoint(base_url: str) -> Endpoint:
    """Split a base URL into its parts; raises `UsageError` unless it is http(s)."""
    try:
        parts = urlsplit(base_url.strip())
        host = (parts.hostname or "").rstrip(".")
        host.encode("idna")
        is_address = parts.scheme in {"http", "https"} and parts.port != 0
    except ValueError:  # UnicodeError too: a name that cannot be looked up
        is_address, host = False, ""
    if not is_address or not host or re.search(r"\s", parts.netloc):
        raise UsageError("the base URL must look like http://HOST:PORT/v1 or https://HOST/v1")
    default_port = {"http": ":80", "https": ":443"}[parts.scheme]
    netloc = parts.netloc.rpartition("@")[2].lower().removesuffix(default_port)
    login = (unquote(parts.username or ""), unquote(parts.password or ""))
    try:
        address = ipaddress.ip_address(host)
        is_local = address.is_loopback or address.is_unspecified
    except ValueError:
        is_local = host == "localhost"
    return Endpoint(
        urlunsplit((parts.scheme, netloc, parts.path.rstrip("/"), "", "")),
        is_local,
        dict(parse_qsl(parts.query, keep_blank_values=True)),
        login if any(login) else None,
    )


def public_url(base_url: str) -> str:
    """Return a base URL as it may be shown and stored: no user, password, query, final slash.

    >>> public_url("https://me:secret@Example.com:443/v1/?key=abc")
    'https://example.com/v1'
    """
    return parse_endpoint(base_url).url

"""Keeps keys out of every message, log line and file."""

from __future__ import annotations

import base64
import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from capeval.errors import UsageError

HIDDEN = "[hidden]"
# Endpoints echo keys partly starred out ("sk-abc***xyz"): that part is hidden too.
LOOKS_SECRET = re.compile(
    r"\bsk-[\w*.\-]{4,}|\b(Bearer|Basic)\s+(?!token\b|auth)[\w*.~+/=\-]{6,}", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A base URL taken apart; its secrets are in no repr."""

    url: str
    """Normalised, without user, password and query: what may be shown and stored."""
    query: dict[str, str] = field(default_factory=dict, repr=False)
    basic: str | None = field(default=None, repr=False)
    """`user:password` of the URL, in base 64."""
    secrets: tuple[str, ...] = field(default=(), repr=False)


def parse_endpoint(base_url: str) -> Endpoint:
    """Take a base URL apart; raises `UsageError` for what is not http(s)."""
    try:
        parts = urlsplit(base_url.strip())
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = urlsplit(""), None, None
    if parts.scheme not in {"http", "https"} or not host:
        raise UsageError("the base URL must look like http://HOST:PORT/v1 or https://HOST/v1")
    shown_host = f"[{host}]" if ":" in host else host
    default_port = {"http": 80, "https": 443}[parts.scheme]
    netloc = shown_host if port in {None, default_port} else f"{shown_host}:{port}"
    url = urlunsplit((parts.scheme, netloc, parts.path.rstrip("/"), "", ""))
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    secrets = [value for value in query.values() if len(value) >= 12]
    basic = None
    if parts.username or parts.password:
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        basic = base64.b64encode(f"{user}:{password}".encode()).decode()
        secrets += [basic, password]
    return Endpoint(url, query, basic, tuple(secret for secret in secrets if secret))


def public_url(base_url: str) -> str:
    """Return a base URL as it may be shown and stored: no user, password, query, final slash.

    >>> public_url("https://me:secret@Example.com:443/v1/?key=abc")
    'https://example.com/v1'
    """
    return parse_endpoint(base_url).url


class Redactor:
    """Hides given secrets, and whatever looks like one, in text."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        # A very short "key" (local servers take any) would blank out ordinary words.
        self._secrets = sorted({s for s in secrets if len(s) >= 6}, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """Return `text` with every secret hidden."""
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        return LOOKS_SECRET.sub(HIDDEN, text)

    def __repr__(self) -> str:
        return "Redactor()"

    def filter(self, record: logging.LogRecord) -> bool:
        """Hide secrets in a log record; lets every record through."""
        record.msg, record.args = self(record.getMessage()), None
        return True

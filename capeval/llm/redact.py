"""Addresses of endpoints, and the secrets that must be in no message, log line or file."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from capeval.errors import UsageError

HIDDEN = "[hidden]"
# Local servers take any "key": a very short one would blank out ordinary words.
SHORTEST = 6

# The lengths are limited, so that a hostile text cannot make matching slow.
_PATTERNS = (
    # Headers: "Authorization: Bearer KEY", "api-key: KEY".
    (
        re.compile(
            r"\b(authorization|(?:x-)?api-key)([\"']?\s{0,9}[:=]\s{0,9}[\"']?)"
            r"(?:(?:bearer|basic)\s{1,9})?[^\s\"',}\\]+",
            re.IGNORECASE,
        ),
        rf"\1\2{HIDDEN}",
    ),
    # The user and password of an address, and the values of its parameters.
    (
        re.compile(r"(\b[a-z][a-z0-9+.\-]{0,20}://)[^\s/@?#\"\\]{1,500}@", re.IGNORECASE),
        rf"\1{HIDDEN}@",
    ),
    (re.compile(r"([?&][\w.\-]{1,80}=)[^&#\s\"'<>\\]+"), rf"\1{HIDDEN}"),
)
_known: set[str] = set()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A base URL split into its parts; its secrets are in no repr."""

    url: str
    """Normalised, without user, password and query: what may be shown and stored."""
    is_local: bool
    """Whether it is on this machine."""
    query: dict[str, str] = field(default_factory=dict, repr=False)
    login: tuple[str, str] | None = field(default=None, repr=False)
    """User and password."""


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
    return Endpoint(
        urlunsplit((parts.scheme, netloc, parts.path.rstrip("/"), "", "")),
        _is_local(host),
        dict(parse_qsl(parts.query, keep_blank_values=True)),
        login if any(login) else None,
    )


def _is_local(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return address.is_loopback or address.is_unspecified


def public_url(base_url: str) -> str:
    """Return a base URL as it may be shown and stored: no user, password, query, final slash.

    >>> public_url("https://me:secret@Example.com:443/v1/?key=abc")
    'https://example.com/v1'
    """
    return parse_endpoint(base_url).url


def remember_secrets(secrets: Iterable[str]) -> None:
    """Add secrets that this process uses, which `redact` then hides."""
    _known.update(secret for secret in secrets if len(secret) >= SHORTEST)


def redact(text: str) -> str:
    """Hide the secrets of this process, and what headers and addresses keep secret.

    >>> redact("refused: Authorization: Bearer abc at https://me:pw@host/v1?version=2&sig=abc")
    'refused: Authorization: [hidden] at https://[hidden]@host/v1?version=[hidden]&sig=[hidden]'
    """
    for secret in sorted(_known, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    for pattern, hidden in _PATTERNS:
        text = pattern.sub(hidden, text)
    return text

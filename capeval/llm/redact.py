"""Keeps keys out of every message, log line and file."""

from __future__ import annotations

import base64
import json
import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit, urlunsplit

from capeval.errors import UsageError

HIDDEN = "[hidden]"
# A very short "key" (local servers take any) would blank out ordinary words.
SHORTEST = 6
# Keys of real services are longer; below this, a word of a caption could be someone's "key".
SHORTEST_REAL_KEY = 16

# The lengths are limited, so that a hostile text cannot make matching slow.
_SENSITIVE_NAME = r"[\w-]{0,40}(?:key|token|secret|passw|pwd|sig|auth|credential)[\w-]{0,40}"
_LOOKS_SECRET = (
    # Endpoints echo keys partly starred out ("sk-abc***xyz"): that part is hidden too.
    (re.compile(r"\bsk-[\w*.\-]{4,}", re.IGNORECASE), HIDDEN),
    (
        re.compile(r"\b(?:Bearer|Basic)\s+(?!token\b|auth)[\w*.~+/=\-]{6,}", re.IGNORECASE),
        HIDDEN,
    ),
    # The user and password, and the secret parameters, of an address.
    (
        re.compile(r"(\b[a-z][a-z0-9+.\-]{0,20}://)[^\s/@?#]{1,500}@", re.IGNORECASE),
        rf"\1{HIDDEN}@",
    ),
    (re.compile(rf"([?&]{_SENSITIVE_NAME}=)[^&#\s\"'<>]+", re.IGNORECASE), rf"\1{HIDDEN}"),
)
_IS_SENSITIVE = re.compile(_SENSITIVE_NAME, re.IGNORECASE)
# Of the two slashes, a path of Python keeps one.
_ADDRESS = re.compile(
    r"\b([a-z][a-z0-9+.\-]{1,20}://|https?:/)([^\s\"'<>/][^\s\"'<>]*)", re.IGNORECASE
)
# A word, a year or version, or a few characters: the paths of URLs are made of these, not tokens.
_PLAIN = re.compile(r"[A-Za-z][a-z]{0,14}|[A-Z]{1,12}|\d{1,4}|[A-Za-z0-9]{0,5}")

_known: set[str] = set()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A base URL split into its parts; its secrets are in no repr."""

    url: str
    """Normalised, without user, password and query: what may be shown and stored."""
    query: dict[str, str] = field(default_factory=dict, repr=False)
    basic: str | None = field(default=None, repr=False)
    """`user:password` of the URL, in base 64."""
    secrets: tuple[str, ...] = field(default=(), repr=False)


LONGEST_URL = 2000


def parse_endpoint(base_url: str) -> Endpoint:
    """Split a base URL into its parts; raises `UsageError` unless it is http(s)."""
    text = base_url.strip()
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
        if len(text) > LONGEST_URL or not text.isprintable() or " " in text:
            host = None
        if host and ":" not in host:
            host.encode("idna")
    except ValueError:  # UnicodeError too: a name that cannot be looked up
        parts, host, port = urlsplit(""), None, None
    if parts.scheme not in {"http", "https"} or not host:
        raise UsageError("the base URL must look like http://HOST:PORT/v1 or https://HOST/v1")
    shown_host = f"[{host}]" if ":" in host else host
    default_port = {"http": 80, "https": 443}[parts.scheme]
    netloc = shown_host if port in {None, default_port} else f"{shown_host}:{port}"
    url = urlunsplit((parts.scheme, netloc, parts.path.rstrip("/"), "", ""))
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    secrets = [
        value for name, value in query.items() if len(value) >= 12 or _IS_SENSITIVE.search(name)
    ]
    basic = None
    if parts.username or parts.password:
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        basic = base64.b64encode(f"{user}:{password}".encode()).decode()
        # A token can be in the place of the user (https://TOKEN@host).
        secrets += [basic, password or user]
    return Endpoint(url, query, basic, tuple(secret for secret in secrets if secret))


def public_url(base_url: str) -> str:
    """Return a base URL as it may be shown and stored: no user, password, query, final slash.

    >>> public_url("https://me:secret@Example.com:443/v1/?key=abc")
    'https://example.com/v1'
    """
    return parse_endpoint(base_url).url


class Redactor:
    """Hides given secrets, and anything that looks like one, in text.

    >>> Redactor(["my-own-key"])("refused: my-own-key at https://me:pw@host/v1?api_key=abc")
    'refused: [hidden] at https://[hidden]@host/v1?api_key=[hidden]'
    """

    def __init__(self, secrets: Iterable[str] = (), *, in_logs: bool = False) -> None:
        self._secrets, self._in_logs = _forms(secrets), in_logs

    def __call__(self, text: str) -> str:
        """Return `text` with every secret hidden; in logs, tokens in the path of a URL too."""
        text = _replaced(text, self._secrets)
        if self._in_logs:
            text = _ADDRESS.sub(lambda found: found[1] + _public_rest(found[2]), text)
        for pattern, hidden in _LOOKS_SECRET:
            text = pattern.sub(hidden, text)
        return text

    def in_reply(self, text: str) -> str:
        """Return a model's reply without the secrets themselves; nothing else in it changes."""
        return _replaced(text, [s for s in self._secrets if len(s) >= SHORTEST_REAL_KEY], cut=False)

    def __repr__(self) -> str:
        return "Redactor()"

    def filter(self, record: logging.LogRecord) -> bool:
        """Hide secrets in a log record; lets every record through."""
        record.msg, record.args = self(record.getMessage()), None
        if record.exc_info:
            # The traceback of a failed call contains its address.
            record.exc_text = self(logging.Formatter().formatException(record.exc_info))
            record.exc_info = None
        return True


def remember_secrets(secrets: Iterable[str]) -> None:
    """Add secrets that this process uses, for logs that cover all its endpoints."""
    _known.update(secrets)


def known_secrets() -> frozenset[str]:
    """Return the secrets that this process uses."""
    return frozenset(_known)


def is_secret_name(name: str) -> bool:
    """Return whether a variable or parameter of this name usually contains a secret.

    >>> is_secret_name("GEMINI_API_KEY"), is_secret_name("HOME")
    (True, False)
    """
    return _IS_SENSITIVE.search(name) is not None


def public_command(arguments: Sequence[str]) -> list[str]:
    """Return what was typed, for a log: options that name a secret or an address lose theirs.

    >>> public_command(["judge", "--base-url=me:pw@host/v1", "--api-key", "my-key"])
    ['judge', '--base-url=[hidden]@host/v1', '--api-key', '[hidden]']
    """
    shown, option = [], ""
    for argument in arguments:
        name, mark, value = argument.partition("=") if argument.startswith("--") else ("", "", "")
        named, value = (name, value) if mark else (option, argument)
        if named.endswith("url"):
            # It may have been typed without https://.
            scheme, found, rest = value.rpartition("://")
            value = scheme + found + _public_rest(rest)
        elif is_secret_name(named) and len(value) >= SHORTEST and not value.startswith("-"):
            value = HIDDEN
        shown.append(f"{name}{mark}{value}" if mark else value)
        option = argument if argument.startswith("--") and not mark else ""
    return shown


def secrets_in(text: str) -> set[str]:
    """Return the users, passwords, parameters and tokens of the addresses in a text."""
    found: set[str] = set()
    for _, rest in _ADDRESS.findall(text):
        user, _, place = rest.rpartition("@")
        path, _, query = place.partition("?")
        found |= {unquote(part) for part in (user, *user.split(":", 1))}
        found |= {value for _, value in parse_qsl(query)}
        found |= {part for part in path.split("/")[1:] if _looks_secret(part)}
    return {each for each in found if len(each) >= SHORTEST}


def _public_rest(rest: str) -> str:
    """Return an address, after its scheme, without its secrets.

    >>> _public_rest("me:p/w@host:80/v1/tok3n-9f8e7d6c5b/gpt-4o-mini?key=abc")
    '[hidden]@host:80/v1/[hidden]/gpt-4o-mini?key=[hidden]'
    """
    user, mark, place = rest.rpartition("@")
    path, *query = re.split(r"([?#])", place, maxsplit=1)
    host, *parts = path.split("/")
    shown = [host, *(HIDDEN if _looks_secret(part) else part for part in parts)]
    if query:
        names = [part.partition("=") for part in query[1].split("&")]
        query[1] = "&".join(f"{name}={HIDDEN}" if is_ else HIDDEN for name, is_, _ in names)
    return (HIDDEN + mark if user else mark) + "/".join(shown) + "".join(query)


def _looks_secret(part: str) -> bool:
    pieces = re.split(r"[-_.~:,;]", part)
    return is_secret_name(part) or not all(_PLAIN.fullmatch(piece) for piece in pieces)


def _forms(secrets: Iterable[str]) -> list[str]:
    """Return secrets, and how addresses, JSON and tracebacks write them, the longest first."""
    forms = {
        form
        for secret in secrets
        for form in (
            secret,
            quote(secret, safe=""),
            quote(secret),
            quote_plus(secret),
            quote(secret, safe="/?:@-._~!$'()*,"),
            json.dumps(secret)[1:-1],
            repr(secret)[1:-1],
        )
        if len(secret) >= SHORTEST
    }
    return sorted(forms, key=lambda form: (-len(form), form))


def _replaced(text: str, secrets: Iterable[str], *, cut: bool = True) -> str:
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
        if cut:
            text = _without_cut_secret(text, secret)
    return text


def _without_cut_secret(text: str, secret: str) -> str:
    """Hide the beginning of a secret at the end of a text that was cut off."""
    end = text.rstrip("…. \n")
    for length in range(min(len(secret), len(end)), SHORTEST - 1, -1):
        if end.endswith(secret[:length]):
            return end[:-length] + HIDDEN + text[len(end) :]
    return text

"""The HTTP connection under the chat client: what may be sent where, and how much may come back.

Redirects are not followed, proxies of the environment are not used for this machine's own
addresses, and the environment adds no header. A hostile endpoint's reply might be gigabytes, so
reading fails above a limit. Replies are requested uncompressed, so that the limit applies to the
data in memory. If a server compresses anyway, the limit applies to what it sends and to what that
unpacks to.
"""

from __future__ import annotations

import errno
import ipaddress
import json
import os
import re
import ssl
import sys
import zlib
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from capeval.errors import UsageError
from capeval.llm.redact import Endpoint
from capeval.llm.retry import BadAnswerError
from capeval.llm.wire import parse_json
from capeval.text import one_line
from capeval.version import __version__

if TYPE_CHECKING:
    from typing import Any

    import aiohttp

# A judge's longest reply is some 100 KB: nothing that is a reply comes near this.
LARGEST = 32 << 20
# Deflate makes at most 1,032 bytes of one, so this stays near the limit above.
LARGEST_COMPRESSED = 64 << 10
# A dead host should be reported long before a slow answer is given up.
CONNECT_SECONDS = 10.0
# Images make megabytes: sent in one piece they would block every other call.
LARGE_BODY, PIECE = 1 << 20, 1 << 18

# zlib's window bits for each coding: gzip's header, or zlib's.
_WINDOW = {"gzip": 31, "deflate": 15}
# Where Linux distributions keep their certificates, for a Python that was built for another one.
_CERTIFICATES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


class Connection:
    """The connections to one endpoint; without a key it sends "none".

    Make it before the clock of a call starts: the first one imports the HTTP library (0.2 s).
    `proxied_by` is the variable of the environment that names the proxy, if there is one. Raises
    `UsageError` where such a variable makes a connection impossible.
    """

    def __init__(self, endpoint: Endpoint, key: str, *, timeout: float, connections: int) -> None:
        import aiohttp

        self._url, self._query = endpoint.url, endpoint.query
        self._proxy, self.proxied_by = proxy_for(endpoint.url)
        authorization = f"Basic {endpoint.basic}" if endpoint.basic else f"Bearer {key or 'none'}"
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=connections,
                # Servers close idle connections after five seconds or more.
                keepalive_timeout=4.0,
                ssl=_trusted() if endpoint.url.startswith("https:") else True,
            ),
            timeout=aiohttp.ClientTimeout(
                total=None,
                # With the look-up of the name, which may take longer than connecting.
                connect=min(2 * CONNECT_SECONDS, timeout),
                sock_connect=min(CONNECT_SECONDS, timeout),
                sock_read=timeout,
            ),
            headers={
                "Accept": "application/json",
                "Accept-Encoding": "identity",
                "Authorization": authorization,
                "User-Agent": f"capeval/{__version__}",
            },
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )

    async def get(self, path: str) -> Mapping[str, Any]:
        """Return the JSON object at a path below the base URL; raises `BadAnswerError`."""
        return await self._request("GET", path)

    async def post(self, path: str, body: bytes) -> Mapping[str, Any]:
        """Return the JSON object that answers a JSON body; raises `BadAnswerError`."""
        headers = {"Content-Type": "application/json"}
        if len(body) <= LARGE_BODY:
            return await self._request("POST", path, data=body, headers=headers)
        headers["Content-Length"] = str(len(body))
        return await self._request("POST", path, data=_in_pieces(body), headers=headers)

    async def _request(self, method: str, path: str, **content: Any) -> Mapping[str, Any]:
        async with self._session.request(
            method,
            self._url + path,
            params=self._query or None,
            # A redirect would take the captions, and perhaps the key, to another host.
            allow_redirects=False,
            proxy=self._proxy,
            **content,
        ) as response:
            body = await _read(response)
            if not 200 <= response.status < 300:
                raise BadAnswerError(response.status, "", _parsed(body), response.headers)
            return parse_json(response.status, response.headers.get("Content-Type", ""), body)

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()


def _trusted() -> ssl.SSLContext:
    """Return the system's trusted certificates, or those that a variable names.

    Raises `UsageError` if that variable names none.
    """
    variable = next(
        (name for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if os.environ.get(name)), ""
    )
    if sys.platform == "darwin" and not variable:
        import truststore  # OpenSSL cannot read the keychain

        return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    named = os.environ[variable] if variable else None
    try:
        if variable == "SSL_CERT_DIR":
            # OpenSSL takes a missing folder without a word.
            folders = [folder for folder in str(named).split(os.pathsep) if Path(folder).is_dir()]
            if not folders:
                raise NotADirectoryError(errno.ENOENT, os.strerror(errno.ENOENT))
            context = ssl.create_default_context(capath=folders[0])
            for folder in folders[1:]:
                context.load_verify_locations(capath=folder)
            return context
        context = ssl.create_default_context(cafile=named)
    except OSError as error:
        if not variable:
            raise
        why = one_line(error.strerror or str(error), 80)
        raise UsageError(
            f"{variable}: has no certificates that can be read ({why}); correct it, or unset it"
        ) from None
    paths = ssl.get_default_verify_paths()
    if sys.platform != "win32" and not (named or paths.cafile or paths.capath):
        for file in filter(os.path.isfile, _CERTIFICATES):
            context.load_verify_locations(file)
            break
    return context


_PROXY = "set it to http://HOST:PORT, or unset it"


def check_proxies() -> None:
    """Raise `UsageError` for a proxy of the environment that cannot be one."""
    for scheme, address in _proxies().items():
        try:
            parts = urlsplit(address if "://" in address else f"http://{address}")
            is_known = parts.scheme in {"http", "https"} or parts.scheme.startswith("socks")
            is_address = is_known and parts.hostname and parts.port != 0 and " " not in address
            if ":" not in (parts.hostname or ""):
                (parts.hostname or "").encode("idna")
            user, password = unquote(parts.username or ""), unquote(parts.password or "")
            (user + password).encode("latin-1")
            is_address = is_address and ":" not in user
        except ValueError:  # no number for a port, a missing bracket, letters that cannot be sent
            is_address = False
        if not is_address:
            # Its value may contain a password.
            raise UsageError(f"{_variable(scheme)}: is not the address of a proxy; {_PROXY}")


def _proxies() -> dict[str, str]:
    """Return the addresses of the environment's proxies by "http", "https" and "all"."""
    found = _settings()
    if "*" in map(str.strip, found.get("no", "").split(",")):
        return {}
    return {name: found[name] for name in ("http", "https", "all") if found.get(name)}


def _settings() -> dict[str, str]:
    # It imports http and email, which most commands do not need.
    from urllib.request import getproxies

    return getproxies()


def _variable(scheme: str) -> str:
    """Return the name of the variable that an address is from, as it is written."""
    name = f"{scheme}_proxy"
    written = (each for each in (name, *os.environ) if os.environ.get(each))
    return next((each for each in written if each.lower() == name), "the system's proxy settings")


def proxy_for(url: str) -> tuple[str | None, str | None]:
    """Return the address of the environment's proxy for a URL, and the variable that names it.

    A local server gets none: captions stay local. Raises `UsageError`.
    """
    parts, proxies = urlsplit(url), _proxies()
    scheme = parts.scheme if parts.scheme in proxies else "all"
    port = f":{parts.port or {'http': 80, 'https': 443}[parts.scheme]}"
    excepted = re.split(r"[,\s]+", _settings().get("no", ""))
    host = parts.hostname or ""
    covered = any(_covers(each.removesuffix(port), host) for each in excepted if each)
    if scheme not in proxies or covered or is_local(url):
        return None, None
    check_proxies()
    address, variable = proxies[scheme], _variable(scheme)
    if address.startswith("socks"):
        raise UsageError(f"{variable}: SOCKS proxies are not supported; {_PROXY}")
    return address if "://" in address else f"http://{address}", variable


def is_local(url: str) -> bool:
    """Return whether a URL is of this machine.

    >>> is_local("http://localhost:8000/v1"), is_local("https://api.openai.com/v1")
    (True, False)
    """
    host = (urlsplit(url).hostname or "").rstrip(".")
    local = ("127.0.0.0/8", "0.0.0.0/32", "::1", "::", "::ffff:127.0.0.0/104", "localhost")
    return any(_covers(each, host) for each in local)


def _covers(entry: str, host: str) -> bool:
    """Return whether an entry of NO_PROXY (a name, a domain, an address, a network) has a host.

    >>> [_covers(each, "a.lab.org") for each in ("lab.org", ".lab.org", "*.lab.org", "*", "b.org")]
    [True, True, True, True, False]
    >>> _covers("10.0.0.0/8", "10.1.2.3"), _covers("10.0.0.0/8", "11.1.2.3")
    (True, False)
    """
    with suppress(ValueError):
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry.strip("[]"), strict=False)
    name = entry.lower().removeprefix("*").removeprefix(".")
    return not name or host == name or host.endswith(f".{name}")


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """Return the body; raises `aiohttp.ClientPayloadError` where it is too large."""
    coding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if coding in {"", "identity"}:
        return await _read_at_most(response, LARGEST)
    if coding not in _WINDOW:
        raise _unread(f"the response is compressed with {coding[:40]}, unasked")
    packed = await _read_at_most(response, LARGEST_COMPRESSED)
    try:
        return zlib.decompressobj(_WINDOW[coding]).decompress(packed)
    except zlib.error:
        raise _unread(f"the response is not the {coding} data that it claims to be") from None


async def _read_at_most(response: aiohttp.ClientResponse, most: int) -> bytes:
    pieces, read = [], 0
    async for piece in response.content.iter_any():
        read += len(piece)
        if read > most:
            raise _unread(f"the response is larger than {most >> 10} KiB")
        pieces.append(piece)
    return b"".join(pieces)


def _unread(reason: str) -> Exception:
    import aiohttp

    return aiohttp.ClientPayloadError(reason)


def _parsed(body: bytes) -> object:
    """Return an error's body as JSON values where it is JSON, else as text."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return body.decode("utf-8", "replace")


async def _in_pieces(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), PIECE):
        yield content[start : start + PIECE]

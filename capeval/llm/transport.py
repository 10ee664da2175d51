"""The HTTP connection under the chat client: what may be sent where, and how much may come back.

Redirects are not followed, proxies of the environment are not used for this machine's own
addresses, and no header from the environment is sent. A hostile endpoint's reply might be
gigabytes, so reading fails above a limit. Replies are requested uncompressed, so that the limit
applies to the data in memory. If a server compresses anyway, reading stops before its best
compression could exceed the limit.
"""

from __future__ import annotations

import errno
import ipaddress
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from capeval.errors import UsageError
from capeval.llm.redact import Endpoint
from capeval.text import one_line

if TYPE_CHECKING:
    import ssl

    import httpx2
    import openai

# A judge's longest reply is some 100 KB: nothing that is a reply comes near this.
LARGEST = 32 << 20
# Deflate makes at most 1,032 bytes of one, so this stays near the limit above.
LARGEST_COMPRESSED = 64 << 10
# A dead host should be reported long before a slow answer is given up.
CONNECT_SECONDS = 10.0

_DEFLATED = {"gzip", "deflate"}


def open_sdk(
    endpoint: Endpoint, key: str, *, timeout: float, connections: int
) -> tuple[openai.AsyncOpenAI, str | None]:
    """Return the openai library's client for one endpoint, and the variable that names its proxy.

    Without a key it sends "none". Raises `UsageError` where a variable of the environment makes a
    connection impossible.
    """
    # Together they take 0.4 s to import: only a real call pays that, before its clock starts.
    import aiohttp  # noqa: F401 - otherwise the first request imports it
    import httpx2
    import openai

    limit = httpx2.Timeout(timeout, connect=min(CONNECT_SECONDS, timeout))
    headers = {"Accept-Encoding": "identity"}
    if endpoint.basic:
        headers["Authorization"] = f"Basic {endpoint.basic}"
    check_proxies()
    http = openai.DefaultAioHttpClient(
        timeout=limit,
        limits=httpx2.Limits(
            max_connections=connections,
            max_keepalive_connections=connections,
            keepalive_expiry=30.0,
        ),
        # A redirect would take the captions, and perhaps the key, to another host.
        follow_redirects=False,
        event_hooks={"response": [_limit_response]},
        mounts=_without_proxy(endpoint.url),
        verify=_tls(),
    )
    sdk = openai.AsyncOpenAI(
        base_url=endpoint.url,
        api_key=key or "none",
        default_query=endpoint.query or None,
        max_retries=0,
        timeout=limit,
        http_client=http,
    )
    # The library takes these from variables for OpenAI's own endpoint.
    sdk.organization = sdk.project = sdk.admin_api_key = None
    sdk._custom_headers = headers  # noqa: SLF001 - from OPENAI_CUSTOM_HEADERS; has no public name
    # Only the library knows whether NO_PROXY names the host; this has no public name.
    proxy = getattr(http._transport_for_url(httpx2.URL(endpoint.url)), "proxy", None)  # noqa: SLF001
    if proxy is None:
        return sdk, None
    scheme = urlsplit(endpoint.url).scheme
    variable = _variable(scheme if scheme in _proxies() else "all")
    if proxy.url.scheme.startswith("socks"):
        raise UsageError(f"{variable}: SOCKS proxies are not supported; {_PROXY}")
    return sdk, variable


_PROXY = "set it to http://HOST:PORT, or unset it"


def check_proxies() -> None:
    """Raise `UsageError` for a proxy of the environment that cannot be one."""
    for scheme, address in _proxies().items():
        try:
            parts = urlsplit(address if "://" in address else f"http://{address}")
            is_known = parts.scheme in {"http", "https", "socks5", "socks5h"}
            is_address = is_known and parts.hostname and parts.port != 0 and " " not in address
        except ValueError:  # the port is no number, or a bracket is missing
            is_address = False
        if not is_address:
            # Its value may contain a password.
            raise UsageError(f"{_variable(scheme)}: is not the address of a proxy; {_PROXY}")


def _proxies() -> dict[str, str]:
    """Return the addresses of the environment's proxies by "http", "https" and "all"."""
    # It imports http and email, which most commands do not need.
    from urllib.request import getproxies

    found = getproxies()
    if "*" in map(str.strip, found.get("no", "").split(",")):
        return {}
    return {name: found[name] for name in ("http", "https", "all") if found.get(name)}


def _variable(scheme: str) -> str:
    """Return the name of the variable that an address is from, as it is written."""
    name = f"{scheme}_proxy"
    written = (each for each in (name, *os.environ) if os.environ.get(each))
    return next((each for each in written if each.lower() == name), "the system's proxy settings")


def _tls() -> ssl.SSLContext:
    """Return the certificates that are trusted; raises `UsageError`."""
    import httpx2

    # The library takes the first that is set, and of a missing folder no certificate.
    variable = next(
        (name for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if os.environ.get(name)), ""
    )
    try:
        folders = os.environ["SSL_CERT_DIR"].split(os.pathsep) if variable == "SSL_CERT_DIR" else []
        if folders and not any(Path(folder).is_dir() for folder in folders):
            raise NotADirectoryError(errno.ENOENT, os.strerror(errno.ENOENT))
        return httpx2.create_ssl_context()
    except OSError as error:
        if not variable:
            raise
        why = one_line(error.strerror or str(error), 80)
        raise UsageError(
            f"{variable}: has no certificates that can be read ({why}); correct it, or unset it"
        ) from None


def _without_proxy(url: str) -> dict[str, None]:
    """Return the addresses that no proxy is used for: a local server's captions stay local."""
    host = urlsplit(url).hostname or ""
    try:
        is_local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_local = host == "localhost" or host.endswith(".localhost")
    return {f"all://[{host}]" if ":" in host else f"all://{host}": None} if is_local else {}


async def _limit_response(response: httpx2.Response) -> None:
    """Make reading the response fail where it is too large; a response hook of the client."""
    import httpx2

    coding = str(response.headers.get("content-encoding", "identity")).strip().lower()
    if coding not in {"", "identity", *_DEFLATED}:
        raise httpx2.ReadError(f"the response is compressed with {coding[:40]}, unasked")
    most = LARGEST_COMPRESSED if coding in _DEFLATED else LARGEST
    stream = response.stream
    if not isinstance(stream, httpx2.AsyncByteStream):
        raise TypeError("only the asynchronous client is limited")
    response.stream = _limited(stream, most)


def _limited(stream: httpx2.AsyncByteStream, most: int) -> httpx2.AsyncByteStream:
    import httpx2

    class Limited(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            read = 0
            async for chunk in stream:
                read += len(chunk)
                if read > most:
                    raise httpx2.ReadError(f"the response is larger than {most >> 10} KiB")
                yield chunk

        async def aclose(self) -> None:
            await stream.aclose()

    return Limited()

"""The HTTP connection under the chat client: what may be sent where, and how much may come back.

Redirects are not followed, proxies of the environment are not used for this machine's own
addresses, and no header from the environment is sent. A hostile endpoint's reply might be
gigabytes, so reading fails above a limit. Replies are requested uncompressed, so that the limit
applies to the data in memory. If a server compresses anyway, reading stops before its best
compression could exceed the limit.
"""

from __future__ import annotations

import ipaddress
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from capeval.llm.redact import Endpoint

if TYPE_CHECKING:
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
) -> openai.AsyncOpenAI:
    """Return the openai library's client for one endpoint; without a key it sends "none"."""
    # Together they take 0.4 s to import: only a real call pays that.
    import httpx2
    import openai

    limit = httpx2.Timeout(timeout, connect=min(CONNECT_SECONDS, timeout))
    headers = {"Accept-Encoding": "identity"}
    if endpoint.basic:
        headers["Authorization"] = f"Basic {endpoint.basic}"
    sdk = openai.AsyncOpenAI(
        base_url=endpoint.url,
        api_key=key or "none",
        default_query=endpoint.query or None,
        max_retries=0,
        timeout=limit,
        http_client=openai.DefaultAioHttpClient(
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
        ),
    )
    # The library takes these from variables for OpenAI's own endpoint.
    sdk.organization = sdk.project = sdk.admin_api_key = None
    sdk._custom_headers = headers  # noqa: SLF001 - from OPENAI_CUSTOM_HEADERS; has no public name
    return sdk


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

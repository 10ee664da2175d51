"""The openai library's client of one endpoint: what may be sent where, and how much may come back.

Redirects are not followed, proxies of the environment are not used for this machine's own
addresses, and the environment adds no header. A hostile endpoint's reply might be gigabytes, so
reading fails above a limit. This module imports openai (0.5 s): import it where calls begin.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Mapping
from typing import Any

import httpx2
from aiohttp import ClientError
from openai import APIConnectionError, APIStatusError, AsyncOpenAI, DefaultAioHttpClient

from capeval.errors import UsageError
from capeval.llm.proxies import proxy_for
from capeval.llm.redact import Endpoint
from capeval.llm.retry import CallFailed
from capeval.llm.wire import parse_json
from capeval.text import describe
from capeval.version import __version__

# A judge's longest reply is some 100 KB: nothing that is a reply comes near this.
LARGEST = 32 << 20
# Deflate makes at most 1,032 bytes of one, so this stays near the limit above.
LARGEST_COMPRESSED = 64 << 10
# A dead host should be reported long before a slow answer is given up.
CONNECT_SECONDS = 10.0
# Images make megabytes: sent in one piece they would block every other call.
LARGE_BODY, PIECE = 1 << 20, 1 << 18

# The library's own headers describe the user's machine, and variables can add others.
_SENT = {b"host", b"content-length", b"content-type"}
# What the failures of three libraries mean, by the words of the exceptions and their causes.
_CAUSES = (
    ("connection refused", r"connection ?refused|connect call failed"),
    ("its TLS certificate is not trusted", "certificate"),
    ("it does not answer in TLS, as https:// needs", "sslerror|ssl:"),
    ("no such host", "name or service not known|nodename nor|name resolution|dnserror|gaierror"),
    ("network unreachable", "unreachable"),
    ("the proxy refuses to connect", "proxyerror|httpproxy"),
    ("the connection was dropped", "disconnected|connection ?reset|broken pipe"),
    ("the response was cut off", "payload|not enough data|transferencoding|incomplete"),
    ("the response is not compressed as it claims to be", "decodingerror"),
    ("timed out", "timed? ?out"),
)

# Their records of level INFO contain the address with its parameters.
for _library in ("httpx2", "openai"):
    logging.getLogger(_library).setLevel(logging.WARNING)


class Connection:
    """The connections to one endpoint; without a key it sends "none".

    Raises `UsageError` where the environment makes a connection impossible.
    """

    def __init__(self, endpoint: Endpoint, key: str, *, timeout: float, connections: int) -> None:
        authorization = f"Basic {endpoint.basic}" if endpoint.basic else f"Bearer {key or 'none'}"
        own = {
            "Accept": "application/json",
            # Uncompressed, so that the limit applies to the data in memory.
            "Accept-Encoding": "identity",
            "Authorization": authorization,
            "User-Agent": f"capeval/{__version__}",
        }
        self._headers = [(name.encode(), value.encode()) for name, value in own.items()]
        self.proxy = proxy_for(endpoint.url)
        is_encrypted = endpoint.url.startswith("https:") or self.proxy is not None
        self._client = AsyncOpenAI(
            api_key=key or "none",
            base_url=endpoint.url,
            default_query=endpoint.query,
            max_retries=0,
            timeout=httpx2.Timeout(
                None,
                connect=min(CONNECT_SECONDS, timeout),
                # With the look-up of the name, which may take longer than connecting.
                pool=min(2 * CONNECT_SECONDS, timeout),
            ),
            http_client=DefaultAioHttpClient(
                # Then SSL_CERT_FILE is not read either: the certificates are passed. Loading them
                # takes 50 ms; a context without any trusts none.
                trust_env=False,
                proxy=self.proxy,
                verify=_trusted() if is_encrypted else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
                # A redirect would take the captions, and perhaps the key, to another host.
                follow_redirects=False,
                # Servers close idle connections after five seconds or more.
                limits=httpx2.Limits(max_connections=connections, keepalive_expiry=4.0),
                event_hooks={"request": [self._set_headers], "response": [_limit]},
            ),
        )

    async def get(self, path: str, timeout: float) -> Mapping[str, Any]:
        """Return the JSON object at a path below the base URL; raises `CallFailed`."""
        return await _answer(self._client.get(path, cast_to=httpx2.Response), timeout)

    async def post(self, path: str, body: bytes, timeout: float) -> Mapping[str, Any]:
        """Return the JSON object that answers a JSON body; raises `CallFailed`."""
        headers = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        return await _answer(
            self._client.post(
                path,
                content=body if len(body) <= LARGE_BODY else _in_pieces(body),
                cast_to=httpx2.Response,
                options={"headers": headers},
            ),
            timeout,
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    async def _set_headers(self, request: httpx2.Request) -> None:
        kept = [pair for pair in request.headers.raw if pair[0].lower() in _SENT]
        request.headers = httpx2.Headers([*kept, *self._headers])


def _trusted() -> ssl.SSLContext:
    try:
        return httpx2.create_ssl_context()
    except OSError as error:
        raise UsageError(
            f"SSL_CERT_FILE, SSL_CERT_DIR: no certificates can be read ({error.strerror}); "
            "correct the variable, or unset it"
        ) from None


async def _answer(call: Awaitable[httpx2.Response], timeout: float) -> Mapping[str, Any]:
    try:
        # The library limits each read; only this stops a server that sends byte by byte.
        async with asyncio.timeout(timeout):
            response = await call
    except APIStatusError as error:
        raise CallFailed(error.status_code, "", error.body, error.response.headers) from None
    except (APIConnectionError, ClientError, OSError) as error:
        raise CallFailed(None, _cause(error)) from error
    content_type = response.headers.get("Content-Type", "")
    return parse_json(response.status_code, content_type, response.content)


def _cause(error: BaseException) -> str:
    """Return in a few words why the connection failed, which the libraries' messages obscure."""
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain:
        chain.append(link)
        link = link.__cause__ or link.__context__
    # The deepest exception is the cause; those above it have general names.
    for each in reversed(chain):
        text = f"{type(each).__name__} {each}".lower()
        for words, signs in _CAUSES:
            if re.search(signs, text):
                return words
    return describe(chain[-1], 300)


async def _limit(response: httpx2.Response) -> None:
    """Let a response be read up to a limit."""
    coding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if coding not in {"", "identity", "gzip", "deflate"}:
        raise CallFailed(None, f"the response is compressed with {coding[:40]}, unasked")
    most = LARGEST if coding in {"", "identity"} else LARGEST_COMPRESSED
    assert isinstance(response.stream, httpx2.AsyncByteStream)  # noqa: S101 - of an async client
    response.stream = _LimitedStream(response.stream, most)


class _LimitedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, most: int) -> None:
        self._stream, self._most = stream, most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        async for piece in self._stream:
            read += len(piece)
            if read > self._most:
                raise CallFailed(None, f"the response is larger than {self._most >> 10} KiB")
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _in_pieces(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), PIECE):
        yield content[start : start + PIECE]

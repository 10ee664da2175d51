"""The openai library's client of one endpoint: what is sent where, and why a call failed.

Redirects are not followed, and no proxy gets what is meant for this machine. This module imports
openai (0.5 s): import it where calls begin.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Mapping
from typing import Any

import httpx2
from aiohttp import ClientError
from openai import APIError, APIStatusError, AsyncOpenAI, DefaultAioHttpClient

from capeval.errors import UsageError
from capeval.llm.redact import Endpoint
from capeval.llm.retry import CallFailed
from capeval.llm.wire import parse_json
from capeval.text import describe
from capeval.version import __version__

# A dead host should be reported long before a slow answer is given up.
CONNECT_SECONDS = 10.0
# Images make megabytes: sent in one piece they would block every other call.
LARGE_BODY, PIECE = 1 << 20, 1 << 18

# The library's own headers describe the user's machine, and variables can add others.
_KEPT = ("Host", "Content-Length", "Content-Type", "Accept-Encoding")

# Their records of level INFO contain the address with its parameters.
for _library in ("httpx2", "openai"):
    logging.getLogger(_library).setLevel(logging.WARNING)


class Connection:
    """The connections to one endpoint; without a key it sends "none".

    Raises `UsageError` where the environment makes a connection impossible.
    """

    def __init__(self, endpoint: Endpoint, key: str, *, timeout: float, connections: int) -> None:
        self._client = AsyncOpenAI(
            api_key=key or "none",
            base_url=endpoint.url,
            default_query=endpoint.query,
            max_retries=0,
            # A name may take longer to look up than a host to connect.
            timeout=httpx2.Timeout(
                None,
                connect=min(CONNECT_SECONDS, timeout),
                pool=min(2 * CONNECT_SECONDS, timeout),
            ),
            http_client=_http_client(endpoint, key or "none", connections),
        )

    async def get(self, path: str, timeout: float) -> Mapping[str, Any]:
        """Return the JSON object at a path below the base URL; raises `CallFailed`."""
        return _object(await _answer(self._client.get(path, cast_to=httpx2.Response), timeout))

    async def post(self, path: str, body: bytes, timeout: float) -> Mapping[str, Any]:
        """Return the JSON object that answers a JSON body; raises `CallFailed`."""
        headers = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        sent = self._client.post(
            path,
            content=body if len(body) <= LARGE_BODY else _in_pieces(body),
            cast_to=httpx2.Response,
            options={"headers": headers},
        )
        return _object(await _answer(sent, timeout))

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()


def _http_client(endpoint: Endpoint, key: str, connections: int) -> httpx2.AsyncClient:
    own = {"Accept": "application/json", "User-Agent": f"capeval/{__version__}"}
    kept: tuple[str, ...] = _KEPT
    if endpoint.login:  # httpx has put it there
        kept = (*_KEPT, "Authorization")
    elif "api-version" in endpoint.query:  # Azure's classic endpoint
        own["api-key"] = key
    else:
        own["Authorization"] = f"Bearer {key}"

    async def set_headers(request: httpx2.Request) -> None:
        there = {name: request.headers[name] for name in kept if name in request.headers}
        request.headers = httpx2.Headers({**there, **own})

    try:
        # Loading certificates takes 50 ms; a context without any trusts none.
        is_plain = endpoint.is_local and endpoint.url.startswith("http:")
        no_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return DefaultAioHttpClient(
            auth=endpoint.login,
            # Of the environment, that is its proxies.
            trust_env=not endpoint.is_local,
            verify=no_tls if is_plain else httpx2.create_ssl_context(),
            # A redirect would take the captions, and perhaps the key, to another host.
            follow_redirects=False,
            event_hooks={"request": [set_headers]},
            # Servers close idle connections after five seconds or more.
            limits=httpx2.Limits(max_connections=connections, keepalive_expiry=4.0),
        )
    except OSError as error:
        raise UsageError(
            f"SSL_CERT_FILE, SSL_CERT_DIR: no certificates can be read ({error.strerror}); "
            "correct the variable, or unset it"
        ) from None
    except (ValueError, httpx2.InvalidURL):
        # The value may contain a password.
        raise UsageError(
            "HTTP_PROXY, HTTPS_PROXY, ALL_PROXY: one is not the address of a proxy; "
            "set it to http://HOST:PORT, or unset it"
        ) from None


async def _answer(call: Awaitable[httpx2.Response], timeout: float) -> httpx2.Response:
    # What the caller was handling when it called; no part of this failure.
    outer = sys.exception()
    try:
        # The library limits each read; only this stops a server that sends byte by byte.
        async with asyncio.timeout(timeout):
            return await call
    except TimeoutError:
        message = f"timed out: no whole answer in {timeout:g} seconds"
        raise CallFailed(None, message, timed_out=True) from None
    except APIStatusError as error:
        raise CallFailed(error.status_code, "", error.body, error.response.headers) from None
    # What the libraries let through is a ClientError; a proxy that they cannot use, a ValueError.
    # In a list, a page instead of JSON is an AttributeError.
    except (APIError, ClientError, OSError, ValueError, AttributeError) as error:
        # They call any failure a timeout: the first exception of the chain is the cause.
        cause: BaseException = error
        while (link := cause.__cause__ or cause.__context__) and link is not outer:
            cause = link
        raise CallFailed(None, describe(cause, 300)) from error


def _object(response: httpx2.Response) -> Mapping[str, Any]:
    content_type = response.headers.get("Content-Type", "")
    return parse_json(response.status_code, content_type, response.content)


async def _in_pieces(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), PIECE):
        yield content[start : start + PIECE]

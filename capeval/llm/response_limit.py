"""A bound on what an endpoint may make us hold: replies are kilobytes, a hostile one gigabytes.

Replies are asked for uncompressed, so that what arrives is what is held. A server that compresses
all the same is read as far as its best compression cannot pass the bound.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx2


LARGEST = 32 << 20
LARGEST_COMPRESSED = 64 << 10
"""Deflate makes at most 1,032 bytes of one."""
UNCOMPRESSED = {"Accept-Encoding": "identity"}

_DEFLATED = {"gzip", "deflate"}


async def bound(response: httpx2.Response) -> None:
    """Let reading the response fail where it is too large; a response hook of the client.

    Raises
    ------
    httpx2.ReadError
        It is compressed in a way whose result has no bound.
    """
    import httpx2

    coding = str(response.headers.get("content-encoding", "identity")).strip().lower()
    if coding not in {"", "identity", *_DEFLATED}:
        raise httpx2.ReadError(f"the response is compressed with {coding[:40]}, unasked")
    most = LARGEST_COMPRESSED if coding in _DEFLATED else LARGEST
    stream = response.stream
    if not isinstance(stream, httpx2.AsyncByteStream):
        raise TypeError("only the asynchronous client is bounded")
    response.stream = _bounded(stream, most)


def _bounded(stream: httpx2.AsyncByteStream, most: int) -> httpx2.AsyncByteStream:
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            held = 0
            async for chunk in stream:
                held += len(chunk)
                if held > most:
                    raise httpx2.ReadError(f"the response is larger than {most >> 10} KiB")
                yield chunk

        async def aclose(self) -> None:
            await stream.aclose()

    return Bounded()

"""What a hostile endpoint can make us hold."""

from __future__ import annotations

import gzip
import json
import resource
import zlib
from collections.abc import Callable

import pytest
from aiohttp import web

from capeval.errors import RetriesExhausted
from capeval.llm.client import OpenAIChatClient
from capeval.llm.types import ChatRequest
from tests.server import LoopbackServer, completion

Clients = Callable[..., OpenAIChatClient]
Requests = Callable[..., ChatRequest]


def packed(body: bytes, coding: str) -> web.Response:
    squeezed = gzip.compress(body) if coding == "gzip" else zlib.compress(body)
    headers = {"Content-Encoding": coding, "Content-Type": "application/json"}
    return web.Response(body=squeezed, headers=headers)


def bomb() -> web.Response:
    """Half a gigabyte of blanks in half a megabyte."""
    press, blank = zlib.compressobj(wbits=31), b" " * (1 << 20)
    body = b"".join([*(press.compress(blank) for _ in range(512)), press.flush()])
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    return web.Response(body=body, headers=headers)


def plain(size: int) -> web.Response:
    return web.Response(body=b" " * size, headers={"Content-Type": "application/json"})


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
async def test_a_server_that_compresses_unasked_is_read(
    coding: str, client_of: Clients, ask_for: Requests
) -> None:
    body = json.dumps(completion("word " * 10_000)).encode()
    server = LoopbackServer(lambda _: packed(body, coding))
    async with server, client_of(server.url, attempts=1) as client:
        assert (await client.complete(ask_for())).text == "word " * 10_000


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda _: bomb(), "the response is larger than 64 KiB"),
        (lambda _: plain(33 << 20), "the response is larger than 32768 KiB"),
        (
            lambda _: web.Response(body=b"x", headers={"Content-Encoding": "br"}),
            "the response is compressed with br, unasked",
        ),
    ],
    ids=["bomb", "33 MiB", "no bound is known"],
)
async def test_what_is_too_large_fails_with_its_reason(
    answer: Callable[[object], web.Response], reason: str, client_of: Clients, ask_for: Requests
) -> None:
    server = LoopbackServer(answer)
    async with server, client_of(server.url, attempts=1) as client:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(RetriesExhausted, match=reason):
            await client.complete(ask_for())
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 300_000  # KiB; the test's own server holds up to 33 MiB too


async def test_replies_are_asked_for_uncompressed(client_of: Clients, ask_for: Requests) -> None:
    async with LoopbackServer() as server, client_of(server.url) as client:
        await client.complete(ask_for())
    assert server.headers[0]["Accept-Encoding"] == "identity"

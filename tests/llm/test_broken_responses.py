"""Whatever a server sends, a call ends soon: with the right reply, or with the right error."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

import pytest

from capeval.errors import EndpointRefused, RequestRefused, RetriesExhausted
from capeval.llm.wire import ending
from tests.llm.broken import BODY, CASES, http
from tests.llm.conftest import ask_for, client_of

Writer = asyncio.StreamWriter


@asynccontextmanager
async def serving(*responses: bytes, drip: float = 0.0) -> AsyncIterator[str]:
    """Send the responses in order, the last one for all further calls; close each connection."""
    calls = count()

    async def answer(reader: asyncio.StreamReader, writer: Writer) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]
            await reader.readexactly(int(length or 0))
            response = responses[min(next(calls), len(responses) - 1)]
            if drip:
                for byte in response:
                    writer.write(bytes([byte]))
                    await asyncio.sleep(drip)
            writer.write(response)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


@pytest.mark.parametrize(
    ("outcome", "response"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
async def test_every_response_has_its_outcome(outcome: str, response: bytes) -> None:
    good = http(200, BODY)
    async with asyncio.timeout(10), serving(response, good) as url, client_of(url) as client:
        if outcome == "request":
            with pytest.raises(RequestRefused):
                await client.complete(ask_for())
            assert (await client.complete(ask_for())).text == "good"
        elif outcome == "endpoint":
            for _ in range(2):
                with pytest.raises(EndpointRefused):
                    await client.complete(ask_for())
        else:
            reply = await client.complete(ask_for())
            ends = outcome if outcome in {"cut", "declined"} else "complete"
            assert ending(reply.finish_reason) == ends
            assert reply.text == "good" or outcome == "declined"
    if outcome == "retried":
        async with (
            asyncio.timeout(10),
            serving(response) as url,
            client_of(url, attempts=2, patience=3) as client,
        ):
            with pytest.raises(RetriesExhausted):
                await client.complete(ask_for())


async def test_a_reply_that_drips_is_given_up() -> None:
    async with (
        asyncio.timeout(5),
        serving(http(200, BODY), drip=0.05) as url,
        client_of(url, attempts=2, timeout=0.3) as client,
    ):
        with pytest.raises(RetriesExhausted, match="timed out"):
            await client.complete(ask_for())

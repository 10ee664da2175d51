"""What a metric asked a server: the calls so far, and waiting for more of them."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable
from typing import Any

from tests.server import Act, LoopbackServer, Responder

__all__ = ["calls", "prompts"]


def prompts(server: LoopbackServer) -> Counter[str]:
    """What was asked for, without the calls that test the endpoint."""
    every = (json.dumps(one["messages"]) for one in server.requests)
    return Counter(one for one in every if "ok" not in one[:80])


async def calls(server: LoopbackServer, wanted: int, answer: Responder) -> None:
    """Wait until there were so many calls, which `answer` replies to."""
    reached = asyncio.Event()

    def respond(request: dict[str, Any]) -> Act | Awaitable[Act]:
        if server.calls >= wanted:
            reached.set()
        return answer(request)

    server.responder = respond
    await reached.wait()

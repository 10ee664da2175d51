"""A client that finds out whether its endpoint is usable before the first real call."""

from __future__ import annotations

import asyncio

from capeval.llm.client import OpenAIChatClient
from capeval.llm.meter import Meter
from capeval.llm.types import ChatReply, ChatRequest


class CheckedClient:
    """Makes one preflight call before the first real one: a run that the cache holds needs none."""

    def __init__(self, client: OpenAIChatClient, meter: Meter) -> None:
        self._client, self._meter = client, meter
        self._checked: set[str] = set()
        self._turn = asyncio.Lock()

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Make one paid call; raises `EndpointError`."""
        if request.model not in self._checked:
            async with self._turn:
                if request.model not in self._checked:
                    reply = await self._client.preflight(request.model)
                    self._meter.paid(request.model, reply.usage)
                    self._checked.add(request.model)
        return await self._client.complete(request)

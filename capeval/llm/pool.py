"""Several endpoints that serve the same model, as one client: one queue of calls for all of them.

Each endpoint has its client, and with it a limiter of its own.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Self

from capeval.errors import (
    EndpointDown,
    EndpointError,
    EndpointRefused,
    EndpointUnreachable,
    RetriesExhausted,
)
from capeval.llm.client import OpenAIChatClient
from capeval.llm.types import ChatReply, ChatRequest
from capeval.text import one_line

# Seconds: a server that restarts is soon back, and one that is gone costs few calls.
FIRST_PAUSE, LONGEST_PAUSE = 30.0, 300.0


@dataclass(eq=False)
class _Endpoint:
    """One endpoint; `pause` is how long it is left out, if it fails now.

    `running` counts its calls, also those that wait for another attempt; `answered` those answered.
    `snapshots` are what it last answered as, by requested model.
    """

    client: OpenAIChatClient
    running: int = 0
    answered: int = 0
    is_left_out: bool = False
    pause: float = FIRST_PAUSE
    snapshots: dict[str, str] = field(default_factory=dict)

    @property
    def free(self) -> int:
        return self.client.limiter.limit - self.running


class EndpointPool:
    """Calls several endpoints as `OpenAIChatClient` calls one; an async context manager.

    A call goes to the endpoint with the most free places, and to another one if it fails there. An
    endpoint that answered no call meanwhile is left out, and tried again after a growing pause;
    the last one never is: it is called as an only endpoint is.
    `max_concurrency` limits the calls to all of them together. `on_paid` is called with each reply
    to a small first call that `preflight` does not return; `settings` are those of
    `OpenAIChatClient`.
    """

    def __init__(
        self,
        base_urls: Sequence[str],
        api_key: str | None = None,
        *,
        max_concurrency: int = 64,
        on_notice: Callable[[str], None] = lambda _: None,
        on_paid: Callable[[str, ChatReply], None] = lambda _model, _reply: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        **settings: Any,
    ) -> None:
        # What each of them finds out about the model is reported once.
        settings |= {"on_notice": functools.cache(on_notice), "sleep": sleep}
        self._endpoints = [
            _Endpoint(OpenAIChatClient(url, api_key, max_concurrency=max_concurrency, **settings))
            for url in base_urls
        ]
        self._maximum = max_concurrency
        self._notify, self._on_paid, self._sleep = on_notice, on_paid, sleep
        self._freed = asyncio.Event()
        self._asked: dict[tuple[str, str | None], None] = {}
        self._trials: list[asyncio.Task[None]] = []
        self._refusal: EndpointError | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for trial in self._trials:
            trial.cancel()
        await asyncio.gather(*self._trials, return_exceptions=True)
        await asyncio.gather(*(endpoint.client.aclose() for endpoint in self._endpoints))

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Make one call, at however many endpoints it takes; raises `EndpointError`."""
        failed: set[_Endpoint] = set()
        while True:
            async with self._place(failed) as endpoint:
                is_last = not self._untried(failed | {endpoint})
                before = endpoint.answered
                try:
                    reply = await endpoint.client.complete(request, once=not is_last)
                except (RetriesExhausted, EndpointDown) as failure:
                    failed.add(endpoint)
                    # Otherwise it may be the request that fails.
                    if endpoint.answered == before:
                        self._leave_out(endpoint, failure)
                    if is_last and not self._untried(failed):
                        raise
                else:
                    endpoint.answered += 1
                    endpoint.pause = FIRST_PAUSE
                    endpoint.snapshots[request.model] = reply.model
                    return reply

    async def preflight(self, model: str, reasoning: str | None = None) -> ChatReply:
        """Make one small call to each endpoint; those that cannot be reached are left out.

        Raises `EndpointRefused` if one refuses, if none can be reached, or if they do not all
        answer with the same model.
        """
        self._asked[model, reasoning] = None
        tried = self._in_use()
        checks = (self._check(endpoint, model, reasoning) for endpoint in tried)
        found = await asyncio.gather(*checks, return_exceptions=True)
        replies = [one for one in found if isinstance(one, ChatReply)]
        for endpoint, one in zip(tried, found, strict=True):
            if isinstance(one, BaseException):
                if not replies or not isinstance(one, EndpointUnreachable):
                    raise one
                self._leave_out(endpoint, one)
        for reply in replies[1:]:
            self._on_paid(model, reply)
        return replies[0]

    async def models(self) -> tuple[str, ...]:
        """Return the models that the first endpoint to be reached lists."""
        refused: list[EndpointRefused] = []
        for endpoint in self._endpoints:
            try:
                return await endpoint.client.models()
            except EndpointRefused as refusal:
                refused.append(refusal)
        raise refused[0]

    def _in_use(self) -> list[_Endpoint]:
        return [endpoint for endpoint in self._endpoints if not endpoint.is_left_out]

    def _untried(self, failed: set[_Endpoint]) -> list[_Endpoint]:
        return [endpoint for endpoint in self._in_use() if endpoint not in failed]

    @asynccontextmanager
    async def _place(self, failed: set[_Endpoint]) -> AsyncIterator[_Endpoint]:
        """Wait for a free place at an endpoint, if possible another than those that `failed`."""
        while True:
            if self._refusal is not None:
                raise self._refusal
            best = max(self._untried(failed) or self._in_use(), key=lambda one: one.free)
            if best.free > 0 and sum(one.running for one in self._endpoints) < self._maximum:
                break
            self._freed.clear()
            await self._freed.wait()
        best.running += 1
        try:
            yield best
        finally:
            best.running -= 1
            self._freed.set()

    def _leave_out(self, endpoint: _Endpoint, failure: EndpointError) -> None:
        if endpoint.is_left_out or self._in_use() == [endpoint]:
            return
        endpoint.is_left_out = True
        self._notify(one_line(f"{failure}; the other endpoints get its calls until it answers"))
        self._trials.append(asyncio.create_task(self._bring_back(endpoint)))

    async def _bring_back(self, endpoint: _Endpoint) -> None:
        """Try an endpoint until it answers; what it refuses then ends the run."""
        while endpoint.is_left_out and self._refusal is None:
            pause, endpoint.pause = endpoint.pause, min(2 * endpoint.pause, LONGEST_PAUSE)
            await self._sleep(pause)
            try:
                for model, reasoning in tuple(self._asked):
                    self._on_paid(model, await self._check(endpoint, model, reasoning))
            except (EndpointUnreachable, EndpointDown):
                continue
            except EndpointError as refusal:
                self._refusal = refusal
            else:
                endpoint.is_left_out = False
                self._notify(f"{endpoint.client.base_url} answers again, and gets calls")
            self._freed.set()

    async def _check(self, endpoint: _Endpoint, model: str, reasoning: str | None) -> ChatReply:
        """Make a small first call, and compare what answers with the other endpoints."""
        reply = await endpoint.client.preflight(model, reasoning)
        endpoint.snapshots[model] = reply.model
        # What one that is left out answered as may be long ago.
        compared = (one for one in self._endpoints if one is endpoint or not one.is_left_out)
        found = {one.snapshots[model]: one for one in compared if model in one.snapshots}
        if len(found) > 1:
            each = (f"{one.client.base_url} answers as {name}" for name, one in found.items())
            raise EndpointRefused(
                f"the endpoints serve different models: {', '.join(each)}; name those of one model"
            )
        return reply

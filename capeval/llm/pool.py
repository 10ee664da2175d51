"""Several endpoints that serve the same model, as one client: one queue of calls for all of them.

Each endpoint has its client, and with it a limiter of its own.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self

from capeval.errors import (
    EndpointDown,
    EndpointError,
    EndpointRefused,
    EndpointUnreachable,
    RequestRefused,
    RetriesExhausted,
)
from capeval.llm.client import OpenAIChatClient
from capeval.llm.types import ChatReply, ChatRequest
from capeval.text import one_line

# Seconds: a server that restarts is soon back, and one that is gone costs few calls.
FIRST_PAUSE, LONGEST_PAUSE = 30.0, 300.0


@dataclass(eq=False)
class _Endpoint:
    """One endpoint; with a `pause`, in seconds, it is left out `until` a time of the event loop.

    Then it gets one call at a time until it has answered one. `running` counts its calls, also
    those that wait for another attempt; `answered` those answered.
    """

    client: OpenAIChatClient
    running: int = 0
    answered: int = 0
    pause: float = 0.0
    until: float = 0.0

    @property
    def free(self) -> int:
        return self.client.limiter.limit - self.running

    @property
    def is_due(self) -> bool:
        """Whether it was left out for long enough."""
        return self.pause > 0 and asyncio.get_running_loop().time() >= self.until


class EndpointPool:
    """Calls several endpoints as `OpenAIChatClient` calls one; an async context manager.

    A call goes to the endpoint with the most free places, and to another one if it fails or is
    refused there; it is refused if each one refuses it. An
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
        **settings: Any,
    ) -> None:
        # What each of them finds out about the model is reported once.
        settings["on_notice"] = functools.cache(on_notice)
        self._endpoints = [
            _Endpoint(OpenAIChatClient(url, api_key, max_concurrency=max_concurrency, **settings))
            for url in base_urls
        ]
        self._maximum = max_concurrency
        self._notify, self._on_paid = on_notice, on_paid
        self._freed = asyncio.Event()
        # The endpoint that answered first, and as which model, by requested model.
        self._first: dict[str, tuple[str, str]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(endpoint.client.aclose() for endpoint in self._endpoints))

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Make one call, at however many endpoints it takes; raises `EndpointError`."""
        failed: set[_Endpoint] = set()
        refused: set[_Endpoint] = set()
        while True:
            async with self._place(failed) as endpoint:
                is_last = not (endpoint.pause or self._untried(failed | {endpoint}))
                before = endpoint.answered
                try:
                    reply = await endpoint.client.complete(request, once=not is_last)
                except RequestRefused:
                    refused.add(endpoint)
                    # Those that failed get another chance.
                    failed = set(refused)
                    if not self._untried(refused):
                        raise
                except (RetriesExhausted, EndpointDown) as failure:
                    failed.add(endpoint)
                    # Otherwise it may be the request that fails.
                    if endpoint.answered == before:
                        self._leave_out(endpoint, failure)
                    if is_last and not self._untried(failed):
                        raise
                else:
                    self._answered(endpoint, request.model, reply)
                    return reply

    async def preflight(self, model: str, reasoning: str | None = None) -> ChatReply:
        """Make one small call to each endpoint; those that cannot be reached are left out.

        Raises `EndpointRefused` if one refuses, if none can be reached, or if they do not all
        answer with the same model.
        """
        tried = self._in_use()
        calls = (endpoint.client.preflight(model, reasoning) for endpoint in tried)
        found = await asyncio.gather(*calls, return_exceptions=True)
        replies: list[ChatReply] = []
        unreached: list[tuple[_Endpoint, EndpointUnreachable]] = []
        for endpoint, one in zip(tried, found, strict=True):
            if isinstance(one, EndpointUnreachable):
                unreached.append((endpoint, one))
            elif isinstance(one, BaseException):
                raise one
            else:
                self._answered(endpoint, model, one)
                replies.append(one)
        for endpoint, failure in unreached:
            if not replies:
                raise failure
            self._leave_out(endpoint, failure)
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
        return [endpoint for endpoint in self._endpoints if not endpoint.pause]

    def _untried(self, failed: set[_Endpoint]) -> list[_Endpoint]:
        return [endpoint for endpoint in self._in_use() if endpoint not in failed]

    @asynccontextmanager
    async def _place(self, failed: set[_Endpoint]) -> AsyncIterator[_Endpoint]:
        """Wait for a free place at an endpoint, if possible another than those that `failed`."""
        while True:
            due = (one for one in self._endpoints if one.is_due and not one.running)
            best = max(self._untried(failed) or self._in_use(), key=lambda one: one.free)
            endpoint = next((one for one in due if one not in failed), best)
            if endpoint.free > 0 and sum(one.running for one in self._endpoints) < self._maximum:
                break
            self._freed.clear()
            await self._freed.wait()
        endpoint.running += 1
        try:
            yield endpoint
        finally:
            endpoint.running -= 1
            self._freed.set()

    def _leave_out(self, endpoint: _Endpoint, failure: EndpointError) -> None:
        if self._in_use() == [endpoint] or (endpoint.pause and not endpoint.is_due):
            return
        if not endpoint.pause:
            self._notify(one_line(f"{failure}; the other endpoints get its calls until it answers"))
        endpoint.pause = min(2 * endpoint.pause or FIRST_PAUSE, LONGEST_PAUSE)
        endpoint.until = asyncio.get_running_loop().time() + endpoint.pause

    def _answered(self, endpoint: _Endpoint, model: str, reply: ChatReply) -> None:
        """Count an answer; raise `EndpointRefused` if another model answers than at first."""
        url = endpoint.client.base_url
        first, name = self._first.setdefault(model, (url, reply.model))
        if reply.model != name:
            raise EndpointRefused(
                f"the endpoints serve different models: {first} answers as {name}, {url} answers "
                f"as {reply.model}; name those of one model"
            )
        endpoint.answered += 1
        if endpoint.is_due:
            endpoint.pause = 0.0
            self._notify(f"{url} answers again, and gets calls")

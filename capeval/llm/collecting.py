"""Chat clients that collect requests and have many of them answered at once, hours later."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from capeval.errors import EndpointRefused, RequestRefused, RetriesExhausted
from capeval.llm.cache import ReplyCache, identify
from capeval.llm.client import OpenAIChatClient
from capeval.llm.meter import Meter
from capeval.llm.retry import CallFailed
from capeval.llm.types import ChatReply, ChatRequest
from capeval.llm.wire import reply_from
from capeval.text import describe

# Once no request has come for so long, none can come without a reply: what happens between two
# stages of a caption takes milliseconds.
QUIET_SECONDS = 1.0
# Of one request; what has failed so often fails in the next batch too.
ATTEMPTS = 3
MOST_REQUESTS, MOST_BYTES = 50_000, 200_000_000
"""Of one batch of OpenAI's."""


@dataclass(frozen=True)
class Batching:
    """Who answers requests that are collected: a batch service, or whoever reads a `folder`."""

    folder: Path | None = None
    finish_live: bool = False

    @property
    def tier(self) -> str:
        """The service tier by whose price they are paid for."""
        return "batch" if self.folder is None else "files"

    def open(
        self,
        endpoint: OpenAIChatClient,
        cache: ReplyCache,
        meter: Meter,
        on_notice: Callable[[str], None],
    ) -> CollectingClient:
        """Return the client; raises `InputError`."""
        if self.folder is not None:
            from capeval.llm.batch_files import BatchFiles

            return BatchFiles(endpoint, cache, self.folder, on_notice=on_notice)
        from capeval.llm.batches import BatchClient

        live = self.finish_live
        return BatchClient(endpoint, cache, meter=meter, finish_live=live, on_notice=on_notice)


@dataclass
class _Waiting:
    line: bytes
    left_off: tuple[str, ...]
    reply: asyncio.Future[ChatReply]


class CollectingClient(ABC):
    """Collects requests until no more come, and lets `send` have them answered.

    It is a `ChatClient`. A request's line has the key of the reply cache as its `custom_id`. What
    is answered goes into the cache before anything else happens with it. With `finish_live`,
    requests that continue a conversation or have failed are made at the endpoint instead.
    """

    most_requests: ClassVar[float] = MOST_REQUESTS
    most_bytes: ClassVar[float] = MOST_BYTES
    calls_endpoint: ClassVar[bool] = True

    def __init__(
        self, endpoint: OpenAIChatClient, cache: ReplyCache, *, finish_live: bool = False
    ) -> None:
        self.endpoint, self.cache, self._finish_live = endpoint, cache, finish_live
        self._waiting: dict[str, _Waiting] = {}
        self._collected: set[str] = set()
        self._bytes = 0
        self._quiet: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._quiet:
            self._quiet.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @abstractmethod
    async def send(self, lines: Mapping[str, bytes], left_off: tuple[str, ...]) -> None:
        """Have requests answered, given as lines of JSON by key; raises `CapevalError`."""

    def is_sent(self, key: str) -> bool:  # noqa: ARG002 - where requests can be found again
        """Return whether a request is on its way already; it is not sent again then."""
        return False

    async def models(self) -> tuple[str, ...]:
        """Return the models that the endpoint lists; raises `EndpointRefused`."""
        return await self.endpoint.models()

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Return the reply to a request, in whichever batch it comes; raises `EndpointError`."""
        continues = any(message["role"] == "assistant" for message in request.messages)
        failure: CallFailed | None = None
        for _ in range(ATTEMPTS):
            if self._finish_live and (continues or failure):
                return await self.endpoint.complete(request)
            try:
                return await self._reply(request)
            except CallFailed as failed:
                failure = failed
                if failed.action == "refuse_request":
                    raise RequestRefused(str(failed)) from None
                if failed.action != "wait":
                    raise EndpointRefused(f"{self.endpoint.base_url}: {failed}") from None
        raise RetriesExhausted(f"it failed in {ATTEMPTS} batches, the last time with: {failure}")

    async def _reply(self, request: ChatRequest) -> ChatReply:
        key = identify(request, self.endpoint.base_url).key
        # A batch may have ended since the caller looked, for example during the preflight.
        if (stored := self.cache.get(key)) is not None:
            return stored[0]
        body, left_off = self.endpoint.prepare(request)
        line = {"custom_id": key, "method": "POST", "url": "/v1/chat/completions", "body": body}
        content = json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        waiting = _Waiting(content, left_off, asyncio.get_running_loop().create_future())
        self._waiting[key] = waiting
        try:
            if not self.is_sent(key):
                self._collect(key)
            return await waiting.reply
        finally:
            del self._waiting[key]
            self._collected.discard(key)

    def _collect(self, key: str) -> None:
        """Add a request that is waited for to those that are sent next."""
        size = len(self._waiting[key].line)
        if len(self._collected) >= self.most_requests or self._bytes + size > self.most_bytes:
            self._send_collected()
        self._collected.add(key)
        self._bytes += size
        if self._quiet:
            self._quiet.cancel()
        loop = asyncio.get_running_loop()
        self._quiet = loop.call_later(QUIET_SECONDS, self._send_collected)

    def _send_collected(self) -> None:
        keys, self._collected, self._bytes = sorted(self._collected), set(), 0
        if keys:
            self.begin(self._send(keys))

    async def _send(self, keys: Collection[str]) -> None:
        try:
            lines = {key: self._waiting[key].line for key in keys}
            await self.send(lines, self._waiting[min(keys)].left_off)
        except Exception as failure:
            # Those who wait raise it; this task has nobody who would.
            self.fail(keys, failure)

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside the calls, until the client is closed."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def send_again(self, keys: Collection[str]) -> None:
        """Send those of some requests again that are waited for."""
        for key in keys:
            if key in self._waiting:
                self._collect(key)

    def answer(self, found: Mapping[str, ChatReply | CallFailed]) -> None:
        """Store the replies in the cache, and let all who wait for them or for failures go on."""
        replies = {key: one for key, one in found.items() if isinstance(one, ChatReply)}
        self.cache.receive(replies)
        for key, one in found.items():
            self._settle(key, one)

    def fail(self, keys: Collection[str], failure: Exception) -> None:
        """Let all who wait for some requests end with a failure."""
        for key in keys:
            self._settle(key, failure)

    def _settle(self, key: str, outcome: ChatReply | Exception) -> None:
        waiting = self._waiting.get(key)
        if waiting is None or waiting.reply.done():
            return
        if isinstance(outcome, Exception):
            waiting.reply.set_exception(outcome)
        else:
            waiting.reply.set_result(outcome)


def replies_in(
    content: bytes, left_off: tuple[str, ...] = (), tier: str | None = None
) -> dict[str, ChatReply | CallFailed]:
    """Return the replies and failures in lines of results by `custom_id`, in any order.

    A line that is no result, such as a torn last one, is passed over; a reply outweighs a failure,
    and the first of several is taken.
    """
    found: dict[str, ChatReply | CallFailed] = {}
    for key, outcome in _results(content, left_off):
        if not isinstance(found.get(key), ChatReply):
            is_reply = isinstance(outcome, ChatReply)
            found[key] = replace(outcome, tier=tier) if is_reply else outcome  # type: ignore[type-var]
    return found


def _results(
    content: bytes, left_off: tuple[str, ...]
) -> Iterator[tuple[str, ChatReply | CallFailed]]:
    for line in content.split(b"\n"):
        try:
            result = json.loads(line)
            key = result["custom_id"]
        except (ValueError, RecursionError, LookupError, TypeError):
            continue
        if isinstance(key, str):
            yield key, _outcome(result, left_off)


def _outcome(result: Mapping[str, Any], left_off: tuple[str, ...]) -> ChatReply | CallFailed:
    response = result.get("response")
    response = response if isinstance(response, dict) else {}
    body, status = response.get("body"), response.get("status_code")
    try:
        if isinstance(body, dict) and status in (None, 200):
            return reply_from(body, "", left_off)
    except CallFailed as failure:
        return failure
    except Exception as fault:  # whatever a reply contains, it is only this one that has no result
        return CallFailed(None, describe(fault))
    error = result.get("error") or (body.get("error", body) if isinstance(body, dict) else body)
    # What a batch itself reports, such as that its time is over, has no status.
    failed = status if isinstance(status, int) and status >= 400 else None
    return CallFailed(failed, "" if error else "it has no reply", error)

"""Ask a chat model until its reply is valid, and reuse replies from the cache."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from capeval.config import CONFIG
from capeval.errors import (
    AllRefused,
    CacheMiss,
    CapevalError,
    EndpointRefused,
    ReplyError,
    RequestRefused,
    UsageError,
)
from capeval.llm.cache import ReplyCache
from capeval.llm.client import OpenAIChatClient
from capeval.llm.meter import Meter
from capeval.llm.prices import read_prices
from capeval.llm.redact import public_url
from capeval.llm.request_identity import RequestIdentity, identify
from capeval.llm.types import (
    Answer,
    ChatClient,
    ChatReply,
    ChatRequest,
    ReplyBroken,
    ReplyRefused,
    State,
    described,
)
from capeval.llm.wire import ending
from capeval.tracing import trace

T = TypeVar("T")
Check = Callable[[ChatReply], T]

# Characters, far more than any answer has: reading megabytes would hold up all other calls.
LONGEST_REPLY = 200_000
# Each of these is up to 18 characters where texts are compared in their compatibility forms.
LIGATURES = re.compile("[\u3300-\u33ff\ufdf0-\ufdfb]")


# A firewall refuses single captions; so many in a row mean that the endpoint refuses every one.
REFUSED_UNTIL_STOPPED = 8


@dataclass(slots=True)
class _Conversation:
    keys: list[str] = field(default_factory=list)
    states: list[State | None] = field(default_factory=list)
    replies: list[ChatReply] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


_OUTDATED = "the stored replies do not meet the rules of this version"
# How a conversation ended, for others that asked the same meanwhile; None: it was cancelled.
_End = Answer[None] | CapevalError | None


class Asker:
    """Asks a client through a cache and counts on a meter.

    Without a client it is offline: what is not in the cache raises `CacheMiss`, and the cache
    is not changed. With `explains_misses` it says why, for which the cache is searched.
    """

    def __init__(
        self,
        client: ChatClient | None,
        cache: ReplyCache | None,
        *,
        base_url: str,
        meter: Meter,
        explains_misses: bool = True,
    ) -> None:
        self.client, self.cache, self.meter = client, cache, meter
        self.base_url = public_url(base_url)
        self._explains_misses = explains_misses
        self._under_way: dict[str, asyncio.Future[_End]] = {}
        self._captions = 0
        self._refused: dict[int, str] = {}

    @contextmanager
    def one_caption(self) -> Iterator[None]:
        """Make the calls of one caption in the block; raises `AllRefused`.

        That is raised in place of `RequestRefused` once several captions in a row were refused in
        the same way: neighbours in the order in which they were begun, because many are judged at
        the same time and a refusal comes back before a verdict.
        """
        self._captions += 1
        number = self._captions
        try:
            yield
        except RequestRefused as refusal:
            if not refusal.kind:
                raise
            self._refused[number] = refusal.kind
            first = last = number
            while self._refused.get(first - 1) == refusal.kind:
                first -= 1
            while self._refused.get(last + 1) == refusal.kind:
                last += 1
            if last - first + 1 >= REFUSED_UNTIL_STOPPED:
                raise AllRefused(
                    f"{self.base_url} refused {last - first + 1} captions in a row in the same "
                    f"way, the last with: {refusal}"
                ) from None
            raise

    async def ask(
        self,
        request: ChatRequest,
        check: Check[T],
        *,
        attempts: int = 3,
        whole: bool = True,
        may_be_empty: bool = False,
    ) -> Answer[T]:
        """Return the result of `check` on a reply; if it raises `ReplyError`, ask again.

        With `whole` False a reply that was cut off at the token limit is checked as any other, and
        so is an empty one with `may_be_empty`.

        Raises `ReplyBroken` after `attempts` replies, `ReplyRefused` where the model declines,
        `BudgetReached`, `CacheMiss`, and what the client raises.
        """
        asked = identify(request, self.base_url)
        key = asked.key
        while (other := self._under_way.get(key)) is not None:
            end = await asyncio.shield(other)
            if isinstance(end, Answer):
                try:
                    return self._from_another(end, check)
                except ReplyError:
                    break  # two checks of one request that do not agree: each asks for itself
            if end is not None:
                raise _for_another(end)
        mine: asyncio.Future[_End] = asyncio.get_running_loop().create_future()
        self._under_way[key] = mine
        end = None
        try:
            answer = await self._ask_anew_if_outdated(
                partial(self._converse, request, asked, check, attempts, whole, may_be_empty)
            )
            end = Answer(None, answer.replies, answer.complaints)
        except CapevalError as error:
            end = error
            raise
        else:
            return answer
        finally:
            if self._under_way.get(key) is mine:
                del self._under_way[key]
            mine.set_result(end)

    async def models(self) -> tuple[str, ...]:
        """Return the models that the endpoint lists, none without one; raises `EndpointRefused`."""
        return await self.client.models() if isinstance(self.client, CheckedClient) else ()

    async def only_model(self, option: str) -> str:
        """Return the endpoint's only model; raises `UsageError` where `option` must name one."""
        models = await self.models()
        if len(models) == 1:
            return models[0]
        raise UsageError(f"name one of the endpoint's models with {option}{listed(models)}")

    def _from_another(self, answer: Answer[None], check: Check[T]) -> Answer[T]:
        value = check(answer.replies[-1])
        shared = _as_cached(answer.replies)
        for reply in shared:
            self.meter.served(reply.usage)
        return Answer(value, shared, answer.complaints)

    async def _ask_anew_if_outdated(
        self, converse: Callable[[], Awaitable[Answer[T]]]
    ) -> Answer[T]:
        try:
            return await converse()
        except ReplyBroken as broken:
            if self.cache is None or not all(reply.cached for reply in broken.replies):
                raise
        # An older version accepted the stored reply; by this version's rules it is asked for again.
        if self.client is None:
            raise CacheMiss(_OUTDATED)
        return await converse()

    async def _converse(
        self,
        request: ChatRequest,
        asked: RequestIdentity,
        check: Check[T],
        attempts: int,
        whole: bool,
        may_be_empty: bool,
    ) -> Answer[T]:
        so_far = _Conversation()
        kept = None if self.client is None else self.cache
        while True:
            # Another process with the same cache may be making this call.
            is_claimed = kept is not None and await kept.claim(asked.key)
            try:
                reply, was = await self._reply(request, asked)
                so_far.keys.append(asked.key)
                so_far.states.append(was)
                so_far.replies.append(reply)
                # One write for each reply, after its check, which does not wait for anything.
                state: State = "refused"
                try:
                    self._must_be_an_answer(reply, request, so_far, whole, may_be_empty)
                    value = check(reply)
                    state = "validated"
                except ReplyRefused:
                    state = "exhausted"
                    raise
                except ReplyError as error:
                    complaint = str(error.args[0]) if error.args else str(error)
                    trace("reply rejected", reason=complaint, attempt=len(so_far.replies))
                    so_far.complaints.append(complaint)
                    if len(so_far.replies) >= attempts:
                        state = "exhausted"
                        raise ReplyBroken(
                            complaint, tuple(so_far.replies), tuple(so_far.complaints)
                        ) from None
                finally:
                    self._keep(so_far, asked, state)
                # What is paid because of this reply must not be lost with it.
                if kept is not None and was != state:
                    await kept.stored()
            finally:
                if kept is not None and is_claimed:
                    kept.release(asked.key)
            if state == "validated":
                return Answer(value, tuple(so_far.replies), tuple(so_far.complaints))
            is_cut = ending(reply.finish_reason) == "cut"
            longer = request.max_tokens * 2 + 2048 if is_cut else None
            request = request.followed_by(reply.text, complaint, longer)
            asked = identify(request, self.base_url)

    async def _reply(
        self, request: ChatRequest, asked: RequestIdentity
    ) -> tuple[ChatReply, State | None]:
        """Return a stored reply and its state, or else one that is paid for."""
        stored = None if self.cache is None else await self.cache.find(asked.key)
        if stored is None:
            trace("cache miss" if self.cache else "no cache", key=asked.key[:12])
            return await self._call(request), None
        reply, was = stored
        if ending(reply.finish_reason) == "failed":
            # An older version took a failed call for a reply; this one makes the call again.
            if self.client is None:
                raise CacheMiss(_OUTDATED)
            return await self._call(request), None
        self.meter.served(reply.usage)
        trace("cache hit", key=asked.key[:12], state=was, **described(request))
        return reply, was

    @staticmethod
    def _must_be_an_answer(
        reply: ChatReply,
        request: ChatRequest,
        so_far: _Conversation,
        whole: bool,
        may_be_empty: bool,
    ) -> None:
        how = ending(reply.finish_reason)
        if how == "declined":
            quoted = f": {reply.text[:200]}" if reply.text.strip() else ""
            raise ReplyRefused(
                f"the model declined to answer ({reply.finish_reason}){quoted}",
                tuple(so_far.replies),
                tuple(so_far.complaints),
            )
        length = len(reply.text)
        if length <= LONGEST_REPLY and not reply.text.isascii():
            length += 17 * len(LIGATURES.findall(reply.text))
        if length > LONGEST_REPLY:
            raise ReplyError(f"the reply is far too long ({length:,} characters)")
        if how == "failed":
            raise ReplyError(f"the reply is marked as failed ({reply.finish_reason})")
        if whole and how == "cut":
            tokens = reply.usage.output_tokens or request.max_tokens
            raise ReplyError(f"the reply was cut off at {tokens} tokens")
        if not (may_be_empty or reply.text.strip()):
            raise ReplyError("the reply is empty")

    async def _call(self, request: ChatRequest) -> ChatReply:
        if self.client is None:
            if self.cache is None or not self._explains_misses:
                raise CacheMiss("there is no cache" if self.cache is None else "it is not cached")
            raise CacheMiss(self.cache.reason_for_miss(request, self.base_url))
        async with self.meter.admit(request) as paid:
            reply = await self.client.complete(request)
            paid(reply)
        return reply

    def _keep(self, so_far: _Conversation, asked: RequestIdentity, state: State) -> None:
        if self.cache is None or self.client is None:
            return
        # The last reply is marked last: if the process is killed before, the next run asks again.
        if state == "exhausted":
            self.cache.mark(so_far.keys[:-1], state)
        was = so_far.states[-1]
        if was is None:
            self.cache.put(asked, so_far.replies[-1], state)
        elif was != state:
            self.cache.mark(so_far.keys[-1:], state)


def listed(models: Sequence[str]) -> str:
    """Return the models that an endpoint has, as a message goes on with them."""
    return f"; it has {', '.join(models[:20])}" if models else ""


def _as_cached(replies: tuple[ChatReply, ...]) -> tuple[ChatReply, ...]:
    return tuple(replace(reply, cached=True) for reply in replies)


def _for_another(error: CapevalError) -> CapevalError:
    if isinstance(error, ReplyBroken | ReplyRefused):
        return type(error)(str(error), _as_cached(error.replies), error.complaints)
    return error


class ModelWatch(Protocol):
    """Learns what an endpoint says about the models that it is asked for."""

    async def look(self, client: OpenAIChatClient, model: str) -> None:
        """Look at the endpoint's record of a model, beside its first call."""

    def why_unknown(self, model: str, refusal: str) -> str:
        """Return the message for a model that the endpoint does not know."""
        ...


class CheckedClient:
    """Makes one preflight call before the first real one: a cached run needs none.

    Beside it, a `watch` looks at the model's record. Nothing waits for it; `close` ends it.
    """

    def __init__(
        self, client: OpenAIChatClient, meter: Meter, watch: ModelWatch | None = None
    ) -> None:
        self._client, self._meter, self._watch = client, meter, watch
        self._looks: dict[str, asyncio.Task[None]] = {}
        self._checked: set[tuple[str, str | None]] = set()
        self._refused: dict[tuple[str, str | None], EndpointRefused] = {}
        self._turn = asyncio.Lock()

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Make one paid call; raises `EndpointError`."""
        try:
            return await self._complete(request)
        except EndpointRefused as refusal:
            if self._watch is None or not refusal.about_model:
                raise
            raise EndpointRefused(self._watch.why_unknown(request.model, str(refusal))) from None

    async def close(self) -> None:
        """End what is still being looked up."""
        for look in self._looks.values():
            look.cancel()
        await asyncio.gather(*self._looks.values(), return_exceptions=True)

    async def _complete(self, request: ChatRequest) -> ChatReply:
        asked = (request.model, request.reasoning)
        if asked not in self._checked:
            async with self._turn:
                if asked in self._refused:  # while this call waited for its turn
                    raise self._refused[asked]
                if asked not in self._checked:
                    trace("preflight", model=request.model)
                    self._look(request.model)
                    try:
                        reply = await self._client.preflight(*asked)
                    except EndpointRefused as refusal:
                        self._refused[asked] = refusal
                        raise
                    self._meter.paid(request.model, reply.usage)
                    self._checked.add(asked)
        return await self._client.complete(request)

    def _look(self, model: str) -> None:
        if self._watch is not None and model not in self._looks:
            self._looks[model] = asyncio.create_task(self._watch.look(self._client, model))

    async def models(self) -> tuple[str, ...]:
        """Return the ids of the models that the endpoint lists; raises `EndpointRefused`."""
        return await self._client.models()


@asynccontextmanager
async def open_asker(
    base_url: str,
    key: str | None,
    *,
    client: ChatClient | None = None,
    offline: bool = False,
    cache: str | Path | None = None,
    max_cost: float | None = None,
    on_notice: Callable[[str], None],
    watch: ModelWatch | None = None,
    **settings: Any,
) -> AsyncIterator[Asker]:
    """Open an endpoint with the cache of its replies, the user's prices and a cap on the cost.

    `client` replaces the connection, and `offline` leaves it out; `settings` are those of
    `OpenAIChatClient`. Raises `InputError` where the user's prices are not right.
    """
    meter = Meter(prices=read_prices(CONFIG), cap=max_cost)
    replies = ReplyCache(cache, on_notice=on_notice)
    is_interrupted = False
    try:
        if client is not None or offline:
            yield Asker(client, replies, base_url=base_url, meter=meter)
            return
        async with OpenAIChatClient(base_url, key, on_notice=on_notice, **settings) as endpoint:
            checked = CheckedClient(endpoint, meter, watch)
            try:
                yield Asker(checked, replies, base_url=base_url, meter=meter)
            finally:
                await checked.close()
    except asyncio.CancelledError:
        is_interrupted = True
        raise
    finally:
        replies.close(hurry=is_interrupted)

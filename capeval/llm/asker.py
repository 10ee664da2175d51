"""Ask a chat model until its reply is valid, and reuse replies from the cache."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from capeval.config import config_file
from capeval.errors import (
    CacheMiss,
    EndpointRefused,
    ReplyError,
    RequestRefused,
    RequestTooLong,
    UsageError,
)
from capeval.llm.cache import ReplyCache, RequestIdentity, identify
from capeval.llm.client import DEFAULT_URL, OpenAIChatClient, endpoint_url
from capeval.llm.meter import Meter
from capeval.llm.prices import read_prices
from capeval.llm.redact import public_url
from capeval.llm.replies import Incomplete, beginning_of
from capeval.llm.types import (
    Answer,
    ChatClient,
    ChatReply,
    ChatRequest,
    EndpointOptions,
    ReplyBroken,
    ReplyRefused,
    State,
    described,
)
from capeval.llm.wire import Weights, ending, weights_of
from capeval.schema import endpoint_name
from capeval.text import counted
from capeval.thinking import after_thinking
from capeval.tracing import trace

T = TypeVar("T")
Check = Callable[[ChatReply], T]
Preflight = Callable[[str, str | None, Mapping[str, Any] | None], Awaitable[ChatReply]]
Listing = Callable[[], Awaitable[Mapping[str, Any]]]

# Characters, far more than any answer has: a model that ran away did not end where it should have.
LONGEST_REPLY = 200_000
# Nothing that is known from an earlier call waits longer for the list of models.
LISTING_SECONDS = 10.0


class Asker:
    """Asks a client through a cache and counts on a meter.

    Without a client it is offline: what is not in the cache raises `CacheMiss`, and the cache is
    not changed. `preflight` makes a small call before the first real one with a model, an effort
    and settings of a video: a cached run needs none. `listing` asks the endpoint for its list of
    models; without it a model's name is all that is known of it.
    """

    def __init__(
        self,
        client: ChatClient | None,
        cache: ReplyCache | None,
        *,
        base_url: str,
        meter: Meter,
        preflight: Preflight | None = None,
        listing: Listing | None = None,
    ) -> None:
        self.client, self.cache, self.meter = client, cache, meter
        self.base_url = public_url(base_url)
        # Conversations under way, by the key of their first request.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._listing = listing
        self._weights: dict[str, Weights] = {}
        self._paid: set[str] = set()
        # Replies of earlier commands by model, which may have had other weights, and their days.
        self._reused: dict[str, list[str]] = {}
        self._unlisted: dict[str, EndpointRefused] = {}
        self._preflight = preflight
        self._preflight_turn = asyncio.Lock()
        self._preflights: dict[tuple[str, str | None, bool], EndpointRefused | None] = {}

    def offline(self) -> Asker:
        """Return the same without a client, counting on a meter of its own."""
        meter = self.meter.unused()
        asker = Asker(None, self.cache, base_url=self.base_url, meter=meter, listing=self._listing)
        asker._weights = self._weights
        return asker

    async def weights(self, model: str) -> str:
        """Return what the endpoint says of a model's weights, empty if nothing; asked once.

        If it cannot be asked, it is what it said at the last call: stored replies are found by it,
        and new ones, which may be of other weights, are refused.
        """
        if model not in self._weights:
            async with self._preflight_turn:
                if model not in self._weights:
                    self._weights[model] = await self._look_up(model)
        return self._weights[model].text

    async def _look_up(self, model: str) -> Weights:
        if self._listing is None:
            return Weights(is_certain=True)
        try:
            found = weights_of(await self._listing(), model)
        except EndpointRefused as failure:
            trace("models not listed", reason=str(failure))
            found = Weights(self.cache.last_weights(self.base_url, model) if self.cache else "")
            if found.text:
                self._unlisted[model] = failure
        trace("weights", model=model, weights=found.text)
        return found

    def reuse_notices(self) -> list[str]:
        """Return a notice for each model with reused replies that other weights may have given."""
        return [
            f"{self.base_url} does not say which weights {model} has: "
            f"{counted(len(days), 'reply', 'replies')} came from the cache, the oldest of "
            f"{min(days)}; if the weights are others now, delete the file that `capeval cache` "
            "shows, remove these results and repeat the command"
            for model, days in self._reused.items()
        ]

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
        so is an empty one with `may_be_empty`. A request that is under way is waited for, and its
        replies come from the cache.

        Raises `ReplyBroken` after `attempts` replies, `ReplyRefused` where the model declines,
        `BudgetReached`, `CacheMiss`, and what the client raises.
        """
        weights = await self.weights(request.model)
        asked = identify(request, self.base_url, weights)
        keys: list[str] = []
        replies: list[ChatReply] = []
        complaints: list[str] = []
        async with self._locks.setdefault(asked.key, asyncio.Lock()):
            while True:
                reply, was = await self._reply(request, asked)
                keys.append(asked.key)
                replies.append(reply)
                state: State = "refused"
                try:
                    is_cut = ending(reply.finish_reason) == "cut"
                    _must_be_an_answer(reply, may_be_empty=may_be_empty or (whole and is_cut))
                    if whole and is_cut:
                        _refuse_cut(reply, request, check)
                    value = check(reply)
                    state = "validated"
                    return Answer(value, tuple(replies), tuple(complaints))
                except RequestRefused as refusal:
                    state = "exhausted"
                    raise ReplyRefused(str(refusal), tuple(replies), tuple(complaints)) from None
                except ReplyError as error:
                    complaint = str(error.args[0]) if error.args else str(error)
                    trace("reply rejected", reason=complaint, attempt=len(replies))
                    complaints.append(complaint)
                    needs_room = not whole or isinstance(error, Incomplete)
                    if len(replies) >= attempts:
                        state = "exhausted"
                        raise ReplyBroken(complaint, tuple(replies), tuple(complaints)) from None
                finally:
                    # Its check did not wait for anything, so a killed process has it stored.
                    if self.cache is not None and self.client is not None and was != state:
                        self.cache.put(asked, reply, state)
                        if state == "exhausted":
                            self.cache.mark(keys, state)
                longer = request.max_tokens * 2 + 2048 if is_cut and needs_room else None
                request = request.followed_by(reply.text, complaint, longer)
                asked = identify(request, self.base_url, weights)

    async def only_model(self, option: str) -> str:
        """Return the endpoint's only model; raises `UsageError` where `option` must name one."""
        models = await self.models()
        if len(models) == 1:
            return models[0]
        raise UsageError(f"name one of the endpoint's models with {option}{listed(models)}")

    async def models(self) -> tuple[str, ...]:
        """Return the models that the endpoint lists, none without one; raises `EndpointRefused`."""
        if isinstance(self.client, OpenAIChatClient):
            return await self.client.models()
        return ()

    async def _reply(
        self, request: ChatRequest, asked: RequestIdentity
    ) -> tuple[ChatReply, State | None]:
        """Return a stored reply and its state, or else one that is paid for."""
        stored = None if self.cache is None else self.cache.get(asked.key)
        if stored is not None:
            self.meter.served(stored[0].usage)
            trace("cache hit", key=asked.key[-12:], state=stored[1], **described(request))
            is_certain = bool(request.scope) or self._weights[request.model].is_certain
            if not (is_certain or asked.key in self._paid):
                self._reused.setdefault(request.model, []).append(stored[0].day or "?")
            return stored
        trace("cache miss" if self.cache else "no cache", key=asked.key[-12:])
        if self.client is None:
            raise CacheMiss("no reply is stored for this request")
        async with self.meter.admit(request) as paid:
            await self._check_endpoint(request)
            try:
                reply = await self.client.complete(request)
            except RequestTooLong:
                self.meter.too_long += 1
                raise
            paid(reply)
        self._paid.add(asked.key)
        weights = self._weights[request.model].text
        return replace(reply, model=f"{reply.model} ({weights})") if weights else reply, None

    async def _check_endpoint(self, request: ChatRequest) -> None:
        model, effort, media = request.model, request.reasoning, request.media
        if model in self._unlisted:
            raise self._unlisted[model]
        key = model, effort, media is not None
        if self._preflight is None or self._preflights.get(key, True) is None:
            return
        async with self._preflight_turn:
            if key not in self._preflights:
                trace("preflight", model=model)
                try:
                    reply = await self._preflight(model, effort, media)
                except EndpointRefused as refusal:
                    self._preflights[key] = refusal
                else:
                    self._preflights[key] = None
                    self.meter.paid(model, reply)
        if (refused := self._preflights[key]) is not None:
            raise refused


def _must_be_an_answer(reply: ChatReply, *, may_be_empty: bool) -> None:
    """Raise `RequestRefused` for a model that declines, `ReplyError` for a reply of no use."""
    how = ending(reply.finish_reason)
    if how == "declined":
        quoted = f": {reply.text[:200]}" if reply.text.strip() else ""
        raise RequestRefused(f"the model declined to answer ({reply.finish_reason}){quoted}")
    if len(reply.text) > LONGEST_REPLY:
        raise ReplyError(f"the reply is far too long ({len(reply.text):,} characters)")
    if not (may_be_empty or reply.text.strip()):
        raise ReplyError("the reply is empty")


def _refuse_cut(reply: ChatReply, request: ChatRequest, check: Check[Any]) -> None:
    """Raise `Incomplete` if a reply was cut off that is right so far, `ReplyError` otherwise."""
    cut = f"the reply was cut off at {reply.usage.output_tokens or request.max_tokens} tokens"
    rest = after_thinking(reply.text)
    # Reasoning used up the tokens. A loop of blanks is no reasoning.
    is_reasoning = not reply.text or (bool(reply.text.strip()) and not rest)
    if rest and request.schema is not None:
        try:
            beginning = beginning_of(rest, request.schema.schema)
            check(replace(reply, text=beginning, finish_reason="stop"))
        except Incomplete:
            pass
        except ReplyError as error:
            raise ReplyError(f"{cut}: {error}") from None
    elif not is_reasoning:
        raise ReplyError(cut)
    raise Incomplete(cut)


def listed(models: Sequence[str]) -> str:
    """Return the models that an endpoint has, as a message goes on with them."""
    return f"; it has {', '.join(models[:20])}" if models else ""


def key_for(o: EndpointOptions, missing: str, *, offline: bool = False) -> str | None:
    """Return the key for an endpoint; raises `no_key(missing)` where OpenAI's API needs one."""
    key = o.api_key or os.environ.get("OPENAI_API_KEY") or None
    if not (key or offline or o.client is not None) and endpoint_url(o.base_url) == DEFAULT_URL:
        raise no_key(missing)
    return key


def no_key(missing: str = "no key", variable: str = "OPENAI_API_KEY") -> UsageError:
    """Return the error of a call that needs a key; `missing` says so."""
    return UsageError(f"{missing}: set {variable}, or name a local server with --base-url")


@asynccontextmanager
async def open_asker(
    o: EndpointOptions,
    key: str | None,
    *,
    base_url: str | None = None,
    key_help: str = "set OPENAI_API_KEY",
    offline: bool,
    on_notice: Callable[[str], None],
) -> AsyncIterator[Asker]:
    """Open an endpoint with the cache of its replies, the user's prices and a cap on the cost.

    It is that of the options, unless `base_url` is another. Their client replaces the connection,
    and `offline` leaves it out. Raises `InputError` where the user's prices are not right.
    """
    base_url, client = endpoint_url(base_url or o.base_url), o.client
    meter = Meter(prices=read_prices(config_file()), cap=o.max_cost)
    replies = ReplyCache(o.cache, on_notice=on_notice)

    async def list_models() -> Mapping[str, Any]:
        seconds = min(LISTING_SECONDS, o.timeout)
        async with OpenAIChatClient(base_url, key, timeout=seconds) as one:
            return await one.listing()

    # OpenAI's own names are snapshots, whose weights do not change.
    is_named = client is not None or endpoint_name(public_url(base_url)) == "openai"
    listing = None if is_named else list_models
    try:
        if client is not None or offline:
            yield Asker(client, replies, base_url=base_url, meter=meter, listing=listing)
            return
        async with OpenAIChatClient(
            base_url,
            key,
            key_help=key_help,
            timeout=o.timeout,
            max_concurrency=o.max_concurrency,
            # For a second attempt after one that took all its time.
            patience=max(300.0, 2 * o.timeout),
            on_notice=on_notice,
        ) as endpoint:
            asker = Asker(
                *(endpoint, replies),
                base_url=base_url,
                meter=meter,
                preflight=endpoint.preflight,
                listing=listing,
            )
            try:
                yield asker
            finally:
                for notice in asker.reuse_notices():
                    on_notice(notice)
    finally:
        replies.close()

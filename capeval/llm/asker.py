"""Ask a chat model until its reply is valid, and reuse replies from the cache."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from capeval.config import config_file
from capeval.errors import (
    EndpointRefused,
    ReplyError,
    RequestRefused,
    RequestTooLong,
    RetriesExhausted,
    UsageError,
)
from capeval.language import after_thinking
from capeval.llm.cache import ReplyCache, RequestIdentity, identify
from capeval.llm.client import DEFAULT_URL, EndpointOptions, OpenAIChatClient, endpoint_url
from capeval.llm.money import Meter, read_prices
from capeval.llm.replies import (
    Answer,
    ChatClient,
    ChatReply,
    ChatRequest,
    Incomplete,
    ReplyBroken,
    ReplyForm,
    ReplyRefused,
    ReplySchema,
    State,
    beginning_of,
    described,
    in_form,
    read_reply,
    schema_of,
)
from capeval.llm.serving import Server, serving
from capeval.llm.tracing import public_url, trace
from capeval.llm.wire import LONGEST_NAME, ending, listed_models
from capeval.schema import Usage, endpoint_name
from capeval.text import counted, one_line

T = TypeVar("T")
FormT = TypeVar("FormT", bound=ReplyForm)
Check = Callable[[ChatReply], T]

# Characters, far more than any answer has: a longer reply is from a runaway model.
LONGEST_REPLY = 200_000
# Seconds. Nothing that is known from an earlier call waits longer for the list of models.
LISTING_SECONDS = 10.0
QUESTION_FAILURES = (ReplyError, RequestRefused, RetriesExhausted)
"""Errors that concern one question; the others can still be answered."""


class Asker:
    """Asks a client through a cache and counts on a meter.

    The `endpoint`'s list of models identifies a model's weights. A small test call
    precedes the first call with each model, effort and video settings; a cached run needs
    none.
    """

    def __init__(
        self,
        client: ChatClient,
        cache: ReplyCache | None,
        *,
        base_url: str,
        meter: Meter,
        endpoint: OpenAIChatClient | None = None,
        server: Server | None = None,
    ) -> None:
        self.client, self.cache, self.meter = client, cache, meter
        self._server = server
        self.base_url = public_url(base_url)
        self._endpoint = endpoint
        # Conversations in progress, by the key of their first request.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._weights: dict[str, Weights] = {}
        self._paid: set[str] = set()
        # Replies of earlier commands by model, which may have had other weights, and their days.
        self._reused: dict[str, list[str]] = {}
        self._unlisted: dict[str, EndpointRefused] = {}
        self._preflight_turn = asyncio.Lock()
        self._preflights: dict[tuple[str, str | None, bool], EndpointRefused | None] = {}

    @asynccontextmanager
    async def running(self, is_needed: bool) -> AsyncIterator[bool]:
        """Run the server that capeval starts for the endpoint, if any and if it is needed."""
        if self._server is None or self._endpoint is None or not is_needed:
            yield is_needed
            return
        async with serving(self._server) as url:
            self._endpoint.move(url)
            yield is_needed

    async def weights(self, model: str) -> str:
        """Return the endpoint's description of a model's weights, or ""; it is asked once.

        If it cannot be asked, its last answer is used: stored replies are found by it, and new
        ones, which may be from other weights, are refused.
        """
        if model not in self._weights:
            async with self._preflight_turn:
                if model not in self._weights:
                    self._weights[model] = await self._look_up(model)
        return self._weights[model].text

    async def _look_up(self, model: str) -> Weights:
        if self._server is not None:
            return Weights(self._server.weights, is_certain=True)
        # OpenAI's own names are snapshots, whose weights do not change.
        if self._endpoint is None or endpoint_name(self.base_url) == "openai":
            return Weights(is_certain=True)
        try:
            found = weights_of(await self._endpoint.listing(LISTING_SECONDS), model)
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
            f"{counted(len(days), 'reply', 'replies')} came from the cache, the oldest on "
            f"{min(days)}; if the weights have changed, delete the file that `capeval cache` "
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
        so is an empty one with `may_be_empty`. An equal request in progress is awaited, and its
        replies come from the cache.

        Raises `ReplyBroken` after `attempts` replies, `ReplyRefused` where the model declines,
        `BudgetReached`, and what the client raises.
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
                    raise ReplyRefused(str(refusal), tuple(replies)) from None
                except ReplyError as error:
                    complaint = str(error.args[0]) if error.args else str(error)
                    trace("reply rejected", reason=complaint, attempt=len(replies))
                    complaints.append(complaint)
                    needs_room = not whole or isinstance(error, Incomplete)
                    if len(replies) >= attempts:
                        state = "exhausted"
                        raise ReplyBroken(complaint, tuple(replies)) from None
                finally:
                    # Its check did not wait for anything, so a killed process has it stored.
                    if self.cache is not None and was != state:
                        self.cache.put(asked, reply, state)
                        if state == "exhausted":
                            self.cache.mark(keys, state)
                longer = request.max_tokens * 2 + 2048 if is_cut and needs_room else None
                request = request.followed_by(reply.text, complaint, longer)
                asked = identify(request, self.base_url, weights)

    async def only_model(self, option: str) -> str:
        """Return the endpoint's only model; raises `UsageError` if `option` must name one."""
        models = await self.models()
        if len(models) == 1:
            return models[0]
        raise UsageError(f"name one of the endpoint's models with {option}{listed(models)}")

    async def models(self) -> tuple[str, ...]:
        """Return the endpoint's models, none without a list; raises `EndpointRefused`."""
        return await self._endpoint.models() if self._endpoint else ()

    async def _reply(
        self, request: ChatRequest, asked: RequestIdentity
    ) -> tuple[ChatReply, State | None]:
        stored = None if self.cache is None else self.cache.get(asked.key)
        if stored is not None:
            self.meter.served(stored[0].usage)
            trace("cache hit", key=asked.key[-12:], state=stored[1], **described(request))
            is_certain = bool(request.scope) or self._weights[request.model].is_certain
            if not (is_certain or asked.key in self._paid):
                self._reused.setdefault(request.model, []).append(stored[0].day or "?")
            return stored
        trace("cache miss" if self.cache else "no cache", key=asked.key[-12:])
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
        if self._endpoint is None or self._preflights.get(key, True) is None:
            return
        async with self._preflight_turn:
            if key not in self._preflights:
                trace("preflight", model=model)
                try:
                    reply = await self._endpoint.preflight(model, effort, media)
                except EndpointRefused as refusal:
                    self._preflights[key] = refusal
                else:
                    self._preflights[key] = None
                    self.meter.paid(model, reply)
        if (refused := self._preflights[key]) is not None:
            raise refused


def _must_be_an_answer(reply: ChatReply, *, may_be_empty: bool) -> None:
    if ending(reply.finish_reason) == "declined":
        quoted = f": {reply.text[:200]}" if reply.text.strip() else ""
        raise RequestRefused(f"the model declined to answer ({reply.finish_reason}){quoted}")
    if len(reply.text) > LONGEST_REPLY:
        raise ReplyError(f"the reply is far too long ({len(reply.text):,} characters)")
    if not (may_be_empty or reply.text.strip()):
        raise ReplyError("the reply is empty")


def _refuse_cut(reply: ChatReply, request: ChatRequest, check: Check[Any]) -> None:
    """Raise `Incomplete` for a cut-off reply that is valid so far, `ReplyError` otherwise."""
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
    """Return the end of a message: the models that an endpoint has."""
    return f"; it has {', '.join(models[:20])}" if models else ""


def key_for(o: EndpointOptions, missing: str, *, offline: bool = False) -> str | None:
    """Return the key for an endpoint; raises `no_key(missing)` if OpenAI's API needs one."""
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
    keeps_replies: bool = True,
    server: Server | None = None,
) -> AsyncIterator[Asker]:
    """Open an endpoint with the cache of its replies, the user's prices and a cap on the cost.

    Its address is that of the options, unless `base_url` is another; a `server` is started later.
    A client in the options replaces it. Raises `InputError` where the user's prices are wrong.
    """
    base_url = endpoint_url(base_url or o.base_url)
    meter = Meter(prices=read_prices(config_file()), cap=o.max_cost)
    with closing(ReplyCache(o.cache, on_notice=o.on_notice)) as cache:
        replies = cache if keeps_replies else None
        if o.client is not None:
            yield Asker(o.client, replies, base_url=base_url, meter=meter)
            return
        async with OpenAIChatClient(
            *(base_url, key),
            key_help=key_help,
            timeout=o.timeout,
            max_concurrency=o.max_concurrency,
            # For a second attempt after one that took all its time.
            patience=max(300.0, 2 * o.timeout),
            on_notice=o.on_notice,
        ) as endpoint:
            asker = Asker(
                endpoint, replies, base_url=base_url, meter=meter, endpoint=endpoint, server=server
            )
            try:
                yield asker
            finally:
                for notice in asker.reuse_notices():
                    o.on_notice(notice)


@dataclass(frozen=True)
class Chat:
    """A chat model that is asked, with the `reasoning` effort, about `concurrency` items at a time.

    `endpoint` is the name that is configured for its address; `weights` what the endpoint says of
    them; `why` and `why_reasoning` give the reasons for choices that the user did not make.
    """

    asker: Asker
    model: str
    reasoning: str | None = None
    concurrency: int = 1
    endpoint: str | None = None
    weights: str = ""
    thinks: bool = False
    why: str = ""
    why_reasoning: str = ""

    @property
    def identity(self) -> str:
        return "@".join(filter(None, (self.model, self.endpoint, self.reasoning, self.weights)))

    @property
    def title(self) -> str:
        effort = f"reasoning {self.reasoning}" if self.reasoning else ""
        where = f"{self.model} at {self.asker.base_url}"
        return "; ".join(filter(None, (where, effort, self.why)))


@dataclass(frozen=True)
class ChatQuestion(Generic[FormT]):
    """One question, and the form of its reply.

    `stage` begins its notes. A reply that only repeats a text of `material` is not an answer.
    """

    stage: str
    prompt: str
    form: type[FormT]
    max_tokens: int
    material: tuple[str, ...] = ()


@dataclass
class Asked:
    """The tokens of the questions about one item, by stage, and notes about the replies."""

    usage: dict[str, Usage] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    models: set[str] = field(default_factory=set)
    fingerprints: set[str] = field(default_factory=set)
    left_off: set[str] = field(default_factory=set)

    @property
    def total(self) -> Usage:
        return sum(self.usage.values(), Usage())

    @property
    def details(self) -> dict[str, Any]:
        found = {
            "models": sorted(self.models),
            "left_off": sorted(self.left_off),
            "notes": self.notes,
        }
        return {name: value for name, value in found.items() if value}

    async def ask(self, asker: Asker, request: ChatRequest, check: Check[T], stage: str) -> T:
        try:
            answer = await asker.ask(request, check)
        except (ReplyBroken, ReplyRefused) as failure:
            self._count(stage, failure.replies)
            raise
        self._count(stage, answer.replies)
        self.notes += [f"{stage}: asked again: {why}" for why in answer.complaints]
        return answer.value

    def add(self, stage: str, usage: Usage) -> None:
        self.usage[stage] = self.usage.get(stage, Usage()) + usage

    def _count(self, stage: str, replies: Sequence[ChatReply]) -> None:
        for reply in replies:
            self.add(stage, reply.usage)
            self.models.add(reply.model)
            self.left_off.update(reply.left_off)
            if reply.fingerprint:
                self.fingerprints.add(reply.fingerprint)


async def ask_chat(
    chat: Chat, question: ChatQuestion[FormT], asked: Asked, read: Callable[[FormT], T]
) -> T:
    """Return the result of `read` on a reply in its form; asks up to three times.

    ReplyBroken if the last reply was not in the form either, or was refused by `read` with
    `ReplyError`; ReplyRefused if the model declines.
    """
    form, stage = question.form, question.stage
    request = ChatRequest(
        chat.model,
        ({"role": "user", "content": question.prompt},),
        question.max_tokens,
        schema=_schema(form),
        reasoning=chat.reasoning,
    )

    def check(reply: ChatReply) -> tuple[T, list[str]]:
        return read_reply(
            *(reply.text, lambda value, _: read(in_form(form, value)), question.material),
            enforced=request.is_enforced_in(reply),
        )

    value, notes = await asked.ask(chat.asker, request, check, stage)
    asked.notes += [f"{stage}: {note}" for note in notes]
    return value


@cache
def _schema(form: type[ReplyForm]) -> ReplySchema:
    return ReplySchema(form.__name__.lower(), schema_of(form))


# ---- What a server says of the weights behind a model's name -------------------------------------


@dataclass(frozen=True, slots=True)
class Weights:
    """What a server says of the weights behind a model's name.

    `text` is empty where it says nothing; `is_certain` is whether other weights would have another
    text.
    """

    text: str = ""
    is_certain: bool = False


# Of vLLM the first two, of gateways `digest`, of llama.cpp its `meta`. What else servers list
# changes with each start (`created`, `permission`) or with its options (`max_model_len`, `n_ctx`).
_OF_WEIGHTS = ("root", "parent", "digest", "n_params", "size", "ftype")
_CERTAIN = ("root", "digest")


def weights_of(payload: Mapping[str, Any], model: str) -> Weights:
    """Return a model's weights in a list of models; the name of a sole model is ignored.

    Entries of one name that differ, as a router of several servers lists them, say nothing.

    >>> weights_of({"data": [{"id": "judge", "root": "/ckpt/1", "created": 7}]}, "judge")
    Weights(text='root 1@cfaa58', is_certain=True)
    """
    records = listed_models(payload)
    named = [one for one in records if one.get("id") == model]
    found = {_weights(one) for one in named or (records if len(records) == 1 else [])}
    return found.pop() if len(found) == 1 else Weights()


def _weights(record: Mapping[str, Any]) -> Weights:
    meta = record.get("meta")
    details = {**(meta if isinstance(meta, dict) else {}), **record}
    found = {
        name: _without_folder(one_line(str(value), LONGEST_NAME))
        for name in _OF_WEIGHTS
        # SGLang and others repeat the name that they serve as the root.
        if isinstance(value := details.get(name), str | int) and value not in ("", record.get("id"))
    }
    text = ", ".join(f"{name} {value}" for name, value in found.items())
    return Weights(text, any(name in found for name in _CERTAIN))


def _without_folder(text: str) -> str:
    """Return the end of a path (folders are private) and a hash of the whole."""
    if "/" not in text or re.fullmatch(r"\w[\w.-]*/[\w.-]+", text):
        return text
    last = text.partition("?")[0].rstrip("/").rpartition("/")[2]
    return f"{last}@{hashlib.sha256(text.encode()).hexdigest()[:6]}"

"""The client of an OpenAI-compatible endpoint: retries, and omits parameters that it rejects."""

from __future__ import annotations

import asyncio
import difflib
import json
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from capeval.errors import (
    EndpointDown,
    EndpointRefused,
    RequestRefused,
    RetriesExhausted,
    UsageError,
)
from capeval.llm.limiter import AdaptiveLimiter
from capeval.llm.proxies import is_local
from capeval.llm.redact import parse_endpoint, redact, remember_secrets
from capeval.llm.retry import CallFailed, Effort, RetryDecision, decide
from capeval.llm.types import ChatReply, ChatRequest, ReplySchema, described
from capeval.llm.wire import (
    OPTIONAL,
    Negotiation,
    body_of,
    cut_while_thinking,
    model_ids,
    reply_from,
)
from capeval.schema.usage import Usage
from capeval.tracing import is_tracing, trace

if TYPE_CHECKING:
    from capeval.llm.transport import Connection

DEFAULT_URL = "https://api.openai.com/v1"
# Each has failed several attempts by then: the rest of a run would wait for nothing.
FAILED_CALLS_UNTIL_DOWN = 20
NEAREST_MODELS = 8

PREFLIGHT_ATTEMPTS = 3
PREFLIGHT = (
    {"role": "user", "content": 'Reply with the JSON object {"ok": true} and nothing else.'},
)
PREFLIGHT_SCHEMA = ReplySchema(
    "preflight",
    {
        "type": "object",
        "properties": {"ok": {"type": "boolean"}},
        "required": ["ok"],
        "additionalProperties": False,
    },
)


def endpoint_url(base_url: str | None) -> str:
    """Return the base URL to call: the given one, else OPENAI_BASE_URL, else OpenAI's own."""
    return base_url or os.environ.get("OPENAI_BASE_URL") or DEFAULT_URL


class OpenAIChatClient:
    """Calls one endpoint; an async context manager.

    `base_url` defaults to OPENAI_BASE_URL; `api_key` has no default, so that no key goes to an
    unintended address; `key_help` is the advice if the endpoint requires a key.
    `timeout` limits one attempt and `patience` all of one call, pauses included, in seconds.
    `attempts` counts failures other than throttling, which is waited out for as long as patience
    lasts. `on_notice` is called with one line for each finding about the endpoint.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        key_help: str = "set OPENAI_API_KEY",
        timeout: float = 120.0,
        max_concurrency: int = 64,
        attempts: int = 6,
        patience: float = 300.0,
        on_notice: Callable[[str], None] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._endpoint = parse_endpoint(endpoint_url(base_url))
        self._key, self._key_help = (api_key or "").strip(), key_help
        if not self._key.isascii() or not self._key.isprintable():
            raise UsageError("the API key contains characters that no key has")
        remember_secrets((self._key, *self._endpoint.secrets))
        self._timeout, self._attempts, self._patience = timeout, attempts, patience
        self._notify = on_notice or (lambda _: None)
        self._negotiation = Negotiation(self._found)
        self._sleep = sleep
        self.limiter = AdaptiveLimiter(max_concurrency)
        self._connection: Connection | None = None
        self._has_answered = False
        self._refused: dict[str | None, str] = {}
        self._failed_in_a_row = 0
        self._last_failure = ""

    def __repr__(self) -> str:
        return f"OpenAIChatClient({self.base_url!r})"

    @property
    def base_url(self) -> str:
        """The endpoint, without anything secret."""
        return self._endpoint.url

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    def left_off(self, model: str, reasoning: str | None = None) -> tuple[str, ...]:
        """Return the parameters that `model` was found not to take with an effort."""
        return self._negotiation.plan(model, reasoning).left_off

    def _found(self, text: str) -> None:
        # What kind of notice it is stays the same.
        text = type(text)(redact(text))
        trace("endpoint", notice=text)
        self._notify(text)

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Make one call, however many attempts it takes; raises `EndpointError`."""
        effort = Effort(self._attempts, self._patience)
        try:
            reply = await self._persist(request, effort)
        except CallFailed as failure:
            self._failed_in_a_row += 1
            self._last_failure = redact(failure.decision.reason)
            raise RetriesExhausted(
                f"{effort.tried} attempts at {self.base_url} failed, the last with: "
                f"{self._last_failure}"
            ) from None
        self._failed_in_a_row = 0
        return reply

    async def preflight(self, model: str, reasoning: str | None = None) -> ChatReply:
        """Make one small call with every parameter, to find out what the endpoint takes.

        Raises `EndpointRefused`.
        """
        request = ChatRequest(
            model, PREFLIGHT, max_tokens=16, schema=PREFLIGHT_SCHEMA, reasoning=reasoning
        )
        patience = min(self._timeout, self._patience)
        effort = Effort(PREFLIGHT_ATTEMPTS, patience, longest=1.0)
        try:
            return await self._persist(request, effort, is_first=True)
        except CallFailed as failure:
            raise EndpointRefused(self._explained(failure.decision, model)) from None
        except RequestRefused as error:
            # It is never left off: with another effort, the judge would be another.
            advice = f"; it was asked with --reasoning {reasoning}: choose another, or default"
            about_effort = reasoning is not None and "reasoning" in str(error).lower()
            raise EndpointRefused(
                f"{self.base_url} refuses any request: {error}{advice if about_effort else ''}"
            ) from None

    async def models(self) -> tuple[str, ...]:
        """Return the ids of the models that the endpoint lists; raises `EndpointRefused`."""
        try:
            return model_ids(await self._connected().get("/models", self._timeout))
        except CallFailed as error:
            raise EndpointRefused(self._explained(decide(error))) from None

    async def _persist(
        self, request: ChatRequest, effort: Effort, *, is_first: bool = False
    ) -> ChatReply:
        """Attempt a call until it is answered or refused; raises `CallFailed` at the end."""
        from tenacity import AsyncRetrying, retry_if_exception

        self._connected()
        # One for each call: it holds the state of its call.
        retrying = AsyncRetrying(
            sleep=self._sleep,
            stop=effort.is_over,
            wait=effort.pause,
            retry=retry_if_exception(_can_wait),
            before_sleep=effort.waiting,
            reraise=True,
        )
        try:
            reply: ChatReply = await retrying(self._attempt, request, effort)
        except CallFailed as failure:
            decision = failure.decision
            if decision.action == "wait":
                raise
        else:
            return reply
        reason, kind = redact(decision.reason), f"status {decision.status}"
        if decision.action == "refuse_request":
            raise RequestRefused(reason, kind="" if decision.about_content else kind)
        if decision.action == "refuse_access" and self._has_answered and not is_first:
            raise RequestRefused(f"the endpoint refuses this request ({reason})", kind=kind)
        message = self._explained(decision, request.model)
        if is_first and decision.about_model:
            message += await self._nearest(request.model)
        # A model that is unknown says nothing about the others.
        self._refused[request.model if decision.about_model else None] = message
        raise EndpointRefused(message)

    async def _attempt(self, request: ChatRequest, effort: Effort) -> ChatReply:
        async with self.limiter.slot() as slot:
            if refused := self._refused.get(None) or self._refused.get(request.model):
                raise EndpointRefused(refused)
            if self._failed_in_a_row >= FAILED_CALLS_UNTIL_DOWN:
                raise EndpointDown(
                    f"{self.base_url} stopped answering: {self._failed_in_a_row} calls in a row "
                    f"failed, the last with: {self._last_failure}"
                )
            clock = asyncio.get_running_loop().time
            started = clock()
            trace("request", url=self.base_url, calls=self.limiter.in_flight, **described(request))
            try:
                reply = await self._negotiate(request, effort)
            except CallFailed as failure:
                effort.failed(failure.decision)
                if failure.decision.throttled:
                    slot.throttled()
                raise
            finally:
                effort.spent += clock() - started
            slot.succeeded()
            self._has_answered = True
            trace(
                "reply",
                status=200,
                seconds=round(clock() - started, 3),
                finish_reason=reply.finish_reason,
                snapshot=reply.model,
                left_off=reply.left_off,
                usage=reply.usage.model_dump() if is_tracing() else None,
            )
            return reply

    async def _negotiate(self, request: ChatRequest, effort: Effort) -> ChatReply:
        """Ask with one parameter less as long as the endpoint refuses one; raises `CallFailed`."""
        discarded = Usage()
        while True:
            plan = self._negotiation.plan(request.model, request.reasoning)
            body = body_of(request, plan)
            # Captions can contain an unpaired surrogate, which no endpoint can read.
            content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
            try:
                payload = await self._connected().post(
                    "/chat/completions", content, effort.bounded(self._timeout)
                )
                reply = reply_from(payload, request.model, plan.left_off)
            except CallFailed as error:
                error.decision = decision = decide(error, [one for one in OPTIONAL if one in body])
                reason = redact(decision.reason)
                trace(
                    "call failed",
                    action=decision.action,
                    status=decision.status,
                    reason=reason,
                    parameter=decision.parameter,
                )
                if decision.parameter is None:
                    raise
                self._negotiation.give_up(request, decision.parameter, plan, reason)
                continue
            if cut_while_thinking(reply, payload) and self._negotiation.found_thinking(
                request.model, request.reasoning
            ):
                discarded = discarded + reply.usage
                continue
            return replace(reply, usage=discarded + reply.usage)

    def _connected(self) -> Connection:
        """Return the connections; opened before the clock of a call starts, as that takes time."""
        if self._connection is None:
            from capeval.llm.transport import Connection

            self._connection = Connection(
                self._endpoint,
                self._key,
                timeout=self._timeout,
                connections=self.limiter.maximum + 4,
            )
        return self._connection

    async def _nearest(self, model: str) -> str:
        try:
            known = await self.models()
        except EndpointRefused:
            return ""
        near = [name for name in known if model and name.startswith(model)]
        near += difflib.get_close_matches(model, known, NEAREST_MODELS, cutoff=0.4)
        shown = list(dict.fromkeys(near or known))[:NEAREST_MODELS]
        return f"; it has {', '.join(shown)}" if shown else "; it lists none"

    def _explained(self, decision: RetryDecision, model: str = "") -> str:
        """Return the message about a failure after which no call is made."""
        url, reason, status = self.base_url, redact(decision.reason), decision.status
        if status is None:
            if self._connection and self._connection.proxy:
                url += " through the proxy that the environment names"
                what = "correct or unset HTTP_PROXY, HTTPS_PROXY or ALL_PROXY"
            elif is_local(url):
                what = "is the server running?"
            else:
                what = "check the address, the network and the proxy settings"
            return f"cannot reach {url}: {reason}; {what}"
        if status == 401 and not self._key and not self._endpoint.basic:
            return f"{url} wants a key: {self._key_help} ({reason})"
        if status == 401:
            return f"{url} refused the key ({reason})"
        if decision.about_model and model:
            return f"{url} does not know the model {model} ({reason})"
        if 300 <= status < 400:
            return f"{url} redirects elsewhere ({reason}): give that as the base URL"
        if status in {404, 405, 410} or (status < 300 and decision.action == "wait"):
            return (
                f"{url} did not answer as an OpenAI-compatible endpoint ({reason}); "
                "does the base URL end in /v1?"
            )
        if decision.action == "wait":
            return f"{url} does not answer ({reason})"
        return f"{url} refused the account or the key ({reason})"


def _can_wait(error: BaseException) -> bool:
    return isinstance(error, CallFailed) and error.decision.action == "wait"

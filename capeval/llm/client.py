"""The client of an OpenAI-compatible endpoint: retries, and omits parameters that it rejects."""

from __future__ import annotations

import asyncio
import difflib
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import KW_ONLY, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

from capeval.config import config_file, keyless_addresses
from capeval.errors import (
    EndpointDown,
    EndpointRefused,
    RequestRefused,
    RequestTooLong,
    RetriesExhausted,
    UsageError,
)
from capeval.llm.replies import (
    ChatClient,
    ChatReply,
    ChatRequest,
    ReplySchema,
    described,
    object_of,
)
from capeval.llm.tracing import is_tracing, parse_endpoint, remember_secrets, trace
from capeval.llm.wire import (
    LIMITS,
    MOST_TOKENS,
    OPTIONAL,
    CallFailed,
    Connection,
    RequestPlan,
    body_of,
    cut_while_thinking,
    model_ids,
    reply_from,
)
from capeval.options import (
    JUDGE,
    CallOptions,
    Effort,
    Notices,
    Rule,
    declares,
    on_notice_option,
    option,
    python_only,
)
from capeval.schema import Usage
from capeval.text import Loss, counted, listed, one_line

if TYPE_CHECKING:
    from tenacity import AsyncRetrying, RetryCallState

DEFAULT_URL = "https://api.openai.com/v1"
# Each has failed several attempts by then: the rest of a run would wait for nothing.
FAILED_CALLS_UNTIL_DOWN = 20
NEAREST_MODELS = 8
# Seconds: an endpoint that recovers is used again within this time.
LONGEST_WAIT = 30.0

_CONNECTION_ADVICE = (
    ("timeout", "if it is only slow, raise timeout in capeval.toml"),
    (
        "certificate_verify_failed",
        "to trust its certificate, set SSL_CERT_FILE to a file with it or with its authority's",
    ),
    ("ssl", "must the address begin with http:// and not https://?"),
    ("server disconnected", "is it still starting, or must its address begin with https://?"),
)
SLOW_ADVICE = (
    "fewer calls are made at a time now; if that is not enough, raise timeout in capeval.toml, or "
    "set --max-concurrency to the number of calls that the server answers at a time"
)
# Before version 0.31, vLLM takes the settings of a video without the option.
VIDEO_ADVICE = (
    "start vLLM (0.31 or later) with --trust-request-mm-kwargs, or set "
    'images = "jpeg" for the model in capeval.toml'
)
PREFLIGHT_ATTEMPTS, PREFLIGHT_WAIT = 3, 1.0
# Servers whose engine cannot enforce a schema answer with these statuses.
SERVER_FAULTS = (500, 501)
PREFLIGHT = (
    {"role": "user", "content": 'Reply with the JSON object {"ok": true} and nothing else.'},
)
PREFLIGHT_SCHEMA = ReplySchema("preflight", object_of(ok={"type": "boolean"}))


def endpoint_url(base_url: str | None) -> str:
    """Return the base URL to call: the given one, else OPENAI_BASE_URL, else OpenAI's own."""
    return base_url or os.environ.get("OPENAI_BASE_URL") or DEFAULT_URL


@declares
class EndpointOptions(CallOptions):
    """The model server to call.

    Parameters
    ----------
    base_url : An OpenAI-compatible server. By default OPENAI_BASE_URL.
    client : Replaces the network, for tests and recordings.
    """

    _: KW_ONLY
    base_url: str | None = option(None, panel=JUDGE, metavar="URL")
    client: ChatClient | None = python_only(None, method="complete", shown=False)
    on_notice: Notices = on_notice_option(shown=False)


_OWN_SERVER = "--serve starts a server of its own: omit --base-url"


@declares
class ServeOptions(EndpointOptions):
    """Whether capeval starts the server.

    Parameters
    ----------
    serve : Start a server for the model, and stop it when the work is done.
    gpus : With --serve: share the work among N GPUs.
    """

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule("serve", "base_url", _OWN_SERVER),
        Rule("serve", "client", _OWN_SERVER),
        Rule("gpus", "serve", "--gpus is for --serve", needs=True),
    )
    _: KW_ONLY
    serve: bool = option(False, panel=JUDGE)
    gpus: int | None = option(None, panel=JUDGE, metavar="N", min=1)


@declares
class ChatOptions(EndpointOptions):
    """The chat model to ask.

    Parameters
    ----------
    judge : The chat model. By default gpt-6-luna, or the server's only model.
    """

    _: KW_ONLY
    judge: str | None = option(None, panel=JUDGE, metavar="MODEL")
    reasoning: Effort | None = python_only(None, "How much it reasons, as in `capeval judge`.")


class OpenAIChatClient:
    """Calls one endpoint; an async context manager.

    `base_url` defaults to OPENAI_BASE_URL; `api_key` has no default, so that no key goes to an
    unintended address; `key_help` is the advice if the endpoint requires a key.
    `timeout` limits one attempt, in seconds; `attempts` counts failures other than throttling,
    which is waited out for `patience` seconds. `on_notice` is called with one line for each finding
    about the endpoint.
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
        self.base_url = self._endpoint.url
        """The endpoint, without anything secret."""
        if base_url in keyless_addresses:
            api_key, file = None, config_file()
            key_help = (
                f"the address comes from {file}, so no key is sent; to send it, type --base-url "
                "(eval: --model-url or --judge-url)"
            )
        self._key, self._key_help = (api_key or "").strip(), key_help
        if not self._key.isascii() or not self._key.isprintable():
            raise UsageError("the API key contains characters that no key has")
        # A token can be in the place of the user (https://TOKEN@host).
        login, query = self._endpoint.login or (), self._endpoint.query
        remember_secrets((self._key, *login, *query.values()))
        self._timeout, self._attempts, self._patience = timeout, attempts, patience
        self._notify = on_notice or (lambda _: None)
        # By model and effort: what a model takes may depend on how much it reasons.
        self._plans: dict[tuple[str, str | None], RequestPlan] = {}
        self._sleep = sleep
        self.limiter = AdaptiveLimiter(max_concurrency)
        self._connection: Connection | None = None
        self._has_answered = self._is_slow = False
        self._refused: dict[str | None, str] = {}
        self._failed_in_a_row = 0
        self._last_failure = ""

    def move(self, base_url: str) -> None:
        """Call another address: that of a server which has just started."""
        self._endpoint = parse_endpoint(base_url)
        self.base_url = self._endpoint.url

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    async def complete(self, request: ChatRequest) -> ChatReply:
        attempts = self._retrying(self._attempts, self._patience, LONGEST_WAIT)
        try:
            reply = await self._persist(request, attempts)
        except CallFailed as failure:
            self._failed_in_a_row += 1
            self._last_failure = str(failure)
            made = counted(attempts.statistics["attempt_number"], "attempt")
            raise RetriesExhausted(
                f"{made} at {self.base_url} failed, the last with: {failure}"
            ) from None
        self._failed_in_a_row = 0
        return reply

    async def preflight(
        self, model: str, reasoning: str | None = None, media: Mapping[str, Any] | None = None
    ) -> ChatReply:
        """Make one small call with every parameter, to find out what the endpoint takes."""
        self._failed_in_a_row = 0
        request = ChatRequest(
            *(model, PREFLIGHT, 16), schema=PREFLIGHT_SCHEMA, reasoning=reasoning, media=media
        )
        patience = min(self._timeout, self._patience)
        attempts = self._retrying(PREFLIGHT_ATTEMPTS, patience, PREFLIGHT_WAIT)
        try:
            return await self._persist(request, attempts, is_first=True)
        except CallFailed as failure:
            if failure.status in SERVER_FAULTS:
                with suppress(CallFailed):
                    reply = await self._attempt(replace(request, schema=None))
                    why = Loss(f"{model} fails with response_format, now omitted ({failure})")
                    plan, both = self._plan(request), ("response_format",) * 2
                    self._change(request, plan, replace(plan, refused=plan.refused + both), why)
                    return reply
            raise EndpointRefused(self._explained(failure, model)) from None
        except RequestRefused as error:
            what, advice = "any request: ", ""
            if reasoning is not None and "reasoning" in str(error).lower():
                # It is never left off: with another effort, it is a different judge.
                advice = f"; it was asked with --reasoning {reasoning}: choose another, or default"
            if media is not None and "media_io_kwargs" in str(error):
                what = f"frames as a video; {VIDEO_ADVICE}: "
            raise EndpointRefused(f"{self.base_url} refuses {what}{error}{advice}") from None

    async def models(self) -> tuple[str, ...]:
        return model_ids(await self.listing())

    async def listing(self, timeout: float | None = None) -> Mapping[str, Any]:
        """Return the endpoint's list of models as it is; raises `EndpointRefused`."""
        patience = timeout or self._timeout
        attempts = self._retrying(PREFLIGHT_ATTEMPTS, patience, PREFLIGHT_WAIT)
        try:
            found: Mapping[str, Any] = await attempts(self._connected().get, "/models", timeout)
        except CallFailed as failure:
            raise EndpointRefused(self._explained(failure)) from None
        return found

    def _retrying(self, attempts: int, patience: float, longest: float) -> AsyncRetrying:
        self._connected()  # before the clock starts, as that takes time
        return retrying(attempts, patience, longest, self._sleep)

    async def _persist(
        self, request: ChatRequest, attempts: AsyncRetrying, *, is_first: bool = False
    ) -> ChatReply:
        """Attempt a call until it is answered or refused; raises `CallFailed` at the end."""
        try:
            reply: ChatReply = await attempts(self._attempt, request)
        except CallFailed as failure:
            if failure.action == "wait":
                raise
            if failure.action == "refuse_request" and failure.too_long:
                has_frames = any(not isinstance(part, str) for part in request.parts())
                fewer = "take fewer frames or a smaller --max-new-tokens, or " * has_frames
                raise RequestTooLong(
                    f"too long for the model: {fewer}serve it with a longer context "
                    f"(vLLM: --max-model-len) ({failure})"
                ) from None
            if failure.action == "refuse_request":
                raise RequestRefused(str(failure)) from None
            if failure.action == "refuse_access" and self._has_answered and not is_first:
                raise RequestRefused(f"the endpoint refuses this request ({failure})") from None
            message = self._explained(failure, request.model)
            if is_first and failure.about_model:
                message += await self._nearest(request.model)
            # An unknown model says nothing about the others.
            self._refused[request.model if failure.about_model else None] = message
            raise EndpointRefused(message) from None
        return reply

    async def _attempt(self, request: ChatRequest) -> ChatReply:
        queued = time.monotonic()
        async with self.limiter.slot() as slot:
            started = time.monotonic()
            if refused := self._refused.get(None) or self._refused.get(request.model):
                raise EndpointRefused(refused)
            if self._failed_in_a_row >= FAILED_CALLS_UNTIL_DOWN:
                raise EndpointDown(
                    f"{self.base_url} stopped answering: {self._failed_in_a_row} calls in a row "
                    f"failed, the last with: {self._last_failure}"
                )
            trace("request", url=self.base_url, calls=self.limiter.in_flight, **described(request))
            try:
                reply = await self._negotiate(request)
            except CallFailed as failure:
                failure.queued = started - queued
                if failure.throttled or failure.timed_out:
                    self.limiter.throttled(slot)
                if failure.timed_out and not self._is_slow:
                    self._is_slow = True
                    self._notify(Loss(f"{self.base_url} is slow ({failure}): {SLOW_ADVICE}"))
                raise
            self.limiter.succeeded(slot)
            self._has_answered = True
            trace(
                "reply",
                status=200,
                seconds=round(time.monotonic() - started, 3),
                finish_reason=reply.finish_reason,
                snapshot=reply.model,
                left_off=reply.left_off,
                usage=reply.usage.model_dump() if is_tracing() else None,
            )
            return reply

    async def _negotiate(self, request: ChatRequest) -> ChatReply:
        """Retry without a parameter, or with fewer tokens, while the endpoint refuses them."""
        discarded = Usage()
        most = MOST_TOKENS
        while True:
            plan = self._plan(request)
            body = body_of(request, replace(plan, most=min(plan.most, most)))
            # Captions can contain an unpaired surrogate, which no endpoint can read.
            content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
            try:
                payload = await self._connected().post("/chat/completions", content)
                reply = reply_from(payload, request.model, plan.left_off)
            except CallFailed as failure:
                parameter = failure.refused_parameter([one for one in OPTIONAL if one in body])
                trace(
                    "call failed",
                    action=failure.action,
                    status=failure.status,
                    reason=str(failure),
                    parameter=parameter,
                )
                if parameter is not None:
                    why = f"{request.model} rejects {parameter}, which is now omitted ({failure})"
                    fewer = replace(plan, refused=(*plan.refused, parameter))
                    self._change(request, plan, fewer, Loss(why))
                    continue
                limit = next((body[name] for name in LIMITS if name in body), 0)
                # Four times what is expected is asked for; with less than that, no reply is whole.
                smaller = failure.smaller_limit(limit, request.max_tokens // 4)
                if smaller is None:
                    raise
                most = smaller
                if not failure.about_prompt:
                    why = f"{request.model} gets a limit of {smaller} tokens ({failure})"
                    self._change(request, plan, replace(plan, most=smaller), Loss(why))
                continue
            if plan.thinks or not cut_while_thinking(reply, payload):
                return replace(reply, usage=discarded + reply.usage)
            why = f"{request.model} thinks before it answers: its replies get more room"
            self._change(request, plan, replace(plan, thinks=True), why)
            discarded = discarded + reply.usage

    def _plan(self, request: ChatRequest) -> RequestPlan:
        return self._plans.get((request.model, request.reasoning), RequestPlan())

    def _change(self, request: ChatRequest, used: RequestPlan, to: RequestPlan, why: str) -> None:
        """Record what a call made by the plan `used` has found out, and report `why`."""
        # Otherwise another call has found out something meanwhile: this one tries that first.
        if self._plan(request) == used:
            self._plans[request.model, request.reasoning] = to
            trace("endpoint", notice=why)
            self._notify(type(why)(one_line(why)))

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = Connection(
                *(self._endpoint, self._key),
                timeout=self._timeout,
                connections=self.limiter.maximum + 4,
            )
        return self._connection

    async def _nearest(self, model: str) -> str:
        try:
            known = await self.models()
        except EndpointRefused:
            return ""
        near = difflib.get_close_matches(model, known, NEAREST_MODELS, cutoff=0.4) or known
        return f"; it has {listed(near, NEAREST_MODELS)}" if near else "; it lists none"

    def _explained(self, failure: CallFailed, model: str = "") -> str:
        url, status = self.base_url, failure.status
        if status is None:
            usual = "check the address, the network and the proxy settings"
            if self._endpoint.is_local:
                usual = "is the server running?"
            found = (advice for sign, advice in _CONNECTION_ADVICE if sign in str(failure).lower())
            return f"cannot reach {url}: {failure}; {next(found, usual)}"
        if status == 401 and not self._key and not self._endpoint.login:
            return f"{url} needs a key: {self._key_help} ({failure})"
        if status == 401:
            return f"{url} refused the key ({failure}); check it, or {self._key_help}"
        if failure.about_model and model:
            return f"{url} does not know the model {model} ({failure})"
        if 300 <= status < 400:
            return f"{url} redirects ({failure}): use the address it redirects to"
        if status in {404, 405, 410} or (status < 300 and failure.action == "wait"):
            return (
                f"{url} did not answer as an OpenAI-compatible endpoint ({failure}); "
                "does the base URL end in /v1?"
            )
        if failure.action == "wait":
            return f"{url} does not answer ({failure})"
        return f"{url} refused the account or the key ({failure})"


# ---- How long to wait after a failed call, and how many calls run at once ------------------------


def retrying(
    attempts: int, patience: float, longest: float, sleep: Callable[[float], Awaitable[None]]
) -> AsyncRetrying:
    """Return a retrier that repeats a call while it raises `CallFailed` with the action "wait".

    It ends after `attempts` failures, not counting throttling, or `patience` seconds, not counting
    the wait for a turn. A pause lasts at most `longest` seconds, unless the endpoint asks for more.
    """
    from tenacity import AsyncRetrying, retry_if_exception, wait_random_exponential

    growing = wait_random_exponential(0.5, longest)
    failures, queued = 0, 0.0

    def spent(state: RetryCallState) -> float:
        return max((state.seconds_since_start or 0.0) - queued, state.idle_for)

    def pause(state: RetryCallState) -> float:
        nonlocal queued
        failure = _failure_of(state)
        queued += failure.queued
        seconds, after = growing(state), failure.after
        if after is not None:
            # Calls are spread over the time after the second that the endpoint named. If it
            # throttles again at that time, they are spread further.
            seconds = min(seconds, 0.1 * after) if state.attempt_number < 3 else seconds
            seconds += after
        seconds = min(seconds, max(patience - spent(state), 0.0))
        trace("wait", seconds=round(seconds, 3), attempt=state.attempt_number)
        return seconds

    def is_over(state: RetryCallState) -> bool:
        nonlocal failures
        failures += not _failure_of(state).throttled
        return failures >= attempts or spent(state) >= patience

    temporary = retry_if_exception(lambda e: isinstance(e, CallFailed) and e.action == "wait")
    return AsyncRetrying(sleep=sleep, retry=temporary, wait=pause, stop=is_over, reraise=True)


def _failure_of(state: RetryCallState) -> CallFailed:
    return cast(CallFailed, state.outcome and state.outcome.exception())


# A server on one's own machine often has two slots. With one, a call that hangs would keep all
# others waiting.
FLOOR = 2
# Each doubling takes as long as a call.
START = 8


class AdaptiveLimiter:
    """Admits calls in order of arrival, up to a `limit` that adapts to the endpoint.

    The limit begins at eight, and doubles after as many successes. When the endpoint throttles or
    is too slow, it halves, once for all calls that were in flight together, down to two; from then
    on it grows by one.
    """

    def __init__(self, maximum: int) -> None:
        from anyio import CapacityLimiter

        self.maximum = maximum
        self._places = CapacityLimiter(min(START, maximum))
        self._halvings = self._successes = 0

    @property
    def limit(self) -> int:
        return int(self._places.total_tokens)

    @property
    def in_flight(self) -> int:
        return self._places.borrowed_tokens

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[int]:
        """Wait for a turn and hold it for the block; report its end with the yielded number."""
        call = object()
        await self._places.acquire_on_behalf_of(call)
        try:
            yield self._halvings
        finally:
            self._places.release_on_behalf_of(call)

    def succeeded(self, slot: int) -> None:
        # Calls admitted before the last halving say nothing about the present limit.
        if slot == self._halvings and self.limit < self.maximum:
            self._successes += 1
            if self._successes >= self.limit:
                self._successes = 0
                more = 1 if self._halvings else self.limit
                self._places.total_tokens = min(self.limit + more, self.maximum)

    def throttled(self, slot: int) -> None:
        """Report that the endpoint asked for fewer calls, or did not answer in time."""
        if slot == self._halvings:
            self._halvings += 1
            self._successes = 0
            self._places.total_tokens = max(min(FLOOR, self.maximum), self.limit // 2)

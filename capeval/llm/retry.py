"""What a failed call means, how long to wait after it, and how many calls run at once."""

from __future__ import annotations

import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Literal, cast

from capeval.llm.tracing import redact, trace

if TYPE_CHECKING:
    from tenacity import AsyncRetrying, RetryCallState

Action = Literal["wait", "stop_run", "refuse_access", "refuse_request"]

_NO_MONEY = re.compile(
    "insufficient_quota|billing_hard_limit_reached|billing_not_active|account_deactivated"
)
_FILTERED = re.compile(
    r"(?i)content[_ ]?(filter|policy|management)|responsibleai|moderation|flagged|safety system"
)
_TOO_LONG = re.compile(
    r"(?i)context[_ ]length|context window|maximum context|too (long|large|many (input )?tokens)"
    r"|string_above_max|reduce the length|exceeds? the (model|limit|maximum|available context)"
    r"|at most \d+|longer than the maximum model length|max_model_len"
)
_NO_MODEL = re.compile(
    r"(?is)model_not_found|model\b.{0,200}(does not exist|not found|not a valid)"
    r"|invalid model|unknown model|not found.{0,40}model"
)
LIMITS = ("max_tokens", "max_completion_tokens")
"""The fields that limit a reply."""
_LIMIT = re.compile(
    r"max_(completion_|output_|new_)?tokens|(output|completion) tokens|in the (output|completion)"
)
_UNKNOWN = re.compile(
    "(?i)unsupported|not support|unknown|unrecogni[sz]ed|unexpected|extra (inputs|fields)"
    "|not permitted|instead of"
)
_PROMPT = re.compile("(?i)prompt|input|messages|context length")
_ALSO_NAMED = {"response_format": r"response_format|json_schema|json_object|structured outputs?"}


class CallFailed(Exception):
    """A call that brought no chat completion, and what to do about it.

    `status` is the HTTP status, None where no response came; `body` is the error in the response,
    JSON values or text; `after` is how many seconds the endpoint asks to wait, if it says so;
    `queued` is for how many seconds the call waited for its turn. The endpoint has `throttled` the
    user, or the call has `timed_out`.

    Of the actions, "stop_run" means that no call can succeed; "refuse_access" that none can unless
    one has succeeded already: then a firewall or a proxy refuses this request; "refuse_request"
    that it is refused, `about_content` because of its length or a filter, `about_prompt` because of
    the prompt.
    """

    queued = 0.0

    def __init__(
        self,
        status: int | None,
        message: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        *,
        timed_out: bool = False,
    ) -> None:
        message = redact(message or _message(body))
        reason = f"{status}: {message}" if status and message else message
        super().__init__(reason or f"HTTP status {status}")
        self.status, self.after = status, _retry_after(headers or {})
        self._body, self._message = body, message
        self.about_prompt = bool(_PROMPT.search(message))
        # Azure and gateways nest the reason deeper than the message.
        self._text = text = f"{message} {json.dumps(body)[:4000]}"
        self.timed_out = timed_out or status in {408, 504, 524}
        self.throttled = status in {429, 503, 529}
        self.about_model = status in {400, 404, 422} and bool(_NO_MODEL.search(text))
        self.too_long = status == 413 or (status in {400, 422} and bool(_TOO_LONG.search(text)))
        self.about_content = self.too_long or (
            status in {400, 403, 422} and bool(_FILTERED.search(text))
        )
        self.action = self._action()

    def _action(self) -> Action:
        status = self.status
        if status is None:
            return "wait"
        if status in {401, 402} or (status < 500 and _NO_MONEY.search(self._text)):
            return "stop_run"
        if self.about_content:
            return "refuse_request"
        if status in {403, 404, 405, 410} or 300 <= status < 400:
            return "refuse_access"
        if status in {408, 409, 425, 429} or status >= 500 or status < 300:
            return "wait"
        return "refuse_access" if self.about_model else "refuse_request"

    def smaller_limit(self, refused: int, least: int) -> int | None:
        """Return a limit of tokens to try, `least` or more; None if the refused one is no fault."""
        text = self._text
        if self.status not in {400, 422} or not _LIMIT.search(text) or _UNKNOWN.search(text):
            return None
        figures = map(int, re.findall(r"\b\d{1,9}\b", self._message))
        smaller = max((one for one in figures if least <= one < refused), default=refused // 2)
        return smaller if smaller >= least else None

    def refused_parameter(self, sent: Collection[str]) -> str | None:
        """Return the parameter of `sent` that was refused; its own field outweighs the text."""
        if self.status not in {400, 422} or self.action == "stop_run" or self.about_content:
            return None
        if not _UNKNOWN.search(self._text):
            sent = [name for name in sent if name not in LIMITS]
        param = self._body.get("param") if isinstance(self._body, dict) else None
        if isinstance(param, str) and param.split(".")[0] in sent:
            return param.split(".")[0]
        found = {}
        for name in sent:
            words = rf"(?i)\b({_ALSO_NAMED.get(name, name)})\b"
            if match := re.search(words, self._text[:1000]):
                found[match.start()] = name
        return found[min(found)] if found else None


def _message(body: Any) -> str:
    names = ("message", "detail", "error")
    # Gateways wrap an error in another, or its JSON in a text.
    while isinstance(body, dict) and (named := [body[key] for key in names if body.get(key)]):
        body = named[0]
        if isinstance(body, str) and body.startswith("{"):
            with suppress(ValueError, RecursionError):
                body = json.loads(body)
    if isinstance(body, str) and body.lstrip().startswith("<"):
        return "a web page"
    return (body if isinstance(body, str) else json.dumps(body))[:2000]


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that `retry-after-ms` or `retry-after` (seconds or a date) ask for."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        with suppress(ValueError):
            seconds = float(headers.get(name, "")) / unit
            if 0 <= seconds < float("inf"):
                return seconds
    try:
        date = parsedate_to_datetime(headers.get("retry-after", ""))
    except (ValueError, TypeError, OverflowError):
        return None
    return max(0.0, date.timestamp() - time.time())


def retrying(
    attempts: int, patience: float, longest: float, sleep: Callable[[float], Awaitable[None]]
) -> AsyncRetrying:
    """Return what repeats one call as long as it raises `CallFailed` with the action "wait".

    It ends after so many failures, of which throttles are none, or seconds of `patience`, which do
    not include the wait for a turn: patience is with the endpoint. A pause has at most `longest`
    seconds, unless the endpoint asks for more.
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


class AdaptiveLimiter:
    """Admits calls in order of arrival, up to a `limit` that adapts to the endpoint.

    The limit begins at two, and doubles with as many successes as it is. When the endpoint
    throttles or is too slow, it halves, once for all calls that were in flight together, down to
    two; from then on it grows by one.
    """

    def __init__(self, maximum: int) -> None:
        from anyio import CapacityLimiter

        self.maximum = maximum
        self._places = CapacityLimiter(min(FLOOR, maximum))
        self._halvings = self._successes = 0

    @property
    def limit(self) -> int:
        return int(self._places.total_tokens)

    @property
    def in_flight(self) -> int:
        return self._places.borrowed_tokens

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[int]:
        """Wait for a turn, and keep it for the block, which reports its end with the number."""
        call = object()
        await self._places.acquire_on_behalf_of(call)
        try:
            yield self._halvings
        finally:
            self._places.release_on_behalf_of(call)

    def succeeded(self, slot: int) -> None:
        """Report that the endpoint answered the call of a slot."""
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

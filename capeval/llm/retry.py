"""Decides what to do about a failed call, once for the retries and for the limiter."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Literal

from capeval.tracing import trace

if TYPE_CHECKING:
    from tenacity import RetryCallState

Action = Literal["wait", "renegotiate", "stop_run", "refuse_access", "refuse_request"]

# An endpoint that recovers is used again within this time.
LONGEST_WAIT = 30.0
NO_MONEY = re.compile(
    "insufficient_quota|billing_hard_limit_reached|billing_not_active|account_deactivated"
)
FILTERED = re.compile(
    r"content[_ ]?(filter|policy|management)|responsibleai|moderation|flagged|safety system",
    re.IGNORECASE,
)
TOO_LONG = re.compile(
    r"context[_ ]length|context window|maximum context|too (long|large|many (input )?tokens)"
    r"|string_above_max|reduce the length|exceeds? the (model|limit|maximum)|at most \d+",
    re.IGNORECASE,
)
NO_MODEL = re.compile(
    r"model_not_found|model\b.{0,200}(does not exist|not found|not a valid)"
    r"|invalid model|unknown model|not found.{0,40}model",
    re.IGNORECASE | re.DOTALL,
)
# How endpoints name a parameter, where that is not its own name.
ALSO_NAMED = {"response_format": r"response_format|json_schema|json_object|structured outputs?"}


@dataclass(frozen=True, slots=True)
class RetryDecision:
    """What to do about one failure.

    "stop_run": no call can succeed. "refuse_access": neither can any, unless one has succeeded
    already; then a firewall or a proxy refuses this request. "refuse_request": this one is refused,
    `about_content` where a filter or its length is the reason.

    `after` is how many seconds the endpoint asks to wait, if it says so; `parameter` is what to
    leave off before asking again; `status` is the HTTP status, None where no response came;
    `about_model` says that the model is unknown. Secrets must be hidden in `reason` before it
    is shown.
    """

    action: Action
    reason: str
    status: int | None = None
    after: float | None = None
    throttled: bool = False
    parameter: str | None = None
    about_model: bool = False
    about_content: bool = False


class CallFailed(Exception):
    """A call that brought no chat completion; `status` is None where no response came.

    `body` is the error in the response: JSON values, or text. `decision` is made later.
    """

    decision: RetryDecision

    def __init__(
        self,
        status: int | None,
        reason: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(reason)
        self.status, self.reason, self.body, self.headers = status, reason, body, headers or {}


def decide(error: CallFailed, sent: Collection[str] = ()) -> RetryDecision:
    """Classify a failure of a call that sent the parameters `sent`."""
    status, message = error.status, _message(error)
    if status is None:
        return RetryDecision("wait", message)
    # Azure and gateways nest the reason deeper than the message.
    everything = f"{message} {json.dumps(error.body)[:4000]}"
    no_model = status in {400, 404, 422} and bool(NO_MODEL.search(everything))

    def decision(action: Action, **more: Any) -> RetryDecision:
        reason = f"{status}: {message}" if message else f"HTTP status {status}"
        return RetryDecision(action, reason, status, **more)

    if status in {401, 402} or (status < 500 and NO_MONEY.search(everything)):
        return decision("stop_run")
    if status in {400, 403, 413, 422} and FILTERED.search(everything):
        return decision("refuse_request", about_content=True)
    if status in {403, 404, 405, 410} or 300 <= status < 400:
        return decision("refuse_access", about_model=no_model)
    if status in {408, 409, 425, 429} or status >= 500 or status < 300:
        throttled = status in {429, 503, 529}
        return decision("wait", after=retry_after(error.headers), throttled=throttled)
    if status == 413 or TOO_LONG.search(everything):
        return decision("refuse_request", about_content=True)
    if status in {400, 422} and (named := _parameter(everything, error.body, sent)):
        return decision("renegotiate", parameter=named)
    if no_model:
        return decision("refuse_access", about_model=True)
    return decision("refuse_request")


def _message(error: CallFailed) -> str:
    """Return what an endpoint says about a failure, in whatever field it does."""
    body: Any = error.body
    if isinstance(body, dict):
        body = next((body[key] for key in ("message", "detail", "error") if body.get(key)), body)
    if isinstance(body, str) and body.lstrip().startswith("<"):
        return "a web page"
    return error.reason or (body if isinstance(body, str) else json.dumps(body))[:2000]


def _parameter(text: str, body: object, sent: Collection[str]) -> str | None:
    """Return the parameter of `sent` that an error is about; its own field outweighs its text."""
    param = body.get("param") if isinstance(body, dict) else None
    if isinstance(param, str) and param.split(".")[0] in sent:
        return param.split(".")[0]
    names = {name: ALSO_NAMED.get(name, name) for name in sent}
    found = {
        match.start(): name
        for name, words in names.items()
        if (match := re.search(rf"\b({words})\b", text[:1000], re.IGNORECASE))
    }
    return found[min(found)] if found else None


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that `retry-after-ms` or `retry-after` (seconds or a date) ask for."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    try:
        date = parsedate_to_datetime(headers.get("retry-after", ""))
    except (ValueError, TypeError, OverflowError):
        return None
    return max(0.0, date.timestamp() - time.time())


class Effort:
    """The attempts and seconds that one call may still use: when tenacity stops, and its pauses."""

    def __init__(self, attempts: int, patience: float, longest: float = LONGEST_WAIT) -> None:
        from tenacity import wait_random_exponential

        self.spent, self.tried, self._failures = 0.0, 0, 0
        self._attempts, self._patience = attempts, patience
        self._growing = wait_random_exponential(0.5, longest)

    def bounded(self, timeout: float) -> float:
        """Return the seconds that the next attempt may take."""
        return min(timeout, max(self._patience - self.spent, 1.0))

    def failed(self, decision: RetryDecision) -> None:
        """Count a failed attempt; being throttled is waited out as long as patience lasts."""
        self.tried += 1
        self._failures += not decision.throttled

    def is_over(self, _: RetryCallState) -> bool:
        """Return whether the attempt was the last."""
        return self._failures >= self._attempts or self.spent >= self._patience

    def pause(self, state: RetryCallState) -> float:
        """Return the seconds to wait before the next attempt."""
        failure = state.outcome.exception() if state.outcome else None
        after = failure.decision.after if isinstance(failure, CallFailed) else None
        seconds = self._growing(state)
        if after is not None:
            # Calls are spread over the time after the second that the endpoint named. If it
            # throttles again at that time, they are spread further.
            seconds = after + (min(seconds, 0.1 * after) if self.tried < 3 else seconds)
        return min(seconds, max(self._patience - self.spent, 0.0))

    def waiting(self, state: RetryCallState) -> None:
        """Count the pause that begins."""
        self.spent += state.upcoming_sleep
        trace("wait", seconds=round(state.upcoming_sleep, 3), attempt=self.tried)

"""Decides what to do about a failed call, once for the retries and for the limiter."""

from __future__ import annotations

import json
import random
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
NO_MONEY = {
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_not_active",
    "account_deactivated",
}
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

    `body` is the error in the response: JSON values, or text.
    """

    def __init__(
        self,
        status: int | None,
        reason: str = "",
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(reason)
        self.status, self.reason, self.body = status, reason, body
        self.headers = {} if headers is None else headers


def decide(error: CallFailed, sent: Collection[str] = ()) -> RetryDecision:
    """Classify a failure of a call that sent the parameters `sent`."""
    status, body = error.status, error.body
    if status is None:
        return RetryDecision("wait", error.reason)
    fields: Mapping[str, Any] = body if isinstance(body, dict) else {}
    text = _message(error)
    # Azure and gateways nest the reason deeper than the message.
    everything = f"{text} {json.dumps(body, default=str)[:4000]}"
    no_model = status in {400, 404, 422} and bool(NO_MODEL.search(everything))

    def decision(action: Action, **more: Any) -> RetryDecision:
        reason = f"{status}: {text}" if text else f"HTTP status {status}"
        return RetryDecision(action, reason, status, **more)

    codes = {str(fields.get(key)).lower() for key in ("code", "type")}
    if codes & NO_MONEY or status in {401, 402}:
        return decision("stop_run")
    if status in {400, 403, 413, 422} and FILTERED.search(everything):
        return decision("refuse_request", about_content=True)
    if status in {403, 404, 405, 410} or 300 <= status < 400:
        return decision("refuse_access", about_model=no_model)
    if status in {408, 409, 425, 429} or status >= 500 or status < 300:
        throttled = status in {429, 503, 529}
        return decision("wait", after=retry_after(error.headers), throttled=throttled)
    too_long = status == 413 or bool(TOO_LONG.search(everything))
    if status in {400, 422} and not too_long:
        named = _parameter(everything, fields.get("param"), sent)
        if named is not None:
            return decision("renegotiate", parameter=named)
        if no_model:
            return decision("refuse_access", about_model=True)
    return decision("refuse_request", about_content=too_long)


def _message(error: CallFailed) -> str:
    """Return what an endpoint says about a failure, in whatever field it does."""
    body: Any = error.body
    if isinstance(body, dict):
        body = next((body[key] for key in ("message", "detail", "error") if body.get(key)), "")
    if isinstance(body, dict | list) and body:
        return json.dumps(body, default=str)[:2000]
    if isinstance(body, str) and body.strip() and not error.reason:
        return "a web page" if body.lstrip().startswith("<") else body[:2000]
    return error.reason


def _parameter(text: str, param: object, sent: Collection[str]) -> str | None:
    """Return the parameter of `sent` that an error is about; its own field outweighs its text."""
    if isinstance(param, str) and param.split(".")[0] in sent:
        return param.split(".")[0]
    found = {
        name: match.start()
        for name in sent
        if (match := re.search(rf"\b({ALSO_NAMED.get(name, name)})\b", text[:1000], re.IGNORECASE))
    }
    return min(found, key=found.__getitem__) if found else None


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


class GaveUp(Exception):
    """An attempt ended with this decision."""

    def __init__(self, decision: RetryDecision) -> None:
        super().__init__(decision.reason)
        self.decision = decision


class Effort:
    """The attempts and seconds that one call may still use: when tenacity stops, and its pauses."""

    def __init__(
        self, attempts: int, patience: float, rng: random.Random, longest: float = LONGEST_WAIT
    ) -> None:
        self.spent = 0.0
        self.tried = 0
        self._failures = 0
        self._attempts, self._patience, self._rng = attempts, patience, rng
        self._longest = longest

    def bounded(self, timeout: float) -> float:
        """Return the seconds that the next attempt may take."""
        return min(timeout, max(self._patience - self.spent, 1.0))

    def failed(self, decision: RetryDecision) -> None:
        """Count a failed attempt; being throttled is waited out as long as patience lasts."""
        self.tried += 1
        self._failures += not decision.throttled

    def is_over(self, state: RetryCallState) -> bool:
        """Return whether the attempt was the last."""
        del state
        return self._failures >= self._attempts or self.spent >= self._patience

    def pause(self, state: RetryCallState) -> float:
        """Return the seconds to wait before the next attempt."""
        failure = state.outcome.exception() if state.outcome else None
        after = failure.decision.after if isinstance(failure, GaveUp) else None
        grown = min(self._longest, 0.5 * 2.0 ** min(self.tried - 1, 16))
        if after is None:
            seconds = self._rng.uniform(0.0, grown)
        else:
            # Calls are spread over the time after the second that the endpoint named. If it
            # throttles again at that time, they are spread further.
            spread = min(0.1 * after, 1.0) if self.tried < 3 else grown
            seconds = after + self._rng.uniform(0.0, spread)
        return min(seconds, max(self._patience - self.spent, 0.0))

    def waiting(self, state: RetryCallState) -> None:
        """Count the pause that begins."""
        self.spent += state.upcoming_sleep
        trace("wait", seconds=round(state.upcoming_sleep, 3), attempt=self.tried)

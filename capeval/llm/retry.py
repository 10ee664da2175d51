"""Decides what to do about a failed call, once for the retries and for the limiter."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any, Literal

from capeval.llm.redact import redact

Action = Literal["wait", "stop_run", "refuse_access", "refuse_request"]

NO_MONEY = re.compile(
    "insufficient_quota|billing_hard_limit_reached|billing_not_active|account_deactivated"
)
FILTERED = re.compile(
    r"content[_ ]?(filter|policy|management)|responsibleai|moderation|flagged|safety system",
    re.IGNORECASE,
)
TOO_LONG = re.compile(
    r"context[_ ]length|context window|maximum context|too (long|large|many (input )?tokens)"
    r"|string_above_max|reduce the length|exceeds? the (model|limit|maximum|available context)"
    r"|at most \d+|longer than the maximum model length|max_model_len",
    re.IGNORECASE,
)
NO_MODEL = re.compile(
    r"model_not_found|model\b.{0,200}(does not exist|not found|not a valid)"
    r"|invalid model|unknown model|not found.{0,40}model",
    re.IGNORECASE | re.DOTALL,
)
# The fields that limit a reply, and what is said of one that the endpoint does not have.
LIMITS = ("max_tokens", "max_completion_tokens")
LIMIT = re.compile(
    r"max_(completion_|output_|new_)?tokens|(output|completion) tokens|in the (output|completion)"
)
UNKNOWN = re.compile(
    "unsupported|not support|unknown|unrecogni[sz]ed|unexpected|extra (inputs|fields)|not permitted"
    "|instead of",
    re.IGNORECASE,
)
PROMPT = re.compile("prompt|input|messages|context length", re.IGNORECASE)
# How endpoints name a parameter, where that is not its own name.
ALSO_NAMED = {"response_format": r"response_format|json_schema|json_object|structured outputs?"}


class CallFailed(Exception):
    """A call that brought no chat completion, and what to do about it.

    `status` is the HTTP status, None where no response came; the endpoint has `throttled` the user,
    or the call has `timed_out`;
    `body` is the error in the response, JSON values or text; `after` is how many seconds the
    endpoint asks to wait, if it says so.

    Of the actions, "stop_run" means that no call can succeed; "refuse_access" that none can unless
    one has succeeded already: then a firewall or a proxy refuses this request. "refuse_request": it
    is refused, `about_content` where a filter or its length is the reason, `about_prompt` where the
    prompt is.
    """

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
        self.status, self.after = status, retry_after(headers or {})
        self._body, self._message = body, message
        self.about_prompt = bool(PROMPT.search(message))
        # Azure and gateways nest the reason deeper than the message.
        self._text = text = f"{message} {json.dumps(body)[:4000]}"
        self.timed_out = timed_out or status in {408, 504, 524}
        self.throttled = status in {429, 503, 529}
        self.about_model = status in {400, 404, 422} and bool(NO_MODEL.search(text))
        self.too_long = status == 413 or (status in {400, 422} and bool(TOO_LONG.search(text)))
        self.about_content = self.too_long or (
            status in {400, 403, 422} and bool(FILTERED.search(text))
        )
        self.action = self._action()

    def _action(self) -> Action:
        status = self.status
        if status is None:
            return "wait"
        if status in {401, 402} or (status < 500 and NO_MONEY.search(self._text)):
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
        if self.status not in {400, 422} or not LIMIT.search(text) or UNKNOWN.search(text):
            return None
        figures = map(int, re.findall(r"\b\d{1,9}\b", self._message))
        smaller = max((one for one in figures if least <= one < refused), default=refused // 2)
        return smaller if smaller >= least else None

    def refused_parameter(self, sent: Collection[str]) -> str | None:
        """Return the parameter of `sent` that was refused; its own field outweighs the text."""
        if self.status not in {400, 422} or self.action == "stop_run" or self.about_content:
            return None
        if not UNKNOWN.search(self._text):
            sent = [name for name in sent if name not in LIMITS]
        param = self._body.get("param") if isinstance(self._body, dict) else None
        if isinstance(param, str) and param.split(".")[0] in sent:
            return param.split(".")[0]
        names = {name: ALSO_NAMED.get(name, name) for name in sent}
        found = {
            match.start(): name
            for name, words in names.items()
            if (match := re.search(rf"\b({words})\b", self._text[:1000], re.IGNORECASE))
        }
        return found[min(found)] if found else None


_NAMES = ("message", "detail", "error")


def _message(body: Any) -> str:
    """Return what an endpoint says about a failure, in whatever field it does."""
    # Gateways wrap an error in another, or its JSON in a text.
    while isinstance(body, dict) and (named := [body[key] for key in _NAMES if body.get(key)]):
        body = named[0]
        if isinstance(body, str) and body.startswith("{"):
            with suppress(ValueError, RecursionError):
                body = json.loads(body)
    if isinstance(body, str) and body.lstrip().startswith("<"):
        return "a web page"
    return (body if isinstance(body, str) else json.dumps(body))[:2000]


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

"""Decides what to do about a failed call, once for the retries and for the limiter."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Literal

from capeval.text import describe, one_line

Action = Literal["wait", "renegotiate", "stop_run", "refuse_access", "refuse_request"]

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
CALM: dict[str, Any] = {"after": None, "throttled": False}
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
    after: float | None
    throttled: bool
    reason: str
    parameter: str | None = None
    status: int | None = None
    about_model: bool = False
    about_content: bool = False


class BadAnswerError(Exception):
    """A response that is not a chat completion, with any status; `body` is JSON values or text."""

    def __init__(
        self,
        status: int,
        reason: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(reason)
        self.status, self.reason, self.body = status, reason, body
        self.headers = {} if headers is None else headers


def decide(error: BaseException, sent: Collection[str] = ()) -> RetryDecision | None:
    """Classify a failure of a call that sent the parameters `sent`; None for any other error."""
    import aiohttp

    if isinstance(error, BadAnswerError):
        return _decide_status(error, _text_of(error), sent)
    transport = (aiohttp.ClientError, TimeoutError, ConnectionError, asyncio.IncompleteReadError)
    if isinstance(error, transport):
        return RetryDecision("wait", None, False, failure_reason(error))
    return None


def _decide_status(error: BadAnswerError, text: str, sent: Collection[str]) -> RetryDecision:
    status, codes = error.status, _codes(error.body)
    reason = f"{status}: {text}" if text else f"HTTP status {status}"
    description = " ".join([*sorted(codes), text])
    no_model = status in {400, 404, 422} and bool(NO_MODEL.search(description))

    def decision(action: Action, **more: Any) -> RetryDecision:
        return RetryDecision(action, reason=reason, status=status, **{**CALM, **more})

    if codes & NO_MONEY or status in {401, 402}:
        return decision("stop_run")
    if status in {400, 403, 413, 422} and FILTERED.search(description):
        return decision("refuse_request", about_content=True)
    if status in {403, 404, 405, 410} or 300 <= status < 400:
        return decision("refuse_access", about_model=no_model)
    if status in {408, 409, 425, 429} or status >= 500 or status < 300:
        throttled = status in {429, 503, 529}
        return decision("wait", after=retry_after(error.headers), throttled=throttled)
    too_long = status == 413 or bool(TOO_LONG.search(description))
    if status in {400, 422} and not too_long:
        named = _named(text, error.body, sent)
        if named is not None:
            return decision("renegotiate", parameter=named)
        if no_model:
            return decision("refuse_access", about_model=True)
    return decision("refuse_request", about_content=too_long)


def _codes(body: object) -> set[str]:
    return {
        str(part[key])[:200].lower()
        for part in _parts(body)
        for key in ("code", "type")
        if isinstance(part.get(key), str | int)
    }


def _parts(body: object, depth: int = 4) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of an error body, which endpoints nest in different ways."""
    if depth and isinstance(body, Mapping):
        yield body
        for key in ("error", "detail", "innererror", "metadata"):
            yield from _parts(body.get(key), depth - 1)
    elif depth and isinstance(body, list):
        for item in body[:8]:
            yield from _parts(item, depth - 1)


def _text_of(error: BadAnswerError) -> str:
    body = error.body
    for part in _parts(body):
        for key in ("message", "msg", "detail", "error"):
            if isinstance(part.get(key), str) and part[key].strip():
                where = part.get("loc")
                text = str(part[key])[:2000]
                return (
                    f"{'.'.join(map(str, where[:20]))[:200]}: {text}"
                    if isinstance(where, list)
                    else text
                )
    if not error.reason and isinstance(body, str) and body.strip():
        return "a web page" if body.lstrip().startswith("<") else body[:2000]
    return error.reason


def _named(text: str, body: object, sent: Collection[str]) -> str | None:
    """The parameter of `sent` that the error is about; its own field outweighs its message."""
    fields: list[str] = []
    for part in _parts(body):
        fields += [str(part["param"])[:200]] if part.get("param") else []
        loc = part.get("loc")
        fields += [str(key)[:200] for key in loc[:20]] if isinstance(loc, list) else []
    for name in sent:
        if any(field.split(".")[0] == name for field in fields):
            return name
    found = {
        name: match.start()
        for name in sent
        if (match := re.search(rf"\b({ALSO_NAMED.get(name, name)})\b", text[:1000], re.IGNORECASE))
    }
    return min(found, key=found.__getitem__) if found else None


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that `retry-after-ms` or `retry-after` (seconds or a date) ask for."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = (headers.get(name) or "").strip()
        try:
            seconds = float(value) / unit
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    try:
        date = parsedate_to_datetime(headers.get("retry-after") or "")
    except (ValueError, TypeError, OverflowError):
        return None
    return max(0.0, date.timestamp() - time.time())


def failure_reason(error: BaseException) -> str:
    """Return in a few words why the connection failed, which the libraries' messages obscure."""
    import aiohttp

    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain and len(chain) < 10:
        chain.append(link)
        link = link.__cause__ or link.__context__
    for each in chain:
        if str(each).startswith("the response is "):  # our own message (capeval.llm.transport)
            return one_line(str(each))
    text = " ".join(f"{type(each).__name__} {each}" for each in chain).lower()
    for words, signs in (
        ("connection refused", r"connection ?refused|connect call failed"),
        ("its TLS certificate is not trusted", "certificate"),
        (
            "no such host",
            "name or service not known|nodename nor servname|name resolution|dnserror|gaierror",
        ),
        ("network unreachable", "unreachable"),
        ("the connection was dropped", "disconnected|connection ?reset|broken pipe"),
        ("the response was cut off", "payload|not enough data"),
        ("timed out", "timed out|timeouterror"),
    ):
        if re.search(signs, text):
            return words
    if isinstance(error, aiohttp.ClientResponseError):  # its own text contains the address
        return one_line(f"{type(error).__name__}: {error.status} {error.message}")
    return describe(error, 300)

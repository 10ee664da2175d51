"""What goes over the wire: connections, requests and replies as JSON, failures, lists of models.

Redirects are not followed, and no proxy gets what is meant for this machine. The openai library is
imported (0.5 s) with the first connection.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import ssl
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Literal

from capeval.errors import UsageError
from capeval.language import after_thinking
from capeval.llm.replies import ChatReply, ChatRequest
from capeval.llm.tracing import Endpoint, redact
from capeval.schema import Usage
from capeval.text import describe, one_line, storable
from capeval.version import __version__

if TYPE_CHECKING:
    import httpx2

# A dead host should be reported long before a slow answer is given up.
CONNECT_SECONDS = 10.0
# Images make megabytes: sent in one piece they would block every other call.
LARGE_BODY, PIECE = 1 << 20, 1 << 18
# The limit includes reasoning; without room for it there would be no visible reply.
HIDDEN_REASONING_TOKENS = 8192
# OpenAI's guide to reasoning advises reserving this much until the need is known.
MUCH_REASONING_TOKENS = 25_000
MUCH_REASONING = ("high", "xhigh", "max")
MOST_TOKENS = 100_000_000
LONGEST_NAME = 200
OPTIONAL = ("temperature", "seed", "max_tokens", "max_completion_tokens", "response_format")
"""Parameters that a request can do without."""


class Connection:
    """The connections to one endpoint; without a key it sends "none".

    Raises `UsageError` if the environment makes a connection impossible.
    """

    def __init__(self, endpoint: Endpoint, key: str, *, timeout: float, connections: int) -> None:
        import httpx2
        from openai import AsyncOpenAI

        # Their records of level INFO contain the address with its parameters.
        for library in ("httpx2", "openai"):
            logging.getLogger(library).setLevel(logging.WARNING)
        self._response, self._timeout = httpx2.Response, timeout
        self._client = AsyncOpenAI(
            api_key=key or "none",
            base_url=endpoint.url,
            default_query=endpoint.query,
            max_retries=0,
            # A name may take longer to look up than a host to connect.
            timeout=httpx2.Timeout(
                None,
                connect=min(CONNECT_SECONDS, timeout),
                pool=min(2 * CONNECT_SECONDS, timeout),
            ),
            http_client=_http_client(endpoint, key or "none", connections),
        )

    async def get(self, path: str, timeout: float | None = None) -> Mapping[str, Any]:
        return await _object(
            self._client.get(path, cast_to=self._response), timeout or self._timeout
        )

    async def post(self, path: str, body: bytes) -> Mapping[str, Any]:
        headers = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        sent = self._client.post(
            path,
            content=body if len(body) <= LARGE_BODY else _in_pieces(body),
            cast_to=self._response,
            options={"headers": headers},
        )
        return await _object(sent, self._timeout)

    async def close(self) -> None:
        await self._client.close()


def _http_client(endpoint: Endpoint, key: str, connections: int) -> httpx2.AsyncClient:
    import httpx2
    from openai import DefaultAioHttpClient

    # The library's own headers describe the user's machine, and variables can add others.
    kept = {"Host", "Content-Length", "Content-Type", "Accept-Encoding"}
    own = {"Accept": "application/json", "User-Agent": f"capeval/{__version__}"}
    if endpoint.login:  # httpx has put it there
        kept.add("Authorization")
    elif "api-version" in endpoint.query:  # Azure's classic endpoint
        own["api-key"] = key
    else:
        own["Authorization"] = f"Bearer {key}"

    async def set_headers(request: httpx2.Request) -> None:
        there = {name: request.headers[name] for name in kept if name in request.headers}
        request.headers = httpx2.Headers({**there, **own})

    try:
        # Loading certificates takes 50 ms; a context without any trusts none.
        is_plain = endpoint.is_local and endpoint.url.startswith("http:")
        no_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return DefaultAioHttpClient(
            auth=endpoint.login,
            # From the environment: its proxies.
            trust_env=not endpoint.is_local,
            verify=no_tls if is_plain else httpx2.create_ssl_context(),
            # A redirect would take the captions, and perhaps the key, to another host.
            follow_redirects=False,
            event_hooks={"request": [set_headers]},
            # Servers close idle connections after five seconds or more.
            limits=httpx2.Limits(max_connections=connections, keepalive_expiry=4.0),
        )
    except OSError as error:
        raise UsageError(
            f"SSL_CERT_FILE, SSL_CERT_DIR: no certificates can be read ({error.strerror}); "
            "correct the variable, or unset it"
        ) from None
    except (ValueError, httpx2.InvalidURL):
        # The value may contain a password.
        raise UsageError(
            "HTTP_PROXY, HTTPS_PROXY, ALL_PROXY: one is not the address of a proxy; "
            "set it to http://HOST:PORT, or unset it"
        ) from None


async def _in_pieces(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), PIECE):
        yield content[start : start + PIECE]


async def _object(call: Awaitable[httpx2.Response], timeout: float) -> Mapping[str, Any]:
    response = await _answer(call, timeout)
    status, content = response.status_code, response.content
    try:
        payload = json.loads(content)
    except (ValueError, RecursionError):
        kind = response.headers.get("Content-Type", "")
        is_page = "html" in kind.lower() or content.lstrip().startswith(b"<")
        kind = "HTML" if is_page else one_line(kind, 60) or "no type"
        raise CallFailed(status, f"the response is not JSON ({kind})") from None
    if not isinstance(payload, dict):
        raise CallFailed(status, "the response is not a JSON object")
    return payload


async def _answer(call: Awaitable[httpx2.Response], timeout: float) -> httpx2.Response:
    from aiohttp import ClientError
    from openai import APIError, APIStatusError

    # The caller's own exception is not part of this failure.
    outer = sys.exception()
    try:
        # The library limits each read; only this stops a server that sends byte by byte.
        async with asyncio.timeout(timeout):
            return await call
    except TimeoutError:
        message = f"timed out: no whole answer in {timeout:g} seconds"
        raise CallFailed(None, message, timed_out=True) from None
    except APIStatusError as error:
        raise CallFailed(error.status_code, "", error.body, error.response.headers) from None
    # Errors that the libraries pass on are ClientErrors; an unusable proxy is a ValueError.
    # In a list, a page instead of JSON is an AttributeError.
    except (APIError, ClientError, OSError, ValueError, AttributeError) as error:
        # They call any failure a timeout: the first exception of the chain is the cause.
        cause: BaseException = error
        while (link := cause.__cause__ or cause.__context__) and link is not outer:
            cause = link
        raise CallFailed(None, describe(cause, 300)) from error


# ---- What a failed call means --------------------------------------------------------------------

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
    """A call without a chat completion, and what to do about it.

    `status` is the HTTP status, None if no response came; `body` is the error in the response,
    JSON values or text; `after` is how many seconds the endpoint asks to wait, if it says so;
    `queued` is the seconds that the call waited for its turn. The endpoint has `throttled` the
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
        """Return a limit of tokens to try, `least` or more; None if the limit is not at fault."""
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


# ---- Requests and replies as JSON ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """How requests to one model are sent.

    `refused` are the parameters that it refused; `response_format` has two forms, of which JSON
    mode is the second. It `thinks` if it needs room to reason before it answers. `most` is the
    highest token limit that it accepts.
    """

    refused: tuple[str, ...] = ()
    thinks: bool = False
    most: int = MOST_TOKENS

    @property
    def left_off(self) -> tuple[str, ...]:
        """Requested parameters that this plan omits; "json_schema" if it sends only JSON mode."""
        omitted = {
            "temperature": "temperature" in self.refused,
            "seed": "seed" in self.refused,
            "max_tokens": "max_completion_tokens" in self.refused,
            "json_schema": self.refused.count("response_format") == 1,
            "response_format": self.refused.count("response_format") > 1,
        }
        return tuple(name for name, is_omitted in omitted.items() if is_omitted)


def body_of(request: ChatRequest, plan: RequestPlan) -> dict[str, Any]:
    much, schema = request.reasoning in MUCH_REASONING, request.schema
    room = MUCH_REASONING_TOKENS if much else HIDDEN_REASONING_TOKENS
    formats: list[Any] = [None]
    if schema is not None:
        strict = {"name": schema.name, "schema": schema.schema, "strict": True}
        formats = [{"type": "json_schema", "json_schema": strict}, {"type": "json_object"}, None]
    body = {
        "model": request.model,
        "messages": list(request.messages),
        "max_tokens": min(request.max_tokens + room * (plan.thinks or much), plan.most),
        "max_completion_tokens": min(request.max_tokens + room, plan.most),
        "reasoning_effort": request.reasoning,
        "temperature": request.temperature,
        "seed": request.repeat,
        "response_format": formats[min(plan.refused.count("response_format"), len(formats) - 1)],
        "media_io_kwargs": request.media,
    }
    omitted = {*plan.refused} - {"response_format"}
    if "max_tokens" not in plan.refused:
        omitted.add("max_completion_tokens")
    return {name: one for name, one in body.items() if one is not None and name not in omitted}


Ending = Literal["complete", "cut", "declined", "failed"]
# OpenAI's own reasons, and those of models and servers behind routers: Anthropic's, Gemini's,
# Cohere's, Mistral's, Text Generation Inference's. Any other reason is a failure: every server
# has its own words for one.
_ENDINGS: dict[Ending, str] = {
    "complete": "stop stop_sequence stop_token eos eos_token end_turn end_of_turn endoftext "
    "complete completed done finished normal success ok null none tool_call tool_calls tool_use "
    "function_call",
    "cut": "length max_length model_length max_tokens max_output_tokens max_new_tokens token_limit "
    "model_context_window_exceeded",
    "declined": "content_filter content_filtered refusal safety image_safety sensitive recitation "
    "prohibited_content blocklist spii guardrail_intervened error_toxic",
}
_ENDING_OF = {name: ending for ending, names in _ENDINGS.items() for name in names.split()}


def ending(reason: object) -> Ending:
    """Return how a reply with this finish reason ended; without any it is taken to be complete.

    >>> ending("STOP"), ending(None), ending("content_filter: RECITATION"), ending("server_error")
    ('complete', 'complete', 'declined', 'failed')
    """
    if not isinstance(reason, str):
        return "complete" if reason is None else "failed"
    # Gemini's compatible endpoint adds its own reason: "content_filter: RECITATION".
    name = re.sub(r"[\s-]+", "_", reason.partition(":")[0].strip().lower())
    return _ENDING_OF.get(name, "failed") if name else "complete"


def reply_from(payload: Mapping[str, Any], asked: str, left_off: tuple[str, ...]) -> ChatReply:
    """Read a chat completion, tolerant of missing fields; raises `CallFailed`."""
    choices = payload.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    error = payload.get("error") or payload.get("errors") or _named_failure(payload)
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise _failed(error, "the response has no choices")
    # The partial text of a failed call may look like a whole reply.
    error = error or choice.get("error") or message.get("error")
    finish = choice.get("finish_reason")
    if error or payload.get("object") == "error" or ending(finish) == "failed":
        raise _failed(error, f"the reply is marked as failed ({one_line(str(finish), 60)})")
    text, refusal = _text(message.get("content")), _text(message.get("refusal"))
    if refusal:
        text, finish = refusal, "refusal"
    return ChatReply(
        # An unpaired surrogate can be neither printed nor stored.
        text=text if text.isascii() else storable(text),
        finish_reason=one_line(finish, LONGEST_NAME) if isinstance(finish, str) else None,
        model=_name(payload.get("model")) or asked,
        fingerprint=_name(payload.get("system_fingerprint")),
        usage=_usage(payload.get("usage")),
        left_off=left_off,
    )


def _named_failure(payload: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the failure that a gateway names at the top of a response, beside its choices."""
    code, status = str(payload.get("code")), payload.get("status")
    if not re.fullmatch("[45][0-9][0-9]", code) and status not in ("failed", "incomplete"):
        return None
    message = payload.get("message") or f"the response is marked as failed ({status or code})"
    return {"message": message, "code": int(code) if code.isdigit() else None}


def _failed(error: object, reason: str) -> CallFailed:
    # Routers answer 200 and put the status of the model behind them into the body.
    code = error.get("code") if isinstance(error, dict) else None
    status = code if type(code) is int and 400 <= code <= 599 else 200
    return CallFailed(status, "" if error else reason, error)


def cut_while_thinking(reply: ChatReply, payload: Mapping[str, Any]) -> bool:
    if reply.finish_reason != "length":
        return False
    message = payload["choices"][0]["message"]
    has_reasoning = bool(message.get("reasoning_content") or message.get("reasoning"))
    # A model in a loop of blanks writes nothing either, but more room does not help it.
    return has_reasoning or (bool(reply.text.strip()) and after_thinking(reply.text) is None)


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    # Parts of other types ("reasoning", "thinking") are not the reply.
    texts = [
        part.get("text") if part.get("type", "text") in {"text", "output_text"} else None
        for part in parts
        if isinstance(part, dict)
    ]
    return "".join(text for text in texts if isinstance(text, str))


def _usage(usage: object) -> Usage:
    if not isinstance(usage, dict):
        return Usage(calls=1)
    details = usage.get("prompt_tokens_details")
    return Usage(
        calls=1,
        input_tokens=_count(usage.get("prompt_tokens")),
        cached_tokens=_count(details.get("cached_tokens")) if isinstance(details, dict) else 0,
        output_tokens=_count(usage.get("completion_tokens")),
    )


def _count(value: object) -> int:
    # A number that no call can have consumed is ignored; the meter then estimates.
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else 0


def _name(value: object) -> str | None:
    return one_line(value, LONGEST_NAME) if isinstance(value, str) and value.strip() else None


def listed_models(payload: Mapping[str, Any]) -> list[dict[str, Any]]:
    listed = payload.get("data")
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


def model_ids(payload: Mapping[str, Any]) -> tuple[str, ...]:
    names = dict.fromkeys(record.get("id") for record in listed_models(payload))
    return tuple(name for name in names if isinstance(name, str) and name and name.isprintable())

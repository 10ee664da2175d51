"""What servers, gateways and networks send in place of a chat completion, and its outcome.

Each case is `(name, outcome, response)`, the response as the bytes on the wire. A server that sends
it once answers well afterwards. Outcomes:

"answered"   the reply is read at once: its text is "good" and it is complete
"cut", "declined"   it is read, and known to be cut off or refused by a filter
"retried"   the call is made again, until the attempts are used up
"negotiated"   it is made again without a parameter
"request"   this request is refused, and the run goes on
"endpoint"   the endpoint or the account is refused, and the run stops
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import pytest

from capeval.errors import EndpointRefused, RequestRefused, RetriesExhausted
from capeval.llm.wire import ending
from tests.llm.conftest import ask_for, client_of
from tests.server import completion

GOOD = completion("good")
MESSAGE: dict[str, Any] = {"role": "assistant", "content": "good"}


def http(status: int, body: Any = b"", *headers: str, length: int | None = None) -> bytes:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    if not any(header.lower().startswith("content-type") for header in headers):
        headers = (*headers, "Content-Type: application/json")
    size = len(content) if length is None else length
    lines = [f"HTTP/1.1 {status} Status", *headers, f"Content-Length: {size}", "", ""]
    return "\r\n".join(lines).encode() + content


def error(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": "some_error", **more}}


def choice(**more: Any) -> bytes:
    return http(200, {**GOOD, "choices": [{"finish_reason": "stop", "message": MESSAGE} | more]})


def ended(reason: Any) -> bytes:
    return choice(finish_reason=reason)


def said(content: Any, **more: Any) -> bytes:
    return choice(message={"role": "assistant", "content": content, **more})


def packed(coding: str, body: bytes) -> bytes:
    return http(200, body, f"Content-Encoding: {coding}")


BODY = json.dumps(GOOD).encode()
HTML = "Content-Type: text/html"
PAGE = b"<!doctype html><title>502 Bad Gateway</title>"

NOT_COMPLETIONS: list[Any] = [None, [], "good", 7, {}, {"choices": None}, {"choices": []}]

CASES: list[tuple[str, str, bytes]] = [
    # Statuses
    *((f"status {n} without a body", "retried", http(n)) for n in (408, 409, 425, 429, 500)),
    *((f"status {n} with a page", "retried", http(n, PAGE, HTML)) for n in (502, 503, 504, 520)),
    *((f"status {n} with an error", "retried", http(n, error("busy"))) for n in (429, 500, 529)),
    *((f"status {n}", "endpoint", http(n, error("no"))) for n in (401, 402, 403, 404, 405, 410)),
    *((f"status {n}", "endpoint", http(n, b"", "Location: /x")) for n in (301, 302, 307, 308)),
    ("status 204", "retried", b"HTTP/1.1 204 No Content\r\n\r\n"),
    ("status 413", "request", http(413)),
    ("status 400 without a body", "request", http(400)),
    ("no money", "endpoint", http(429, error("no", code="insufficient_quota"))),
    ("a quota per minute", "retried", http(429, error("Quota exceeded; check your billing"))),
    ("a closed account", "endpoint", http(403, error("no", type="billing_not_active"))),
    ("an unknown model", "endpoint", http(404, error("no", code="model_not_found"))),
    ("an unknown model as 400", "endpoint", http(400, error("invalid model: m"))),
    ("a filtered request", "request", http(400, error("no", code="content_filter"))),
    ("a request filtered by Azure", "request",
     http(400, error("no", innererror={"code": "ResponsibleAIPolicyViolation"}))),
    ("a flagged request", "request", http(403, error("your input was flagged"))),
    ("a long request", "request", http(400, error("maximum context length is 8192"))),
    ("too many tokens", "negotiated",
     http(400, error("max_tokens is too large: it is at most 64", param="max_tokens"))),
    ("a refused temperature", "negotiated", http(400, error("not 0.0", param="temperature"))),
    ("a refused seed of FastAPI", "negotiated",
     http(422, {"detail": [{"loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]})),
    ("a refused limit as text", "negotiated", http(400, b"unknown field max_tokens")),
    ("another refused parameter", "request", http(400, error("no", param="messages"))),
    ("an error that is a text", "request", http(400, {"error": "no"})),
    ("an error that is a list", "request", http(400, [1, 2])),
    ("an error of odd types", "request",
     http(400, {"error": {"message": [None], "code": {}, "param": 3, "type": []}})),
    ("an error as deep as it goes", "request", http(400, b"[" * 50_000)),
    # Retry-After that cannot be followed
    *((f"Retry-After: {after}", "retried", http(429, b"", f"Retry-After: {after}"))
      for after in ("-1", "nan", "inf", "soon", "", "Wed, 99 Oct 2015 07:28:00 GMT")),
    # Bodies
    ("nothing", "retried", http(200)),
    ("a web page", "retried", http(200, PAGE, HTML)),
    ("half a body", "retried", http(200, BODY[:40])),
    *((f"the JSON {json.dumps(value)}", "retried", http(200, value))
      for value in NOT_COMPLETIONS),
    ("a choice that is null", "retried", http(200, {"choices": [None]})),
    ("a choice without a message", "retried", choice(message=None)),
    ("a stream of events", "retried",
     http(200, b"data: " + BODY + b"\n\n", "Content-Type: text/event-stream")),
    ("JSON as deep as it goes", "retried", http(200, b"[" * 100_000)),
    ("a byte order mark", "answered", http(200, b"\xef\xbb\xbf" + BODY)),
    # Errors that say 200
    *((f"200 with {name}", "retried", http(200, {**GOOD, **more}))
      for name, more in {
          "an error": error("the model is gone"), "an error's text": {"error": "timeout"},
          "errors": {"errors": [{"message": "gone"}]}, "object error": {"object": "error"},
          }.items()),
    ("200 with an error in the choice", "retried", choice(error={"code": 500})),
    ("200 with an error in the message", "retried", said("good", error="gone")),
    ("200 with a wrong key inside", "endpoint", http(200, error("no", code=401))),
    ("200 with a throttle inside", "retried", http(200, error("slow down", code=429))),
    ("an error that is null", "answered", http(200, {**GOOD, "error": None, "errors": []})),
    # How replies end
    *((f"ended by {reason}", "retried", ended(reason))
      for reason in ("error", "ERROR ", "abort", "server_error", "load", "MALFORMED_FUNCTION_CALL",
                     "incomplete", {"type": "error"}, ["stop"], 0, True)),
    *((f"ended by {reason}", "answered", ended(reason))
      for reason in ("STOP", "eos", "end_turn", "COMPLETE", "null", "", None)),
    *((f"ended by {reason}", "cut", ended(reason))
      for reason in ("length", "MAX_TOKENS", "model_length", " max_output_tokens")),
    *((f"ended by {reason}", "declined", ended(reason))
      for reason in ("content_filter", "SAFETY", "content_filter: RECITATION", "refusal")),
    ("a refusal", "declined", said(None, refusal="I cannot help with that")),
    # Contents
    ("parts", "answered", said([{"type": "thinking", "text": "bad"}, {"text": "go"},
                                {"type": "output_text", "text": "od"}, None, 3])),
    ("odd usage", "answered", http(200, {**GOOD, "usage": {"prompt_tokens": -1, "x": "y"}})),
    ("odd names", "answered", http(200, {**GOOD, "model": 3, "system_fingerprint": {}})),
    ("reasoning beside the answer", "answered", said("good", reasoning_content="bad")),
    # Compression, which nobody asked for
    ("gzip that is none", "retried", packed("gzip", BODY)),
    # The wire
    ("less than announced", "retried", http(200, BODY, length=len(BODY) + 9)),
    ("nothing at all", "retried", b""),
    ("another protocol", "retried", b"SSH-2.0-OpenSSH_9.6\r\n"),
]  # fmt: skip


# ---- Tests ---------------------------------------------------------------------------------------


Writer = asyncio.StreamWriter


@asynccontextmanager
async def serving(*responses: bytes, drip: float = 0.0) -> AsyncIterator[str]:
    """Send the responses in order, the last one for all further calls; close each connection."""
    calls = count()

    async def answer(reader: asyncio.StreamReader, writer: Writer) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]
            await reader.readexactly(int(length or 0))
            response = responses[min(next(calls), len(responses) - 1)]
            if drip:
                for byte in response:
                    writer.write(bytes([byte]))
                    await asyncio.sleep(drip)
            writer.write(response)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


@pytest.mark.parametrize(
    ("outcome", "response"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
async def test_every_response_has_its_outcome(outcome: str, response: bytes) -> None:
    good = http(200, BODY)
    async with asyncio.timeout(10), serving(response, good) as url, client_of(url) as client:
        if outcome == "request":
            with pytest.raises(RequestRefused):
                await client.complete(ask_for())
            assert (await client.complete(ask_for())).text == "good"
        elif outcome == "endpoint":
            for _ in range(2):
                with pytest.raises(EndpointRefused):
                    await client.complete(ask_for())
        else:
            reply = await client.complete(ask_for())
            ends = outcome if outcome in {"cut", "declined"} else "complete"
            assert ending(reply.finish_reason) == ends
            assert reply.text == "good" or outcome == "declined"
            assert reply.usage.cached_tokens == 0
    if outcome == "retried":
        async with (
            asyncio.timeout(10),
            serving(response) as url,
            client_of(url, attempts=2, patience=3) as client,
        ):
            with pytest.raises(RetriesExhausted):
                await client.complete(ask_for())


async def test_a_reply_that_drips_is_given_up() -> None:
    async with (
        asyncio.timeout(5),
        serving(http(200, BODY), drip=0.05) as url,
        client_of(url, attempts=2, timeout=0.3) as client,
    ):
        with pytest.raises(RetriesExhausted, match="timed out"):
            await client.complete(ask_for())

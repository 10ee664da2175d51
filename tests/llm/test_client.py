"""The client against a server that answers, throttles, refuses and hangs."""

import asyncio
import time
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import pytest

from capeval.errors import (
    EndpointDown,
    EndpointRefused,
    RequestRefused,
    RequestTooLong,
    RetriesExhausted,
)
from capeval.llm.asker import Asker
from capeval.llm.client import AdaptiveLimiter
from capeval.llm.money import Meter
from capeval.llm.replies import ReplySchema
from tests.llm.conftest import KEY, Naps, ask_for, served
from tests.server import (
    Drop,
    Hang,
    completion,
    echo,
    failure,
    not_json,
    rate_limited,
    refusing,
    unauthorized,
    unknown_model,
)

SCHEMA = ReplySchema("answer", {"type": "object"})


async def test_the_whole_request_is_sent() -> None:
    async with served() as (server, client):
        reply = await client.complete(ask_for("a\ud83db", repeat=3, schema=SCHEMA))
    assert server.requests == [
        {
            "model": "judge-model",
            "messages": [{"role": "user", "content": "a?b"}],  # half a surrogate pair
            "max_tokens": 100,
            "temperature": 0.0,
            "seed": 3,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": {"type": "object"}, "strict": True},
            },
        }
    ]
    assert (reply.text, reply.model, reply.fingerprint) == ("a?b", "snapshot-1", "fp_1")
    assert (reply.usage.calls, reply.usage.input_tokens) == (1, 10)


@pytest.mark.parametrize(
    ("headers", "least", "most"),
    [
        ({"retry_after": "7"}, 7.0, 7.7),
        ({"retry_after": "0.5"}, 0.5, 0.55),
        ({"retry_after_ms": "1500", "retry_after": "9"}, 1.5, 1.65),
        ({"retry_after": "in a minute"}, 50.0, 67.0),
        ({"retry_after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0, 0.0),
        ({"retry_after": "86400"}, 300.0, 300.0),  # no longer than patience lasts
    ],
)
async def test_the_pause_that_the_endpoint_asks_for_is_kept(
    headers: dict[str, str], least: float, most: float
) -> None:
    naps, date = Naps(), formatdate(time.time() + 60, usegmt=True)
    headers = {name: value.replace("in a minute", date) for name, value in headers.items()}
    async with served(acts=[rate_limited(**headers)], sleep=naps) as (_, client):
        await client.complete(ask_for())
    assert least - 0.5 <= naps.seconds[0] <= most


async def test_patience_ends_a_storm_of_throttles() -> None:
    naps = Naps()
    throttles = (rate_limited(retry_after="15") for _ in range(9))
    async with served(acts=throttles, patience=20, sleep=naps) as (server, client):
        with pytest.raises(RetriesExhausted, match="429: Rate limit"):
            await client.complete(ask_for())
    assert sum(naps.seconds) <= 20
    assert server.calls == 3


@pytest.mark.parametrize(
    ("act", "limit"),
    [*((failure(n), 4) for n in (429, 503, 529, 504)), (Hang(), 4), (failure(500), 8)],
)
async def test_an_overloaded_endpoint_gets_fewer_calls(act: Any, limit: int) -> None:
    async with served(acts=["1", "2", act], timeout=2) as (_, client):
        for _ in range(3):
            await client.complete(ask_for())
        assert client.limiter.limit == limit


async def test_a_call_that_waits_for_its_turn_uses_up_no_patience() -> None:
    failed: set[str] = set()

    def fail_once(request: dict[str, Any]) -> Any:
        text = echo(request)
        if text in failed:
            return text
        failed.add(text)
        return failure(500)

    # Patience is shorter than the work.
    more: dict[str, Any] = {"latency": 0.05, "max_concurrency": 2, "patience": 0.7}
    async with served(fail_once, **more) as (_, client):
        await asyncio.gather(*(client.complete(ask_for(str(n))) for n in range(30)))


async def test_after_twenty_lost_calls_in_a_row_the_endpoint_is_down() -> None:
    acts: list[Any] = [failure(500) for _ in range(19)]
    async with served(lambda _: failure(500), acts=[*acts, "fine"], attempts=1) as (server, client):
        for calls in (19, 20):
            for _ in range(calls):
                with pytest.raises(RetriesExhausted):
                    await client.complete(ask_for())
            if calls == 19:
                assert (await client.complete(ask_for())).text == "fine"
        with pytest.raises(EndpointDown, match="20 calls in a row"):
            await client.complete(ask_for())
    assert server.calls == 40


async def test_one_refused_request_stops_no_other_once_the_endpoint_has_answered() -> None:
    async with served(acts=["fine", failure(403), "hi"]) as (_, client):
        await client.complete(ask_for())
        with pytest.raises(RequestRefused, match="it broke"):
            await client.complete(ask_for())
        assert (await client.complete(ask_for())).text == "hi"


@pytest.mark.parametrize(
    ("refused", "left_off", "absent"),
    [
        (("temperature",), ("temperature",), {"temperature"}),
        (("seed",), ("seed",), {"seed"}),
        (("json_schema",), ("json_schema",), set()),
        (("response_format",), ("response_format",), {"response_format"}),
        (("max_tokens", "temperature"), ("temperature",), {"max_tokens", "temperature"}),
        (("max_tokens", "max_completion_tokens"), ("max_tokens",), {"max_completion_tokens"}),
    ],
)
async def test_a_refused_parameter_is_left_off_from_then_on(
    refused: tuple[str, ...], left_off: tuple[str, ...], absent: set[str]
) -> None:
    notices: list[str] = []
    more: dict[str, Any] = {"latency": 0.005, "on_notice": notices.append}
    async with served(refusing(*refused), **more) as (server, client):
        replies = await asyncio.gather(
            *(client.complete(ask_for(str(n), schema=SCHEMA)) for n in range(16))
        )
        assert replies[-1].left_off == left_off
        calls = server.calls
        await client.complete(ask_for(schema=SCHEMA))
        assert server.calls == calls + 1
    assert not absent & set(server.requests[-1])
    assert server.requests[-1].get("max_completion_tokens", 8292) == 8292  # room for reasoning
    # However many calls find it out, it is reported once; response_format has two forms.
    assert len(notices) == len(refused) + ("response_format" in refused)


@pytest.mark.parametrize(
    ("message", "sent"),
    [
        (
            "max_tokens={sent} cannot be greater than max_model_len=4096. Please request fewer.",
            [25_100, 4096, 4096],
        ),
        ("max_tokens: {sent} > 8192, which is the maximum", [25_100, 8192, 4096, 4096]),
        ("max_tokens is too large", [25_100, 12_550, 6275, 3137, 3137]),
        # What depends on the prompt is found out for each.
        (
            "maximum context length is 4096 tokens; you requested {sent} output tokens, 1 input",
            [25_100, 4096, 25_100, 4096],
        ),
    ],
)
async def test_a_limit_that_is_too_high_is_made_smaller_and_never_left_off(
    message: str, sent: list[int]
) -> None:
    def respond(request: dict[str, Any]) -> Any:
        tokens = request["max_tokens"]
        said = message.format(sent=tokens)
        return failure(400, said, param="max_tokens") if tokens > 4096 else "fine"

    async with served(respond) as (server, client):
        for _ in range(2):
            reply = await client.complete(ask_for(reasoning="high"))
            assert reply.left_off == ()
    assert [request["max_tokens"] for request in server.requests] == sent


@pytest.mark.parametrize(
    "message",
    [
        "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it",
        "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
        "maximum context length is 64 tokens, but you requested 100 output tokens",
        {"error": {"code": 400, "message": "Input length (5) exceeds model's context length (4)"}},
        '{"error": {"message": "This model\'s maximum context length is 4096 tokens"}}',
    ],
)
async def test_a_request_that_is_too_long_is_known_in_every_servers_words(message: Any) -> None:
    async with served(lambda _: failure(400, message)) as (_, client):
        with pytest.raises(RequestTooLong, match="too long for the model") as caught:
            await client.complete(ask_for())
    assert "{" not in str(caught.value)


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ("Use 'max_completion_tokens' instead of 'max_tokens'", "max_tokens"),
        ("response_format is no good, nor is temperature", "json_schema"),
        ("structured output is not supported", "json_schema"),
        ("seeds are fine, logprobs are not", None),
    ],
)
async def test_the_refused_parameter_is_found_in_a_message(message: str, named: str | None) -> None:
    param = "max_tokens" if named == "max_tokens" else None
    async with served(acts=[failure(400, message, param=param)]) as (server, client):
        if named is None:
            with pytest.raises(RequestRefused, match="logprobs"):
                await client.complete(ask_for(schema=SCHEMA))
        else:
            reply = await client.complete(ask_for(schema=SCHEMA))
            assert (named in reply.left_off) is (named == "json_schema")
    assert named != "max_tokens" or "max_completion_tokens" in server.requests[-1]


async def test_a_model_that_thinks_first_gets_more_room() -> None:
    cut = completion("<think>A dog", finish_reason="length", completion_tokens=100)
    notices: list[str] = []
    async with served(acts=[cut], on_notice=notices.append) as (server, client):
        reply = await client.complete(ask_for("hi"))
    assert (reply.text, reply.usage.calls) == ("hi", 2)
    assert [request["max_tokens"] for request in server.requests] == [100, 100 + 8192]
    assert "thinks before it answers" in notices[0]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda: unauthorized(KEY), r"refused the key"),
        (lambda: unknown_model("gpt-4"), r"does not know the model gpt-4 .*; it has gpt-4o-"),
        (lambda: failure(402, "pay"), r"refused the account or the key \(402: pay\)"),
        (lambda: failure(404, "no such page"), r"OpenAI-compatible .* end in /v1\?"),
        (not_json, r"OpenAI-compatible .* end in /v1\?"),
        (lambda: failure(500), "does not answer .*it broke"),
        (
            lambda: failure(400, "messages are wrong"),
            "any request: 400: messages are wrong$",
        ),
        (Drop, "cannot reach .*Server disconnected; is it still starting"),
        (Hang, "cannot reach .*timed out"),
    ],
)
async def test_preflight_says_what_is_wrong(answer: Callable[[], Any], message: str) -> None:
    models = [f"gpt-4o-{n}" for n in range(12)] + ["whisper"]
    async with served(lambda _: answer(), models=models, timeout=0.5) as (_, client):
        with pytest.raises(EndpointRefused, match=message) as caught:
            await client.preflight("gpt-4")
    assert KEY not in str(caught.value)
    assert "whisper" not in str(caught.value)


async def test_preflight_goes_on_without_a_schema_that_breaks_the_server() -> None:
    notices: list[str] = []

    def respond(request: dict[str, Any]) -> Any:
        return failure(500, "grammar too complex") if "response_format" in request else "fine"

    async with served(respond, on_notice=notices.append) as (server, client):
        await client.preflight("judge-model")
        calls = server.calls
        reply = await client.complete(ask_for(schema=SCHEMA))
    assert (reply.left_off, server.calls) == (("response_format",), calls + 1)
    assert len(notices) == 1
    assert "fails with response_format" in notices[0]
    assert "grammar too complex" in notices[0]


async def test_a_preflight_that_fails_is_not_repeated_by_the_calls_that_wait() -> None:
    url = "https://api.openai.com/v1"
    async with served(lambda _: unauthorized()) as (server, client):
        asker = Asker(client, None, base_url=url, meter=Meter(), endpoint=client)
        asks = (asker.ask(ask_for(str(n)), lambda reply: reply.text) for n in range(16))
        ended = await asyncio.gather(*asks, return_exceptions=True)
    assert {type(one) for one in ended} == {EndpointRefused}
    assert server.calls == 1


async def test_the_limit_doubles_halves_once_for_calls_in_flight_together_and_then_creeps() -> None:
    limiter = AdaptiveLimiter(64)

    async def limit_after(count: int, end: str) -> int:
        async def call() -> None:
            async with limiter.slot() as slot:
                await asyncio.sleep(0)
                getattr(limiter, end)(slot)

        await asyncio.gather(*(call() for _ in range(count)))
        return limiter.limit

    assert [await limit_after(count, "succeeded") for count in (8, 16, 32)] == [16, 32, 64]
    assert await limit_after(64, "throttled") == 32
    assert [await limit_after(count, "succeeded") for count in (32, 33)] == [33, 34]
    assert [await limit_after(1, "throttled") for _ in range(5)] == [17, 8, 4, 2, 2]

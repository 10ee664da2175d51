from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Any

import pytest

from capeval.errors import (
    CapevalError,
    EndpointDown,
    EndpointRefused,
    RequestRefused,
    RetriesExhausted,
    UsageError,
)
from capeval.llm.asker import Asker
from capeval.llm.client import OpenAIChatClient
from capeval.llm.meter import Meter
from capeval.llm.types import ChatReply, ChatRequest, ReplySchema
from tests.llm.conftest import KEY, Naps
from tests.server import (
    Drop,
    Hang,
    LoopbackServer,
    completion,
    failure,
    half_closed,
    not_json,
    quota,
    rate_limited,
    refusing,
    unauthorized,
    unknown_model,
)

Clients = Callable[..., OpenAIChatClient]
Requests = Callable[..., ChatRequest]
SCHEMA = ReplySchema("answer", {"type": "object"})


async def test_the_whole_request_is_sent(client_of: Clients, ask_for: Requests) -> None:
    async with LoopbackServer() as server, client_of(server.url) as client:
        reply = await client.complete(ask_for("hi", repeat=3, schema=SCHEMA))
    assert server.requests == [
        {
            "model": "judge-model",
            "messages": [{"role": "user", "content": "hi"}],
            "max_tokens": 100,
            "temperature": 0.0,
            "seed": 3,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": {"type": "object"}, "strict": True},
            },
        }
    ]
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert (reply.text, reply.model, reply.fingerprint) == ("hi", "snapshot-1", "fp_1")
    assert (reply.usage.calls, reply.usage.input_tokens) == (1, 10)


async def test_half_a_surrogate_pair_is_sent_as_a_question_mark(
    client_of: Clients, ask_for: Requests
) -> None:
    async with LoopbackServer() as server, client_of(server.url) as client:
        assert (await client.complete(ask_for("a\ud83db"))).text == "a?b"


@pytest.mark.parametrize(
    "hiccup",
    [
        failure(500),
        failure(502),
        failure(529),
        rate_limited(),
        not_json(),
        half_closed(),
        Drop(mid_body=False),
        {"choices": []},
        {"choices": None, "error": {"message": "upstream", "code": 502}},
    ],
)
async def test_what_passes_is_waited_for(
    hiccup: Any, client_of: Clients, ask_for: Requests
) -> None:
    async with LoopbackServer(acts=[hiccup]) as server, client_of(server.url) as client:
        assert (await client.complete(ask_for("hi"))).text == "hi"
    assert server.calls == 2


async def test_a_server_that_hangs_is_asked_again(client_of: Clients, ask_for: Requests) -> None:
    async with (
        LoopbackServer(acts=[Hang()]) as server,
        client_of(server.url, timeout=0.1) as client,
    ):
        assert (await client.complete(ask_for("hi"))).text == "hi"


@pytest.mark.parametrize(
    ("headers", "least"), [({"retry_after": "7"}, 7.0), ({"retry_after_ms": "1500"}, 1.5)]
)
async def test_the_pause_that_the_endpoint_asks_for_is_kept(
    headers: dict[str, str], least: float, client_of: Clients, ask_for: Requests, naps: Naps
) -> None:
    async with (
        LoopbackServer(acts=[rate_limited(**headers)]) as server,
        client_of(server.url) as client,
    ):
        await client.complete(ask_for())
    assert least <= naps.seconds[0] <= least * 1.1


async def test_no_pause_is_longer_than_patience(
    client_of: Clients, ask_for: Requests, naps: Naps
) -> None:
    storm = LoopbackServer(lambda _: rate_limited(retry_after="86400"))
    async with storm as server, client_of(server.url, patience=20) as client:
        with pytest.raises(RetriesExhausted, match="429"):
            await client.complete(ask_for())
    assert sum(naps.seconds) <= 20
    assert server.calls == 2


async def test_being_throttled_often_loses_nothing(client_of: Clients, ask_for: Requests) -> None:
    acts = [rate_limited() for _ in range(12)]
    async with LoopbackServer(acts=acts) as server, client_of(server.url) as client:
        assert (await client.complete(ask_for("hi"))).text == "hi"
    assert server.calls == 13


async def test_a_storm_of_errors_ends_after_the_last_attempt(
    client_of: Clients, ask_for: Requests
) -> None:
    async with LoopbackServer(lambda _: failure(500)) as server, client_of(server.url) as client:
        with pytest.raises(RetriesExhausted, match=r"6 attempts .* 500: it broke"):
            await client.complete(ask_for())
    assert server.calls == 6


async def test_a_dropped_connection_is_called_that(client_of: Clients, ask_for: Requests) -> None:
    server = LoopbackServer(lambda _: Drop(mid_body=False))
    async with server, client_of(server.url, attempts=1) as client:
        with pytest.raises(RetriesExhausted, match="the connection was dropped"):
            await client.complete(ask_for())


async def test_after_twenty_lost_calls_in_a_row_the_endpoint_is_down(
    client_of: Clients, ask_for: Requests
) -> None:
    async with (
        LoopbackServer(lambda _: failure(500)) as server,
        client_of(server.url, attempts=1) as client,
    ):
        for _ in range(20):
            with pytest.raises(RetriesExhausted):
                await client.complete(ask_for())
        with pytest.raises(EndpointDown, match="20 calls in a row"):
            await client.complete(ask_for())
    assert server.calls == 20


async def test_one_success_keeps_the_endpoint_up(client_of: Clients, ask_for: Requests) -> None:
    def nineteen() -> list[Any]:
        return [failure(500) for _ in range(19)]

    acts = [*nineteen(), "fine", *nineteen()]
    async with LoopbackServer(acts=acts) as server, client_of(server.url, attempts=1) as client:
        for _ in range(39):
            try:
                await client.complete(ask_for())
            except RetriesExhausted:
                continue
        assert (await client.complete(ask_for("up"))).text == "up"


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (unauthorized(), EndpointRefused),
        (quota(), EndpointRefused),
        (unknown_model("judge-model"), EndpointRefused),
        (failure(400, "flagged", code="content_filter"), RequestRefused),
        (failure(400, "too long", code="context_length_exceeded"), RequestRefused),
        (failure(413), RequestRefused),
    ],
)
async def test_what_cannot_succeed_is_not_tried_again(
    answer: Any, kind: type[CapevalError], client_of: Clients, ask_for: Requests
) -> None:
    async with LoopbackServer(acts=[answer]) as server, client_of(server.url) as client:
        with pytest.raises(kind):
            await client.complete(ask_for())
    assert server.calls == 1


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
    refused: tuple[str, ...],
    left_off: tuple[str, ...],
    absent: set[str],
    client_of: Clients,
    ask_for: Requests,
) -> None:
    async with LoopbackServer(refusing(*refused)) as server, client_of(server.url) as client:
        reply = await client.complete(ask_for(schema=SCHEMA))
        calls = server.calls
        await client.complete(ask_for(schema=SCHEMA))
        assert server.calls == calls + 1
        assert client.left_off("judge-model") == reply.left_off == left_off
        assert client.left_off("another-model") == ()
    assert not absent & set(server.requests[-1])


async def test_reasoning_models_get_room_to_think(client_of: Clients, ask_for: Requests) -> None:
    async with LoopbackServer(refusing("max_tokens")) as server, client_of(server.url) as client:
        await client.complete(ask_for(max_tokens=100))
        assert client.left_off("judge-model") == ()
    assert server.requests[-1]["max_completion_tokens"] == 100 + 8192


async def test_many_calls_find_a_refused_parameter_out_once(
    client_of: Clients, ask_for: Requests
) -> None:
    notices: list[str] = []
    server = LoopbackServer(refusing("json_schema", "temperature"), latency=0.01)
    async with server, client_of(server.url, on_notice=notices.append) as client:
        await asyncio.gather(*(client.complete(ask_for(str(n), schema=SCHEMA)) for n in range(64)))
        assert client.left_off("judge-model") == ("temperature", "json_schema")
    assert len(notices) == 2
    assert server.requests[-1]["response_format"] == {"type": "json_object"}


async def test_what_was_not_asked_for_is_not_given_up(
    client_of: Clients, ask_for: Requests
) -> None:
    blamed = failure(400, "temperature must be set", param="temperature")
    async with LoopbackServer(acts=[blamed]) as server, client_of(server.url) as client:
        with pytest.raises(RequestRefused, match="must be set"):
            await client.complete(ask_for(temperature=None))
        assert client.left_off("judge-model") == ()


async def test_preflight_finds_out_what_the_model_takes(client_of: Clients) -> None:
    async with LoopbackServer(refusing("seed")) as server, client_of(server.url) as client:
        await client.preflight("judge-model")
        assert client.left_off("judge-model") == ("seed",)


async def test_preflight_names_the_nearest_models(client_of: Clients) -> None:
    models = [f"gpt-4o-{n}" for n in range(12)] + ["whisper"]
    server = LoopbackServer(lambda r: unknown_model(r["model"]), models=models)
    async with server, client_of(server.url) as client:
        with pytest.raises(EndpointRefused, match="does not know the model gpt-4") as caught:
            await client.preflight("gpt-4")
    assert str(caught.value).count("gpt-4o-") == 8


async def test_preflight_says_that_the_key_is_refused(client_of: Clients) -> None:
    async with LoopbackServer(lambda _: unauthorized(KEY)) as server, client_of(server.url) as c:
        with pytest.raises(EndpointRefused, match=r"refused the key") as caught:
            await c.preflight("judge-model")
    assert server.calls == 1
    assert KEY not in str(caught.value)


async def test_preflight_without_a_key_says_where_it_goes() -> None:
    async with (
        LoopbackServer(lambda _: unauthorized()) as server,
        OpenAIChatClient(server.url) as client,
    ):
        with pytest.raises(EndpointRefused, match="set OPENAI_API_KEY"):
            await client.preflight("judge-model")


async def test_preflight_of_a_server_that_is_not_running(client_of: Clients) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    async with client_of(url) as client:
        with pytest.raises(EndpointRefused) as caught:
            await client.preflight("judge-model")
    assert str(caught.value) == (f"cannot reach {url}: connection refused; is the server running?")


async def test_another_machine_that_cannot_be_reached_is_no_server_to_start(
    client_of: Clients,
) -> None:
    async with client_of("http://judge.invalid:8000/v1") as client:
        with pytest.raises(EndpointRefused, match="check the address, the network and the proxy"):
            await client.preflight("judge-model")


async def test_preflight_of_a_web_page_asks_for_v1(client_of: Clients) -> None:
    async with LoopbackServer(lambda _: not_json()) as server, client_of(server.url) as client:
        with pytest.raises(EndpointRefused, match=r"OpenAI-compatible .* end in /v1\?"):
            await client.preflight("judge-model")
        async with client_of(server.url.removesuffix("/v1")) as astray:
            with pytest.raises(EndpointRefused, match=r"OpenAI-compatible .* end in /v1\?"):
                await astray.preflight("judge-model")


async def test_models_are_listed(client_of: Clients) -> None:
    async with LoopbackServer(models=["a", "b"]) as server, client_of(server.url) as client:
        assert await client.models() == ("a", "b")


async def test_a_redirect_carries_no_key_away(client_of: Clients, ask_for: Requests) -> None:
    async with LoopbackServer() as thief:
        away = failure(307, headers={"Location": f"{thief.url}/chat/completions"})
        async with LoopbackServer(acts=[away]) as server, client_of(server.url) as client:
            with pytest.raises(EndpointRefused, match="redirects"):
                await client.complete(ask_for())
    assert thief.calls == 0


def with_choice(**fields: Any) -> dict[str, Any]:
    """Return a completion whose choice has more fields."""
    payload = completion("x")
    return {**payload, "choices": [{**payload["choices"][0], **fields}]}


ODD = [
    ({"choices": [{"message": {"content": "x"}}]}, "x", None),
    ({**completion("x"), "usage": None, "model": None, "system_fingerprint": None}, "x", "stop"),
    (completion(None), "", "stop"),
    (completion("x", reasoning_content="thinking"), "x", "stop"),
    (completion(None, refusal="I cannot"), "I cannot", "refusal"),
    (completion("cut", finish_reason="length"), "cut", "length"),
    *(
        (completion("cut", finish_reason=reason), "cut", "length")
        for reason in ("MAX_TOKENS", "model_length", " max_output_tokens")
    ),
    (with_choice(native_finish_reason="MAX_TOKENS"), "x", "length"),
    (
        {**completion("x"), "status": "incomplete", "incomplete_details": {"reason": "max_tokens"}},
        "x",
        "length",
    ),
    *(
        (completion("x", finish_reason=reason), "x", reason)
        for reason in ("STOP", "eos", "eos_token", "end_turn", "stop_sequence", "COMPLETE", "")
    ),
    *((completion("x", finish_reason=reason), "x", reason) for reason in ("tool_calls", "null")),
    *(
        ({**completion("x"), **more}, "x", "stop")
        for more in (
            {"status": "completed", "code": 0, "errors": [], "error": {}, "object": None},
            {"status": "succeeded", "code": "200", "incomplete_details": None},
        )
    ),
    (with_choice(native_finish_reason="STOP", content_filter_results={}), "x", "stop"),
    (with_choice(content_filter_results={"hate": {"filtered": False}, "n": None}), "x", "stop"),
    (with_choice(content_filter_results={"hate": {"filtered": True}}), "x", "content_filter"),
    (with_choice(native_finish_reason="SAFETY"), "x", "SAFETY"),
    (
        {**completion("x"), "incomplete_details": {"reason": "content_filter"}},
        "x",
        "content_filter",
    ),
    (completion("x", role="model"), "x", "stop"),
    (
        {"choices": [{"message": {"content": [
            {"type": "thinking", "text": "no"}, {"type": "text", "text": "a"}, "b",
        ]}}]},
        "ab",
        None,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("payload", "text", "finish"), ODD)
async def test_odd_replies_are_read(
    payload: dict[str, Any],
    text: str,
    finish: str | None,
    client_of: Clients,
    ask_for: Requests,
) -> None:
    async with LoopbackServer(acts=[payload]) as server, client_of(server.url) as client:
        reply = await client.complete(ask_for())
    assert (reply.text, reply.finish_reason, reply.usage.calls) == (text, finish, 1)


GOOD = completion("good")
FAILED = [
    *(
        with_choice(finish_reason=reason)
        for reason in (
            *("error", "ERROR", "error ", "abort", "failed", "server_error", "model_error"),
            *("engine_error", "internal_error", "exception", "overloaded", "incomplete", "other"),
            *("MALFORMED_FUNCTION_CALL", {"type": "error"}, ["error"], 0, True, "load"),
        )
    ),
    *(
        {**completion("x"), **more}
        for more in (
            *({"object": "error", "message": "it is gone"}, {"type": "error"}, {"code": 500}),
            *({"code": "503"}, {"status": 500}, {"errors": [{"message": "it is gone"}]}),
            *({"status": "failed"}, {"status": "incomplete"}, {"status": "Internal error"}),
            {"status": "incomplete", "incomplete_details": {"reason": "server_error"}},
        )
    ),
    with_choice(native_finish_reason="error"),
    with_choice(status="cancelled"),
    *(completion("x", role=role) for role in ("user", "System", "tool")),
    {**completion("x"), "error": {"message": "the model is gone", "code": 502}},
    {**completion("x"), "error": "upstream timeout"},
    {**completion("x"), "choices": [{**GOOD["choices"][0], "error": {"code": 500}}]},
]


@pytest.mark.parametrize("payload", FAILED)
async def test_a_reply_that_is_marked_as_failed_is_a_failed_call(
    payload: dict[str, Any], client_of: Clients, ask_for: Requests
) -> None:
    async with LoopbackServer(acts=[payload, GOOD]) as server, client_of(server.url) as client:
        assert (await client.complete(ask_for())).text == "good"
        assert server.calls == 2
    async with (
        LoopbackServer(lambda _: payload) as server,
        client_of(server.url, attempts=2) as client,
    ):
        with pytest.raises(RetriesExhausted, match=r"marked as|gone|timeout|HTTP status"):
            await client.complete(ask_for())


async def test_an_empty_field_for_errors_is_none(client_of: Clients, ask_for: Requests) -> None:
    payload = {**GOOD, "error": None}
    async with LoopbackServer(acts=[payload]) as server, client_of(server.url) as client:
        assert (await client.complete(ask_for())).text == "good"


async def test_reasoning_is_never_an_answer(client_of: Clients, ask_for: Requests) -> None:
    notices: list[str] = []
    hidden = completion(None, reasoning_content='{"events": ["A dog runs."]}')
    async with (
        LoopbackServer(lambda _: hidden) as server,
        client_of(server.url, on_notice=notices.append) as client,
    ):
        for _ in range(2):
            assert (await client.complete(ask_for())).text == ""
    assert len(notices) == 1
    assert "judge-model left the content of a reply empty beside its reasoning" in notices[0]
    assert "--reasoning-parser" in notices[0]


async def test_megabytes_of_reply_are_read(client_of: Clients, ask_for: Requests) -> None:
    huge = "word " * 1_000_000
    async with LoopbackServer(acts=[huge]) as server, client_of(server.url) as client:
        assert len((await client.complete(ask_for())).text) == len(huge)


async def test_no_more_calls_run_than_allowed(client_of: Clients, ask_for: Requests) -> None:
    async with (
        LoopbackServer(latency=0.005) as server,
        client_of(server.url, max_concurrency=4) as client,
    ):
        await asyncio.gather(*(client.complete(ask_for(str(n))) for n in range(40)))
    assert server.busiest == 4


async def test_a_pause_holds_no_slot(ask_for: Requests) -> None:
    release = asyncio.Event()

    async def nap(_: float) -> None:
        await release.wait()

    async with (
        LoopbackServer(acts=[failure(500)]) as server,
        OpenAIChatClient(server.url, KEY, max_concurrency=1, sleep=nap) as client,
    ):
        first = asyncio.create_task(client.complete(ask_for("first")))
        while not server.calls or client.limiter.in_flight:  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.005)
        assert (await client.complete(ask_for("second"))).text == "second"
        release.set()
        assert (await first).text == "first"


async def test_cancelling_passes_through(client_of: Clients, ask_for: Requests) -> None:
    async with LoopbackServer(lambda _: Hang(0.2)) as server, client_of(server.url) as client:
        task = asyncio.create_task(client.complete(ask_for()))
        while not server.running:  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert client.limiter.in_flight == 0


async def test_the_key_is_in_no_log_error_or_repr(
    client_of: Clients,
    ask_for: Requests,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    seen: list[str] = []

    def answer(request: dict[str, Any]) -> Any:
        kind = request["messages"][0]["content"]
        said = f"bad: {KEY}, Bearer {KEY}, sk-abc***xyz, hunter2hunter2, querysecret123"
        return failure(int(kind), said, param="temperature" if kind == "422" else None)

    async with LoopbackServer(answer) as server:
        url = server.url.replace("http://", "http://me:hunter2hunter2@") + "?key=querysecret123"
        async with client_of(url, on_notice=seen.append) as client:
            for status in ("400", "401", "404", "422", "500"):
                with pytest.raises(CapevalError) as caught:
                    await client.complete(ask_for(status))
                seen += [str(caught.value), repr(caught.value), repr(caught.value.__cause__)]
            seen += [repr(client), client.base_url]
    out = capfd.readouterr()
    everything = " ".join([*seen, caplog.text, out.out, out.err])
    assert "request" in caplog.text
    for secret in (KEY, "sk-abc", "hunter2", "querysecret"):
        assert secret not in everything
    assert server.headers[0]["Authorization"].startswith("Basic ")


@pytest.mark.parametrize(
    "url",
    [
        *(
            "ftp://host/v1",
            "localhost:8000",
            "http://",
            "http://h:port/",
            "http://..",
            "http://a..b",
        ),
        *("http://\u202e/", "http://a b/", f"http://{'x' * 70}/", "http://h/" + "x" * 10_000),
    ],
)
def test_a_base_url_must_be_one(url: str) -> None:
    with pytest.raises(UsageError, match="base URL"):
        OpenAIChatClient(url)


def test_a_key_with_odd_characters_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="API key"):
        OpenAIChatClient("http://judge/v1", "sk-\u201cquoted\u201d")


async def test_a_preflight_that_fails_is_not_repeated_by_the_calls_that_wait(
    ask_for: Requests,
) -> None:
    async with OpenAIChatClient("http://127.0.0.1:9/v1", attempts=1) as client:
        made: list[str] = []

        async def counted(model: str, reasoning: str | None = None) -> ChatReply:
            made.append(model)
            return await client.preflight(model, reasoning)

        asker = Asker(client, None, base_url="http://judge/v1", meter=Meter(), preflight=counted)
        asks = (asker.ask(ask_for(str(n)), lambda reply: reply.text) for n in range(64))
        ended = await asyncio.gather(*asks, return_exceptions=True)
    assert {type(one) for one in ended} == {EndpointRefused}
    assert len(made) == 1

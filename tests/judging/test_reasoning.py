"""The reasoning effort: what is sent, and what it makes another judge of."""

from typing import Any

import pytest

import capeval
from capeval.errors import EndpointRefused, UsageError
from capeval.judging.judges import open_judge
from capeval.judging.protocol import JudgeOptions
from capeval.llm.client import OpenAIChatClient
from capeval.llm.replies import ChatRequest
from tests.judge_responder import answer
from tests.scripted_client import ScriptedClient
from tests.server import LoopbackServer, failure, refused_parameter
from tests.six_videos import captions, right, videos

pytestmark = pytest.mark.usefixtures("alone")


async def test_the_effort_is_sent_with_every_call_and_with_the_first_test() -> None:
    async with LoopbackServer(answer) as server:
        given: dict[str, Any] = {"base_url": server.url, "judge": "m"}
        await capeval.judge_async(captions(), videos(), **given, reasoning="low")
        assert {body.get("reasoning_effort") for body in server.requests} == {"low"}
        server.requests.clear()
        # Without it, and with the model's own default, nothing is sent, and both are one judge.
        await capeval.judge_async(captions(), videos(), **given)
        assert server.requests
        assert all("reasoning_effort" not in body for body in server.requests)
        server.requests.clear()
        await capeval.judge_async(captions(), videos(), **given, reasoning="default")
        assert server.requests == []


def refusing_temperature_while_it_reasons(body: dict[str, Any]) -> Any:
    """As gpt-5.6 and later do."""
    if "max_tokens" in body:
        return refused_parameter("max_tokens")
    if body.get("reasoning_effort") != "none" and "temperature" in body:
        return refused_parameter("temperature")
    return "well" if body["messages"][0]["content"] == "hello" else answer(body)


async def test_one_client_knows_what_each_effort_refuses_and_what_room_it_needs() -> None:
    async with (
        LoopbackServer(refusing_temperature_while_it_reasons) as server,
        OpenAIChatClient(server.url) as client,
    ):
        for effort, left_off, room in (
            ("low", ("temperature",), 8192),
            ("none", (), 8192),
            ("high", ("temperature",), 25_000),
        ):
            message = {"role": "user", "content": "hello"}
            reply = await client.complete(ChatRequest("m", (message,), 10, reasoning=effort))
            assert reply.left_off == left_off
            assert server.requests[-1]["max_completion_tokens"] == 10 + room


async def test_an_effort_is_never_left_off() -> None:
    def refuse(body: dict[str, Any]) -> Any:
        said = "Unsupported value: 'reasoning_effort' does not support 'max' with this model."
        return failure(400, said, code="unsupported_value", param="reasoning_effort")

    async with LoopbackServer(refuse) as server:
        with pytest.raises(EndpointRefused, match="choose another, or default"):
            await capeval.judge_async(
                captions(), videos(), base_url=server.url, judge="m", reasoning="max"
            )
        assert server.calls == 1


@pytest.mark.parametrize(
    ("judge", "given", "asked", "thinks"),
    [
        ("gpt-6-luna", None, "none", False),
        ("gpt-5", None, "minimal", True),
        ("gpt-5.4", None, None, False),
        ("o3", None, None, True),
        # Their default efforts are not documented; they refuse a temperature while they reason.
        ("gpt-6.2-astra", None, None, True),
        ("gpt-6-astra", "none", "none", False),
        ("unheard-of", None, None, False),
    ],
)
async def test_the_catalogue_gives_the_effort_and_whether_a_model_reasons(
    judge: str, given: Any, asked: str | None, thinks: bool
) -> None:
    options = JudgeOptions({}, client=ScriptedClient(right), judge=judge, reasoning=given)
    async with open_judge(options) as opened:
        # An estimate says that reasoning is not in it.
        assert (opened.judge.reasoning, opened.thinks) == (asked, thinks)
        assert ("reasoning" in opened.title) == (asked is not None)
        assert opened.judge.identity[3:] == ((f"reasoning {asked}",) if asked else ())
        # Another effort than the user's has its reason.
        assert bool(opened.reasons) == (given is None and asked is not None)


async def test_only_chat_models_reason() -> None:
    with pytest.raises(UsageError, match="--reasoning is for chat models"):
        async with open_judge(JudgeOptions({}, judge="lexical", reasoning="low")):
            pytest.fail("it opened")
    # Where no key is set, the sample's default judge is the baseline.
    ignored: dict[str, dict[str, Any]] = {
        "--reasoning": {"reasoning": "low"},
        "--explain": {"explain": True},
    }
    for option, given in ignored.items():
        options = JudgeOptions({}, **given)
        with pytest.raises(UsageError, match=f"{option} is for chat models"):
            async with open_judge(options, is_sample=True):
                pytest.fail("it opened")
    with pytest.raises(UsageError, match=r"reasoning must be 'default'.* or 'max', not 'huge'"):
        capeval.judge(captions(), videos(), judge="m", reasoning="huge")  # type: ignore[arg-type]

import asyncio
from typing import Any

import pytest

from capeval.errors import ReplyError, RequestRefused, RetriesExhausted
from capeval.judging.contracts import check_starts
from capeval.llm.cache import ReplyCache
from capeval.llm.replies import (
    COUNT,
    ChatReply,
    ChatRequest,
    ReplyBroken,
    ReplyRefused,
    ReplySchema,
    array_of,
    object_of,
    read_reply,
)
from capeval.schema import Usage
from tests.llm.conftest import CACHE, ask_for, asker_of
from tests.scripted_client import ScriptedClient

pytestmark = pytest.mark.usefixtures("alone")


def check(reply: ChatReply) -> int:
    if not reply.text.isdigit():
        raise ReplyError(f"{reply.text!r} is not a number")
    return int(reply.text)


def said(text: str, finish: str = "stop") -> ChatReply:
    return ChatReply(text, finish, "snapshot", "fp", Usage(calls=1, output_tokens=7))


def states() -> dict[str, int]:
    return ReplyCache(CACHE).info().states


async def test_a_reply_that_keeps_its_contract_is_served_again() -> None:
    client = ScriptedClient(["42"])
    asker = asker_of(client)
    first, second = [await asker.ask(ask_for(), check) for _ in range(2)]
    assert (first.value, second.value, len(client.requests)) == (42, 42, 1)
    assert [first.replies[0].cached, second.replies[0].cached] == [False, True]
    assert first.usage == second.usage
    assert (asker.meter.calls, asker.meter.cached_calls) == (1, 1)
    assert states() == {"validated": 1}


async def test_a_broken_reply_is_asked_again_with_the_reason() -> None:
    client = ScriptedClient(["forty", "42"])
    answer = await asker_of(client).ask(ask_for("how many?"), check)
    assert (answer.value, answer.complaints) == (42, ("'forty' is not a number",))
    assert client.requests[1].messages == (
        {"role": "user", "content": "how many?"},
        {"role": "assistant", "content": "forty"},
        {"role": "user", "content": "'forty' is not a number"},
    )
    assert states() == {"refused": 1, "validated": 1}
    stored = await asker_of(ScriptedClient([])).ask(ask_for("how many?"), check)
    assert (stored.value, stored.complaints, stored.usage) == (42, answer.complaints, answer.usage)


async def test_a_failed_conversation_reports_its_cost_and_is_asked_again() -> None:
    client = ScriptedClient(["a", "b", "c", "7"])
    with pytest.raises(ReplyBroken, match="'c' is not a number") as caught:
        await asker_of(client).ask(ask_for(), check)
    assert [reply.text for reply in caught.value.replies] == ["a", "b", "c"]
    assert states() == {"exhausted": 3}
    assert (await asker_of(client).ask(ask_for(), check)).value == 7


async def test_an_unusable_reply_is_requested_again_unchecked() -> None:
    client = ScriptedClient([said(" \n"), said("1" * 200_001), said("7", "EOS")])
    answer = await asker_of(client).ask(ask_for(max_tokens=50), check)
    assert answer.value == 7
    assert answer.complaints == (
        "the reply is empty",
        "the reply is far too long (200,001 characters)",
    )
    assert client.requests[1].max_tokens == 50


SPLIT = ReplySchema("starts", object_of(starts=array_of(COUNT), repeats=array_of(COUNT)))


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", None),
        ("<think>The first event", None),
        ('{"starts": [\n  1,\n  2,\n  9', None),
        ('```json\n{"starts": [1, 2], "repeats": [', None),
        (" \n" * 50, ""),
        ('{"starts": ' + "\n" * 50, ": the reply repeats itself without end"),
        ('{"starts": [1' + ", 1" * 50, ": the reply repeats itself without end"),
        (
            f'{{"starts": {[*range(1, 60)]}'.rstrip("]"),
            ": there is no segment 5; ids go from 1 to 4",
        ),
        ("Let me see. The", ": the reply must be one complete JSON value and nothing else"),
    ],
)
async def test_only_the_beginning_of_a_right_reply_gets_more_room(
    text: str, wrong: str | None
) -> None:
    def check(reply: ChatReply) -> None:
        value, _ = read_reply(reply.text, lambda value, _: value)
        check_starts(value["starts"], 4)

    client = ScriptedClient([said(text, "MAX_TOKENS"), '{"starts": [1], "repeats": []}'])
    answer = await asker_of(client).ask(ask_for(max_tokens=50, schema=SPLIT), check)
    assert answer.complaints == (f"the reply was cut off at 7 tokens{wrong or ''}",)
    assert client.requests[1].max_tokens == (100 + 2048 if wrong is None else 50)


async def test_a_model_that_declines_is_not_asked_again() -> None:
    client = ScriptedClient(["x", said("I cannot", "SAFETY"), "5"])
    with pytest.raises(RequestRefused, match="declined") as caught:
        await asker_of(client).ask(ask_for(), check)
    assert isinstance(caught.value, ReplyRefused)
    assert len(caught.value.replies) == 2
    assert states() == {"exhausted": 2}


async def test_a_conversation_that_was_interrupted_goes_on_where_it_stopped() -> None:
    with pytest.raises(RetriesExhausted):
        await asker_of(ScriptedClient(["a", RetriesExhausted("down")])).ask(ask_for(), check)
    # A reply that another check accepts is promoted, and one that it refuses is complained about.
    answer = await asker_of(ScriptedClient([])).ask(ask_for(), lambda reply: reply.text)
    assert (answer.value, states()) == ("a", {"validated": 1})
    later = ScriptedClient(["8"])
    again = await asker_of(later).ask(ask_for(), check)
    assert (again.value, len(later.requests), again.usage.calls) == (8, 1, 2)
    assert states() == {"refused": 1, "validated": 1}


async def test_a_fault_in_a_check_does_not_lose_the_reply() -> None:
    def faulty(reply: ChatReply) -> int:
        raise KeyError(reply.text)

    with pytest.raises(KeyError):
        await asker_of(ScriptedClient(["4"])).ask(ask_for(), faulty)
    assert (await asker_of(ScriptedClient([])).ask(ask_for(), check)).value == 4


class Slow(ScriptedClient):
    async def complete(self, request: ChatRequest) -> ChatReply:
        reply = await super().complete(request)
        await asyncio.sleep(0.01)
        return reply


async def test_identical_questions_at_once_make_one_call() -> None:
    client = Slow(["a", "3"])
    asker = asker_of(client)
    answers = await asyncio.gather(*(asker.ask(ask_for(), check) for _ in range(20)))
    assert {answer.value for answer in answers} == {3}
    assert len(client.requests) == 2
    assert len({answer.complaints for answer in answers}) == 1
    assert (asker.meter.calls, asker.meter.cached_calls) == (2, 38)


@pytest.mark.parametrize(
    "other",
    [
        {"base_url": "http://other/v1"},
        {"text": "other"},
        {"model": "m2"},
        {"temperature": 0.5},
        {"repeat": 1},
        {"max_tokens": 5},
        {"reasoning": "low"},
        {"media": {"fps": 2}},
        {"schema": ReplySchema("s", {"type": "object"})},
    ],
    ids=str,
)
async def test_a_request_that_differs_in_anything_is_not_served(other: dict[str, Any]) -> None:
    await asker_of(ScriptedClient(["1"]), "http://Me:pw@judge:80/v1/").ask(ask_for(), check)
    url = other.pop("base_url", "http://judge/v1")
    client = ScriptedClient(["2"])
    assert (await asker_of(client).ask(ask_for(), check)).value == 1
    assert (await asker_of(client, url).ask(ask_for(**other), check)).value == 2

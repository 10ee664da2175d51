"""Which judge is meant, what it is expected to cost, and what is left to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from capeval.errors import InputError, UsageError
from capeval.judging.estimate import estimate
from capeval.judging.judging_work import JudgingWork
from capeval.judging.options import JudgeOptions
from capeval.judging.selection import open_judge
from capeval.llm.fake import ScriptedClient
from capeval.llm.types import ChatRequest
from capeval.runs.engine import execute
from capeval.runs.sources import Source
from capeval.schema import Caption, Scored
from tests.server import LoopbackServer
from tests.six_videos import captions, right, videos

pytestmark = pytest.mark.usefixtures("alone")

CAPTIONS = tuple(Caption(index=index, caption=text) for index, text in captions().items())
ANNOTATIONS = tuple(videos())
WORK = tuple(zip(ANNOTATIONS, CAPTIONS, strict=True))


def test_a_key_is_not_shown() -> None:
    assert "sk-secret" not in repr(JudgeOptions({}, api_key="sk-secret"))


async def test_a_url_alone_takes_the_sole_model() -> None:
    async with LoopbackServer(models=("some-model",)) as server:
        async with open_judge(JudgeOptions({}, base_url=server.url)) as opened:
            assert (opened.judge.name, opened.judge.base_url) == ("some-model", server.url)
            assert not opened.judge.is_baseline
        assert server.calls == 0


@pytest.mark.parametrize("models", [(), ("one", "two")])
async def test_a_url_with_another_number_of_models_wants_a_name(models: tuple[str, ...]) -> None:
    async with LoopbackServer(models=models) as server:
        with pytest.raises(UsageError, match="name one of the endpoint's models") as caught:
            async with open_judge(JudgeOptions({}, base_url=server.url)):
                pytest.fail("it opened")
    assert all(model in str(caught.value) for model in models)


@pytest.mark.parametrize("choice", [{}, {"explain": True}, {"prompts": "tuna-cap-v1"}], ids=str)
async def test_the_estimate_counts_what_is_left_to_pay(choice: dict[str, Any]) -> None:
    client = ScriptedClient(right)
    async with open_judge(JudgeOptions({}, client=client, **choice)) as opened:
        fresh = await estimate(WORK, opened, repeats=2)
        assert {stage: usage.calls for stage, usage in fresh.stages.items()} == {
            "split": 12,
            "match": 12,
            "classify": 12,
        }
        assert fresh.cost is not None
        assert fresh.cost > 0
        assert client.requests == []
        source = Source("x", None, tuple(ANNOTATIONS), tuple(CAPTIONS), "memory")
        finished = await execute(JudgingWork(source, opened))
        assert all(isinstance(one, Scored) for one in finished.done.values())
        # The first repeat is known now, and the second is expected to cost what the first did.
        second = await estimate(WORK, opened, repeats=2)
        assert second.usage.calls == 18
        assert second.cost == pytest.approx(fresh.cost / 2)
        first = await estimate(WORK, opened, repeats=1)
        assert (first.usage.calls, first.cost) == (0, 0.0)
        spent = opened.meter.usage
        assert 0.7 < second.usage.input_tokens / spent.input_tokens < 1.3
        assert 0.6 < second.usage.output_tokens / spent.output_tokens < 2


@pytest.mark.parametrize(("unreadable", "is_reported"), [(11, True), (10, False)])
async def test_a_model_whose_replies_cannot_be_read_is_reported_once(
    unreadable: int, is_reported: bool
) -> None:
    def answers(request: ChatRequest) -> str:
        text = right(request)
        return f"I think: {text}" if len(client.requests) <= unreadable else text

    notices: list[str] = []
    client = ScriptedClient(answers)
    async with open_judge(JudgeOptions({}, client=client), on_notice=notices.append) as opened:
        source = Source("x", None, tuple(ANNOTATIONS), tuple(CAPTIONS), "memory")
        for repeats in (1, 2, 3):
            await execute(JudgingWork(source, opened, repeats=repeats))
    assert len(client.requests) > 40
    found = [notice for notice in notices if "requested again because" in notice]
    assert len(found) == is_reported
    assert all("11 of the first 20 replies of gpt-4o" in notice for notice in found)


def configure(content: str) -> None:
    Path("capeval.toml").write_text(content, encoding="utf-8")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("endpoints = 3", "endpoints: must be a table"),
        ('[endpoints]\n"http://here/v1" = 3', 'endpoints."http://here/v1": must be the endpoint'),
        ('[endpoints]\n"here" = "x"', 'endpoints."here": the base URL must look like'),
    ],
)
async def test_a_broken_table_of_endpoints_is_named(content: str, said: str) -> None:
    configure(content)
    with pytest.raises(InputError, match=r"capeval\.toml") as caught:
        async with open_judge(JudgeOptions({}, client=ScriptedClient(right))):
            pytest.fail("it opened")
    assert said in str(caught.value)

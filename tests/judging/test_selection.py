"""Which judge is meant, when it ends, what it is expected to cost, and what is left to do."""

import random
import re
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from capeval.errors import UsageError
from capeval.files.captions import load_captions
from capeval.judging.judge import judge_async
from capeval.judging.judges import DEFAULT_MODEL, default_judge, open_judge
from capeval.judging.judging_work import JudgingWork
from capeval.judging.protocol import JudgeOptions
from capeval.llm.replies import ChatReply, ChatRequest
from capeval.runs.engine import execute
from capeval.runs.resolve import Target
from capeval.runs.sources import Source, annotations_of, sample_captions
from capeval.schema import Annotation, Caption, Usage
from capeval.text import Loss
from tests.conftest import Today
from tests.judge_responder import reply_to
from tests.judged_runs import write_annotations
from tests.scripted_client import ScriptedClient
from tests.server import LoopbackServer
from tests.six_videos import captions, right, videos
from tests.world import write_lines

pytestmark = pytest.mark.usefixtures("alone")

CAPTIONS = tuple(Caption(index=index, caption=text) for index, text in captions().items())
ANNOTATIONS = tuple(videos())
TARGET = Target("x", lambda: Source("x", None, ANNOTATIONS, CAPTIONS, "memory"))


async def test_a_url_alone_takes_the_sole_model() -> None:
    async with LoopbackServer(models=("some-model",)) as server:
        async with open_judge(JudgeOptions({}, base_url=server.url)) as opened:
            assert (opened.judge.name, opened.judge.base_url) == ("some-model", server.url)
            assert not opened.judge.is_baseline
        assert server.calls == 0
        for server.models in ((), ("one", "two")):
            with pytest.raises(UsageError, match="name one of the endpoint's models") as caught:
                async with open_judge(JudgeOptions({}, base_url=server.url)):
                    pytest.fail("it opened")
            assert all(model in str(caught.value) for model in server.models)


def made_videos() -> Source:
    """Return 100 made captions of one to nine events, most of whose sentences they have."""
    rng = random.Random(1)
    subjects = ("a man in a red jacket", "two dogs", "the camera", "an old fisherman", "the woman")
    verbs = ("walks slowly along", "turns towards", "moves past", "stands beside", "points at")
    objects = ("the wooden bridge", "a crowded market", "the edge of the lake", "a stone wall")
    annotations, texts = list[Annotation](), list[Caption]()
    for number in range(100):
        events, told = list[dict[str, Any]](), ["A dog barks."]
        for _ in range(rng.randint(1, 9)):
            parts = [" ".join(map(rng.choice, (subjects, verbs, objects))) for _ in range(4)]
            sentences = [f"{one.capitalize()}." for one in dict.fromkeys(parts)]
            elements = [{"content": one, "type": "action", "weight": 1} for one in sentences]
            events.append({"event": " ".join(sentences), "visual_elements": elements})
            told += [one for one in sentences if rng.random() < 0.6]
        index = f"v{number}"
        made = {"index": index, "video": f"{index}.mp4", "events": events}
        annotations.append(Annotation.model_validate(made))
        texts.append(Caption(index=index, caption=" ".join(told)))
    return Source("made", None, tuple(annotations), tuple(texts), "memory")


def tokens(text: str) -> int:
    """Count the tokens of a JSON text about as a model's tokenizer does."""
    return len(re.findall(r"\d|[A-Za-z]{1,4}|[^\w\s]{1,3}", text))


def counting(request: ChatRequest) -> ChatReply:
    prompt = str(request.messages[0]["content"])
    text = reply_to(prompt, request.repeat)
    usage = Usage(calls=1, input_tokens=len(prompt) // 4, output_tokens=tokens(text))
    return ChatReply(text, "stop", request.model, None, usage)


async def test_the_estimate_is_what_is_then_used() -> None:
    known = annotations_of("sample")
    files = sample_captions().values()
    sample = [Source("x", None, known, load_captions(file), "sample") for file in files]
    options = JudgeOptions({}, client=ScriptedClient(counting), repeats=2)
    for sources in (sample, [made_videos()]):
        expected = Usage()
        async with open_judge(options) as opened:
            for source in sources:
                work = JudgingWork(Target("x", partial(lambda one: one, source)), opened, options)
                plan = work.plan()
                expected += sum(plan.expected.values(), Usage())
                await execute(work, plan)
            used = opened.meter.usage
        assert used.calls <= expected.calls <= 1.05 * used.calls
        assert 0.95 < expected.input_tokens / used.input_tokens < 1.1
        assert 0.95 < expected.output_tokens / used.output_tokens < 1.25


@pytest.mark.parametrize(("unreadable", "is_reported"), [(11, True), (10, False)])
async def test_a_model_whose_replies_cannot_be_read_is_reported_once(
    unreadable: int, is_reported: bool
) -> None:
    def answers(request: ChatRequest) -> str:
        text = right(request)
        return f"I think: {text}" if len(client.requests) <= unreadable else text

    notices: list[str] = []
    client = ScriptedClient(answers)
    async with open_judge(JudgeOptions({}, client=client, on_notice=notices.append)) as opened:
        for repeats in (1, 2, 3):
            work = JudgingWork(TARGET, opened, JudgeOptions({}, repeats=repeats))
            await execute(work, work.plan())
    assert len(client.requests) > 40
    found = [notice for notice in notices if "requested again because" in notice]
    assert len(found) == is_reported
    assert all("11 of the first 20 replies of gpt-6-luna" in notice for notice in found)


ENDING, END = "gpt-4o-2024-08-06", date(2027, 1, 14)


def test_the_judge_where_none_is_named(today: Today, monkeypatch: pytest.MonkeyPatch) -> None:
    for today.day in (date(2026, 6, 1), END, date(2030, 1, 1)):
        assert default_judge(JudgeOptions({}, api_key="sk-x"))[0] == "gpt-6-luna"
    assert default_judge(JudgeOptions({}), is_sample=True)[0] == "lexical"
    for written in ("https://api.openai.com/v1/", "https://API.openai.com:443/v1"):
        assert default_judge(JudgeOptions({}, base_url=written))[0] == DEFAULT_MODEL
    assert default_judge(JudgeOptions({}, client=ScriptedClient(right)))[0] == DEFAULT_MODEL
    with pytest.raises(UsageError, match="no judge is configured"):
        default_judge(JudgeOptions({}))
    alone = (None, "the only model of this endpoint")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:8000/v1")
    assert default_judge(JudgeOptions({})) == alone


@pytest.mark.parametrize(
    ("day", "says"),
    [
        (date(2026, 10, 15), None),
        (date(2026, 10, 16), "retires in 90 days, on 2027-01-14"),
        (END, "was retired on 2027-01-14"),
    ],
)
async def test_a_judge_that_ends_within_ninety_days_is_announced(
    day: date, says: str | None, today: Today
) -> None:
    today.day = day
    for offline in (True, False):
        notices: list[str] = []
        named = JudgeOptions({}, api_key="sk-x", judge=ENDING)
        async with open_judge(replace(named, on_notice=notices.append), offline=offline) as opened:
            # The user named it: that needs no reason, and a retired judge is asked all the same.
            assert (opened.judge.name, opened.reasons) == (ENDING, ())
        assert [isinstance(one, Loss) for one in notices] == [True] * (says is not None)
        assert says is None or says in notices[0]
        assert says is None or "--judge gpt-6-luna" in notices[0]


async def test_what_is_known_of_openais_models_is_not_assumed_of_others(today: Today) -> None:
    """Another service may serve gpt-5 for longer, and may not know `reasoning_effort`."""
    today.day = END
    notices: list[str] = []
    choice = JudgeOptions({}, base_url="http://localhost:8000/v1", judge="gpt-5")
    async with open_judge(replace(choice, on_notice=notices.append)) as opened:
        assert opened.judge.reasoning is None
    assert notices == []


async def test_a_run_never_changes_its_judge_silently() -> None:
    write_annotations(Path("annotations.json"), videos())
    write_lines(Path("mine.jsonl"), [caption.model_dump() for caption in CAPTIONS])
    given: dict[str, Any] = {"client": ScriptedClient(right), "annotations": "annotations.json"}

    async def notices(**choice: Any) -> list[str]:
        found: list[str] = []
        await judge_async("mine.jsonl", **given, **choice, on_notice=found.append)
        return found

    for named in ("gpt-4.1", "gpt-4.1", "gpt-4o-mini"):
        assert await notices(judge=named) == []
    (notice,) = await notices()
    assert isinstance(notice, Loss)
    assert "already judged by gpt-4.1@tuna-cap-v1" in notice
    assert "Now another judge, gpt-6-luna" in notice
    # Once for each run.
    assert await notices() == []

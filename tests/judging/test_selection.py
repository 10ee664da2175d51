"""Which judge is meant, what it is expected to cost, and what is left to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from capeval.errors import InputError, UsageError
from capeval.judging.default_judge import is_configured
from capeval.judging.options import JudgeOptions
from capeval.judging.run import JudgingWork
from capeval.judging.selection import estimate, open_judge
from capeval.llm.fake import ScriptedClient
from capeval.llm.types import ChatRequest
from capeval.runs.engine import execute
from capeval.runs.folder import RunFolder
from capeval.runs.judged_run import load_judged
from capeval.runs.sources import Source
from capeval.schema import Caption, Judgment, Scored
from capeval.scoring import Scores
from tests.server import LoopbackServer
from tests.six_videos import captions, right, videos

pytestmark = pytest.mark.usefixtures("alone")

CAPTIONS = tuple(Caption(index=index, caption=text) for index, text in captions().items())
ANNOTATIONS = tuple(videos())
WORK = tuple(zip(ANNOTATIONS, CAPTIONS, strict=True))


def test_a_key_or_a_url_configures_a_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_configured(JudgeOptions({}))
    assert is_configured(JudgeOptions({}, base_url="http://localhost:8000/v1"))
    assert is_configured(JudgeOptions({}, api_key="sk-x"))
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:8000/v1")
    assert is_configured(JudgeOptions({}))
    monkeypatch.delenv("OPENAI_BASE_URL")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    assert is_configured(JudgeOptions({}))


def test_a_key_is_not_shown() -> None:
    assert "sk-secret" not in repr(JudgeOptions({}, api_key="sk-secret"))


@pytest.mark.parametrize(
    ("choice", "error", "said"),
    [
        (JudgeOptions({}), UsageError, "OPENAI_API_KEY"),
        (
            JudgeOptions({}, judge="lexical", base_url="http://x/v1"),
            UsageError,
            "--base-url is for chat models",
        ),
        (
            JudgeOptions({}, judge="lexical", prompts="plain"),
            UsageError,
            "--prompts is for chat models",
        ),
        (JudgeOptions({}, api_key="sk-x", prompts="tuna-cap-v9"), InputError, "tuna-cap-v2"),
    ],
)
async def test_what_makes_no_judge_is_told(
    choice: JudgeOptions, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        async with open_judge(choice):
            pytest.fail("it opened")


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


async def test_the_environment_names_the_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    async with LoopbackServer(models=("some-model",)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        async with open_judge(JudgeOptions({})) as opened:
            assert (opened.judge.name, opened.judge.base_url) == ("some-model", server.url)


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
    found = [notice for notice in notices if "because of their form" in notice]
    assert len(found) == is_reported
    assert all("11 of the first 20 replies of gpt-4o" in notice for notice in found)
    assert all("--reasoning-parser" in notice for notice in found)


async def test_an_empty_caption_is_expected_to_cost_nothing() -> None:
    async with open_judge(JudgeOptions({}, client=ScriptedClient([]))) as opened:
        work = [(ANNOTATIONS[0], Caption(index="V0", caption=""))]
        assert (await estimate(work, opened, repeats=3)).usage.calls == 0


async def test_a_model_without_a_price_costs_nobody_knows() -> None:
    choice = JudgeOptions({}, judge="own-model", client=ScriptedClient([]))
    async with open_judge(choice) as opened:
        expected = await estimate(WORK, opened, repeats=1)
        assert (expected.usage.calls, expected.cost) == (18, None)


async def test_lexical_costs_nothing() -> None:
    async with open_judge(JudgeOptions({}, judge="lexical")) as opened:
        expected = await estimate(WORK, opened, repeats=1)
        assert (expected.usage.calls, expected.cost, opened.judge.is_baseline) == (0, 0.0, True)


@dataclass(frozen=True)
class Outcome:
    done: Mapping[str, Judgment]
    scores: Scores
    unscored: dict[str, str]
    stopped: Exception | None


async def run(folder: RunFolder, client: ScriptedClient, **more: Any) -> tuple[Any, Outcome]:
    settings: dict[str, Any] = {"repeats": 1} | more
    chosen = settings.pop("captions", CAPTIONS)
    # As if the captions had been generated anew.
    folder.captions.unlink(missing_ok=True)
    source = Source("run", folder, tuple(ANNOTATIONS), tuple(chosen), "memory")
    async with open_judge(JudgeOptions({}, client=client, **settings.pop("choice", {}))) as opened:
        work = JudgingWork(source, opened, **settings)
        finished = await execute(work)
        unscored = {index: one.reason for index, one in finished.done.items() if one.reason}
        return finished.plan, Outcome(finished.done, work.store.scores, unscored, finished.stopped)


async def test_what_is_stored_and_still_right_is_kept(tmp_path: Path) -> None:
    folder, client = RunFolder(tmp_path / "run"), ScriptedClient(right)
    plan, _ = await run(folder, client)
    assert (len(plan.todo), plan.kept, plan.stale) == (6, {}, {})
    plan, _ = await run(folder, client)
    assert (len(plan.todo), len(plan.kept), plan.stale) == (0, 6, {})
    changed = (CAPTIONS[0].model_copy(update={"caption": "Nothing happens."}), *CAPTIONS[1:])
    plan, outcome = await run(folder, client, captions=changed)
    assert ([a.index for a, _ in plan.todo], plan.stale) == (["V0"], {"caption": 1})
    assert isinstance(outcome.scores.videos["V0"], dict)
    plan, _ = await run(folder, client, captions=changed, repeats=2)
    assert (len(plan.todo), plan.stale) == (6, {"repeats": 6})
    # Another endpoint is another judge.
    choice = {"base_url": "http://elsewhere/v1"}
    plan, _ = await run(folder, client, captions=changed, repeats=2, choice=choice)
    assert plan.stale == {"endpoint": 6}


HERE, THERE = "http://here:8000/v1", "http://there:9000/v1"


def configure(content: str) -> None:
    Path("capeval.toml").write_text(content, encoding="utf-8")


def stored(folder: RunFolder) -> Path:
    return folder.judge("gpt-4o-2024-08-06", "tuna-cap-v2").judgments


async def test_a_server_that_moves_is_the_same_judge(tmp_path: Path) -> None:
    folder, client = RunFolder(tmp_path / "run"), ScriptedClient(right)
    await run(folder, client, choice={"base_url": HERE}, limit=3)
    plan, outcome = await run(folder, client, choice={"base_url": THERE})
    assert (len(plan.kept), len(plan.todo), plan.stale) == (3, 3, {})
    assert (outcome.scores.counts.scored, outcome.unscored) == (6, {})
    # Verdicts of both addresses are one result.
    again = load_judged(stored(folder), annotations=ANNOTATIONS).scores
    assert again == outcome.scores
    assert again.settings["base_url"] == f"{HERE}, {THERE}"


async def test_a_name_in_the_configuration_tells_endpoints_apart(tmp_path: Path) -> None:
    folder, client = RunFolder(tmp_path / "run"), ScriptedClient(right)
    await run(folder, client, choice={"base_url": HERE})
    configure(f'[endpoints]\n"{HERE}/" = "cluster"\n"{THERE}" = "cluster"\n')
    plan, _ = await run(folder, client, choice={"base_url": HERE})
    assert plan.stale == {"endpoint": 6}
    plan, _ = await run(folder, client, choice={"base_url": THERE})
    assert (len(plan.kept), plan.stale) == (6, {})
    assert '"endpoint": "cluster"' in stored(folder).read_text("utf-8")


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


async def test_what_failed_is_tried_again(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    _, outcome = await run(folder, ScriptedClient(lambda _: "no"))
    assert set(outcome.unscored) == set(captions())
    assert outcome.scores.counts.scored == 0
    assert outcome.scores.overall.all.f1.value is None
    plan, outcome = await run(folder, ScriptedClient(right))
    assert (len(plan.todo), outcome.unscored) == (6, {})
    assert all(
        isinstance(done, Scored)
        for done in (await run(folder, ScriptedClient([])))[0].kept.values()
    )


async def test_a_torn_last_line_is_judged_again(tmp_path: Path) -> None:
    folder, client = RunFolder(tmp_path / "run"), ScriptedClient(right)
    await run(folder, client)
    path = folder.judge("gpt-4o-2024-08-06", "tuna-cap-v2").judgments
    whole = path.read_bytes()
    path.write_bytes(whole[:-40])
    plan, _ = await run(folder, client)
    assert [a.index for a, _ in plan.todo] == ["V5"]
    assert path.read_bytes() == whole
    path.write_bytes(whole.replace(b'"index"', b'"indx"', 1))
    with pytest.raises(InputError, match=r"judgments\.jsonl"):
        await run(folder, client)


async def test_a_cap_of_nothing_calls_nothing(tmp_path: Path) -> None:
    client = ScriptedClient(right)
    folder = RunFolder(tmp_path / "run")
    _, outcome = await run(folder, client, choice={"max_cost": 0.0})
    assert outcome.stopped is not None
    assert (client.requests, outcome.done) == ([], {})
    # Nothing was judged, so nothing is left that could be taken for a run.
    assert not folder.path.exists()

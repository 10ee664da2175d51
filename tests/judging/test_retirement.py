"""The default judge, judges that end, and what an endpoint's record of a model adds."""

from __future__ import annotations

import asyncio
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from capeval.api.judging import Target, open_judging
from capeval.errors import EndpointRefused, UsageError
from capeval.judging.default_judge import DEFAULT_MODEL, default_judge
from capeval.judging.options import JudgeOptions
from capeval.judging.retirement import RetirementWatch, successor, warning, what_remains
from capeval.judging.selection import open_judge
from capeval.llm.fake import ScriptedClient
from capeval.llm.judge_models import packaged_judges
from capeval.llm.types import ChatRequest
from capeval.runs.sources import Source
from capeval.schema import Caption
from capeval.text import Loss
from tests.conftest import Today
from tests.judge_responder import answer
from tests.server import Hang, LoopbackServer, failure, not_json, unknown_model
from tests.six_videos import captions, right, videos

pytestmark = pytest.mark.usefixtures("alone")

JUDGES = packaged_judges()
END = date(2027, 1, 14)
CAPTIONS = tuple(Caption(index=index, caption=text) for index, text in captions().items())


def sources() -> list[Target]:
    source = Source("mine", None, tuple(videos()), CAPTIONS, "memory")
    return [Target("mine", lambda: source)]


async def judged(server: LoopbackServer, **options: Any) -> list[str]:
    """Judge six captions and return the notices about the judge's end."""
    notices: list[str] = []
    choice = JudgeOptions({}, base_url=server.url, **{"judge": "gpt-x"} | options)
    async with open_judging(choice, sources(), on_notice=notices.append) as session:
        async for result in session.results():
            assert result.stopped is None, result.stopped
            assert result.scores.counts.scored == 6
        # What is looked up beside the calls may still be on its way.
        await asyncio.sleep(0.05)
    found = [notice for notice in notices if "gpt-x" in notice]
    assert all(isinstance(notice, Loss) for notice in found)
    return found


# ---- The default


def test_the_papers_judge_is_the_default_until_its_day(today: Today) -> None:
    options = JudgeOptions({}, api_key="sk-x")
    for day in (date(2026, 6, 1), date(2027, 1, 13)):
        today.day = day
        found = default_judge(options)
        assert (found.name, "paper's" in found.reason) == (DEFAULT_MODEL, True)
    today.day = END
    with pytest.raises(UsageError) as caught:
        default_judge(options)
    said = str(caught.value)
    assert f"{DEFAULT_MODEL} was retired on 2027-01-14" in said
    assert "--judge gpt-6-luna" in said
    assert "stored verdicts are scored" in said
    assert "\n" not in said
    # Errors are cut when they are long; what comes last is what to do.
    assert said.endswith(f"see `capeval bridge {DEFAULT_MODEL} gpt-6-luna`")


@pytest.mark.parametrize("model", [name for name, entry in JUDGES.items() if entry.shutdown])
def test_the_message_about_a_retired_model_is_not_cut(model: str, today: Today) -> None:
    today.day = date(2027, 6, 1)
    watch = RetirementWatch("https://api.openai.com/v1", JUDGES, pytest.fail)
    said = str(EndpointRefused(watch.why_unknown(model, "?")))
    assert said.startswith(f"the judge {model} was retired on 20")
    new = successor(model, JUDGES, today.day) or "NEW"
    assert said.endswith(f"see `capeval bridge {model} {new}`")


async def test_a_retired_default_stops_an_estimate_too(today: Today) -> None:
    today.day = END
    for offline in (True, False):
        with pytest.raises(UsageError, match="was retired on"):
            async with open_judge(JudgeOptions({}, api_key="sk-x"), offline=offline):
                pytest.fail("it opened")
    # Whoever names it has said which judge it is to be.
    named = JudgeOptions({}, api_key="sk-x", judge=DEFAULT_MODEL)
    async with open_judge(named) as opened:
        assert opened.judge.name == DEFAULT_MODEL
        assert opened.retired == "retired on 2027-01-14"
        assert opened.title.endswith("; retired on 2027-01-14")
        # The user named it: that needs no reason.
        assert opened.reasons == ()


def test_an_entry_of_the_user_moves_the_day(today: Today) -> None:
    today.day = END
    entry = f'[judges."{DEFAULT_MODEL}"]\nshutdown = 2027-12-31\n'
    Path("capeval.toml").write_text(entry, encoding="utf-8")
    assert default_judge(JudgeOptions({}, api_key="sk-x")).name == DEFAULT_MODEL


def test_the_other_defaults_have_their_reasons(today: Today) -> None:
    today.day = date(2030, 1, 1)
    assert default_judge(JudgeOptions({}), is_sample=lambda: True).name == "lexical"
    today.day = date(2026, 6, 1)
    for written in ("https://api.openai.com/v1/", "https://API.openai.com:443/v1"):
        assert default_judge(JudgeOptions({}, base_url=written)).name == DEFAULT_MODEL
    elsewhere = default_judge(JudgeOptions({}, base_url="http://localhost:8000/v1"))
    assert (elsewhere.name, elsewhere.reason) == (None, "the only model of this endpoint")
    recorded = default_judge(JudgeOptions({}, client=ScriptedClient(right)))
    assert recorded.name == DEFAULT_MODEL
    with pytest.raises(UsageError, match="no judge is configured"):
        default_judge(JudgeOptions({}))


# ---- What is said


@pytest.mark.parametrize(
    ("day", "says"),
    [
        (date(2026, 10, 15), None),
        (date(2026, 10, 16), "ends in 90 days, on 2027-01-14"),
        (date(2027, 1, 13), "ends in 1 day, on 2027-01-14"),
        (END, "was retired on 2027-01-14"),
        (date(2027, 5, 1), "was retired on 2027-01-14"),
    ],
)
def test_a_judge_that_ends_within_ninety_days_is_announced(day: date, says: str | None) -> None:
    notice = warning("gpt-4o", END, JUDGES, day, "by the catalogue")
    if says is None:
        assert notice is None
        return
    assert isinstance(notice, Loss)
    assert says in notice
    # A judge that has ended can collect nothing: there is nothing left to plan.
    command = "bridge" if "retired" in says else "bridge plan"
    assert f"`capeval {command} gpt-4o gpt-6-luna`" in notice


def test_what_is_recommended_has_not_ended_itself() -> None:
    own = {
        name: JUDGES["o3"].model_copy(update={"name": name, "replacement": to, "shutdown": end})
        for name, to, end in (("a", "b", END), ("b", "c", END), ("c", None, None))
    }
    assert successor("a", own, END) == "c"
    assert successor("c", own, END) is None
    assert successor("unheard-of", own, END) is None
    assert "--judge;" in what_remains("c", own, END)
    circle = {name: own[name].model_copy(update={"replacement": "a"}) for name in ("a", "b")}
    assert successor("b", circle, END) is None


# ---- At an endpoint


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("2026-07-01", "ends in 30 days, on 2026-07-01 (by the endpoint's record)"),
        (1782864000, "ends in 30 days, on 2026-07-01"),
        ("2026-05-31", "was retired on 2026-05-31"),
        ("2027-01-14", None),
        (None, None),
        ("soon", None),
        ([], None),
    ],
)
async def test_the_endpoints_record_is_read_once(value: object, says: str | None) -> None:
    record = {"id": "gpt-x", "object": "model", "shutdown_date": value}
    async with LoopbackServer(answer, records={"gpt-x": record}) as server:
        found = await judged(server)
        assert server.paths["/v1/models/gpt-x"] == 1
        assert len(found) == (says is not None)
        assert all(str(says) in notice for notice in found)
        # Everything is in the cache: nothing is called, and nothing is looked up.
        assert await judged(server) == []
        assert server.paths["/v1/models/gpt-x"] == 1


@pytest.mark.parametrize(
    "record",
    [unknown_model("gpt-x"), not_json(), failure(500), failure(401), Hang(), {"id": []}],
    ids=["404", "html", "500", "401", "hangs", "no date"],
)
async def test_a_lookup_that_fails_is_no_error_and_no_delay(record: Any) -> None:
    async with LoopbackServer(answer, records={"gpt-x": record}) as server:
        assert await judged(server) == []
    async with LoopbackServer(answer) as server:
        assert await judged(server, cache="other.sqlite") == []


async def test_a_name_with_a_slash_is_one_part_of_the_path() -> None:
    record = {"id": "org/gpt-x", "shutdown_date": "2026-06-02"}
    async with LoopbackServer(answer, records={"org/gpt-x": record}) as server:
        (notice,) = await judged(server, judge="org/gpt-x")
    assert "ends in 1 day" in notice


def entry(text: str) -> None:
    Path("capeval.toml").write_text(f'[judges."gpt-x"]\n{text}\n', encoding="utf-8")


async def test_the_catalogue_warns_before_anything_is_called_and_the_record_corrects_it() -> None:
    entry("shutdown = 2026-07-01")
    same = {"gpt-x": {"id": "gpt-x", "shutdown_date": "2026-07-01"}}
    async with LoopbackServer(answer, records=same) as server:
        notices: list[str] = []
        choice = JudgeOptions({}, base_url=server.url, judge="gpt-x")
        for offline in (True, False):
            async with open_judge(choice, offline=offline, on_notice=notices.append):
                pass
        assert len(notices) == 2
        assert all("by capeval's catalogue" in notice for notice in notices)
        assert not server.paths
        assert len(await judged(server)) == 1
    other = {"gpt-x": {"id": "gpt-x", "shutdown_date": "2026-06-11"}}
    async with LoopbackServer(answer, records=other) as server:
        found = await judged(server, cache="other.sqlite")
    assert ["in 30 days" in found[0], "in 10 days" in found[1]] == [True, True]
    # Later than what is warned of, too: otherwise the first warning would seem to hold.
    later = {"gpt-x": {"id": "gpt-x", "shutdown_date": "2027-06-11"}}
    async with LoopbackServer(answer, records=later) as server:
        found = await judged(server, cache="third.sqlite")
    assert "in 30 days" in found[0]
    assert found[1:] == [
        "the judge gpt-x ends on 2027-06-11 by the endpoint's record, not on 2026-07-01"
    ]


async def test_a_retired_judge_is_one_line_that_says_what_can_be_done() -> None:
    entry('shutdown = 2026-05-01\nreplacement = "gpt-y"')
    notices: list[str] = []

    def gone(request: dict[str, Any]) -> Any:
        return unknown_model(request["model"])

    async with LoopbackServer(gone, records={}) as server:
        choice = JudgeOptions({}, base_url=server.url, judge="gpt-x")
        with pytest.raises(EndpointRefused) as caught:
            async with open_judging(choice, sources(), on_notice=notices.append) as session:
                [result async for result in session.results()]
        said = str(caught.value)
        begins = "the judge gpt-x was retired on 2026-05-01 and does not answer: choose another"
        assert said.startswith(begins)
        assert "--judge gpt-y" in said
        assert "stored verdicts are scored" in said
        assert "see `capeval bridge gpt-x gpt-y`" in said
        assert "\n" not in said
        assert notices == []
        # An estimate calls nothing, and cannot find it out.
        async with open_judging(
            choice, sources(), offline=True, on_notice=notices.append
        ) as session:
            await session.estimate()
        (notice,) = notices
        assert "gpt-x was retired on 2026-05-01" in notice
    # A server that has it all the same goes on.
    async with LoopbackServer(answer, records={}) as server:
        assert await judged(server) == []


async def test_another_unknown_model_is_no_retired_one() -> None:
    async with LoopbackServer(lambda request: unknown_model(request["model"])) as server:
        choice = JudgeOptions({}, base_url=server.url, judge="gpt-x")
        with pytest.raises(EndpointRefused, match="does not know the model gpt-x") as caught:
            async with open_judging(choice, sources()) as session:
                [result async for result in session.results()]
    assert "retired" not in str(caught.value)


async def test_what_is_said_of_openais_models_is_not_said_of_others() -> None:
    """Another service may serve gpt-5 for longer, and may not know `reasoning_effort`."""
    async with LoopbackServer(answer) as server:
        notices: list[str] = []
        choice = JudgeOptions({}, base_url=server.url, judge="gpt-5")
        async with open_judge(choice, on_notice=notices.append) as opened:
            assert opened.judge.reasoning is None
    assert notices == []


async def test_a_run_never_changes_its_judge_silently(tmp_path: Path) -> None:
    from capeval import judge_async

    def told(request: ChatRequest) -> str:
        return right(request)

    annotations = tmp_path / "annotations.json"
    rows = ", ".join(one.model_dump_json() for one in videos())
    annotations.write_text(f"[{rows}]", encoding="utf-8")
    given: dict[str, Any] = {"annotations": str(annotations), "client": ScriptedClient(told)}
    (tmp_path / "mine.jsonl").write_text(
        "".join(caption.model_dump_json() + "\n" for caption in CAPTIONS), encoding="utf-8"
    )
    await judge_async("mine.jsonl", **given, judge="gpt-4.1")
    from capeval.api.judging import targets_named

    async def notices(**choice: Any) -> list[str]:
        found: list[str] = []
        options = JudgeOptions({}, client=given["client"], **choice)
        targets = targets_named(["mine"], options)
        async with open_judging(options, targets, on_notice=found.append) as session:
            await session.estimate()
        return found

    (notice,) = await notices()
    assert isinstance(notice, Loss)
    assert "its verdicts so far are by gpt-4.1@tuna-cap-v1; gpt-4o-2024-08-06" in notice
    assert await notices(judge="gpt-4o-mini") == []
    assert await notices(judge="gpt-4.1") == []
    # In Python, too; once for each run.
    found: list[str] = []
    await judge_async("mine", **given, on_notice=found.append)
    (said,) = found
    assert said == notice
    await judge_async("mine", **given, on_notice=found.append)
    assert len(found) == 1
    # The effort that the rule gives makes another judge too, but not of a judge that is new.
    assert await notices(judge="gpt-6-luna") == []
    await judge_async("mine", **given, judge="gpt-6-luna", reasoning="default")
    assert await notices(judge="gpt-6-luna", reasoning="low") == []
    (notice,) = await notices(judge="gpt-6-luna")
    assert "so far are by gpt-6-luna@tuna-cap-v1; gpt-6-luna" in notice
    assert "the least effort that it takes (--reasoning sets another)" in notice

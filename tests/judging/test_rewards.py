"""`capeval.Judge`: rewards for the captions of a training, from one open judge."""

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import capeval
from capeval.errors import BudgetReached, EndpointRefused, JudgeError, UsageError
from capeval.judging import rewards
from capeval.llm.replies import ChatRequest
from capeval.schema import Unscored
from tests.judge_responder import answer
from tests.scripted_client import ScriptedClient
from tests.server import LoopbackServer, unknown_model
from tests.six_videos import captions, right, videos

pytestmark = pytest.mark.usefixtures("alone")

TEXTS, INDICES = [*captions().values()], [*captions()]


def opened(client: ScriptedClient | None = None, **more: Any) -> capeval.Judge:
    return capeval.Judge(videos(), judge="open", client=client or ScriptedClient(right), **more)


def test_rewards_are_the_scores_of_capeval_judge(tmp_path: Path) -> None:
    client = ScriptedClient(right)
    scores = capeval.judge(captions(), videos(), judge="open", client=client)
    before = {path.name for path in tmp_path.rglob("*")}
    with opened(client) as judge:
        assert judge.rewards(TEXTS, INDICES) == [
            pytest.approx(scores.videos[index]["all"].f1) for index in INDICES
        ]
        found = judge.rewards(TEXTS, INDICES, measure="recall", type="action")
        assert found == [scores.videos[index]["action"].recall for index in INDICES]
        # No video has an element of the camera; that is no failure.
        assert judge.rewards(TEXTS, INDICES, type="camera") == [None] * len(INDICES)
        assert (judge.counts.scored, judge.counts.unscored) == (len(INDICES), 0)
    assert {path.name for path in tmp_path.rglob("*")} == before


def test_a_group_of_one_video_is_judged_once_for_each_text() -> None:
    client = ScriptedClient(right)
    group = ["Man 0 runs to a red car. Birds sing.", "A tree. Birds sing.", ""] * 3
    with opened(client) as judge:
        found = judge.rewards(group, ["V0"] * 9)
        assert found[:3] * 3 == found
        assert found[2] == 0.0
        asked = len(client.requests)
        assert asked <= 6  # three calls for each of two texts
        assert judge.rewards(group, ["V0"] * 9) == found
        assert len(client.requests) == asked
        assert (judge.counts.scored, judge.counts.reused) == (3, 15)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewards, "KEPT", 2)
    client = ScriptedClient(right)
    with opened(client) as judge:
        judge.rewards(TEXTS, INDICES)
        asked = len(client.requests)
        judge.rewards(TEXTS[-2:], INDICES[-2:])
        assert len(client.requests) == asked
        judge.rewards(TEXTS[:1], INDICES[:1])
        assert len(client.requests) > asked


def test_replies_are_stored_only_where_a_cache_is_named(tmp_path: Path) -> None:
    client = ScriptedClient(right)
    for _ in range(2):
        with opened(client, cache=tmp_path / "replies.sqlite") as judge:
            judge.rewards(TEXTS, INDICES)
    assert len(client.requests) == 3 * len(INDICES)


def test_longer_captions_get_less_if_there_is_a_limit() -> None:
    with opened() as judge, opened(max_words=4) as strict:
        (whole,), (less,) = (one.rewards(TEXTS[:1], INDICES[:1]) for one in (judge, strict))
    assert whole
    assert less == pytest.approx(whole * 4 / 9)  # "Man 0 runs to a red car. Birds sing."


async def test_a_failure_is_none_and_ten_in_a_row_raise() -> None:
    def broken(request: ChatRequest) -> str:
        return "no JSON" if "tree" in str(request.messages) else right(request)

    with opened(ScriptedClient(broken)) as judge:
        found = await judge.score(TEXTS, INDICES)
        assert [isinstance(one, Unscored) for one in found] == ["tree" in text for text in TEXTS]
        assert judge.rewards(["A tree. Birds sing."], ["V1"]) == [None]
        assert judge.counts.unscored == 3
        with pytest.raises(JudgeError, match="10 captions in a row could not be judged; the last"):
            judge.rewards([f"A tree. Birds sing {n} times." for n in range(20)], ["V0"] * 20)
        assert judge.rewards(TEXTS[:1], INDICES[:1]) != [None]


async def test_many_threads_and_loops_share_one_connection() -> None:
    async with LoopbackServer(answer) as server:
        judge = capeval.Judge(videos(), judge="open", base_url=server.url)
        found: list[list[float | None]] = []

        def ask() -> None:
            found.append(judge.rewards(TEXTS, INDICES))

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for one in threads:
            one.start()
        scores = await judge.score(TEXTS, INDICES)
        for one in threads:
            await asyncio.to_thread(one.join)
        values = [None if isinstance(one, Unscored) else one.f1 for one in scores]
        assert found == [values] * 4
        # Three calls for each caption, and one short test call.
        assert len(server.requests) == 3 * len(INDICES) + 1
        assert judge.spent.usage.calls == len(server.requests)
        judge.close()


async def test_the_cost_cap_holds_although_the_test_call_is_cheap(tmp_path: Path) -> None:
    (tmp_path / "capeval.toml").write_text('[prices."open"]\ninput = 100\noutput = 100\n')
    async with LoopbackServer(answer, latency=0.1) as server:
        judge = capeval.Judge(videos(), judge="open", base_url=server.url, max_cost=0.2)
        with pytest.raises(BudgetReached):
            await judge.score(TEXTS * 2, INDICES * 2)
        assert 0 < judge.spent.dollars <= 0.2
        judge.close()


def test_it_works_in_a_process_that_was_forked_before_its_first_use() -> None:
    judge = opened()
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, str(judge.rewards(TEXTS, INDICES)).encode())
        os._exit(0)
    os.wait()
    assert os.read(read, 1000).decode() == str(judge.rewards(TEXTS, INDICES))
    judge.close()
    os.close(read)
    os.close(write)


async def test_what_no_caption_can_mend_is_raised() -> None:
    with opened() as judge:
        for given, message in (
            ((TEXTS, INDICES[:2]), "two lists of one length"),
            ((["A"], ["V9"]), 'no video "V9"'),
            ((["A"], [np.int64(9)]), 'no video "9"'),
            (([["A"]], ["V1"]), "is not text"),
        ):
            with pytest.raises(UsageError, match=message):
                judge.rewards(*given)
        with pytest.raises(UsageError, match="precision, recall or f1"):
            judge.rewards(TEXTS, INDICES, measure="bleu")  # type: ignore[arg-type]
        # It would be None for every caption.
        with pytest.raises(UsageError, match="type must be one of all, camera"):
            judge.rewards(TEXTS, INDICES, type="actions")  # type: ignore[arg-type]
    async with LoopbackServer(lambda _: unknown_model("open")) as server:
        judge = capeval.Judge(videos(), judge="open", base_url=server.url)
        with pytest.raises(EndpointRefused, match="open"):
            await judge.score(TEXTS, INDICES)
        judge.close()
    judge = capeval.Judge(videos(), base_url="http://127.0.0.1:9/v1")
    with pytest.raises(EndpointRefused, match="cannot reach"):
        judge.rewards(TEXTS, INDICES)
    assert judge.spent.dollars == 0
    for thread in threading.enumerate():
        if thread.name == "capeval-judge":
            thread.join(10)
    judge.close()
    with pytest.raises(UsageError, match="no parameter jugde"):
        capeval.Judge(videos(), jugde="open")

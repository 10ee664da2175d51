"""`capeval.generate` for Python."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import capeval
from capeval.errors import BudgetReached, RequestRefused, UsageError
from capeval.llm.fake import ScriptedClient
from tests.generating import FakeCaptioner, FakeReader
from tests.server import LoopbackServer

pytestmark = pytest.mark.usefixtures("alone")


def test_captions_of_a_scripted_endpoint_are_a_run(tmp_path: Path) -> None:
    client = ScriptedClient(["A dog runs.", RequestRefused("filtered"), "A cat sits."])
    made = capeval.generate(
        "my-vlm", client=client, runs=tmp_path, cache=tmp_path / "c.sqlite", limit=3, frames="2",
        max_concurrency=1,
    )  # fmt: skip
    assert [line["caption"] for line in made.captions] == ["A dog runs.", "A cat sits."]
    assert list(made.ungenerated.values()) == ["filtered"]
    assert made.run.path == tmp_path / "my-vlm"
    scores = capeval.judge(str(made.run.path), judge="lexical", runs=tmp_path)
    assert scores.counts.captioned == 2


async def test_cached_captions_are_for_their_own_run(tmp_path: Path) -> None:
    async with LoopbackServer(lambda _: f"Caption {server.calls}.") as server:

        async def calls(run: str) -> int:
            before = server.calls
            made = await capeval.generate_async(
                "my-vlm", base_url=server.url, runs=tmp_path, run=run, limit=2, frames="2"
            )
            assert not made.ungenerated
            return server.calls - before

        paid = await calls("step1000")
        file = tmp_path / "step1000" / "captions.jsonl"
        lines = file.read_text("utf-8").splitlines(keepends=True)
        file.write_text(lines[0], "utf-8")  # as if it was killed
        assert await calls("step1000") == 0
        # Another run asks, whatever its name: the server may have another checkpoint by now.
        assert await calls("step2000") == paid
        shutil.rmtree(tmp_path / "step1000")
        assert await calls("step1000") == paid


async def test_a_model_of_ones_own_is_an_object(tmp_path: Path) -> None:
    made = await capeval.generate_async(
        FakeCaptioner(batch_size=4), frames=FakeReader(), runs=tmp_path, run="mine"
    )
    assert (len(made.captions), made.ungenerated) == (10, {})
    assert made.run.name == "mine"


def test_a_stop_is_raised_and_what_was_done_is_kept(tmp_path: Path) -> None:
    captioner = FakeCaptioner(
        answer=lambda r: BudgetReached("enough") if r.index == "sample_03" else None
    )
    with pytest.raises(BudgetReached):
        capeval.generate(captioner, frames=FakeReader(), runs=tmp_path)
    assert (tmp_path / "fake-vlm" / "captions.jsonl").read_text().count("\n") == 2


def test_without_a_model_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(UsageError, match="name a model"):
        capeval.generate()

"""What a run keeps of a judge's work: identities, repeats, texts that change, and failures."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from capeval.config import packaged
from capeval.judging.judges import open_judge
from capeval.judging.judging_work import JudgingPlan, JudgingWork
from capeval.judging.protocol import DEFAULT_PROMPTS, JudgeOptions
from capeval.runs.engine import execute
from capeval.runs.folder import JudgeFolder, RunFolder
from capeval.runs.resolve import Target
from capeval.runs.sources import Source
from capeval.schema import Caption
from capeval.scoring.judged_run import load_judged
from capeval.scoring.scores import Scores
from tests.scripted_client import ScriptedClient
from tests.six_videos import captions, right, videos

# ruff: noqa: ASYNC240 - small files of tests
pytestmark = pytest.mark.usefixtures("alone")

ANNOTATIONS = videos()
CAPTIONS = [Caption(index=index, caption=text) for index, text in captions().items()]
RUN = RunFolder(Path("runs/mine"))
HERE, THERE = "http://here:8000/v1", "http://there:9000/v1"


@dataclass(frozen=True)
class Done:
    """One command: its plan, its scores, the judge's folder and how many calls it made."""

    plan: JudgingPlan
    scores: Scores
    folder: JudgeFolder
    calls: int

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.folder.judgments.read_text().splitlines()]

    def rescored(self, **options: Any) -> Scores:
        return load_judged(self.folder.path, annotations=ANNOTATIONS, **options).scores


async def run(
    replies: Any = right, *, texts: list[Caption] = CAPTIONS, repeats: int = 1, **choice: Any
) -> Done:
    """Judge the captions, as if they had just been written to the run."""
    RUN.captions.unlink(missing_ok=True)
    source = Source("mine", RUN, tuple(ANNOTATIONS), tuple(texts), "memory", origin="memory")
    client = ScriptedClient(replies)
    options = JudgeOptions({}, client=client, repeats=repeats, **choice)
    async with open_judge(options) as opened:
        work = JudgingWork(Target("mine", lambda: source, RUN), opened, options)
        with work.locked():
            plan = work.plan()
            await execute(work, plan)
        assert work.folder is not None
        return Done(plan, work.judged.scores, work.folder, len(client.requests))


async def test_every_identity_has_a_folder_of_its_own(tmp_path: Path) -> None:
    prompts = tmp_path / DEFAULT_PROMPTS
    shutil.copytree(packaged("prompts") / DEFAULT_PROMPTS, prompts)
    first = await run(base_url=HERE)
    file = next(prompts.glob("*split*"))
    file.write_text(f"{file.read_text()}\nBe brief.\n")
    others = [
        await run(base_url=HERE, prompts=prompts),
        await run(base_url=HERE, reasoning="high"),
        # The first two stages ask nothing new for reasons.
        await run(base_url=HERE, explain=True),
        await run(),
        await run(base_url=HERE, judge="gpt-4.1"),
    ]
    Path("capeval.toml").write_text(f'[endpoints]\n"{HERE}" = "cluster"\n')
    others.append(await run(base_url=HERE))
    assert [done.calls for done in (first, *others)] == [18, 6, 18, 6, 18, 18, 0]
    assert len({done.folder.path for done in (first, *others)}) == 7
    for done in others:
        assert done.folder.path.name != first.folder.path.name
        assert done.rescored() == done.scores
    Path("capeval.toml").unlink()
    assert (await run(base_url=HERE)).calls == 0
    assert first.rescored() == first.scores
    # One server at another address is the same judge.
    moved = await run(base_url=THERE, repeats=2)
    assert (moved.folder, moved.calls) == (first.folder, 18)
    assert moved.rescored().settings["base_url"] == THERE


async def test_verdicts_by_several_snapshots_are_reported() -> None:
    done = await run()
    lines = done.lines
    lines[0]["provenance"]["models"] = ["gpt-4o-2030-01-01"]
    done.folder.judgments.write_text("".join(json.dumps(line) + "\n" for line in lines))
    judged = load_judged(done.folder.path, annotations=ANNOTATIONS)
    assert "2 snapshots of the judge answered" in judged.notices[0]
    assert "gpt-4o-2030-01-01" in judged.signature


async def test_verdicts_of_videos_that_are_left_out_come_back_with_them() -> None:
    await run()
    part = await run(texts=CAPTIONS[:2])
    assert part.scores.counts.scored == 2
    assert part.rescored() == part.scores
    back = await run()
    assert (back.plan.todo, back.scores.counts.scored) == ([], 6)

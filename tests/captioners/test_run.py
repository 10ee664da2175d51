import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import capeval
from capeval.captioners import stored_work
from capeval.captioners.catalogue import ModelEntry, OpenCaptioner
from capeval.captioners.generate import (
    Generation,
    GenerationWork,
    Wanted,
    load_caption_prompts,
    prompt_hash,
)
from capeval.captioners.protocol import Uncaptioned
from capeval.errors import InputError, ModelDown, RunLocked
from capeval.files.captions import load_captions
from capeval.files.jsonl import write_jsonl
from capeval.llm.money import Meter
from capeval.runs.engine import Locks
from capeval.runs.folder import RunFolder, Shard
from tests.files.making import record
from tests.server import LoopbackServer
from tests.world import FakeCaptioner, FakeReader, lines, write_lines

pytestmark = pytest.mark.usefixtures("alone")

Wanting = Callable[..., Wanted]
INDEXES = [f"v{n}" for n in range(10)]


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "runs" / "fake")


async def go(
    run: RunFolder,
    wanted: Wanted,
    captioner: Any = None,
    reader: Any = None,
    shard: Shard | None = None,
) -> Generation:
    captioner, reader = captioner or FakeCaptioner(), reader or FakeReader()
    opened = OpenCaptioner(captioner, ModelEntry(name="fake", reached="endpoint"), Meter())
    work = GenerationWork(run, opened, reader, wanted=wanted, shard=shard)
    with Locks() as locks:
        await work.prepare(locks)
        (done,) = [one async for one in work.results()]
    return done.value


def order(path: Path) -> list[str]:
    return [line["index"] for line in lines(path)]


async def test_a_run_holds_everything_that_made_it(run: RunFolder, wanted_of: Wanting) -> None:
    uneven = FakeReader(count=lambda name: 9 - int(name[1:]) % 3)
    batches = FakeCaptioner(batch_size=4, concurrency=3)
    generation = await go(run, wanted_of(INDEXES), batches, uneven)
    assert (len(generation.captions), generation.ungenerated, generation.new) == (10, {}, 10)
    assert order(run.captions) == INDEXES
    line = lines(run.captions)[0]
    assert set(line) == {
        *("index", "video", "caption", "model", "revision", "frames", "prompt", "generation"),
        *("settings", "usage", "seconds", "warnings"),
    }
    assert line["prompt"] == prompt_hash(load_caption_prompts(None).text)
    manifest = run.read_manifest()
    assert manifest["annotations"]["count"] == 10
    assert manifest["generation"]["frames"] == "32"
    assert manifest["generation"]["prompt"]["source"] == "tuna-cap-v1/caption.txt"
    assert [c.index for c in load_captions(run.captions)] == INDEXES
    assert sorted(entry.name for entry in run.path.iterdir()) == ["captions.jsonl", "manifest.json"]
    before = run.captions.read_bytes()
    captioner = FakeCaptioner()
    again = await go(run, wanted_of(INDEXES), captioner)
    assert (again.new, captioner.batches, run.captions.read_bytes()) == (0, [], before)


async def test_no_video_at_all_is_the_users_mistake(run: RunFolder, wanted_of: Wanting) -> None:
    with pytest.raises(InputError, match=r"any of the 10 videos, such as v0: .*--videos"):
        await go(run, wanted_of(INDEXES, files=["other.mp4"]))
    assert not run.captions.exists()
    assert not run.manifest.exists()


async def test_settings_are_not_mixed_and_the_first_three_are_named(
    run: RunFolder, wanted_of: Wanting, tmp_path: Path
) -> None:
    wanted = wanted_of(INDEXES)
    await go(run, replace(wanted, chosen=wanted.chosen[:2]))
    before = run.captions.read_bytes()
    settings = {"backend": "fake", "max_new_tokens": 512, "system": ""}
    others = FakeCaptioner(name="theirs", settings=settings)
    with pytest.raises(InputError, match="choose another --run") as caught:
        await go(run, wanted, others, FakeReader(policy="2fps"))
    said = str(caught.value)
    assert 'go back to model "fake-vlm" (now "theirs"), frames "32" (now "2fps"), ' in said
    assert said.endswith("generation.max_new_tokens 1024 (now 512) and 1 more")
    (tmp_path / "p.txt").write_text("Say it.")
    prompts = load_caption_prompts(tmp_path / "p.txt")
    with pytest.raises(InputError, match=r'prompt.source "tuna-cap-v1/caption.txt" \(now "p.txt"'):
        await go(run, replace(wanted, prompts=prompts))
    assert run.captions.read_bytes() == before


def local(sha256: str, name: str = "ours") -> FakeCaptioner:
    settings = {"backend": "transformers", "revision": None, "weights": {"sha256": sha256}}
    return FakeCaptioner(name=name, settings=settings)


FIRST, SECOND = "a" * 64, "b" * 64


async def test_two_models_behind_one_name_are_not_mixed(run: RunFolder, wanted_of: Wanting) -> None:
    wanted = wanted_of(INDEXES)
    await go(run, replace(wanted, chosen=wanted.chosen[:4]), local(FIRST))
    before = run.captions.read_bytes()
    with pytest.raises(InputError, match=r'sha256 "a+… \(now "b+…\)$'):
        await go(run, wanted, local(SECOND))
    assert run.captions.read_bytes() == before
    # A folder may be renamed; its weights are the same.
    assert (await go(run, wanted, local(FIRST, "renamed"))).new == 6
    assert {line["model"] for line in lines(run.captions)} == {"ours"}
    assert len({line["settings"] for line in lines(run.captions)}) == 1


async def test_a_run_of_other_captions_is_left_alone(run: RunFolder, wanted_of: Wanting) -> None:
    run.path.mkdir(parents=True)
    run.captions.write_text('{"index": "v0", "caption": "by hand"}\n')
    with pytest.raises(InputError, match="not generated here"):
        await go(run, wanted_of(INDEXES))
    run.captions.unlink()
    await go(run, wanted_of(INDEXES))
    with pytest.raises(InputError, match="does not have"):
        await go(run, wanted_of(INDEXES[:5]))


async def test_the_datas_own_questions_are_the_prompts(
    run: RunFolder, wanted_of: Wanting, tmp_path: Path
) -> None:
    rows: list[Any] = [record("v0", video="v0", question="What happens?"), record("v1", video="v1")]
    captioner = FakeCaptioner()
    await go(run, wanted_of(rows), captioner)
    assert captioner.prompts == {"v0": "What happens?", "v1": load_caption_prompts(None).text}
    assert run.read_manifest()["generation"]["prompt"]["source"].startswith("question, else ")
    # A question that changed is asked again, and nothing else.
    rows[0]["question"] = "What happens then?"
    captioner = FakeCaptioner()
    assert (await go(run, wanted_of(rows), captioner)).new == 1
    assert captioner.prompts == {"v0": "What happens then?"}
    assert order(run.captions) == ["v0", "v1"]
    # A file of the user's comes first.
    (tmp_path / "p.txt").write_text("Say it.\n")
    prompts = load_caption_prompts(tmp_path / "p.txt")
    await go(RunFolder(tmp_path / "other"), wanted_of(rows[:1], prompts=prompts), captioner)
    assert captioner.prompts == {"v0": "Say it."}


async def test_a_model_that_dies_loses_nothing(run: RunFolder, wanted_of: Wanting) -> None:
    wanted = wanted_of([f"v{n}" for n in range(100)])
    dead = RuntimeError("CUDA error: an illegal memory access was encountered")
    dying = FakeCaptioner(answer=lambda r: dead if int(r.index[1:]) >= 10 else None)
    stopped = await go(run, wanted, dying)
    assert isinstance(stopped.stopped, ModelDown)
    assert order(run.captions) == [f"v{n}" for n in range(10)]
    failed = order(run.path / "ungenerated.jsonl")
    assert failed == [f"v{n}" for n in range(10, 18)]
    # The next process does first what was never tried: one bad video does not stop it again.
    again = FakeCaptioner()
    assert (await go(run, wanted, again)).ungenerated == {}
    assert list(again.prompts)[-8:] == failed
    assert order(run.captions) == [f"v{n}" for n in range(100)]


def same(path: Path) -> list[dict[str, Any]]:
    return [line | {"seconds": None} for line in lines(path)]


async def test_shards_make_what_one_run_makes(
    run: RunFolder, wanted_of: Wanting, tmp_path: Path
) -> None:
    wanted = wanted_of(INDEXES)
    broken = FakeReader(broken={"v4": "has no frames"}.get)
    await go(run, wanted, reader=broken)
    sharded = RunFolder(tmp_path / "runs" / "sharded")
    for number in (2, 1):
        part = await go(sharded, wanted, shard=Shard(number, 3), reader=broken)
        assert part.shard == Shard(number, 3)
        assert not sharded.captions.exists()
    whole = await go(sharded, wanted, shard=Shard(3, 3), reader=broken)
    assert (whole.shard, len(whole.captions), whole.new) == (None, 9, 3)
    assert whole.ungenerated == {"v4": "has no frames"}
    assert same(sharded.captions) == same(run.captions)
    assert sorted(e.name for e in sharded.path.iterdir()) == sorted(
        e.name for e in run.path.iterdir()
    )
    assert sharded.read_manifest() | {"id": ""} == run.read_manifest() | {"id": ""}


async def test_shards_copied_from_another_machine_are_taken_in(
    run: RunFolder, wanted_of: Wanting, tmp_path: Path
) -> None:
    wanted = wanted_of(INDEXES)
    there = RunFolder(tmp_path / "there" / "fake")
    await go(run, wanted, shard=Shard(1, 2))
    await go(there, wanted, shard=Shard(2, 2))
    file = "captions.2-of-2.jsonl"
    (run.path / file).write_bytes((there.path / file).read_bytes())
    whole = await go(run, wanted, shard=Shard(1, 2))
    assert (whole.ungenerated, order(run.captions)) == ({}, INDEXES)
    # One with other settings is not let in.
    text = (there.path / file).read_text().replace('"settings": "', '"settings": "0')
    (run.path / file).write_text(text)
    with pytest.raises(InputError, match="cannot be mixed"):
        await go(run, wanted)


@pytest.mark.parametrize("steps", range(6))
async def test_nothing_is_lost_when_taking_in_is_killed(
    steps: int, run: RunFolder, wanted_of: Wanting, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = wanted_of(INDEXES)
    broken = FakeReader(broken={"v4": "has no frames"}.get)
    await go(run, wanted, shard=Shard(1, 2), reader=broken)
    left = iter(range(steps))

    def mortal(act: Callable[..., Any]) -> Callable[..., Any]:
        def step(path: Path, *given: Any, **more: Any) -> Any:
            if "lock" not in path.name and next(left, None) is None:
                raise KeyboardInterrupt
            return act(path, *given, **more)

        return step

    with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr(stored_work, "write_jsonl", mortal(write_jsonl))
        patch.setattr(Path, "unlink", mortal(Path.unlink))
        await go(run, wanted, shard=Shard(2, 2), reader=broken)
    again = FakeCaptioner()
    await go(run, wanted, again, broken)
    assert (order(run.captions), again.prompts) == ([i for i in INDEXES if i != "v4"], {})
    assert order(run.path / "ungenerated.jsonl") == ["v4"]
    assert not list(run.path.glob("*-of-*"))


async def test_a_run_at_work_is_locked(run: RunFolder, wanted_of: Wanting) -> None:
    wanted = wanted_of(INDEXES)
    with run.locked(), pytest.raises(RunLocked):
        await go(run, wanted)
    await go(run, wanted, shard=Shard(1, 2))
    with run.locked(part="1-of-2"):
        with pytest.raises(RunLocked):
            await go(run, wanted, shard=Shard(1, 2))
        with pytest.raises(RunLocked, match="shard 1/2 is still running"):
            await go(run, wanted)
        # The other shard ends, and leaves the rest to the one at work.
        assert (await go(run, wanted, shard=Shard(2, 2))).shard == Shard(2, 2)


async def test_an_outdated_caption_remains_until_another_is_written(
    run: RunFolder, wanted_of: Wanting
) -> None:
    wanted = wanted_of(INDEXES)
    await go(run, wanted)
    before = lines(run.captions)
    for name in ("v3", "v5", "v7"):
        (wanted.videos.path / f"{name}.mp4").write_bytes(b"another video")
    emptied = [line | ({"caption": ""} if line["index"] == "v8" else {}) for line in before]
    write_lines(run.captions, emptied)
    fails = FakeCaptioner(answer=lambda r: Uncaptioned("v5", "no") if r.index == "v5" else None)
    part = await go(run, replace(wanted, chosen=wanted.chosen[:6]), fails)
    assert (part.new, part.ungenerated) == (1, {"v5": "no"})
    now = lines(run.captions)
    # Only v3 is new; the emptied caption of v8 is gone.
    assert [line for line in now if line in before] == [
        line for line in before if line["index"] not in ("v3", "v8")
    ]
    assert now[3]["video"] == {"file": "v3.mp4", "bytes": 13}
    assert lines(run.path / "ungenerated.jsonl") == [{"index": "v5", "reason": "no"}]
    captioner = FakeCaptioner()
    await go(run, wanted, captioner)
    assert set(captioner.prompts) == {"v5", "v7", "v8"}
    assert not (run.path / "ungenerated.jsonl").exists()


# capeval.generate


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

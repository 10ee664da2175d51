import asyncio
import random
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from capeval.captioners import pipeline
from capeval.captioners.pipeline import Job, caption_videos
from capeval.captioners.protocol import Captioned, Uncaptioned
from capeval.errors import BudgetReached, MissingExtra, UsageError
from capeval.video import FrameSet
from tests.world import FakeCaptioner, FakeReader


class Notes:
    def __init__(self) -> None:
        self.outcomes: dict[str, Captioned | Uncaptioned] = {}

    def __call__(
        self, job: Job, outcome: Captioned | Uncaptioned, frames: Mapping[str, Any]
    ) -> None:
        assert job.index not in self.outcomes
        self.outcomes[job.index] = outcome

    @property
    def reasons(self) -> dict[str, str]:
        return {i: o.reason for i, o in self.outcomes.items() if isinstance(o, Uncaptioned)}


def jobs(count: int) -> list[Job]:
    return [Job(f"v{n}", Path(f"v{n}.mp4"), "Describe it.") for n in range(count)]


async def run(count: int, reader: Any = None, captioner: Any = None, **more: Any) -> Notes:
    notes = Notes()
    given = (reader or FakeReader(), captioner or FakeCaptioner())
    async with asyncio.timeout(20):
        await caption_videos(jobs(count), *given, **({"record": notes} | more))
    return notes


@pytest.mark.parametrize(("batch_size", "concurrency"), [(1, 1), (1, 2), (3, 2), (50, 2)])
async def test_every_video_of_any_length_gets_one_outcome(
    batch_size: int, concurrency: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "AHEAD_BYTES", 5000)
    captioner = FakeCaptioner(batch_size=batch_size, concurrency=concurrency)
    captioner.mixes_frame_counts = True
    reader = FakeReader(count=lambda name: 1 + int(name[1:]) * 7 % 40)
    notes = await run(41, reader, captioner)
    assert set(notes.outcomes) == {f"v{n}" for n in range(41)}
    assert notes.reasons == {}
    assert max(map(len, captioner.batches)) <= batch_size


async def test_a_model_that_pads_gets_full_batches_of_similar_lengths() -> None:
    rng = random.Random(3)
    counts = {f"v{n}": rng.randrange(4, 120) for n in range(80)}
    captioner = FakeCaptioner(batch_size=8)
    captioner.mixes_frame_counts = True
    notes = await run(80, FakeReader(count=lambda name: counts[name]), captioner)
    assert len(notes.outcomes) == 80
    assert sorted(map(len, captioner.batches)) == [8] * 10
    padded = sum(max(batch) * len(batch) for batch in captioner.batches)
    assert padded < 1.5 * sum(counts.values())
    # Others get full batches of one frame count.
    alike = FakeCaptioner(batch_size=4)
    await run(24, FakeReader(count=lambda name: 2 + int(name[1:]) % 2), alike)
    assert sorted(alike.batches) == [(2,) * 4] * 3 + [(3,) * 4] * 3


@pytest.mark.parametrize("mixes", [False, True])
async def test_which_videos_share_a_batch_does_not_depend_on_time(
    mixes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "READERS", 4)

    class Uneven(FakeReader):
        def __init__(self, seed: int) -> None:
            super().__init__(count=lambda name: 2 + int(name[1:]) % 7 % 3)
            self._naps = random.Random(seed)

        def read(self, path: Path, *, cancel: threading.Event | None = None) -> FrameSet:
            time.sleep(self._naps.random() / 200)
            return super().read(path, cancel=cancel)

    async def batches(seed: int) -> tuple[list[str], list[tuple[int, ...]]]:
        model = FakeCaptioner(batch_size=4)
        model.mixes_frame_counts = mixes
        await run(60, Uneven(seed), model)
        return [*model.prompts], model.batches

    assert await batches(1) == await batches(2)


async def test_frames_wait_for_a_slow_model_in_a_bounded_room() -> None:
    reader = FakeReader()
    ahead = 0

    class Slow(FakeCaptioner):
        async def caption(self, requests: Any) -> Any:
            nonlocal ahead
            await asyncio.sleep(0.02)
            ahead = max(ahead, len(reader.read_names) - len(self.batches))
            return await super().caption(requests)

    await run(12, reader, Slow())
    # One that waits, one for each of two threads, and the one under way.
    assert 1 < ahead <= 4


class Raises(FakeReader):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def read(self, path: Path, *, cancel: threading.Event | None = None) -> FrameSet:
        if path.stem == "v2":
            raise self._error
        return super().read(path, cancel=cancel)


async def test_a_decoder_that_crashes_costs_a_video_and_a_missing_one_stops_the_run() -> None:
    notes = await run(4, Raises(RuntimeError("codec\nbug")))
    assert notes.reasons == {"v2": "cannot be decoded (RuntimeError: codec bug)"}
    with pytest.raises(MissingExtra):
        await run(50, Raises(MissingExtra("reading videos needs PyAV")))


async def test_a_reached_budget_lets_what_is_under_way_come_in() -> None:
    class Slow(FakeCaptioner):
        async def caption(self, requests: Any) -> Any:
            if requests[0].index == "v3":
                raise BudgetReached("the cap is reached")
            await asyncio.sleep(0.05)
            return await super().caption(requests)

    notes = Notes()
    with pytest.raises(BudgetReached):
        await run(100, captioner=Slow(concurrency=4), record=notes)
    assert {"v0", "v1", "v2"} <= set(notes.outcomes)


async def test_videos_that_all_fail_alike_from_the_first_are_hopeless() -> None:
    captioner = FakeCaptioner(answer=lambda r: Uncaptioned(r.index, "400: no images, please"))
    with pytest.raises(
        UsageError, match="the first 20 videos all failed for the same reason: 400: no images"
    ):
        await run(100, captioner=captioner)


async def test_a_cancelled_run_stops_the_decoder() -> None:
    cancels: list[threading.Event] = []

    class Hangs(FakeReader):
        def read(self, path: Path, *, cancel: threading.Event | None = None) -> FrameSet:
            assert cancel is not None
            cancels.append(cancel)
            cancel.wait(10)
            return super().read(path)

    task = asyncio.create_task(run(5, Hangs()))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cancels
    assert all(cancel.is_set() for cancel in cancels)

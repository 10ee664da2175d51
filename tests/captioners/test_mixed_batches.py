"""Videos with different numbers of frames in one batch write what they write alone."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import Any

import pytest
import torch

from capeval.captioners.transformers_backend import TransformersCaptioner
from tests.captioners import tiny
from tests.captioners.tiny import Load, Make, captioned

# Some processors give tensors to numpy in a way that numpy 2 means to end.

PROMPTS = (
    "Describe the video.",
    "Describe the camera, the street, the man, the red jacket, in detail.",
    "Answer.",
    "Answer.",
)


@pytest.mark.parametrize("family", tiny.FAMILIES)
async def test_a_batch_writes_what_its_videos_write_alone(family: str, captioner: Make) -> None:
    one = captioner(family)
    counts = (2, 9, 4, 4) if one.mixes_frame_counts else (4, 4, 4, 4)
    assert one.mixes_frame_counts == (family != "llava-onevision")
    requests = [
        tiny.request(f"V{at}", seed=at, frames=frames, prompt=prompt)
        for at, (frames, prompt) in enumerate(zip(counts, PROMPTS, strict=True))
    ]
    together = captioned(await captioner(family, batch_size=4).caption(requests))
    assert [c.details["batch"] for c in together] == [4] * 4
    alone = [captioned(await one.caption([request]))[0] for request in requests]
    assert [c.text for c in together] == [c.text for c in alone]
    assert [c.usage for c in together] == [c.usage for c in alone]
    # The rows differ in length, and the last two in their frames alone.
    assert len({c.usage.input_tokens for c in together}) == 3
    assert len({c.text for c in together}) >= 3
    assert together[2].text != together[3].text


@pytest.mark.gpu
async def test_batches_grow_on_a_gpu(captioner: Make) -> None:
    model = captioner("qwen2-vl", batch_size="auto", device="cuda")
    outcomes = captioned(await model.caption([tiny.request(f"V{at}") for at in range(12)]))
    assert [c.index for c in outcomes] == [f"V{at}" for at in range(12)]
    assert model.settings["dtype"] == "bfloat16"
    assert model.batch_size > 1


async def test_frames_are_made_ready_while_the_model_works(load: Load) -> None:
    loaded = load("qwen2-vl")
    prepared, working = threading.Event(), threading.Event()

    class Waits:
        """Stands for a model that cannot end before the next batch is ready."""

        def generate(self, input_ids: torch.Tensor, **_: Any) -> torch.Tensor:
            working.set()
            assert prepared.wait(10), "nothing was made ready meanwhile"
            return torch.cat((input_ids, input_ids[:, -1:]), dim=1)

    def inputs(requests: Any) -> Any:
        if requests[0].index == "second":
            assert working.wait(10)
            prepared.set()
        return loaded.inputs(requests)

    model = TransformersCaptioner(
        replace(loaded, model=Waits(), inputs=inputs), name="tiny", batch_size=1
    )
    assert model.concurrency == 2
    async with asyncio.timeout(20):
        first = asyncio.create_task(model.caption([tiny.request("first")]))
        await asyncio.to_thread(working.wait, 10)
        second = asyncio.create_task(model.caption([tiny.request("second")]))
        captioned([*await first, *await second])


async def test_a_cancelled_call_that_waits_for_the_model_ends(load: Load) -> None:
    loaded = load("qwen2-vl")
    release, ended = threading.Event(), threading.Event()

    class Hangs:
        def generate(self, input_ids: torch.Tensor, **_: Any) -> torch.Tensor:
            release.wait(10)
            ended.set()
            return torch.cat((input_ids, input_ids[:, -1:]), dim=1)

    model = TransformersCaptioner(replace(loaded, model=Hangs()), name="tiny", batch_size=1)
    first = asyncio.create_task(model.caption([tiny.request("first")]))
    await asyncio.sleep(0.2)
    second = asyncio.create_task(model.caption([tiny.request("second")]))
    await asyncio.sleep(0.2)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    assert not ended.is_set()
    release.set()
    captioned(await first)

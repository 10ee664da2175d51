"""Captions of tiny models: frames, batches, memory and cancelled calls."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from capeval.captioners import Captioned, Uncaptioned
from capeval.captioners.loading import NativeInputs
from capeval.captioners.protocol import LoadedModel
from capeval.captioners.transformers_backend import BatchSize, TransformersCaptioner
from tests.captioners import tiny
from tests.captioners.tiny import Load, Make, captioned


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_no_frame_is_dropped_or_sampled_again(family: str, load: Load) -> None:
    inputs = load(family).inputs
    # The placeholder of a frame's tokens is by far the most frequent token.
    six, twelve, more = (
        int(inputs([tiny.request(frames=frames)])["input_ids"].flatten().bincount().max())
        for frames in (6, 12, 24)
    )
    assert more - twelve == 2 * (twelve - six)


@pytest.mark.parametrize("family", ["llava-video", "qwen3.5", "qwen2.5-omni"])
def test_the_model_is_told_when_its_frames_are(family: str, load: Load) -> None:
    request = tiny.request()
    slow = replace(request, fps=1.0, duration=450.0, times=tuple(map(float, request.indices)))
    inputs = load(family).inputs
    if family == "qwen2.5-omni":
        # 4 frames of 15 s, two to a grid; its processor alone would say 2 frames a second.
        seconds = inputs([request, slow])["video_second_per_grid"]
        assert seconds.tolist() == pytest.approx([7.5, 225.0])
    else:
        at_thirty, at_one = (inputs([one])["input_ids"].tolist() for one in (request, slow))
        assert at_thirty != at_one


def test_a_prompt_that_begins_with_the_first_token_gets_no_second() -> None:
    # As the templates of Gemma and Llama do.
    asked: dict[str, Any] = {}

    class Processor:
        tokenizer = SimpleNamespace(bos_token="<bos>")

        def apply_chat_template(self, *_: Any, **__: Any) -> str:
            return "<bos>Describe."

        def __call__(self, **arguments: Any) -> dict[str, Any]:
            asked.update(arguments)
            return {}

    NativeInputs(Processor(), system_prompt=None, options={}, template={})([tiny.request()])
    assert asked["add_special_tokens"] is False


async def test_decoding_is_greedy_whatever_the_checkpoint_says(captioner: Make) -> None:
    model = captioner("llava-onevision")
    first = captioned(await model.caption([tiny.request()]))[0]
    torch.manual_seed(1)
    assert captioned(await model.caption([tiny.request()]))[0].text == first.text
    generation = model.settings["generation"]
    assert generation["do_sample"] is False
    assert generation["max_new_tokens"] == 10
    # What the checkpoint sets beside sampling stays, and is on record.
    assert generation["repetition_penalty"] == 1.05
    assert not {"temperature", "top_p", "top_k"} & set(generation)
    json.dumps(model.settings)


async def test_a_cut_and_silence_are_warned_of(load: Load) -> None:
    loaded = load("llava-onevision", max_new_tokens=60)
    ids = loaded.tokenizer.convert_tokens_to_ids
    looping = replace(loaded, model=_Writes([ids("street"), ids("camera")] * 30))
    outcome = captioned(await _captioner(looping).caption([tiny.request()]))[0]
    assert outcome.warnings == ("cut off at 60 tokens",)
    silent = replace(loaded, model=_Writes([loaded.tokenizer.eos_token_id]))
    outcome = captioned(await _captioner(silent).caption([tiny.request()]))[0]
    assert (outcome.text, outcome.warnings) == ("", ("the model wrote nothing",))


class _Writes:
    """Stands for a model that writes the same tokens to every prompt."""

    def __init__(self, tokens: list[int]) -> None:
        self._tokens = torch.tensor(tokens)

    def generate(self, input_ids: torch.Tensor, **_: Any) -> torch.Tensor:
        return torch.cat((input_ids, self._tokens.expand(len(input_ids), -1)), dim=1)


@pytest.mark.parametrize(
    ("wanted", "grows", "calls", "size"),
    [
        # A call of so many videos; below zero one that ran out of memory.
        (6, False, [6, -6, 3], 3),
        ("auto", True, [1, 2, 4, 8, 16, 32, 64], 64),
        ("auto", True, [1, 1], 2),  # a batch that was not full says nothing of a larger one
        ("auto", False, [1] * 7, 1),
        (8, True, [-8] + [4] * 15, 4),
        ("auto", True, [-8] + [4] * 16, 8),
    ],
)
def test_batch_sizes_follow_the_memory(
    wanted: Any, grows: bool, calls: list[int], size: int
) -> None:
    batch = BatchSize(wanted, grows=grows)
    for videos in calls:
        if videos > 0:
            batch.done(videos)
        else:
            batch.failed(-videos)
    assert batch.value == size


class _Exhausts:
    """Stands before a model whose device holds so many videos and no more."""

    def __init__(self, model: Any, most: int) -> None:
        self._model, self._most = model, most
        self.batches: list[int] = []

    def generate(self, **arguments: Any) -> Any:
        videos = len(arguments["input_ids"])
        self.batches.append(videos)
        if videos > self._most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")
        return self._model.generate(**arguments)


def _captioner(loaded: LoadedModel, batch_size: Any = 1) -> TransformersCaptioner:
    return TransformersCaptioner(loaded, name="tiny", batch_size=batch_size)


async def test_running_out_of_memory_halves_the_batch_and_goes_on(load: Load) -> None:
    loaded = load("qwen2-vl")
    model = _Exhausts(loaded.model, most=2)
    small = _captioner(replace(loaded, model=model), batch_size=4)
    videos = [tiny.request(f"V{at}", seed=at) for at in range(4)]
    outcomes = captioned(await small.caption(videos))
    assert model.batches == [4, 2, 2]
    assert [c.index for c in outcomes] == [f"V{at}" for at in range(4)]
    assert small.batch_size == 2
    whole = captioned(await _captioner(loaded, batch_size=4).caption(videos))
    assert [c.text for c in outcomes] == [c.text for c in whole]
    none = _captioner(replace(loaded, model=_Exhausts(loaded.model, most=0)), batch_size=4)
    for outcome in await none.caption(videos[:2]):
        assert isinstance(outcome, Uncaptioned)
        assert outcome.reason.startswith("out of memory with this video alone (4 frames")


async def test_a_video_that_the_processor_refuses_costs_no_other_its_caption(
    captioner: Make,
) -> None:
    # Qwen2-VL takes no frame that is 200 times as wide as high.
    strip = replace(tiny.request("strip"), frames=np.zeros((4, 2, 1000, 3), dtype=np.uint8))
    model = captioner("qwen2-vl", batch_size=3)
    first, refused, last = await model.caption([tiny.request("A"), strip, tiny.request("B")])
    assert isinstance(first, Captioned)
    assert isinstance(last, Captioned)
    assert isinstance(refused, Uncaptioned)
    assert "the model's processor refuses it" in refused.reason
    assert "aspect ratio" in refused.reason


async def test_more_frames_than_the_model_can_read_are_refused(load: Load) -> None:
    loaded = load("llava-onevision")
    assert loaded.context == 4096
    few, many = tiny.request("few", frames=2), tiny.request("many", frames=8)
    room = int(loaded.inputs([few])["input_ids"].shape[1])
    narrow = _captioner(replace(loaded, context=room), batch_size=2)
    first, second = await narrow.caption([few, many])
    assert isinstance(first, Captioned)
    assert isinstance(second, Uncaptioned)
    assert second.reason.startswith("its 8 frames and the prompt make ")
    assert second.reason.endswith(f"the model reads {room}: take fewer frames")


async def test_a_cancelled_call_stops_writing(load: Load) -> None:
    endless = load("llava-onevision", max_new_tokens=1_000_000)
    # No end token: nothing but the cancellation ends it.
    endless.generation.eos_token_id = [10_000]
    task = asyncio.create_task(_captioner(endless).caption([tiny.request()]))
    await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# Batches of several videos, and what goes on beside the model

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

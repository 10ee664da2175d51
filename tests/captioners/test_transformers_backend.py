from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoProcessor

from capeval.captioners import Captioned, Uncaptioned
from capeval.captioners.catalogue import ModelEntry
from capeval.captioners.loading import NativeInputs, load_model
from capeval.captioners.options import CaptionerOptions
from capeval.captioners.protocol import LoadedModel
from capeval.captioners.transformers_backend import TransformersCaptioner
from capeval.errors import UsageError
from tests.captioners import tiny

Make = Callable[..., TransformersCaptioner]
Load = Callable[..., LoadedModel]
Checkpoint = Callable[[str], Path]


def captioned(outcomes: list[Captioned | Uncaptioned]) -> list[Captioned]:
    good = [outcome for outcome in outcomes if isinstance(outcome, Captioned)]
    assert len(good) == len(outcomes), outcomes
    return good


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

    NativeInputs(Processor(), system_prompt=None, options={}, template={}, is_joined=False)(
        [tiny.request()]
    )
    assert asked["add_special_tokens"] is False


async def test_videos_of_other_sizes_and_counts_share_a_call(captioner: Make) -> None:
    wide = tiny.request("wide", seed=1)
    tall = replace(
        tiny.request("tall", seed=2),
        frames=np.ascontiguousarray(tiny.request(seed=2).frames.transpose(0, 2, 1, 3)),
    )
    long = tiny.request("long", seed=3, frames=6)
    model = captioner("qwen2-vl", batch_size=4)
    outcomes = captioned(await model.caption([long, wide, tall, replace(long, index="again")]))
    assert [c.index for c in outcomes] == ["long", "wide", "tall", "again"]
    assert [c.details["batch"] for c in outcomes] == [4, 4, 4, 4]
    assert outcomes[0].text == outcomes[3].text


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
    small = _captioner(replace(loaded, model=model), batch_size=8)
    videos = [tiny.request(f"V{at}", seed=at) for at in range(8)]
    outcomes = captioned(await small.caption(videos))
    assert model.batches == [8, 4, 2, 2, 2, 2]
    assert [c.index for c in outcomes] == [f"V{at}" for at in range(8)]
    assert small.batch_size == 2
    whole = captioned(await _captioner(loaded, batch_size=8).caption(videos))
    assert [c.text for c in outcomes] == [c.text for c in whole]


async def test_a_video_that_does_not_fit_alone_is_left_with_its_reason(load: Load) -> None:
    loaded = load("qwen2-vl")
    small = _captioner(replace(loaded, model=_Exhausts(loaded.model, most=0)), batch_size=4)
    outcomes = await small.caption([tiny.request("A"), tiny.request("B")])
    assert [outcome.index for outcome in outcomes] == ["A", "B"]
    for outcome in outcomes:
        assert isinstance(outcome, Uncaptioned)
        assert outcome.reason.startswith("out of memory with this video alone (4 frames")


async def test_another_fault_of_the_model_is_not_swallowed(load: Load) -> None:
    class Broken:
        def generate(self, **_: Any) -> Any:
            raise RuntimeError("CUDA error: device-side assert triggered")

    broken = _captioner(replace(load("qwen2-vl"), model=Broken()))
    with pytest.raises(RuntimeError, match="device-side assert"):
        await broken.caption([tiny.request()])


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
    loaded = load("internvl")
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


def test_an_option_replaces_what_the_entry_says(checkpoint: Checkpoint) -> None:
    entry = ModelEntry(
        name="m",
        reached="transformers",
        hub=str(checkpoint("internvl")),
        temperature=0.5,
        options={"dtype": "float16"},
    )
    own = load_model(entry, CaptionerOptions(device="cpu")).settings
    assert (own["dtype"], own["generation"]["max_new_tokens"]) == ("float16", 1024)
    # From the whole distribution: transformers would cut it off after 50 tokens.
    sampled = {"do_sample": True, "temperature": 0.5, "top_p": 1.0, "top_k": 0}
    assert sampled.items() <= own["generation"].items()
    options = CaptionerOptions(temperature=0, device="cpu", max_new_tokens=7)
    given = load_model(entry, options).settings
    assert (given["generation"]["max_new_tokens"], given["generation"]["do_sample"]) == (7, False)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"preset": "tuna"}, "it has no preset 'tuna'"),
        ({"device": "tpu"}, "--device tpu: must be one of auto, cuda, mps, cpu"),
    ],
)
def test_wrong_options_are_told(options: dict[str, Any], said: str, checkpoint: Checkpoint) -> None:
    with pytest.raises(UsageError, match=said):
        tiny.load(checkpoint("internvl"), **options)


def _changed(source: Path, target: Path, **config: Any) -> Path:
    target.mkdir()
    for file in source.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    path = target / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | config), encoding="utf-8")
    return target


def test_a_model_that_is_not_to_be_had_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    # The hub's client would try again for half a minute.
    monkeypatch.setattr("time.sleep", pytest.fail)
    for offline in (True, False):
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", offline)
        with pytest.raises(UsageError, match=r"^nobody/nothing: the hub cannot be reached, ") as e:
            tiny.load("nobody/nothing")
        assert "\n" not in str(e.value)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=r"cannot be loaded: .*config\.json"):
        tiny.load(tmp_path / "empty")


def test_code_from_a_repository_never_runs(checkpoint: Checkpoint, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    folder = _changed(
        checkpoint("internvl"),
        tmp_path / "own-code",
        model_type="their_own",
        auto_map={
            "AutoConfig": "own.Config",
            "AutoModelForImageTextToText": "own.Model",
        },
    )
    (folder / "own.py").write_text(f"open({str(ran)!r}, 'w')\n", encoding="utf-8")
    with pytest.raises(UsageError, match="cannot be loaded"):
        tiny.load(folder)
    assert not ran.exists()


def test_a_checkpoint_that_lacks_weights_is_refused(checkpoint: Checkpoint, tmp_path: Path) -> None:
    folder = _changed(checkpoint("qwen2-vl"), tmp_path / "lacking")
    tensors = load_file(folder / "model.safetensors")
    lost = next(name for name in tensors if "mlp" in name)
    del tensors[lost]
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(UsageError, match=r"its checkpoint lacks 1 tensors, such as .*mlp"):
        tiny.load(folder)


def test_a_model_that_takes_images_only_is_refused(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    images_only = SimpleNamespace(chat_template="{{ messages }}")
    monkeypatch.setattr(AutoProcessor, "from_pretrained", lambda *_, **__: images_only)
    with pytest.raises(UsageError, match="it takes no video"):
        tiny.load(checkpoint("internvl"))

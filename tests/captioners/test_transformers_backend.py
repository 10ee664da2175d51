import asyncio
import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from transformers import Qwen2VLVideoProcessor
from transformers.image_utils import PILImageResampling, SizeDict

from capeval.captioners import Captioned, CaptionRequest, Uncaptioned
from capeval.captioners.loading import PIXEL_BOUNDS, NativeInputs
from capeval.captioners.protocol import LoadedModel
from capeval.captioners.transformers_backend import ContinuationScorer, TransformersCaptioner
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


@pytest.mark.parametrize(
    ("roles", "text"),
    [
        (("system", "user"), "<bos>Be exact.Describe the video."),
        (("user",), "<bos>Be exact.\n\nDescribe the video."),
    ],
)
def test_a_prompt_has_its_first_token_and_its_system_prompt_once(
    roles: tuple[str, ...], text: str
) -> None:
    # As the templates of Llama do, and those of Gemma, which leave a system prompt out.
    asked: dict[str, Any] = {}

    class Processor:
        tokenizer = SimpleNamespace(bos_token="<bos>")

        def apply_chat_template(self, messages: list[Any], **_: Any) -> str:
            texts = (one["content"][-1]["text"] for one in messages if one["role"] in roles)
            return "<bos>" + "".join(texts)

        def __call__(self, **arguments: Any) -> dict[str, Any]:
            asked.update(arguments)
            return {}

    inputs = NativeInputs(Processor(), system_prompt=None, options={}, template={})
    inputs([replace(tiny.request(), system="Be exact.")])
    assert (asked["text"], asked["add_special_tokens"]) == ([text], False)


async def test_decoding_is_greedy_whatever_the_checkpoint_says(captioner: Make) -> None:
    model = captioner("llava-onevision")
    first = captioned(await model.caption([tiny.request()]))[0]
    torch.manual_seed(1)
    assert captioned(await model.caption([tiny.request()]))[0].text == first.text
    generation = model.settings["generation"]
    assert generation["do_sample"] is False
    assert generation["max_new_tokens"] == 10
    # What the checkpoint sets beside sampling stays, and is on record; so do its ends.
    assert (generation["repetition_penalty"], generation["eos_token_id"]) == (1.05, [2, 383])
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


# One token and several, and one that begins as another does.
TEXTS = ("A", "1", "1 2", "red jacket", "camera pans to the left", "red jacket walks along")


def asked(index: str = "V1", *, frames: int = 4, seed: int = 0, **more: Any) -> CaptionRequest:
    made = tiny.request(index, seed=seed, frames=frames or 4, prompt="Describe the man. Answer A.")
    if not frames:
        made = replace(made, frames=made.frames[:0], indices=(), times=())
    return replace(made, kind="answer", continuations=TEXTS, **more)


def by_hand(model: LoadedModel, request: CaptionRequest) -> list[tuple[float, int]]:
    """One forward pass over prompt and reply; the logits before each token of it."""
    inputs = dict(model.inputs([request]))
    prompt = inputs["input_ids"].shape[1]
    found = []
    for text in request.continuations:
        reply = model.tokenizer(text, add_special_tokens=False)["input_ids"]
        whole = {**inputs, "input_ids": torch.tensor([[*inputs["input_ids"][0].tolist(), *reply]])}
        whole["attention_mask"] = torch.ones_like(whole["input_ids"])
        for name in ("token_type_ids", "mm_token_type_ids", "moe_mm_token_type_ids"):
            if name in inputs:
                zeros = torch.zeros((1, len(reply)), dtype=inputs[name].dtype)
                whole[name] = torch.cat([inputs[name], zeros], dim=1)
        with torch.inference_mode():
            logits = model.model(**whole).logits[0]
        logs = logits.float().log_softmax(-1)
        total = sum(-float(logs[prompt + n - 1, token]) for n, token in enumerate(reply))
        found.append((total, len(reply)))
    return found


@pytest.mark.parametrize("family", tiny.FAMILIES)
async def test_likelihoods_are_those_of_one_pass_over_the_whole_sequence(
    family: str, captioner: Make, load: Load
) -> None:
    for frames in (4, 0):
        request = asked(frames=frames)
        (outcome,) = await captioner(family).caption([request])
        assert isinstance(outcome, Captioned), outcome
        expected = by_hand(load(family), request)
        assert outcome.likelihoods is not None
        assert [n for _, n in outcome.likelihoods] == [n for _, n in expected]
        for (found, _), (total, tokens) in zip(outcome.likelihoods, expected, strict=True):
            assert found == pytest.approx(total, abs=2e-3 * tokens)
        assert {1} < {n for _, n in expected}


def test_a_cache_that_cannot_be_continued_costs_time_and_no_value(load: Load) -> None:
    model, request = load("qwen2-vl"), asked()

    class NoCache:
        """Stands before a model that continues no cache."""

        def generate(self, **arguments: Any) -> Any:
            if "cache" in arguments:
                raise ValueError("it has no such cache")
            return model.model.generate(**arguments)

    def tokens(text: str, *, add_special_tokens: bool) -> Any:
        return model.tokenizer(text + " A" * add_special_tokens)

    with torch.inference_mode():
        inputs = model.inputs([request])
        shared, alone = (
            ContinuationScorer(one).score(inputs, request.continuations)
            for one in (model, replace(model, model=NoCache(), tokenizer=tokens))
        )
    assert [n for _, n in shared] == [n for _, n in alone]
    assert [x for x, _ in shared] == pytest.approx([x for x, _ in alone], abs=5e-3)


async def test_an_option_without_tokens_fails_alone(captioner: Make) -> None:
    requests = [asked("V1"), replace(asked("V2"), continuations=("",))]
    outcomes = await captioner("qwen2-vl", batch_size=2).caption(requests)
    assert [*map(type, outcomes)] == [Captioned, Uncaptioned]


async def test_likelihoods_are_the_same_in_a_batch(captioner: Make) -> None:
    requests = [asked(f"V{n}", seed=n, frames=2 + 2 * n) for n in range(3)]
    together = captioned(await captioner("qwen2-vl", batch_size=3).caption(requests))
    for request, outcome in zip(requests, together, strict=True):
        (alone,) = captioned(await captioner("qwen2-vl").caption([request]))
        assert outcome.details["batch"] == 3
        expected = [total for total, _ in alone.likelihoods or ()]
        assert [x for x, _ in outcome.likelihoods or ()] == pytest.approx(expected, abs=1e-3)
        assert expected


async def test_a_question_s_own_system_prompt_reaches_the_model(captioner: Make) -> None:
    for family in ("qwen2-vl", "llava-video"):
        found = []
        for system in (None, "You are a helpful assistant in a red jacket."):
            request = replace(asked(frames=2, system=system), continuations=TEXTS[:1])
            (outcome,) = await captioner(family).caption([request])
            assert isinstance(outcome, Captioned)
            found.append(outcome.likelihoods)
        assert found[0] != found[1], family


# Qwen2-VL reads 32,768 tokens; 1,024 are for the caption and 512 for the prompt.
CONTEXT, WRITTEN = 32_768, 1024

# Height, width and number of frames (two for each second); then (rows, columns, tokens) by the
# authors' rule, the same within the context, and by the benchmark's bounds. Worked out from the
# published rule in squares of 28 x 28 pixels, with p = frames / 2:
#   S = min(768, 115,200 / p), within the context min(768, 115,200 / p, 31,232 / p), at least
#   134.4 (128 and a twentieth); for the benchmark S = 1,344 (1,280 and a twentieth).
#   A frame of round(height / 28) x round(width / 28) squares stays if that is from 128 to S. Above
#   S it has floor(sqrt(S * height / width)) x floor(sqrt(S * width / height)), below 128 the same
#   with 128 and rounded up.
# For example 720 x 1280, 56 frames: 26 x 46 = 1,196 squares are above S = 768;
# sqrt(768 * 0.5625) = 20.8 and sqrt(768 / 0.5625) = 36.9, so 20 x 36 x 28 = 20,160 tokens. The
# benchmark's: 1,196 is below 1,280; sqrt(720) = 26.8 and sqrt(2275.6) = 47.7, so 27 x 48.
Grid = tuple[int, int, int]
TABLE: list[tuple[int, int, int, Grid, Grid, Grid]] = [
    (240, 320, 8, (10, 14, 560), (10, 14, 560), (31, 42, 5208)),
    (360, 640, 120, (13, 23, 17940), (13, 23, 17940), (27, 48, 77760)),
    (720, 1280, 56, (20, 36, 20160), (20, 36, 20160), (27, 48, 36288)),
    (720, 1280, 180, (20, 36, 64800), (13, 24, 28080), (27, 48, 116640)),
    (720, 1280, 400, (18, 32, 115200), (9, 16, 28800), (27, 48, 259200)),
    (1080, 1920, 120, (20, 36, 43200), (17, 30, 30600), (27, 48, 77760)),
    (144, 176, 24, (11, 13, 1716), (11, 13, 1716), (33, 40, 15840)),
    (120, 1080, 30, (4, 39, 2340), (4, 39, 2340), (12, 108, 19440)),
    (720, 1280, 768, (12, 23, 105984), (8, 15, 46080), (27, 48, 497664)),
]
# The last row's smallest size within the context, 8 x 15 squares, does not fit: it is refused.


@pytest.mark.parametrize(("height", "width", "frames", "free", "fitted", "benchmark"), TABLE)
def test_frames_have_the_size_of_the_published_rule(
    height: int, width: int, frames: int, free: Grid, fitted: Grid, benchmark: Grid
) -> None:
    video = Qwen2VLVideoProcessor()
    pixels = torch.empty((1, frames, 3, height, width), device="meta")
    for preset, context, (rows, columns, expected) in (
        ("published", None, free),
        ("published", CONTEXT, fitted),
        ("tuna", CONTEXT, benchmark),
    ):
        bounds = PIXEL_BOUNDS[preset]
        video.max_video_tokens = bounds.video_tokens(context, WRITTEN)
        size = video.resize(
            pixels,
            SizeDict(**bounds.size(12_845_056)),
            PILImageResampling.BICUBIC,
            factor=28,
            cap_pixels_per_frame=True,
        ).shape[-2:]
        assert size == (rows * 28, columns * 28)
        assert frames // 2 * rows * columns == expected


def _clip(frames: int, height: int, width: int) -> CaptionRequest:
    pixels = np.random.default_rng(3).integers(0, 256, (frames, height, width, 3), dtype=np.uint8)
    return replace(tiny.request(frames=frames), frames=pixels)


def test_a_long_clip_is_made_smaller_until_it_fits(load: Load) -> None:
    loaded = load("qwen2-vl")
    assert loaded.context == 4096
    # 16 frames of 720 squares a pair would be 5,760.
    batch = loaded.inputs([_clip(16, 720, 1280)])
    assert batch["video_grid_thw"].tolist() == [[8, 30, 56]]
    assert 3300 < batch["input_ids"].shape[1] <= 4096 - 10


async def test_the_benchmarks_bounds_refuse_it_instead(captioner: Make) -> None:
    model = captioner("qwen2-vl", preset="tuna")
    assert model.settings["generation"]["repetition_penalty"] == 1.0
    (outcome,) = await model.caption([_clip(8, 360, 640)])
    assert isinstance(outcome, Uncaptioned)
    # Four layers of more than 1,000 squares.
    assert "the model reads 4096: take fewer frames" in outcome.reason

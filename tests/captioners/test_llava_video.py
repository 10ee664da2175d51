import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch.nn import functional

from capeval.captioners import Captioned
from capeval.captioners.llava_video import (
    PRESETS,
    LlavaVideoForConditionalGeneration,
    Wording,
    build_config,
    chat_prompt,
)
from capeval.captioners.transformers_backend import TransformersCaptioner
from tests.captioners import tiny
from tests.captioners.tiny import Checkpoint, Load

FULL_SIZE: dict[str, Any] = {
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "mm_hidden_size": 1152,
    "vocab_size": 152064,
}


def test_tokens_a_frame_at_full_size() -> None:
    published = tiny.published_config(**FULL_SIZE)
    config = build_config(published, model="llava-video-7b", preset=PRESETS["published"])
    # No memory is taken: the shapes are those of the full-size model.
    with torch.device("meta"):
        model = LlavaVideoForConditionalGeneration(config)
        pixels = torch.empty(2, 32, 3, 384, 384)
        features = model.model.get_video_features(pixels)
    assert features.pooler_output.shape == (2, 32 * 210, 3584)
    assert sum(p.numel() for p in model.parameters()) == 8_030_346_528


@pytest.mark.parametrize(("preset", "tokens"), [("published", 210), ("tuna", 182)])
def test_prompt_holds_a_place_for_each_of_them(preset: str, tokens: int, load: Load) -> None:
    loaded = load("llava-video", preset=preset)
    batch = loaded.inputs([tiny.request(frames=4), tiny.request(frames=4, prompt="Answer.")])
    places = batch["input_ids"] == loaded.model.config.video_token_id
    assert places.sum(dim=1).tolist() == [4 * tokens, 4 * tokens]
    # Padded on the left, and nowhere else.
    masks = batch["attention_mask"]
    assert masks[0].all()
    assert masks[1].tolist() == sorted(masks[1].tolist())


@pytest.mark.parametrize("preset", ["published", "tuna"])
def test_features_are_those_of_the_published_tensors(
    preset: str, load: Load, checkpoint: Checkpoint
) -> None:
    """Compute them from the checkpoint's tensors by their published names, step by step."""
    tensors = load_file(checkpoint("llava-video") / "model.safetensors")
    tower = tiny.published_tower()
    tower.load_state_dict(
        {k.removeprefix(tiny.TOWER): v for k, v in tensors.items() if k.startswith(tiny.TOWER)}
    )
    loaded = load("llava-video", preset=preset, dtype="float32")
    request = tiny.request(frames=2)
    pixels = loaded.inputs([request])["pixel_values_videos"]
    with torch.inference_mode():
        hidden = tower(pixels[0], output_hidden_states=True).hidden_states[-1]
        inner = functional.linear(
            hidden, tensors["model.mm_projector.0.weight"], tensors["model.mm_projector.0.bias"]
        )
        projected = functional.linear(
            functional.gelu(inner),
            tensors["model.mm_projector.2.weight"],
            tensors["model.mm_projector.2.bias"],
        )
        rows = []
        for frame in projected:
            grid = frame.reshape(27, 27, 64).permute(2, 0, 1)[None]
            pooled = (
                functional.interpolate(grid, size=(14, 14), mode="bilinear")
                if preset == "published"
                else functional.avg_pool2d(grid, 2)
            )
            for row in pooled[0].permute(1, 2, 0):
                rows += [row, tensors["model.image_newline"][None]]
        expected = torch.cat(rows)
        got = loaded.model.model.get_video_features(pixels).pooler_output[0]
    assert torch.equal(got, expected)


@pytest.mark.parametrize("penalty", [1.05, 2.0])
async def test_captions_are_those_that_the_published_way_of_generating_writes(
    penalty: float, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    """The authors' code splices the frames into embeddings and generates from those."""
    folder = Path(shutil.copytree(checkpoint("llava-video"), tmp_path / "model"))
    decoding = json.loads((folder / "generation_config.json").read_text())
    decoding["repetition_penalty"] = penalty
    (folder / "generation_config.json").write_text(json.dumps(decoding))
    loaded = tiny.load(folder, max_new_tokens=24)
    request = tiny.request()
    outcome = (await TransformersCaptioner(loaded, name="m").caption([request]))[0]
    assert isinstance(outcome, Captioned)
    batch, model = loaded.inputs([request]), loaded.model
    with torch.inference_mode():
        embedded = model.get_input_embeddings()(batch["input_ids"])
        frames = model.model.get_video_features(batch["pixel_values_videos"]).pooler_output[0]
        embedded[batch["input_ids"] == model.config.video_token_id] = frames
        # transformers warns of the very thing that is wanted here.
        with pytest.warns(UserWarning, match="only to newly generated tokens"):
            written = model.generate(
                inputs_embeds=embedded,
                attention_mask=batch["attention_mask"],
                do_sample=False,
                max_new_tokens=24,
                repetition_penalty=penalty,
            )
    assert outcome.text == loaded.tokenizer.decode(written[0], skip_special_tokens=True).strip()
    assert loaded.settings["generation"]["repetition_penalty"] == penalty


def test_frames_are_squashed_as_pillow_does(load: Load) -> None:
    request = tiny.request(frames=3)
    pixels = load("llava-video").inputs([request])["pixel_values_videos"]
    assert pixels.shape == (1, 3, 3, 384, 384)
    squashed = np.asarray(
        Image.fromarray(request.frames[1]).resize((384, 384), Image.Resampling.BICUBIC)
    )
    got = ((pixels[0, 1].permute(1, 2, 0) + 1) * 127.5).round().numpy()
    assert (got == squashed).all()


@pytest.mark.parametrize(
    ("wording", "lasts", "gap", "last"),
    [
        ("published", "15.01 seconds, and 2 frames", " ", "14.98s"),
        # The benchmark's code states the height, and times by index: frame 449 at 30 a second.
        ("tuna", "15.00 seconds,and 56 frames", "", "14.97s"),
    ],
)
def test_the_prompt_is_that_of_the_authors_or_the_benchmarks_code(
    wording: Wording, lasts: str, gap: str, last: str
) -> None:
    # Frame 449 of 450 is shown 10 ms late; a frame is 56 pixels high.
    request = replace(
        tiny.request(frames=2, prompt="What happens?"), times=(0.0, 14.977), duration=15.01
    )
    before, after = chat_prompt(request, system="You are a helpful assistant.", wording=wording)
    assert before == (
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
    )
    assert after == (
        f"\nThe video lasts for {lasts} are uniformly sampled from it.{gap}"
        f"These frames are located at 0.00s,{last}."
        "Please answer the following questions related to this video.\n"
        "What happens?<|im_end|>\n<|im_start|>assistant\n"
    )

"""Published checkpoints give the logits that their authors' code computes from the same tensors.

The computations here are written from that code's description alone, step by step and with the
published names; they share no line with the package.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch.nn import functional
from transformers import (
    CLIPVisionConfig,
    CLIPVisionModel,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
)
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

from capeval.captioners.catalogue import read_catalogue
from capeval.captioners.loading import load_model
from capeval.captioners.protocol import LoadedModel
from capeval.captioners.published import find_family
from capeval.captioners.transformers_backend import TransformersCaptioner
from capeval.errors import UsageError
from tests.captioners import published, tiny

Load = Callable[..., LoadedModel]
Checkpoint = Callable[[str], Path]
Tensors = Mapping[str, torch.Tensor]

LANGUAGES = ("InternLM2ForCausalLM", "LlamaForCausalLM", "Qwen2ForCausalLM")


def part(tensors: Tensors, prefix: str) -> dict[str, torch.Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


def opened(folder: Path) -> tuple[LoadedModel, Tensors]:
    loaded = load_model(str(folder), name="m", device="cpu", max_new_tokens=8)
    return loaded, load_file(folder / "model.safetensors")


def logits(loaded: LoadedModel, *requests: Any) -> tuple[torch.Tensor, Mapping[str, Any]]:
    batch = loaded.inputs(list(requests))
    with torch.inference_mode():
        return loaded.model(**batch).logits, batch


def close(got: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=2e-4 * float(expected.abs().max()))


# --- InternVL2


def intern_vit(tensors: Tensors, config: Mapping[str, Any], pixels: torch.Tensor) -> torch.Tensor:
    """Return the last hidden state with its class token, attention over one packed matrix."""

    def norm(values: torch.Tensor, name: str, kind: str) -> torch.Tensor:
        if kind == "rms_norm":
            scaled = values * torch.rsqrt(values.pow(2).mean(-1, keepdim=True) + 1e-6)
            return scaled * tensors[f"{name}.weight"]
        weight, bias = tensors[f"{name}.weight"], tensors[f"{name}.bias"]
        return functional.layer_norm(values, weight.shape, weight, bias, eps=1e-6)

    kind, heads = config["norm_type"], config["num_attention_heads"]
    patches = functional.conv2d(
        pixels,
        tensors["embeddings.patch_embedding.weight"],
        tensors["embeddings.patch_embedding.bias"],
        stride=14,
    )
    first = tensors["embeddings.class_embedding"].expand(len(pixels), 1, -1)
    state = torch.cat([first, patches.flatten(2).transpose(1, 2)], dim=1)
    state = state + tensors["embeddings.position_embedding"]
    for layer in range(config["num_hidden_layers"]):
        at = f"encoder.layers.{layer}."
        packed = functional.linear(
            norm(state, f"{at}norm1", kind),
            tensors[f"{at}attn.qkv.weight"],
            tensors.get(f"{at}attn.qkv.bias"),
        )
        query, key, value = packed.chunk(3, dim=-1)
        if config["qk_normalization"]:
            query = norm(query, f"{at}attn.q_norm", "rms_norm")
            key = norm(key, f"{at}attn.k_norm", "rms_norm")
        query, key, value = (
            one.unflatten(-1, (heads, -1)).transpose(1, 2) for one in (query, key, value)
        )
        weights = (query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])).softmax(-1)
        mixed = (weights @ value).transpose(1, 2).flatten(2)
        mixed = functional.linear(
            mixed, tensors[f"{at}attn.proj.weight"], tensors[f"{at}attn.proj.bias"]
        )
        state = state + mixed * tensors[f"{at}ls1"]
        inner = functional.linear(
            norm(state, f"{at}norm2", kind),
            tensors[f"{at}mlp.fc1.weight"],
            tensors[f"{at}mlp.fc1.bias"],
        )
        inner = functional.linear(
            functional.gelu(inner), tensors[f"{at}mlp.fc2.weight"], tensors[f"{at}mlp.fc2.bias"]
        )
        state = state + inner * tensors[f"{at}ls2"]
    return state


def internlm2(tensors: Tensors, config: Mapping[str, Any], state: torch.Tensor) -> torch.Tensor:
    """Return the logits of (tokens, size) embeddings."""

    def norm(values: torch.Tensor, name: str) -> torch.Tensor:
        scaled = values * torch.rsqrt(values.pow(2).mean(-1, keepdim=True) + 1e-5)
        return scaled * tensors[f"{name}.weight"]

    heads, shared = config["num_attention_heads"], config["num_key_value_heads"]
    size, tokens = config["hidden_size"] // heads, len(state)
    group = heads // shared
    angles = torch.arange(tokens)[:, None] / 10000.0 ** (torch.arange(0, size, 2) / size)
    cos: torch.Tensor = angles.cos().repeat(1, 2)
    sin: torch.Tensor = angles.sin().repeat(1, 2)

    def turned(values: torch.Tensor) -> torch.Tensor:
        low, high = values.chunk(2, dim=-1)
        return values * cos + torch.cat([-high, low], dim=-1) * sin

    later = torch.full((tokens, tokens), -torch.inf).triu(1)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        packed = functional.linear(
            norm(state, f"{at}attention_norm"), tensors[f"{at}attention.wqkv.weight"]
        ).unflatten(-1, (shared, group + 2, size))
        mixed = []
        for head in range(heads):
            of = packed[:, head // group]
            query, key, value = turned(of[:, head % group]), turned(of[:, -2]), of[:, -1]
            mixed.append((query @ key.T / math.sqrt(size) + later).softmax(-1) @ value)
        state = state + functional.linear(
            torch.cat(mixed, dim=-1), tensors[f"{at}attention.wo.weight"]
        )
        normed = norm(state, f"{at}ffn_norm")
        gate = functional.silu(normed @ tensors[f"{at}feed_forward.w1.weight"].T)
        state = state + (gate * (normed @ tensors[f"{at}feed_forward.w3.weight"].T)) @ (
            tensors[f"{at}feed_forward.w2.weight"].T
        )
    return norm(state, "model.norm") @ tensors["output.weight"].T


def language_logits(tensors: Tensors, config: Mapping[str, Any], ids: torch.Tensor,
                    place: torch.Tensor, frames: torch.Tensor) -> torch.Tensor:  # fmt: skip
    """Return the logits of one row of ids, whose embeddings at `place` are `frames`."""
    names = ("model.tok_embeddings.weight", "model.embed_tokens.weight")
    state = next(tensors[name] for name in names if name in tensors)[ids].clone()
    state[place] = frames
    if config["architectures"] == ["InternLM2ForCausalLM"]:
        return internlm2(tensors, config, state)
    fields = {k: v for k, v in config.items() if k not in ("architectures", "model_type", "bias")}
    qwen2 = config["architectures"] == ["Qwen2ForCausalLM"]
    settings: Any = (Qwen2Config if qwen2 else LlamaConfig)(
        **{k: v for k, v in fields.items() if not k.startswith(("rope", "attn", "torch", "mm_"))},
        rope_parameters={"rope_type": "default", "rope_theta": config["rope_theta"]},
    )
    model: Any = (Qwen2ForCausalLM if qwen2 else LlamaForCausalLM)(settings).eval()
    model.load_state_dict(dict(tensors))
    logits: torch.Tensor = model(inputs_embeds=state[None]).logits[0]
    return logits


@pytest.mark.parametrize("large", [False, True], ids=["300M", "6B"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_internvl2_has_the_logits_of_its_published_tensors(
    language: str, large: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "m"
    torch.manual_seed(3)
    published.internvl2(folder, language, large=large)
    loaded, tensors = opened(folder)
    got, batch = logits(loaded, tiny.request(frames=2))
    config = published.internvl2_config(language, large=large)
    with torch.inference_mode():
        vision = part(tensors, "vision_model.")
        seen = intern_vit(vision, config["vision_config"], batch["pixel_values"])
        grid = seen[:, 1:].unflatten(1, (4, 4))
        # Each token is two by two patches: the rows' order follows the published pixel shuffle.
        merged = torch.cat(
            [grid[:, 0::2, 0::2], grid[:, 0::2, 1::2], grid[:, 1::2, 0::2], grid[:, 1::2, 1::2]],
            dim=-1,
        ).flatten(1, 2)
        merged = functional.layer_norm(
            merged, merged.shape[-1:], tensors["mlp1.0.weight"], tensors["mlp1.0.bias"]
        )
        inner = functional.linear(merged, tensors["mlp1.1.weight"], tensors["mlp1.1.bias"])
        frames = functional.linear(
            functional.gelu(inner), tensors["mlp1.3.weight"], tensors["mlp1.3.bias"]
        )
        ids = batch["input_ids"][0]
        place = ids == loaded.tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>")
        text = part(tensors, "language_model.")
        expected = language_logits(text, config["llm_config"], ids, place, frames.flatten(0, 1))
    close(got[0], expected)


def test_internvl2_reads_its_authors_prompt(load: Load) -> None:
    loaded = load("internvl2")
    row = loaded.inputs([tiny.request(frames=2, prompt="Describe the camera.")])["input_ids"][0]
    text = loaded.tokenizer.decode(row).replace("<IMG_CONTEXT>" * 4, "<4>")
    # The system prompt of the models' chat template, and no line break after <|im_end|>.
    assert text == (
        "<s><|im_start|>system\n你是由上海人工智能实验室联合商汤科技开发的书生多模态大模型，"
        "英文名叫InternVL, 是一个有用无害的人工智能助手。<|im_end|><|im_start|>user\n"
        "Frame1: <img><4></img>\nFrame2: <img><4></img>\n"
        "Describe the camera.<|im_end|><|im_start|>assistant\n"
    )
    assert loaded.generation.eos_token_id == [loaded.tokenizer.convert_tokens_to_ids("<|im_end|>")]


def test_the_system_prompt_is_recorded_and_can_be_another(load: Load) -> None:
    own = load("internvl2", system_prompt="You are careful.")
    row = own.inputs([tiny.request()])["input_ids"][0]
    assert own.tokenizer.decode(row).startswith("<s><|im_start|>system\nYou are careful.<|im_end|>")
    assert own.settings["system_prompt"] == "You are careful."
    assert load("internvl2").settings["system_prompt"].startswith("你是")
    assert load("longva").settings["system_prompt"] == "You are a helpful assistant."
    assert load("tarsier").settings["system_prompt"] is None


def test_internvl2_scales_a_frame_to_one_tile(load: Load) -> None:
    request = tiny.request(frames=2)
    pixels = load("internvl2").inputs([request])["pixel_values"]
    square = Image.fromarray(request.frames[1]).resize((56, 56), Image.Resampling.BICUBIC)
    scaled = np.asarray(square, dtype=np.float32) / 255
    expected = (scaled - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    np.testing.assert_allclose(pixels[1].permute(1, 2, 0).numpy(), expected, atol=1e-5)


# --- Tarsier and LongVA


def clip_features(
    tensors: Tensors, config: Mapping[str, Any], pixels: torch.Tensor
) -> torch.Tensor:
    tower: Any = CLIPVisionModel(CLIPVisionConfig(**config)).eval()
    tower.load_state_dict(dict(tensors))
    hidden: torch.Tensor = tower(pixels, output_hidden_states=True).hidden_states[-2]
    return hidden[:, 1:]


def projected(tensors: Tensors, first: str, second: str, values: torch.Tensor) -> torch.Tensor:
    inner = functional.linear(values, tensors[f"{first}.weight"], tensors[f"{first}.bias"])
    return functional.linear(
        functional.gelu(inner), tensors[f"{second}.weight"], tensors[f"{second}.bias"]
    )


def test_tarsier_has_the_logits_of_its_published_tensors(checkpoint: Checkpoint) -> None:
    loaded, tensors = opened(checkpoint("tarsier"))
    request = tiny.request(frames=3)
    got, batch = logits(loaded, request)
    config = published.tarsier_config()
    with torch.inference_mode():
        vision = {k: v for k, v in config["vision_config"].items() if k != "model_type"}
        features = clip_features(
            part(tensors, "vision_tower.vision_model."), vision, batch["pixel_values"]
        )
        at = "multi_modal_projector.linear_"
        grid = projected(tensors, f"{at}1", f"{at}2", features).unflatten(1, (4, 4))
        words = tensors["language_model.model.embed_tokens.weight"]
        # Its authors' code inserts the vocabulary's embeddings after each row and each frame.
        rows = torch.cat([grid, words[401].expand(3, 4, 1, -1)], dim=2).flatten(1, 2)
        frames = torch.cat([rows, words[402].expand(3, 1, -1)], dim=1).flatten(0, 1)
        text = "USER: <image><image><image>\nDescribe the video. ASSISTANT: "
        ids = torch.tensor(loaded.tokenizer(text)["input_ids"])
        image = (ids == 400).nonzero().flatten()
        before, after = ids[: image[0]], ids[image[-1] + 1 :]
        whole = torch.cat([before, torch.zeros(len(frames), dtype=torch.long), after])
        place = torch.zeros(len(whole), dtype=torch.bool)
        place[len(before) : len(before) + len(frames)] = True
        model = part(tensors, "language_model.")
        expected = language_logits(model, config["text_config"], whole, place, frames)
    assert len(frames) == 3 * (4 * 5 + 1)
    close(got[0], expected)
    assert ids[0] == 1, "the prompt begins with <s>"


def test_longva_has_the_logits_of_its_published_tensors(checkpoint: Checkpoint) -> None:
    loaded, tensors = opened(checkpoint("longva"))
    got, batch = logits(loaded, tiny.request(frames=2))
    config = published.longva_config(architectures=["Qwen2ForCausalLM"])
    prefix = "model.vision_tower.vision_tower.vision_model."
    tower = {
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 3,
        "num_attention_heads": 1,
        "patch_size": 14,
        "image_size": 336,
    }
    with torch.inference_mode():
        features = clip_features(part(tensors, prefix), tower, batch["pixel_values"])
        projector = "model.mm_projector."
        values = projected(tensors, f"{projector}0", f"{projector}2", features)
        grid = values.unflatten(1, (24, 24)).permute(0, 3, 1, 2)
        frames = functional.avg_pool2d(grid, 2).flatten(2).transpose(1, 2).flatten(0, 1)
        place = batch["input_ids"][0] == loaded.model.config.image_token_id
        assert int(place.sum()) == 2 * 144
        text = {k: v for k, v in tensors.items() if not k.startswith((prefix, projector))}
        names = published.language_config("Qwen2ForCausalLM")
        fields = {**{k: config[k] for k in names if k in config}, "use_sliding_window": False}
        expected = language_logits(text, fields, batch["input_ids"][0], place, frames)
    close(got[0], expected)


def test_pllava_has_the_logits_of_its_published_tensors(checkpoint: Checkpoint) -> None:
    loaded, tensors = opened(checkpoint("pllava"))
    got, batch = logits(loaded, tiny.request(frames=16))
    config = published.pllava_config()
    with torch.inference_mode():
        vision = {k: v for k, v in config["vision_config"].items() if k != "model_type"}
        features = clip_features(
            part(tensors, "vision_tower.vision_model."), vision, batch["pixel_values"]
        )
        at = "multi_modal_projector.linear_"
        values = projected(tensors, f"{at}1", f"{at}2", features).unflatten(1, (4, 4))
        # The published pooling is over time too, from 16 frames to 16.
        pooled = functional.adaptive_avg_pool3d(values.permute(3, 0, 1, 2), (16, 2, 2))
        frames = pooled.permute(1, 2, 3, 0).flatten(0, 2)
        text = {}
        for name, tensor in part(tensors, "language_model.base_model.model.").items():
            if name.endswith("base_layer.weight"):
                here = name.removesuffix("base_layer.weight")
                down, up = (
                    tensors[f"language_model.base_model.model.{here}lora_{one}.default.weight"]
                    for one in "AB"
                )
                # lora_alpha is 4 in the authors' scripts.
                text[f"{here}weight"] = tensor + up @ down * (4 / published.LORA_RANK)
            elif "lora" not in name:
                text[name] = tensor
        ids = batch["input_ids"][0]
        expected = language_logits(text, config["text_config"], ids, ids == 400, frames)
    assert int((ids == 400).sum()) == 16 * 4
    close(got[0], expected)


@pytest.mark.parametrize(("shown", "repeated"), [(5, 4), (9, 2), (15, 2), (1, 16)])
def test_pllava_repeats_the_frames_of_a_short_video(shown: int, repeated: int, load: Load) -> None:
    inputs = load("pllava").inputs
    short = tiny.request(frames=shown)
    expected = np.stack([short.frames[at // repeated] for at in range(16)])
    whole = inputs([replace(short, frames=expected)])
    got = inputs([short])
    assert torch.equal(got["pixel_values"], whole["pixel_values"])
    assert torch.equal(got["input_ids"], whole["input_ids"])
    with pytest.raises(ValueError, match="the model takes 16 frames, not 17"):
        inputs([tiny.request(frames=17)])


@pytest.mark.parametrize("shape", [(90, 160), (320, 180), (100, 100), (1080, 1920)])
def test_pllava_scales_frames_as_the_benchmarks_and_its_own_code(
    shape: tuple[int, int], load: Load
) -> None:
    """Both codes' steps for one video, written out; CLIP's processor does the last."""
    noise = np.random.default_rng(5).integers(0, 256, (1, *shape, 3), dtype=np.uint8)
    height, width = shape
    long, short = max(shape), min(shape)
    first = (672, int(672 * long / short)) if width <= height else (int(672 * long / short), 672)
    image = Image.fromarray(noise[0]).resize(first, Image.Resampling.BILINEAR)
    ratio = max(first) / min(first)
    edge = max(min(672, int(min(640, max(first)) / ratio)), 56)
    longer = int(edge * max(first) / min(first))
    image = image.resize((edge, longer) if width <= height else (longer, edge), 3)
    processor: Any = CLIPImageProcessorPil(
        size={"shortest_edge": 56}, crop_size={"height": 56, "width": 56}
    )
    expected = torch.as_tensor(processor(image, return_tensors="np")["pixel_values"][0]).float()
    got = load("pllava").inputs([replace(tiny.request(), frames=noise)])["pixel_values"]
    torch.testing.assert_close(got[0], expected, rtol=0, atol=1e-5)


def test_pllava_reads_the_benchmarks_prompt(load: Load, tmp_path: Path) -> None:
    loaded = load("pllava")
    row = loaded.inputs([tiny.request(prompt="Describe the camera.")])["input_ids"][0]
    text = loaded.tokenizer.decode(row).replace("<image>" * 64, "<64>")
    assert text == "<s> USER: <64> \n Describe the camera. ASSISTANT:"
    published.pllava(tmp_path / "34b")
    added = ("<image>", "<|im_start|>", "<|im_end|>", "<pad>")
    published.write_sentencepiece(tmp_path / "34b", "plain", *added)
    yi, _ = opened(tmp_path / "34b")
    row = yi.inputs([tiny.request(prompt="Describe the camera.")])["input_ids"][0]
    assert yi.tokenizer.decode(row).replace("<image>" * 64, "<64>") == (
        "<s><|im_start|>system\nAnswer the question.<|im_end|>\n<|im_start|>user\n<64>\n "
        "Describe the camera.<|im_end|>\n<|im_start|>assistant\n"
    )


def test_longva_reads_its_authors_prompt(load: Load) -> None:
    loaded = load("longva")
    row = loaded.inputs([tiny.request(frames=2, prompt="Describe it.")])["input_ids"][0]
    mark = loaded.model.config.image_token_id
    before = row[: (row == mark).nonzero()[0]]
    after = row[(row == mark).nonzero()[-1] + 1 :]
    assert [loaded.tokenizer.decode(ids) for ids in (before, after)] == [
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n",
        "\nDescribe it.<|im_end|>\n<|im_start|>assistant\n",
    ]


@pytest.mark.parametrize("shape", [(90, 160), (160, 90), (100, 100), (101, 333)])
@pytest.mark.parametrize(("family", "side"), [("longva", 336), ("tarsier", 56)])
def test_frames_are_scaled_as_clips_processor_does(
    family: str, side: int, shape: tuple[int, int], load: Load
) -> None:
    noise = np.random.default_rng(5).integers(0, 256, (2, *shape, 3), dtype=np.uint8)
    frames = [Image.fromarray(frame) for frame in noise]
    if family == "tarsier":
        longer = max(shape)
        frames = [frame.resize((longer, longer)) for frame in frames]
    processor: Any = CLIPImageProcessorPil(
        size={"shortest_edge": side}, crop_size={"height": side, "width": side}
    )
    expected = torch.as_tensor(
        np.stack(processor(frames, return_tensors="np")["pixel_values"])
    ).float()
    request = replace(tiny.request(frames=2), frames=noise)
    got = load(family).inputs([request])["pixel_values"]
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-5)


# --- all families


@pytest.mark.parametrize("family", ["internvl2", "tarsier", "longva", "pllava", "llava-video-72b"])
async def test_four_videos_together_are_captioned_as_alone(family: str, load: Load) -> None:
    prompts = ("Describe the video.", "Describe the camera, the street.", "Answer.", "The man?")
    videos = [tiny.request(f"V{at}", seed=at, prompt=text) for at, text in enumerate(prompts)]
    texts = []
    for size in (4, 1):
        captioner = TransformersCaptioner(load(family), name="m", batch_size=size)
        texts.append([one.text for one in await captioner.caption(videos)])  # type: ignore[union-attr]
    assert texts[0] == texts[1]
    assert len(set(texts[0])) == 4


@pytest.mark.parametrize(
    ("family", "name"),
    [
        ("internvl2", "language_model.model.layers.0.attention.wqkv.weight"),
        ("internvl2", "vision_model.encoder.layers.1.ls2"),
        ("internvl2", "mlp1.3.bias"),
        ("tarsier", "language_model.lm_head.weight"),
        ("longva", "model.mm_projector.0.weight"),
    ],
)
def test_a_checkpoint_that_lacks_a_tensor_is_refused(
    family: str, name: str, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    folder = changed(checkpoint(family), tmp_path / "lacking", lambda tensors: tensors.pop(name))
    with pytest.raises(UsageError, match=r"its checkpoint lacks \d tensors, such as ") as caught:
        load_model(str(folder), name="m", device="cpu")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("family", ["internvl2", "tarsier", "longva", "pllava"])
def test_an_unknown_tensor_is_refused(family: str, checkpoint: Checkpoint, tmp_path: Path) -> None:
    def add(tensors: dict[str, torch.Tensor]) -> None:
        tensors["model.adapter.gate"] = torch.zeros(3)

    folder = changed(checkpoint(family), tmp_path / "more", add)
    with pytest.raises(UsageError, match=r"has 1 unknown tensors, such as .*adapter\.gate"):
        load_model(str(folder), name="m", device="cpu")


def test_a_tensor_of_another_shape_is_refused(checkpoint: Checkpoint, tmp_path: Path) -> None:
    def cut(tensors: dict[str, torch.Tensor]) -> None:
        tensors["mlp1.3.bias"] = torch.zeros(63)

    folder = changed(checkpoint("internvl2"), tmp_path / "cut", cut)
    with pytest.raises(UsageError, match=r"1 tensors of another shape .*linear_2\.bias") as caught:
        load_model(str(folder), name="m", device="cpu")
    assert "\n" not in str(caught.value)


def test_half_an_adapter_is_refused(checkpoint: Checkpoint, tmp_path: Path) -> None:
    name = "language_model.base_model.model.model.layers.1.self_attn.q_proj.lora_B.default.weight"
    folder = changed(checkpoint("pllava"), tmp_path / "half", lambda tensors: tensors.pop(name))
    with pytest.raises(UsageError, match="a part of its attention weights is missing"):
        load_model(str(folder), name="m", device="cpu")


def test_packed_attention_of_another_shape_is_refused(
    checkpoint: Checkpoint, tmp_path: Path
) -> None:
    def cut(tensors: dict[str, torch.Tensor]) -> None:
        name = "language_model.model.layers.0.attention.wqkv.weight"
        tensors[name] = tensors[name][:-1]

    folder = changed(checkpoint("internvl2"), tmp_path / "cut", cut)
    with pytest.raises(UsageError, match="a part of its attention weights"):
        load_model(str(folder), name="m", device="cpu")


def changed(source: Path, target: Path, change: Callable[[dict[str, torch.Tensor]], Any]) -> Path:
    target.mkdir()
    for file in source.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    tensors = load_file(target / "model.safetensors")
    change(tensors)
    save_file(tensors, target / "model.safetensors", {"format": "pt"})
    return target


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (published.internvl2_config(ps_version="v1"), "ps_version: 'v1' is not supported"),
        (published.internvl2_config(select_layer=-4), "select_layer: -4 is not supported"),
        (published.internvl2_config(template="phi3-chat"), "template: 'phi3-chat'"),
        (published.internvl2_config("Phi3ForCausalLM"), "llm_config.architectures: 'Phi3"),
        (published.internvl2_config(llm_config=None), "llm_config: must be an object"),
        (published.internvl2_config(force_image_size=112), "vision_config.image_size: 56"),
        (
            published.internvl2_config(
                vision_config=published.intern_vit_config(hidden_act="relu")
            ),
            "vision_config.hidden_act: 'relu'",
        ),
        (
            published.internvl2_config(
                vision_config=published.intern_vit_config(large=True, layer_norm_eps=1e-5)
            ),
            "vision_config.layer_norm_eps: 1e-05",
        ),
        (published.tarsier_config(image_new_idx=None), "image_new_idx: must be a token id"),
        (published.tarsier_config(vision_feature_select_strategy="full"), "strategy: 'full'"),
        (
            published.tarsier_config(vision_config={"model_type": "siglip_vision_model"}),
            "vision_config.model_type: 'siglip_vision_model'",
        ),
        (published.pllava_config(pooling_method="max"), "pooling_method: 'max'"),
        (published.longva_config(mm_spatial_pool_mode="max"), "mm_spatial_pool_mode: 'max'"),
        (published.longva_config(mm_vision_tower="google/siglip"), "mm_vision_tower: 'google"),
        (published.longva_config(mm_resampler_type="qformer"), "mm_resampler_type: 'qformer'"),
    ],
)
def test_a_checkpoint_that_is_built_otherwise_is_refused(
    config: dict[str, Any], said: str, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(UsageError, match=r"^the-model: config\.json: ") as caught:
        load_model(str(tmp_path), name="the-model", device="cpu")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "config",
    [
        published.internvl2_config(llm_config=published.language_config("LlamaForCausalLM") | bad)
        for bad in ({"hidden_size": "x"}, {"num_attention_heads": 0}, {"rope_scaling": 3})
    ]
    + [
        published.internvl2_config(vision_config=published.intern_vit_config(**bad))
        for bad in ({"patch_size": None}, {"hidden_size": -1}, {"num_hidden_layers": 1.5})
    ]
    + [
        published.internvl2_config(vision_config={}),
        published.tarsier_config(vision_config=3),
        published.longva_config(vocab_size=None),
        published.pllava_config(vision_feature_layer="x"),
    ],
)
def test_a_malformed_config_is_one_line(config: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(UsageError, match=r"^the-model: .*config\.json") as caught:
        load_model(str(tmp_path), name="the-model", device="cpu")
    assert "\n" not in str(caught.value)


def test_a_tokenizer_with_another_placeholder_is_refused(
    checkpoint: Checkpoint, tmp_path: Path
) -> None:
    folder = changed(checkpoint("tarsier"), tmp_path / "other", lambda _: None)
    config = published.tarsier_config(image_token_index=401)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(UsageError, match=r"gives <image> the id 400, and its config\.json 401"):
        load_model(str(folder), name="m", device="cpu")


@pytest.mark.parametrize(
    ("family", "options", "said"),
    [
        ("internvl2", {"preset": "tuna"}, "it has no preset 'tuna'"),
        ("longva", {"processor_options": {"size": 3}}, "it takes no processor options"),
        ("tarsier", {"template": {"thinking": True}}, "it takes no template"),
        ("llava-video", {"template": {"thinking": True}}, "it takes no template"),
        ("internvl2", {"system_prompt": "See <IMG_CONTEXT>"}, "system prompt contains <IMG"),
        ("tarsier", {"system_prompt": "Be brief."}, "no place for a system prompt"),
        ("pllava", {"system_prompt": "Be brief."}, "no place for a system prompt"),
    ],
)
def test_options_that_would_be_ignored_are_refused(
    family: str, options: dict[str, Any], said: str, checkpoint: Checkpoint
) -> None:
    with pytest.raises(UsageError, match=said):
        load_model(str(checkpoint(family)), name="m", device="cpu", **options)


@pytest.mark.parametrize(
    ("family", "placeholder"),
    [("internvl2", "<IMG_CONTEXT>"), ("tarsier", "<image>"), ("pllava", "<image>")],
)
def test_a_prompt_cannot_stand_for_a_frame(family: str, placeholder: str, load: Load) -> None:
    request = tiny.request(prompt=f"What is {placeholder}?")
    with pytest.raises(ValueError, match=f"its prompt contains {placeholder}"):
        load(family).inputs([request])


def test_models_beyond_their_positions_have_no_limit(load: Load, tmp_path: Path) -> None:
    # Tarsier's authors show 8 frames, 4,808 tokens, to a model of 4,096 positions.
    assert load("tarsier").context is None
    assert load("internvl2").context == 4096
    published.internvl2(tmp_path / "m", "LlamaForCausalLM")
    assert opened(tmp_path / "m")[0].context is None


_INTERN_VIT_6B = published.intern_vit_config(
    large=True,
    hidden_size=3200,
    intermediate_size=12800,
    num_hidden_layers=45,
    num_attention_heads=25,
    image_size=448,
)
_YI_34B: dict[str, Any] = {
    "hidden_size": 7168,
    "intermediate_size": 20480,
    "num_hidden_layers": 60,
    "num_attention_heads": 56,
    "num_key_value_heads": 8,
}
_VICUNA_7B: dict[str, Any] = {
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
}
FULL_SIZE: dict[str, dict[str, Any]] = {
    "internvl2-8b": published.internvl2_config(
        force_image_size=448,
        vision_config=published.intern_vit_config(
            hidden_size=1024,
            intermediate_size=4096,
            num_hidden_layers=24,
            num_attention_heads=16,
            image_size=448,
        ),
        llm_config=published.language_config(
            "InternLM2ForCausalLM",
            vocab_size=92553,
            hidden_size=4096,
            intermediate_size=14336,
            num_hidden_layers=32,
            num_attention_heads=32,
            num_key_value_heads=8,
        ),
    ),
    "internvl2-26b": published.internvl2_config(
        force_image_size=448,
        vision_config=_INTERN_VIT_6B,
        llm_config=published.language_config(
            "InternLM2ForCausalLM",
            vocab_size=92553,
            hidden_size=6144,
            intermediate_size=16384,
            num_hidden_layers=48,
            num_attention_heads=48,
            num_key_value_heads=8,
        ),
    ),
    "internvl2-40b": published.internvl2_config(
        force_image_size=448,
        template="Hermes-2",
        vision_config=_INTERN_VIT_6B,
        llm_config=published.language_config("LlamaForCausalLM", **_YI_34B, vocab_size=64007),
    ),
    "internvl2-76b": published.internvl2_config(
        force_image_size=448,
        vision_config=_INTERN_VIT_6B,
        llm_config=published.language_config(
            "LlamaForCausalLM",
            vocab_size=128265,
            hidden_size=8192,
            intermediate_size=28672,
            num_hidden_layers=80,
            num_attention_heads=64,
            num_key_value_heads=8,
        ),
    ),
    "tarsier-34b": published.tarsier_config(
        vision_config={"model_type": "clip_vision_model"},
        text_config=published.language_config("LlamaForCausalLM", **_YI_34B, vocab_size=64064),
    ),
    "tarsier-7b": published.tarsier_config(
        vision_config={"model_type": "clip_vision_model"},
        text_config=published.language_config("LlamaForCausalLM", **_VICUNA_7B, vocab_size=32064),
    ),
    "pllava-7b": published.pllava_config(
        vision_config={},
        text_config=published.language_config("LlamaForCausalLM", **_VICUNA_7B, vocab_size=32064),
    ),
    "pllava-13b": published.pllava_config(
        vision_config={},
        text_config=published.language_config(
            "LlamaForCausalLM",
            vocab_size=32064,
            hidden_size=5120,
            intermediate_size=13824,
            num_hidden_layers=40,
            num_attention_heads=40,
            num_key_value_heads=40,
        ),
    ),
    "pllava-34b": published.pllava_config(
        vision_config={},
        text_config=published.language_config("LlamaForCausalLM", **_YI_34B, vocab_size=64064),
    ),
    "longva-7b": published.longva_config(
        hidden_size=3584,
        intermediate_size=18944,
        num_hidden_layers=28,
        num_attention_heads=28,
        num_key_value_heads=4,
        mm_hidden_size=1024,
        vocab_size=152064,
    ),
}


@pytest.mark.parametrize("name", FULL_SIZE)
def test_the_full_size_model_has_as_many_parameters_as_published(name: str) -> None:
    family = find_family(FULL_SIZE[name])
    assert family is not None
    found = family.describe(FULL_SIZE[name], name, lambda _: None)
    with torch.device("meta"):
        model = found.model_class(found.config)
    count = sum(parameter.numel() for parameter in model.parameters())
    assert round(count / 1e9, 1) == read_catalogue()[name].parameters
    if name.startswith("internvl2"):
        assert found.config.image_seq_length == 256

"""Tiny models with random weights, saved as their families' checkpoints are published.

Weights are scaled up: at the usual scale a random model writes one token over and over whatever it
sees, and then every test passes.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers as hf
from numpy.typing import NDArray
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen2Tokenizer
from transformers.models.llava_onevision.image_processing_llava_onevision import (
    LlavaOnevisionImageProcessor,
)

from capeval.captioners import Captioned, CaptionRequest, Uncaptioned
from capeval.captioners.catalogue import ModelEntry
from capeval.captioners.llava_video import TOWERS
from capeval.captioners.loading import load_model
from capeval.captioners.options import CaptionerOptions
from capeval.captioners.protocol import LoadedModel
from capeval.captioners.transformers_backend import TransformersCaptioner

# The fixtures of conftest.py.
Checkpoint = Callable[[str], Path]
Load = Callable[..., LoadedModel]
Make = Callable[..., TransformersCaptioner]

# Tiny tensors gain nothing from more threads, which tests that run side by side would fight for.
torch.set_num_threads(1)
# A tower as small as the rest of the tiny LLaVA-Video.
TOWERS[72] = {"num_hidden_layers": 2, "intermediate_size": 96, "num_attention_heads": 1}

_TEXT = (
    "A man in a red jacket walks along a street while the camera pans to the left. "
    "Describe the video in detail. The video lasts for 15.00 seconds, and 32 frames are uniformly "
    "sampled from it. These frames are located at 0.00s,0.48s. Please answer the following "
    "questions related to this video. 0 1 2 3 4 5 6 7 8 9 system user assistant "
    "You are a helpful assistant. Frame1:"
)
_TURNS = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% for part in message.content %}{% if part.type == 'video' %}VIDEO\n"
    "{% else %}{{ part.text }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_VOCABULARY = 384
_WORDS = 360
_SCALE = 6.0


def request(
    index: str = "V1", *, seed: int = 0, frames: int = 4, prompt: str = "Describe the video."
) -> CaptionRequest:
    """Return a request whose frames are coloured noise, another for each seed."""
    generator = np.random.default_rng(seed)
    coarse = generator.integers(0, 256, (frames, 7, 10, 3), dtype=np.uint8)
    pixels: NDArray[np.uint8] = coarse.repeat(8, axis=1).repeat(8, axis=2)
    indices = tuple(int(at) for at in np.linspace(0, 449, frames))
    return CaptionRequest(
        index=index,
        prompt=prompt,
        frames=pixels,
        indices=indices,
        times=tuple(at / 30 for at in indices),
        fps=30.0,
        total_frames=450,
        duration=15.0,
    )


def captioned(outcomes: Sequence[Captioned | Uncaptioned]) -> list[Captioned]:
    good = [outcome for outcome in outcomes if isinstance(outcome, Captioned)]
    assert len(good) == len(outcomes), outcomes
    return good


def make(family: str, folder: Path) -> Path:
    torch.manual_seed(7)
    target = folder / family
    _MAKERS[family](target)
    return target


def make_for_vllm(folder: Path) -> Path:
    """Save a tiny Qwen2-VL whose heads are the smallest that vLLM runs on a processor."""
    torch.manual_seed(7)
    rope = {**_MROPE, "mrope_section": [4, 6, 6]}
    _qwen2_vl(folder, num_attention_heads=2, num_key_value_heads=1, rope_parameters=rope)
    return folder


def _tokenizer(*special: str, **named: str) -> PreTrainedTokenizerFast:
    # A word is a token and a token a word, so that equal texts are equal tokens.
    raw = Tokenizer(models.WordLevel(unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True)]
    )
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<unk>", *special]
    filler = " ".join(f"{chr(97 + at // 26)}{chr(97 + at % 26)}q" for at in range(200))
    trainer = trainers.WordLevelTrainer(
        vocab_size=_WORDS, special_tokens=tokens, show_progress=False
    )
    raw.train_from_iterator([_TEXT, filler], trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=raw,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        unk_token="<unk>",
        extra_special_tokens=named,
    )


def qwen2_tokenizer() -> Qwen2Tokenizer:
    """Return the byte-level tokenizer of Qwen2, trained on a sentence and short of most bytes."""
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    letters = [chr(at) for at in range(0x21, 0x7F)] + ["\u0120", "\u010a"]
    trainer = trainers.BpeTrainer(vocab_size=_WORDS, initial_alphabet=letters, show_progress=False)
    raw.train_from_iterator([_TEXT], trainer)
    trained = json.loads(raw.to_str())["model"]
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    vocabulary = {token: at for at, token in enumerate([*special, *trained["vocab"]])}
    return Qwen2Tokenizer(
        vocab=vocabulary,
        merges=[tuple(pair) for pair in trained["merges"]],
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>"],
    )


def _text(**changed: Any) -> dict[str, Any]:
    return {
        "model_type": "qwen2",
        "vocab_size": _VOCABULARY,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        "bos_token_id": 0,
        "eos_token_id": 2,
        "pad_token_id": 0,
        "tie_word_embeddings": False,
        **changed,
    }


def _siglip(**changed: Any) -> dict[str, Any]:
    return {
        "model_type": "siglip_vision_model",
        "hidden_size": 72,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 1,
        "patch_size": 14,
        "image_size": 56,
        "vision_use_head": False,
        **changed,
    }


def scale_up(model: Any) -> None:
    """Make random weights large enough for the output to depend on the input."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1:
                parameter.mul_(_SCALE if "embed" not in name else 1.0)
            elif "bias" in name:
                parameter.normal_(std=0.2)


def _save(model: Any, processor: Any, folder: Path) -> None:
    scale_up(model)
    # As published checkpoints have it: sampling settings that greedy decoding must not follow.
    model.generation_config = GenerationConfig(
        do_sample=True, temperature=0.7, top_p=0.8, top_k=20, repetition_penalty=1.05,
        eos_token_id=[383], pad_token_id=0, bos_token_id=0,
    )  # fmt: skip
    model.save_pretrained(folder)
    processor.save_pretrained(folder)


def _llava_onevision(folder: Path) -> None:
    tokenizer = _tokenizer("<image>", "<video>", image_token="<image>", video_token="<video>")
    size = {"height": 56, "width": 56}
    processor = hf.LlavaOnevisionProcessor(
        image_processor=LlavaOnevisionImageProcessor(size=size, image_grid_pinpoints=[[56, 56]]),
        tokenizer=tokenizer,
        video_processor=hf.LlavaOnevisionVideoProcessor(size=size),
        num_image_tokens=16,
        vision_feature_select_strategy="full",
        chat_template=_TURNS.replace("VIDEO", "<video>"),
    )
    ids = tokenizer.convert_tokens_to_ids
    config = hf.LlavaOnevisionConfig(
        vision_config=_siglip(),
        text_config=_text(),
        image_token_index=ids("<image>"),
        video_token_index=ids("<video>"),
        image_grid_pinpoints=[[56, 56]],
    )
    _save(hf.LlavaOnevisionForConditionalGeneration(config), processor, folder)


_QWEN = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
_PATCH_14 = {"shortest_edge": 56 * 56, "longest_edge": 64 * 112 * 112}
_QWEN_TEMPLATE = _TURNS.replace("VIDEO", "<|vision_start|><|video_pad|><|vision_end|>")


def _qwen_ids(tokenizer: Any) -> dict[str, int]:
    ids = tokenizer.convert_tokens_to_ids
    return {
        "vision_start_token_id": ids("<|vision_start|>"),
        "vision_end_token_id": ids("<|vision_end|>"),
        "image_token_id": ids("<|image_pad|>"),
        "video_token_id": ids("<|video_pad|>"),
    }


_MROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}


def _qwen2_vl(folder: Path, **changed: Any) -> None:
    tokenizer = _tokenizer(*_QWEN)
    processor = hf.Qwen2VLProcessor(
        image_processor=hf.Qwen2VLImageProcessor(size=_PATCH_14),
        tokenizer=tokenizer,
        video_processor=hf.Qwen2VLVideoProcessor(size=_PATCH_14),
        chat_template=_QWEN_TEMPLATE,
    )
    config = hf.Qwen2VLConfig(
        text_config=_text(**{"model_type": "qwen2_vl_text", "rope_parameters": _MROPE, **changed}),
        vision_config={"depth": 2, "embed_dim": 32, "hidden_size": 64, "num_heads": 2},
        **_qwen_ids(tokenizer),
    )
    _save(hf.Qwen2VLForConditionalGeneration(config), processor, folder)


def _llava_video(folder: Path, **changed: Any) -> None:
    folder.mkdir(parents=True)
    qwen2_tokenizer().save_pretrained(folder)
    published = published_config(**changed)
    (folder / "config.json").write_text(json.dumps(published), encoding="utf-8")
    generation = {"do_sample": True, "temperature": 0.7, "repetition_penalty": 1.05}
    (folder / "generation_config.json").write_text(
        json.dumps(generation | {"eos_token_id": [2, 0], "pad_token_id": 0}), encoding="utf-8"
    )
    save_file(published_tensors(published), folder / "model.safetensors", {"format": "pt"})


def published_config(**changed: Any) -> dict[str, Any]:
    """Return what is read of LLaVA-Video-7B's config.json, with small values."""
    return {
        **_text(max_position_embeddings=32768, rope_parameters=None),
        "architectures": ["LlavaQwenForCausalLM"],
        "model_type": "llava",
        "add_time_instruction": True,
        "hidden_act": "silu",
        "max_window_layers": 2,
        "mm_hidden_size": 72,
        "mm_newline_position": "grid",
        "mm_projector_type": "mlp2x_gelu",
        "mm_spatial_pool_mode": "bilinear",
        "mm_spatial_pool_stride": 2,
        "mm_vision_tower": "google/siglip-so400m-patch14-384",
        "rms_norm_eps": 1e-06,
        "rope_scaling": None,
        "rope_theta": 1000000.0,
        "sliding_window": 131072,
        "use_sliding_window": False,
        **changed,
    }


def published_tower() -> hf.SiglipVisionModel:
    """Return the vision tower of the tiny LLaVA-Video, without its last layer as published."""
    return hf.SiglipVisionModel(hf.SiglipVisionConfig(**_siglip(image_size=384)))


def published_tensors(config: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Return random tensors under the names and in the shapes of the published checkpoint."""
    hidden = config["hidden_size"]
    language = hf.Qwen2ForCausalLM(hf.Qwen2Config(**_text()))
    shapes: dict[str, tuple[int, ...]] = {
        "model.image_newline": (hidden,),
        "model.mm_projector.0.weight": (hidden, 72),
        "model.mm_projector.0.bias": (hidden,),
        "model.mm_projector.2.weight": (hidden, hidden),
        "model.mm_projector.2.bias": (hidden,),
        **{name: tuple(one.shape) for name, one in language.state_dict().items()},
        **{
            f"{TOWER}{name}": tuple(one.shape)
            for name, one in published_tower().state_dict().items()
        },
    }
    return {name: _random(name, shape) for name, shape in shapes.items()}


TOWER = "model.vision_tower.vision_tower.vision_model."


def _random(name: str, shape: tuple[int, ...]) -> torch.Tensor:
    if "norm" in name and name.endswith("weight"):
        return torch.ones(shape)
    wide = len(shape) > 1 and "embed" not in name
    return torch.randn(shape) * (0.3 if wide else 0.5)


_PATCH_16 = {"shortest_edge": 64 * 64, "longest_edge": 64 * 128 * 128}
_QWEN3_VISION = {
    "depth": 2,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_heads": 2,
    "out_hidden_size": 64,
    "num_position_embeddings": 64,
}
# Every other layer is a recurrent one, whose state must not see the padding.
_DELTA_NET = {
    "head_dim": 16,
    "rope_parameters": {**_MROPE, "partial_rotary_factor": 0.5, "mrope_section": [2, 1, 1]},
    "layer_types": ["linear_attention", "full_attention"],
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
}


def _qwen3_5(folder: Path) -> None:
    # transformers rebuilds this family's tokenizer as a byte-level one, whatever was saved.
    tokenizer = qwen2_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": [*_QWEN]})
    processor = hf.Qwen3VLProcessor(
        image_processor=hf.Qwen2VLImageProcessor(size=_PATCH_16, patch_size=16),
        tokenizer=tokenizer,
        video_processor=hf.Qwen3VLVideoProcessor(size=_PATCH_16),
        chat_template=_QWEN_TEMPLATE,
    )
    config = hf.Qwen3_5Config(
        text_config=_text(model_type="qwen3_5_text", **_DELTA_NET),
        vision_config=_QWEN3_VISION,
        **_qwen_ids(tokenizer),
    )
    _save(hf.Qwen3_5ForConditionalGeneration(config), processor, folder)


_OMNI = {
    "image_token": "<|IMAGE|>",
    "audio_token": "<|AUDIO|>",
    "video_token": "<|VIDEO|>",
    "vision_bos_token": "<|vision_bos|>",
    "vision_eos_token": "<|vision_eos|>",
    "audio_bos_token": "<|audio_bos|>",
    "audio_eos_token": "<|audio_eos|>",
}
_OMNI_TEMPLATE = _TURNS.replace("VIDEO", "<|vision_bos|><|VIDEO|><|vision_eos|>")
_OMNI_AUDIO = {
    "num_mel_bins": 8,
    "encoder_layers": 1,
    "encoder_attention_heads": 2,
    "encoder_ffn_dim": 16,
    "d_model": 16,
    "max_source_positions": 100,
    "output_dim": 64,
}


def _qwen2_5_omni(folder: Path) -> None:
    tokenizer = _tokenizer(*_OMNI.values(), **_OMNI)
    processor = hf.Qwen2_5OmniProcessor(
        image_processor=hf.Qwen2VLImageProcessor(size=_PATCH_14),
        video_processor=hf.Qwen2VLVideoProcessor(size=_PATCH_14),
        feature_extractor=hf.WhisperFeatureExtractor(feature_size=8),
        tokenizer=tokenizer,
        chat_template=_OMNI_TEMPLATE,
    )
    ids = tokenizer.convert_tokens_to_ids
    config = hf.Qwen2_5OmniConfig(
        thinker_config={
            "audio_config": _OMNI_AUDIO,
            "vision_config": {
                "depth": 2,
                "hidden_size": 32,
                "intermediate_size": 64,
                "num_heads": 2,
                "out_hidden_size": 64,
                "window_size": 56,
                "fullatt_block_indexes": [1],
            },
            "text_config": _text(model_type="qwen2_5_omni_text", rope_parameters=_MROPE),
            "audio_token_index": ids("<|AUDIO|>"),
            "image_token_index": ids("<|IMAGE|>"),
            "video_token_index": ids("<|VIDEO|>"),
            "vision_start_token_id": ids("<|vision_bos|>"),
            "vision_end_token_id": ids("<|vision_eos|>"),
            "audio_start_token_id": ids("<|audio_bos|>"),
            "audio_end_token_id": ids("<|audio_eos|>"),
        },
        enable_audio_output=False,
    )
    _save(hf.Qwen2_5OmniForConditionalGeneration(config), processor, folder)


_MAKERS: Mapping[str, Callable[[Path], None]] = {
    "llava-video": _llava_video,
    "llava-onevision": _llava_onevision,
    "qwen2-vl": _qwen2_vl,
    "qwen3.5": _qwen3_5,
    "qwen2.5-omni": _qwen2_5_omni,
}
FAMILIES = tuple(_MAKERS)
"""One for each way to load a model, to make its batches and to number its tokens."""


def load(
    hub: str | Path,
    name: str = "m",
    *,
    preset: str | None = None,
    dtype: str | None = None,
    revision: str | None = None,
    **options: Any,
) -> LoadedModel:
    """Load a model by the real path, on the processor unless `options` say otherwise."""
    entry = ModelEntry(
        name=name,
        reached="transformers",
        hub=str(hub),
        revision=revision,
        options={k: v for k, v in {"preset": preset, "dtype": dtype}.items() if v},
    )
    return load_model(entry, CaptionerOptions(**{"device": "cpu", **options}))

"""Tarsier from its published checkpoints, on transformers' LLaVA.

The checkpoints (omni-research/Tarsier-7b and -34b) are a CLIP tower, a projector of two layers and
Vicuna or Yi. Each frame is a grid of 24 x 24 patches. The vocabulary's own embeddings of two tokens
that config.json names close every row and every frame: 24 x 25 + 1 = 601 tokens a frame. Here these
tokens are written into the prompt, so that transformers' class needs no change.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from PIL import Image
from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration

from capeval.captioners.mixed_batches import left_padded
from capeval.captioners.protocol import CaptionRequest
from capeval.captioners.published.checkpoint import (
    Family,
    Files,
    Pixels,
    PublishedCheckpoint,
    has_architecture,
    refuse_placeholder,
    require,
    require_placeholder,
    rope,
    scaled_and_cropped,
    text_fields,
    user_prompt,
)
from capeval.errors import UsageError

KEY_MAP = {
    r"^vision_tower\.vision_model\.": "model.vision_tower.",
    r"^multi_modal_projector\.": "model.multi_modal_projector.",
    r"^language_model\.lm_head\.": "lm_head.",
    r"^language_model\.model\.": "model.language_model.",
}
"""Names in the published checkpoints, and what transformers calls them."""

CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)

_FRAME = "<image>"
_SPLITTERS = ("image_newline_idx", "image_new_idx")
# Those of openai/clip-vit-large-patch14-336; config.json leaves out what is the library's default.
_TOWER = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "patch_size": 14,
    "image_size": 336,
}


def describe(published: Mapping[str, Any], model: str, files: Files) -> PublishedCheckpoint:
    """Return the checkpoint that a config.json describes; raises `UsageError`."""
    config = build_config(published, model)
    vision: Any = config.vision_config
    side, patch = int(vision.image_size), int(vision.patch_size)
    pixels = Pixels(_squashed_then_scaled(side), *clip_normalisation(files, side, model))

    def inputs(tokenizer: Any, system: str | None) -> TarsierInputs:
        if system:
            raise UsageError(f"{model}: its prompt has no place for a system prompt")
        require_placeholder(tokenizer, _FRAME, config.image_token_id, model)
        newline, new = (int(published[name]) for name in _SPLITTERS)
        grid = side // patch
        frame = ([config.image_token_id] * grid + [newline]) * grid + [new]
        return TarsierInputs(tokenizer, pixels, frame=frame)

    return PublishedCheckpoint(
        config=config,
        model_class=LlavaForConditionalGeneration,
        key_map=KEY_MAP,
        inputs=inputs,
        # Vicuna has 4,096 positions, and 8 frames, its authors' default, are 4,808 tokens.
        enforces_context=False,
        penalise_prompt=True,
    )


def build_config(published: Mapping[str, Any], model: str) -> LlavaConfig:
    """Return transformers' configuration; raises `UsageError` for a model built otherwise."""
    for name in _SPLITTERS:
        require_token(published, name, model)
    return LlavaConfig(**llava_fields(published, model))


def require_token(published: Mapping[str, Any], name: str, model: str) -> None:
    """Raise `UsageError` where a field of config.json is no token id."""
    if not isinstance(published.get(name), int):
        raise UsageError(f"{model}: config.json: {name}: must be a token id")


def llava_fields(published: Mapping[str, Any], model: str) -> dict[str, Any]:
    """Return the configuration of a LLaVA with CLIP and Llama; raises `UsageError`."""
    vision, text = (dict(published.get(name) or {}) for name in ("vision_config", "text_config"))
    require(model, vision, "vision_config.", model_type=("clip_vision_model", None))
    require(model, text, "text_config.", model_type=("llama", None))
    require(model, published, vision_feature_select_strategy=("default", None))
    require_token(published, "image_token_index", model)
    tower = {name: vision.get(name, default) for name, default in _TOWER.items()}
    return {
        "vision_config": CLIPVisionConfig(
            **tower, hidden_act=vision.get("hidden_act", "quick_gelu")
        ),
        "text_config": LlamaConfig(
            **text_fields(text),
            rope_parameters=rope(text, 10_000.0),
            attention_bias=bool(text.get("attention_bias", False)),
            tie_word_embeddings=False,
        ),
        "image_token_index": published["image_token_index"],
        "projector_hidden_act": published.get("projector_hidden_act", "gelu"),
        "vision_feature_layer": published.get("vision_feature_layer", -2),
        "vision_feature_select_strategy": "default",
        "image_seq_length": (tower["image_size"] // tower["patch_size"]) ** 2,
        "tie_word_embeddings": False,
    }


def clip_normalisation(
    files: Files, side: int, model: str
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and standard deviation of preprocessor_config.json, or CLIP's; checks sizes."""
    path = files("preprocessor_config.json")
    if path is None:
        return CLIP_MEAN, CLIP_STD
    stored = json.loads(path.read_text(encoding="utf-8"))
    for name, keys in (("size", ("shortest_edge",)), ("crop_size", ("height", "width"))):
        value = stored.get(name, side)
        sides = [value] if isinstance(value, int) else [value.get(key, side) for key in keys]
        if any(one != side for one in sides):
            raise UsageError(
                f"{model}: preprocessor_config.json: {name}: {value!r} is not the tower's {side}"
            )
    return tuple(stored.get("image_mean", CLIP_MEAN)), tuple(stored.get("image_std", CLIP_STD))


class TarsierInputs:
    """Turns requests into a left-padded batch: the frames first, then the prompt."""

    def __init__(self, tokenizer: Any, pixels: Pixels, *, frame: Sequence[int]) -> None:
        self._tokenizer, self._pixels, self._frame = tokenizer, pixels, list(frame)

    def __call__(self, requests: Sequence[CaptionRequest]) -> Mapping[str, torch.Tensor]:
        """Return `input_ids`, `attention_mask` and `pixel_values`; raises `ValueError`."""
        rows = [self._ids(request) for request in requests]
        return {
            **left_padded(rows, self._tokenizer.pad_token_id),
            **self._pixels(requests),
        }

    def _ids(self, request: CaptionRequest) -> list[int]:
        refuse_placeholder(request, _FRAME)
        placeholder = self._frame[0]
        ids = self._tokenizer(chat_prompt(user_prompt(request), len(request.frames)))["input_ids"]
        return [one for token in ids for one in (self._frame if token == placeholder else [token])]


def chat_prompt(prompt: str, frames: int) -> str:
    """Return the text with one placeholder for each frame.

    >>> chat_prompt("What happens?", 2)
    'USER: <image><image>\\nWhat happens? ASSISTANT: '
    """
    shown = f"{_FRAME * frames}\n" if frames else ""
    return f"USER: {shown}{prompt} ASSISTANT: "


def _squashed_then_scaled(side: int) -> Callable[[Image.Image], Image.Image]:
    scale = scaled_and_cropped(side)

    def square(image: Image.Image) -> Image.Image:
        # Its authors' code makes a square of the longer edge first; once would differ slightly.
        longer = max(image.size)
        return scale(image.resize((longer, longer), Image.Resampling.BICUBIC))

    return square


FAMILY = Family(
    name="tarsier",
    matches=lambda published: (
        has_architecture(published, "TarsierForConditionalGeneration")
        or set(_SPLITTERS) <= published.keys()
    ),
    describe=describe,
)

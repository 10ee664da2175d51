"""LongVA from its published checkpoints, on transformers' LLaVA.

The checkpoints (lmms-lab/LongVA-7B and -DPO) share the architecture's name, `LlavaQwenForCausalLM`,
with LLaVA-Video, but have a CLIP tower, no newline embeddings, and each frame is pooled by average
from 24 x 24 to 12 x 12 patches: 144 tokens a frame.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from transformers import CLIPVisionConfig, Qwen2Config

from capeval.captioners import llava_video
from capeval.captioners.mixed_batches import left_padded
from capeval.captioners.protocol import CaptionRequest
from capeval.captioners.published.checkpoint import (
    Family,
    Files,
    Pixels,
    PublishedCheckpoint,
    has_architecture,
    require,
    rope,
    scaled_and_cropped,
    text_fields,
)
from capeval.captioners.published.pooled_llava import (
    PooledLlavaConfig,
    PooledLlavaForConditionalGeneration,
)
from capeval.captioners.published.tarsier import clip_normalisation
from capeval.errors import UsageError

KEY_MAP = llava_video.KEY_MAP
"""LLaVA-Video's: both are published by the same code."""

_DEFAULT_SYSTEM = "You are a helpful assistant."
_CLIP_L_336 = "clip-vit-large-patch14-336"
# The tower's shape is not in the checkpoint's config.json, only its name.
_CLIP_L = {"num_hidden_layers": 24, "intermediate_size": 4096}
_CLIP_L_HIDDEN_SIZE = 1024
_CLIP_HEAD_SIZE = 64
_PATCH, _SIDE = 14, 336
# What its authors' demo and evaluation set where config.json has none.
_POOL_STRIDE, _POOL_MODE = 2, "average"


def describe(published: Mapping[str, Any], model: str, files: Files) -> PublishedCheckpoint:
    """Return the checkpoint that a config.json describes; raises `UsageError`."""
    config = build_config(published, model, files)
    pixels = Pixels(scaled_and_cropped(_SIDE), *clip_normalisation(files, _SIDE, model))
    tokens = (_SIDE // _PATCH // config.spatial_pool_stride) ** 2

    def inputs(tokenizer: Any, system: str | None) -> LongVaInputs:
        if len(tokenizer) > config.image_token_id:
            raise UsageError(f"{model}: its tokenizer leaves no id for the frames")
        return LongVaInputs(
            tokenizer,
            pixels,
            frame=[config.image_token_id] * tokens,
            system=system or "",
        )

    return PublishedCheckpoint(
        config=config,
        model_class=PooledLlavaForConditionalGeneration,
        key_map=KEY_MAP,
        inputs=inputs,
        system=_DEFAULT_SYSTEM,
        settings={"spatial_pool_stride": config.spatial_pool_stride},
    )


def build_config(published: Mapping[str, Any], model: str, files: Files) -> PooledLlavaConfig:
    """Return transformers' configuration; raises `UsageError` for a model built otherwise."""
    require(
        model,
        published,
        mm_projector_type=("mlp2x_gelu",),
        mm_patch_merge_type=("unires",),
        mm_vision_select_feature=("patch", None),
        mm_spatial_pool_mode=(_POOL_MODE, None),
        mm_resampler_type=(None,),
    )
    tower = str(published.get("mm_vision_tower", ""))
    if not tower.endswith(_CLIP_L_336):
        raise UsageError(
            f"{model}: config.json: mm_vision_tower: {tower!r} is not supported; must be "
            f"openai/{_CLIP_L_336}"
        )
    vocabulary = int(published["vocab_size"])
    return PooledLlavaConfig(
        vision_config=CLIPVisionConfig(
            hidden_act="quick_gelu",
            patch_size=_PATCH,
            image_size=_SIDE,
            **_tower_shape(published, model, files),
        ),
        text_config=Qwen2Config(
            **text_fields(published, "sliding_window", "use_sliding_window", "max_window_layers"),
            rope_parameters=rope(published, 1e6),
            tie_word_embeddings=bool(published.get("tie_word_embeddings", False)),
        ),
        # A placeholder that is overwritten by the frames; the tokenizer does not know it.
        image_token_index=vocabulary - 1,
        projector_hidden_act="gelu",
        vision_feature_layer=int(published.get("mm_vision_select_layer", -2)),
        vision_feature_select_strategy="default",
        tie_word_embeddings=bool(published.get("tie_word_embeddings", False)),
        spatial_pool_stride=int(published.get("mm_spatial_pool_stride") or _POOL_STRIDE),
    )


def _tower_shape(published: Mapping[str, Any], model: str, files: Files) -> dict[str, int]:
    hidden = int(published.get("mm_hidden_size") or _CLIP_L_HIDDEN_SIZE)
    config = files("config.json")
    if hidden == _CLIP_L_HIDDEN_SIZE or config is None:
        shape = _CLIP_L
    else:
        shape = llava_video.measure_tower(config.parent, model)
    heads = max(1, hidden // _CLIP_HEAD_SIZE)
    return {"hidden_size": hidden, "num_attention_heads": heads, **shape}


class LongVaInputs:
    """Turns requests into a left-padded batch: the frames first, then the prompt."""

    def __init__(
        self, tokenizer: Any, pixels: Pixels, *, frame: Sequence[int], system: str
    ) -> None:
        self._tokenizer, self._pixels = tokenizer, pixels
        self._frame, self._system = list(frame), system

    def __call__(self, requests: Sequence[CaptionRequest]) -> Mapping[str, torch.Tensor]:
        """Return `input_ids`, `attention_mask` and `pixel_values`."""
        rows = [self._ids(request) for request in requests]
        return {
            **left_padded(rows, self._tokenizer.pad_token_id),
            **self._pixels(requests),
        }

    def _ids(self, request: CaptionRequest) -> list[int]:
        before, after = llava_video.chat_prompt(
            request, system=self._system, wording="published", timed=False
        )
        return [
            *self._tokenizer(before, add_special_tokens=False)["input_ids"],
            *self._frame * len(request.frames),
            *self._tokenizer(after, add_special_tokens=False)["input_ids"],
        ]


FAMILY = Family(
    name="longva",
    matches=lambda published: (
        has_architecture(published, llava_video.ARCHITECTURE)
        and published.get("mm_patch_merge_type") == "unires"
    ),
    describe=describe,
)

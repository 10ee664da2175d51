"""PLLaVA from its published checkpoints, on transformers' LLaVA.

The checkpoints (ermu2001/pllava-7b, -13b and -34b) are LLaVA 1.6's CLIP tower, projector and
Vicuna or Yi, trained by low-rank adapters (LoRA) on queries and values, which are published beside
the matrices that they change. They are added to them on loading, with the scale of the authors'
scripts, which no file of the checkpoint states. Sixteen frames of 24 x 24 patches are pooled to
16 x 12 x 12: 2,304 tokens a video. Prompt and scaling are those of the benchmark's own code
(VLMEvalKit's), as the authors' code has several.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from PIL import Image
from transformers.conversion_mapping import register_checkpoint_conversion_mapping
from transformers.core_model_loading import ConversionOps, WeightConverter

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
    scaled_and_cropped,
    user_prompt,
)
from capeval.captioners.published.pooled_llava import (
    PooledLlavaConfig,
    PooledLlavaForConditionalGeneration,
)
from capeval.captioners.published.tarsier import clip_normalisation, llava_fields
from capeval.errors import UsageError

_LANGUAGE = r"^language_model\.(?:base_model\.model\.)?"
KEY_MAP = {
    r"^vision_tower\.vision_model\.": "model.vision_tower.",
    r"^multi_modal_projector\.": "model.multi_modal_projector.",
    rf"{_LANGUAGE}lm_head\.": "lm_head.",
    rf"{_LANGUAGE}model\.": "model.language_model.",
}
"""Names in the published checkpoints, and what transformers calls them."""

# `lora_alpha` of the authors' scripts and of the benchmark's code.
_ALPHA = 4
_FRAMES = 16
_POOL_STRIDE = 2
_FRAME = "<image>"
# The benchmark's code scales a frame's shorter edge to this, the authors' processor the longer one.
_SHORTER, _LONGER = 672, 640


class AddAdapter(ConversionOps):  # type: ignore[misc, unused-ignore]
    """Adds an adapter's product to the matrix that it changes."""

    def convert(  # noqa: D102 - transformers' interface
        self,
        input_dict: dict[str, Any],
        source_patterns: list[str],
        target_patterns: list[str],
        **_: Any,
    ) -> dict[str, torch.Tensor]:
        found = (input_dict[pattern] for pattern in source_patterns)
        matrix, down, up = (t[0] if isinstance(t, list) else t for t in found)
        change = (_ALPHA / down.shape[0]) * (up.float() @ down.float())
        return {target_patterns[0]: (matrix.float() + change).to(matrix.dtype)}


class PllavaForConditionalGeneration(PooledLlavaForConditionalGeneration):
    """The pooled LLaVA, whose name selects the converters of the adapters."""


register_checkpoint_conversion_mapping(
    PllavaForConditionalGeneration.__name__,
    [
        WeightConverter(
            [
                f"self_attn.{one}_proj.base_layer.weight",
                f"self_attn.{one}_proj.lora_A.default.weight",
                f"self_attn.{one}_proj.lora_B.default.weight",
            ],
            f"self_attn.{one}_proj.weight",
            [AddAdapter()],
        )
        for one in "qv"
    ],
    overwrite=True,
)


def describe(published: Mapping[str, Any], model: str, files: Files) -> PublishedCheckpoint:
    """Return the checkpoint that a config.json describes; raises `UsageError`."""
    require(model, published, pooling_method=("avg", None), use_pooling=(True, None))
    config = PooledLlavaConfig(**llava_fields(published, model), spatial_pool_stride=_POOL_STRIDE)
    vision: Any = config.vision_config
    side, patch = int(vision.image_size), int(vision.patch_size)
    pixels = Pixels(_scaled_thrice(side), *clip_normalisation(files, side, model))
    tokens = (side // patch // _POOL_STRIDE) ** 2

    def inputs(tokenizer: Any, system: str | None) -> PllavaInputs:
        if system:
            raise UsageError(f"{model}: its prompt has no place for a system prompt")
        require_placeholder(tokenizer, _FRAME, config.image_token_id, model)
        # The 34B model has Yi's chat template, and its tokenizer the template's tokens.
        chat = "<|im_start|>" in tokenizer.get_vocab()
        frame = [config.image_token_id] * tokens
        return PllavaInputs(tokenizer, pixels, frame=frame, chat=chat)

    return PublishedCheckpoint(
        config=config,
        model_class=PllavaForConditionalGeneration,
        key_map=KEY_MAP,
        inputs=inputs,
        penalise_prompt=True,
        settings={"lora_alpha": _ALPHA},
    )


class PllavaInputs:
    """Turns requests into a left-padded batch of 16 frames each, before the prompt."""

    def __init__(self, tokenizer: Any, pixels: Pixels, *, frame: Sequence[int], chat: bool) -> None:
        self._tokenizer, self._pixels = tokenizer, pixels
        self._frame, self._chat = list(frame), chat

    def __call__(self, requests: Sequence[CaptionRequest]) -> Mapping[str, torch.Tensor]:
        """Return `input_ids`, `attention_mask` and `pixel_values`; raises `ValueError`."""
        videos = [sixteen_frames(request) for request in requests]
        rows = [self._ids(video) for video in videos]
        return {
            **left_padded(rows, self._tokenizer.pad_token_id),
            **self._pixels(videos),
        }

    def _ids(self, request: CaptionRequest) -> list[int]:
        refuse_placeholder(request, _FRAME)
        video = self._frame * len(request.frames)
        prompt = user_prompt(request)
        text = chat_prompt(prompt, chat=self._chat, has_video=bool(len(request.frames)))
        ids = self._tokenizer(text)["input_ids"]
        placeholder = self._frame[0]
        return [one for token in ids for one in (video if token == placeholder else [token])]


def sixteen_frames(request: CaptionRequest) -> CaptionRequest:
    """Return a request of 16 frames, repeated as the authors' projector does; raises `ValueError`.

    More than 16 are refused: their code would take them for several videos.
    """
    count = len(request.frames)
    if not count:
        return request
    if count > _FRAMES:
        raise ValueError(f"the model takes {_FRAMES} frames, not {count}")
    times = 1 if count == _FRAMES else _FRAMES // count + 1
    return replace(request, frames=np.repeat(request.frames, times, axis=0)[:_FRAMES])


def chat_prompt(prompt: str, *, chat: bool, has_video: bool = True) -> str:
    """Return the text with one placeholder for the video, if there is one.

    >>> chat_prompt("What happens?", chat=False)
    'USER: <image>\\n What happens? ASSISTANT:'
    """
    shown = f"{_FRAME}\n " if has_video else ""
    if not chat:
        return f"USER: {shown}{prompt} ASSISTANT:"
    return (
        "<|im_start|>system\nAnswer the question.<|im_end|>\n"
        f"<|im_start|>user\n{shown}{prompt}<|im_end|>\n<|im_start|>assistant\n"
    )


def _scaled_thrice(side: int) -> Callable[[Image.Image], Image.Image]:
    crop = scaled_and_cropped(side)

    def scale(image: Image.Image) -> Image.Image:
        image = _shorter_edge_to(image, _SHORTER, Image.Resampling.BILINEAR)
        rate = max(image.size) / min(image.size)
        shorter = min(*image.size, int(min(_LONGER, max(image.size)) / rate))
        return crop(_shorter_edge_to(image, max(shorter, side), Image.Resampling.BICUBIC))

    return scale


def _shorter_edge_to(image: Image.Image, edge: int, how: Image.Resampling) -> Image.Image:
    longer = int(edge * max(image.size) / min(image.size))
    return image.resize((edge, longer) if image.width <= image.height else (longer, edge), how)


FAMILY = Family(
    name="pllava",
    matches=lambda published: (
        has_architecture(published, "PllavaForConditionalGeneration")
        or "pooling_shape" in published
    ),
    describe=describe,
)

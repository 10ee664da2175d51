"""LLaVA-Video from its published checkpoint, on transformers' own modules.

The checkpoint (lmms-lab/LLaVA-Video-7B-Qwen2, architecture `LlavaQwenForCausalLM`) is a SigLIP
vision tower without its last layer, a projector of two layers and a Qwen2 language model. Each
frame is a grid of 27 x 27 patches, pooled to 14 x 14 bilinearly; every row of the grid is closed by
one learned newline embedding: 14 x 15 = 210 tokens a frame, 6,720 for 32 frames. (LLaVA-OneVision,
whose modules these are, has a single newline after all frames.)

The preset `tuna` is what the TUNA benchmark's own code does with the same weights (its copy of
VLMEvalKit, class `LLaVA_OneVision`, commit 1ea8984c): float16; frames pooled by averaging, which
leaves 13 x 13 patches and so 13 x 14 = 182 tokens a frame; and a time instruction that runs
sentences together and gives the frame height in pixels as the number of frames. docs/generating.md
compares it with the authors' code.

All frames are pooled alike, also where config.json sets `add_faster_video`: the authors' encoder
has no working branch for it, and their evaluation turns it off.
"""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from transformers import LlavaOnevisionConfig, Qwen2Config, SiglipVisionConfig
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.models.llava_onevision.modeling_llava_onevision import (
    LlavaOnevisionForConditionalGeneration,
    LlavaOnevisionModel,
)

from capeval.captioners.protocol import CaptionRequest
from capeval.errors import UsageError

ARCHITECTURE = "LlavaQwenForCausalLM"

KEY_MAP = {
    r"^model\.vision_tower\.vision_tower\.vision_model\.": "model.vision_tower.",
    r"^model\.mm_projector\.0\.": "model.multi_modal_projector.linear_1.",
    r"^model\.mm_projector\.2\.": "model.multi_modal_projector.linear_2.",
    r"^model\.(embed_tokens|layers|norm)\.": r"model.language_model.\1.",
}
"""Names in the published checkpoint and in transformers; other names are the same in both."""

TOWERS: dict[int, dict[str, int]] = {
    1152: {"num_hidden_layers": 26, "intermediate_size": 4304, "num_attention_heads": 16}
}
"""SigLIP towers (so400m) by hidden size: a checkpoint's config.json has their name, not shape."""

_TOWER, _PATCH, _IMAGE = "siglip-so400m-patch14-384", 14, 384

# The tower's activations need the most memory: a batch of long videos is encoded in parts.
_FRAMES_AT_A_TIME = 64
# Also on machines with hundreds of cores: a batch has no more than some hundred frames.
_THREADS = 16

PoolMode = Literal["bilinear", "average"]

Wording = Literal["published", "tuna"]
"""The time instruction of the authors' code, or of the benchmark's."""


@dataclass(frozen=True)
class Preset:
    """The pooling (None keeps the checkpoint's), the time instruction and the precision.

    `dtype` is as in `options` of the catalogue.
    """

    pool_mode: PoolMode | None
    wording: Wording
    dtype: str


PRESETS: Mapping[str, Preset] = {
    "published": Preset(pool_mode=None, wording="published", dtype="auto"),
    "tuna": Preset(pool_mode="average", wording="tuna", dtype="float16"),
}


def tokens_per_frame(side: int, stride: int, mode: PoolMode) -> int:
    """Return the number of embeddings of a frame of `side` x `side` patches.

    >>> tokens_per_frame(27, 2, "bilinear"), tokens_per_frame(27, 2, "average")
    (210, 182)
    """
    rows = math.ceil(side / stride) if mode == "bilinear" else side // stride
    return rows * (rows + 1)


class LlavaVideoConfig(LlavaOnevisionConfig):
    """LLaVA-OneVision's configuration, and how the frames are pooled."""

    model_type = "llava_video"

    spatial_pool_mode: str = "bilinear"
    spatial_pool_stride: int = 2


class LlavaVideoModel(LlavaOnevisionModel):
    """LLaVA-OneVision's model with a newline embedding after every row of every frame."""

    def __init__(self, config: LlavaVideoConfig) -> None:
        super().__init__(config)
        # The features are taken before the tower's final norm.
        self.vision_tower.post_layernorm = nn.Identity()

    def get_video_features(
        self, pixel_values_videos: torch.Tensor, **_: Any
    ) -> BaseModelOutputWithPooling:
        batch = pixel_values_videos.shape[0]
        parts = pixel_values_videos.flatten(0, 1).split(_FRAMES_AT_A_TIME)
        embedded = torch.cat([self._embed(part) for part in parts])
        # (videos, tokens of all their frames, size)
        return BaseModelOutputWithPooling(
            pooler_output=embedded.reshape(batch, -1, embedded.shape[-1])
        )

    def _embed(self, pixels: torch.Tensor) -> torch.Tensor:
        features = self.vision_tower(pixels.to(self.dtype)).last_hidden_state
        grid = self._pool(self.multi_modal_projector(features))
        frames, rows, _, size = grid.shape
        # With weights on several GPUs, it may not be on the projector's GPU.
        newline = self.image_newline.to(grid).expand(frames, rows, 1, size)
        return torch.cat((grid, newline), dim=2).flatten(1, 2)

    def _pool(self, features: torch.Tensor) -> torch.Tensor:
        stride, side = self.config.spatial_pool_stride, math.isqrt(features.shape[1])
        grid = features.unflatten(1, (side, side)).permute(0, 3, 1, 2)
        if self.config.spatial_pool_mode == "average":
            pooled = nn.functional.avg_pool2d(grid, stride)
        else:
            rows = math.ceil(side / stride)
            pooled = nn.functional.interpolate(grid, size=(rows, rows), mode="bilinear")
        return pooled.permute(0, 2, 3, 1)


class LlavaVideoForConditionalGeneration(LlavaOnevisionForConditionalGeneration):
    """LLaVA-Video with its language-model head; `KEY_MAP` reads the published checkpoint."""

    config_class = LlavaVideoConfig
    # The final norm is in the checkpoint but not used.
    _keys_to_ignore_on_load_unexpected: ClassVar[list[str]] = [
        r"post_layernorm",
        r"position_ids",
        r"rotary_emb",
    ]

    def __init__(self, config: LlavaVideoConfig) -> None:
        super().__init__(config)
        self.model = LlavaVideoModel(config)
        self.post_init()


# Keys of the whole model, or of how it was saved.
_NOT_TEXT = {"architectures", "model_type", "dtype", "torch_dtype", "pad_token_id"}


def build_config(published: Mapping[str, Any], *, model: str, preset: Preset) -> LlavaVideoConfig:
    """Return the configuration that a checkpoint's config.json describes; raises `UsageError`."""
    tower, hidden = str(published.get("mm_vision_tower")), int(published.get("mm_hidden_size") or 0)
    stride = published.get("mm_spatial_pool_stride") or 2
    mode = preset.pool_mode or published.get("mm_spatial_pool_mode") or "bilinear"
    projector, newline = (published.get(f"mm_{n}") for n in ("projector_type", "newline_position"))
    for name, value, is_known in (
        ("mm_vision_tower", tower, tower.endswith(_TOWER)),
        ("mm_hidden_size", hidden, hidden in TOWERS),
        ("mm_projector_type", projector, projector == "mlp2x_gelu"),
        ("mm_newline_position", newline, newline == "grid"),
        ("mm_spatial_pool_mode", mode, mode in ("bilinear", "average")),
    ):
        if not is_known:
            raise UsageError(
                f"{model}: config.json: {name}: {value!r} is not a LLaVA-Video checkpoint's; "
                "serve this model, and use --base-url"
            )
    vocabulary = int(published["vocab_size"])
    names = {*Qwen2Config().to_dict(), "rope_theta", "rope_scaling"} - _NOT_TEXT
    text = {name: published[name] for name in names if published.get(name) is not None}
    return LlavaVideoConfig(
        vision_config=SiglipVisionConfig(
            hidden_size=hidden,
            patch_size=_PATCH,
            image_size=_IMAGE,
            vision_use_head=False,
            **TOWERS[hidden],
        ),
        # Copied: transformers changes the value of rope_scaling.
        text_config=Qwen2Config(**copy.deepcopy(text)),
        projector_hidden_act="gelu",
        # Placeholders that are overwritten by the frames; the tokenizer has neither.
        video_token_index=vocabulary - 1,
        image_token_index=vocabulary - 2,
        tie_word_embeddings=bool(published.get("tie_word_embeddings", False)),
        spatial_pool_mode=mode,
        spatial_pool_stride=stride,
    )


def chat_prompt(
    request: CaptionRequest, *, system: str, wording: Wording, timed: bool = True
) -> tuple[str, str]:
    """Return the text before the frames and the text after them, as in the model's training."""
    stated, gap = len(request.frames), " "
    at, duration = request.times, request.duration
    if wording == "tuna":
        # The benchmark's code takes the length of the first frame for the number of frames, and
        # times for index / rate.
        stated, gap = request.frames.shape[1], ""
        at = tuple(index / request.fps for index in request.indices)
        duration = request.total_frames / request.fps
    times = ",".join(f"{time:.2f}s" for time in at)
    # No gap before the last sentence in either wording.
    last = "Please answer the following questions related to this video."
    clauses = (
        f"The video lasts for {duration:.2f} seconds,",
        f"and {stated} frames are uniformly sampled from it.",
        f"These frames are located at {times}.{last}",
    )
    instruction = gap.join(clauses) + "\n" if timed else ""
    system = system if request.system is None else request.system
    before = f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n"
    # A question without a video has no placeholder and no times.
    shown = f"\n{instruction}" if len(request.frames) else ""
    after = f"{shown}{request.prompt}<|im_end|>\n<|im_start|>assistant\n"
    return before, after


class LlavaVideoInputs:
    """Turns requests into a left-padded batch of token ids and pixels."""

    def __init__(
        self,
        tokenizer: Any,
        config: LlavaVideoConfig,
        *,
        system: str,
        wording: Wording,
        timed: bool,
    ) -> None:
        self._tokenizer, self._config = tokenizer, config
        self._system, self._wording, self._timed = system, wording, timed
        vision: Any = config.vision_config
        self._size = int(vision.image_size)
        self._tokens_per_frame = tokens_per_frame(
            self._size // int(vision.patch_size),
            config.spatial_pool_stride,
            config.spatial_pool_mode,  # type: ignore[arg-type]
        )

    def __call__(self, requests: Sequence[CaptionRequest]) -> Mapping[str, torch.Tensor]:
        rows = [torch.tensor(self._ids(request)) for request in requests]
        padded = partial(pad_sequence, batch_first=True, padding_side="left")
        videos = [self._pixels(request) for request in requests if len(request.frames)]
        # Frames are embedded independently, so all videos' frames are joined.
        pixels = {"pixel_values_videos": torch.cat(videos)[None]} if videos else {}
        return {
            "input_ids": padded(rows, padding_value=self._tokenizer.pad_token_id),
            "attention_mask": padded([torch.ones_like(row) for row in rows]),
            **pixels,
        }

    def _ids(self, request: CaptionRequest) -> list[int]:
        before, after = chat_prompt(
            request, system=self._system, wording=self._wording, timed=self._timed
        )
        return [
            *self._tokenizer(before, add_special_tokens=False)["input_ids"],
            *[self._config.video_token_id] * (len(request.frames) * self._tokens_per_frame),
            *self._tokenizer(after, add_special_tokens=False)["input_ids"],
        ]

    def _pixels(self, request: CaptionRequest) -> torch.Tensor:
        # The published processor squashes each frame to a square with Pillow's bicubic filter,
        # whose result differs from torchvision's; the scale is to [-1, 1].
        def square(frame: NDArray[np.uint8]) -> NDArray[np.uint8]:
            image = Image.fromarray(frame)
            return np.asarray(image.resize((self._size, self._size), Image.Resampling.BICUBIC))

        # Pillow releases the GIL while it scales; in one thread, a batch would take seconds.
        with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as pool:
            frames = list(pool.map(square, request.frames))
        return torch.from_numpy(np.stack(frames)).permute(0, 3, 1, 2).float() / 127.5 - 1

"""LLaVA-Video from its published checkpoint, on transformers' own modules.

The checkpoint (lmms-lab/LLaVA-Video-7B-Qwen2, architecture `LlavaQwenForCausalLM`) is a SigLIP
vision tower without its last layer, a projector of two layers and a Qwen2 language model. Each
frame is a grid of 27 x 27 patches, pooled to 14 x 14 bilinearly; every row of the grid is closed by
one learned newline embedding: 14 x 15 = 210 tokens a frame, 6,720 for 32 frames. (LLaVA-OneVision,
whose modules these are, has a single newline after all frames.)

The preset `tuna` is what the TUNA benchmark's own code does with the same weights (its copy of
VLMEvalKit, class `LLaVA_OneVision`, commit 1ea8984c): float16; frames pooled by averaging, which
leaves 13 x 13 patches and so 13 x 14 = 182 tokens a frame; up to 2,048 tokens; and a time
instruction whose sentences run together and which states the height of the frames in pixels where
it means their number. docs/generating.md compares it with the authors' code.

A checkpoint whose config.json sets `add_faster_video`, as the 72B model's, has slow and fast
frames: every `faster_token_stride`-th frame, from the first, is pooled as above, the others with
twice the stride (7 x 8 = 56 tokens), and a learned token closes each frame. The published encoder
calls another function, and its branch for slow and fast frames reads a variable that only the
commented-out call fills. What is done here is what that branch and that call state for one video.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from safetensors import safe_open
from torch import nn
from transformers import LlavaOnevisionConfig, Qwen2Config, SiglipVisionConfig
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.models.llava_onevision.modeling_llava_onevision import (
    LlavaOnevisionForConditionalGeneration,
    LlavaOnevisionModel,
)

from capeval.captioners.mixed_batches import left_padded
from capeval.captioners.protocol import CaptionRequest
from capeval.errors import UsageError

ARCHITECTURE = "LlavaQwenForCausalLM"

KEY_MAP = {
    r"^model\.vision_tower\.vision_tower\.vision_model\.": "model.vision_tower.",
    r"^model\.mm_projector\.0\.": "model.multi_modal_projector.linear_1.",
    r"^model\.mm_projector\.2\.": "model.multi_modal_projector.linear_2.",
    r"^model\.(embed_tokens|layers|norm)\.": r"model.language_model.\1.",
}
"""Names in the published checkpoint, and what transformers calls them.

`model.image_newline` and `lm_head` have the same names in both.
"""

# The tower's shape is not in the checkpoint's config.json, only its name.
_SO400M = {"num_hidden_layers": 26, "intermediate_size": 4304}
_SO400M_HIDDEN_SIZE = 1152
_SIGLIP_HEAD_SIZE = 72
_TOWER_PREFIX = "model.vision_tower.vision_tower.vision_model."

# The tower's activations need the most memory: a batch of long videos is encoded in parts.
_FRAMES_AT_A_TIME = 64
# Also on machines with hundreds of cores: a batch has no more than some hundred frames.
_THREADS = 16

PoolMode = Literal["bilinear", "average", "max"]


Wording = Literal["published", "tuna"]
"""Whose time instruction: that of the authors' code, or of the benchmark's."""


@dataclass(frozen=True)
class Preset:
    """The pooling (None keeps the checkpoint's), the time instruction, the length, the precision.

    `dtype` is as after `--dtype`.
    """

    pool_mode: PoolMode | None
    wording: Wording
    max_new_tokens: int
    dtype: str


PRESETS: Mapping[str, Preset] = {
    "published": Preset(pool_mode=None, wording="published", max_new_tokens=1024, dtype="auto"),
    "tuna": Preset(pool_mode="average", wording="tuna", max_new_tokens=2048, dtype="float16"),
}


def tokens_per_frame(side: int, stride: int, mode: PoolMode) -> int:
    """Return how many embeddings one frame of `side` x `side` patches becomes.

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
    faster_token_stride: int = 0
    """Of how many frames one is slow; 0 where all are pooled alike."""


class LlavaVideoModel(LlavaOnevisionModel):
    """LLaVA-OneVision's model with a newline embedding after every row of every frame."""

    def __init__(self, config: LlavaVideoConfig) -> None:
        super().__init__(config)
        # The features wanted are those before the tower's closing norm.
        self.vision_tower.post_layernorm = nn.Identity()
        if config.faster_token_stride:
            self.faster_token = nn.Parameter(torch.zeros(config.text_config.hidden_size))

    def get_video_features(
        self, pixel_values_videos: torch.Tensor, **_: Any
    ) -> BaseModelOutputWithPooling:
        """Return the embeddings of (batch, frames, channels, height, width) pixels."""
        stride, every = self.config.spatial_pool_stride, self.config.faster_token_stride
        if not every:
            embedded = self._embed(pixel_values_videos, stride).flatten(1, 2)
            return BaseModelOutputWithPooling(pooler_output=embedded)
        frames = pixel_values_videos.shape[1]
        slow_at = range(0, frames, every)
        fast_at = [at for at in range(frames) if at % every]
        slow = self._closed(self._embed(pixel_values_videos[:, slow_at], stride)).unbind(1)
        by_frame = dict(zip(slow_at, slow, strict=True))
        if fast_at:
            fast = self._closed(self._embed(pixel_values_videos[:, fast_at], 2 * stride)).unbind(1)
            by_frame.update(zip(fast_at, fast, strict=True))
        embedded = torch.cat([by_frame[at] for at in range(frames)], dim=1)
        return BaseModelOutputWithPooling(pooler_output=embedded)

    def _closed(self, embedded: torch.Tensor) -> torch.Tensor:
        token = self.faster_token.to(embedded).expand(*embedded.shape[:2], 1, -1)
        return torch.cat((embedded, token), dim=2)

    def _embed(self, pixels: torch.Tensor, stride: int) -> torch.Tensor:
        """Return (batch, frames, tokens, size) embeddings."""
        batch, frames = pixels.shape[:2]
        parts = pixels.flatten(0, 1).split(_FRAMES_AT_A_TIME)
        embedded = torch.cat([self._embed_part(part, stride) for part in parts])
        return embedded.reshape(batch, frames, *embedded.shape[1:])

    def _embed_part(self, pixels: torch.Tensor, stride: int) -> torch.Tensor:
        features = self.vision_tower(pixels.to(self.dtype)).last_hidden_state
        grid = self._pool(self.multi_modal_projector(features), stride)
        frames, rows, _, size = grid.shape
        # With the weights on several GPUs it may be on another than the projector.
        newline = self.image_newline.to(grid).expand(frames, rows, 1, size)
        return torch.cat((grid, newline), dim=2).flatten(1, 2)

    def _pool(self, features: torch.Tensor, stride: int) -> torch.Tensor:
        side = math.isqrt(features.shape[1])
        grid = features.unflatten(1, (side, side)).permute(0, 3, 1, 2)
        match self.config.spatial_pool_mode:
            case "average":
                pooled = nn.functional.avg_pool2d(grid, stride)
            case "max":
                pooled = nn.functional.max_pool2d(grid, stride)
            case _:
                rows = math.ceil(side / stride)
                pooled = nn.functional.interpolate(grid, size=(rows, rows), mode="bilinear")
        return pooled.permute(0, 2, 3, 1)


class LlavaVideoForConditionalGeneration(LlavaOnevisionForConditionalGeneration):
    """LLaVA-Video with its language-model head; `KEY_MAP` reads the published checkpoint."""

    config_class = LlavaVideoConfig
    # The closing norm is in the checkpoint and is not used.
    _keys_to_ignore_on_load_unexpected: ClassVar[list[str]] = [
        r"post_layernorm",
        r"position_ids",
        r"rotary_emb",
    ]

    def __init__(self, config: LlavaVideoConfig) -> None:
        super().__init__(config)
        self.model = LlavaVideoModel(config)
        self.post_init()


def build_config(
    published: Mapping[str, Any], *, model: str, preset: Preset, folder: Path | None = None
) -> LlavaVideoConfig:
    """Return the configuration that a checkpoint's config.json describes; raises `UsageError`.

    A tower of another size than so400m is measured from the tensors of a local `folder`.
    """
    tower = str(published.get("mm_vision_tower", ""))
    # Patch and image size are in the tower's name: siglip-so400m-patch14-384.
    named = re.search(r"siglip.*patch(\d+)-(\d+)", tower)
    newline = published.get("mm_newline_position", "one_token")
    stride = published.get("mm_spatial_pool_stride") or 2
    mode = preset.pool_mode or published.get("mm_spatial_pool_mode") or "bilinear"
    every = int(published.get("faster_token_stride") or 0)
    if not published.get("add_faster_video"):
        every = 0
    elif every < 1:
        raise UsageError(
            f"{model}: config.json: faster_token_stride: {every} is not a number of frames from 1"
        )
    for name, value, known in (
        ("mm_vision_tower", tower, named is not None),
        ("mm_projector_type", published.get("mm_projector_type"), "mlp2x_gelu"),
        ("mm_newline_position", newline, "grid"),
        ("mm_spatial_pool_mode", mode, mode in ("bilinear", "average", "max")),
    ):
        if known is False or (isinstance(known, str) and value != known):
            raise UsageError(
                f"{model}: config.json: {name}: {value!r} is not a LLaVA-Video checkpoint's; "
                "serve this model, and use --base-url"
            )
    assert named is not None  # noqa: S101 - for the type checker; refused above
    patch, image = int(named[1]), int(named[2])
    vision = _tower_shape(published, folder=folder, model=model)
    vocabulary = int(published["vocab_size"])
    return LlavaVideoConfig(
        vision_config=SiglipVisionConfig(
            patch_size=patch, image_size=image, vision_use_head=False, **vision
        ),
        text_config=_text_config(published),
        projector_hidden_act="gelu",
        # Placeholders that are overwritten by the frames; the tokenizer knows neither.
        video_token_index=vocabulary - 1,
        image_token_index=vocabulary - 2,
        tie_word_embeddings=bool(published.get("tie_word_embeddings", False)),
        spatial_pool_mode=mode,
        spatial_pool_stride=stride,
        faster_token_stride=every,
    )


def _text_config(published: Mapping[str, Any]) -> Qwen2Config:
    same = (
        *("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers"),
        *("num_attention_heads", "num_key_value_heads", "hidden_act", "max_position_embeddings"),
        *("rms_norm_eps", "attention_dropout", "tie_word_embeddings", "bos_token_id"),
        *("eos_token_id", "sliding_window", "use_sliding_window", "max_window_layers"),
    )
    chosen = {name: published[name] for name in same if published.get(name) is not None}
    rope: dict[str, Any] = {
        "rope_type": "default",
        "rope_theta": float(published.get("rope_theta", 1e6)),
    }
    if published.get("rope_scaling"):
        scaling = dict(published["rope_scaling"])
        rope |= {"rope_type": scaling.pop("type", "default"), **scaling}
    return Qwen2Config(rope_parameters=rope, **chosen)


def _tower_shape(
    published: Mapping[str, Any], *, folder: Path | None, model: str
) -> dict[str, Any]:
    hidden = int(published["mm_hidden_size"])
    shape: dict[str, Any] = {
        "hidden_size": hidden,
        "num_attention_heads": max(1, hidden // _SIGLIP_HEAD_SIZE),
    }
    if hidden == _SO400M_HIDDEN_SIZE:
        return shape | _SO400M
    if folder is None:
        raise UsageError(f"{model}: config.json: mm_hidden_size: {hidden} is not SigLIP so400m's")
    return shape | measure_tower(folder, model)


def measure_tower(folder: Path, model: str) -> dict[str, int]:
    """Return layers and inner size of the vision tower in safetensors files; raises `UsageError`.

    For towers that are not those whose name config.json has.
    """
    layers, intermediate = 0, 0
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, framework="pt") as tensors:
            for key in tensors.keys():  # noqa: SIM118 - not a mapping
                layer = re.match(re.escape(_TOWER_PREFIX) + r"encoder\.layers\.(\d+)\.", key)
                if layer:
                    layers = max(layers, int(layer[1]) + 1)
                    if key.endswith("mlp.fc1.bias"):
                        intermediate = int(tensors.get_slice(key).get_shape()[0])
    if not layers or not intermediate:
        raise UsageError(f"{model}: there is no {_TOWER_PREFIX}encoder in its safetensors files")
    return {"num_hidden_layers": layers, "intermediate_size": intermediate}


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
    # A question without a video has neither its place nor its times.
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
        self._side = self._size // int(vision.patch_size)

    def __call__(self, requests: Sequence[CaptionRequest]) -> Mapping[str, torch.Tensor]:
        """Return `input_ids`, `attention_mask` and `pixel_values_videos`."""
        rows = [self._ids(request) for request in requests]
        return {
            **left_padded(rows, self._tokenizer.pad_token_id),
            **self._videos(requests),
        }

    def _videos(self, requests: Sequence[CaptionRequest]) -> dict[str, torch.Tensor]:
        videos = [self._pixels(request) for request in requests if len(request.frames)]
        return {"pixel_values_videos": self._in_a_batch(videos)} if videos else {}

    def _in_a_batch(self, videos: Sequence[torch.Tensor]) -> torch.Tensor:
        # Which frames are slow depends on their place in their video; else each frame is embedded
        # on its own, and those of all videos are put in a row.
        is_slow_and_fast = bool(self._config.faster_token_stride)
        return torch.stack([*videos]) if is_slow_and_fast else torch.cat([*videos])[None]

    def _ids(self, request: CaptionRequest) -> list[int]:
        before, after = chat_prompt(
            request, system=self._system, wording=self._wording, timed=self._timed
        )
        return [
            *self._tokenizer(before, add_special_tokens=False)["input_ids"],
            *[self._config.video_token_id] * self._video_tokens(len(request.frames)),
            *self._tokenizer(after, add_special_tokens=False)["input_ids"],
        ]

    def _video_tokens(self, frames: int) -> int:
        config = self._config
        mode: PoolMode = config.spatial_pool_mode  # type: ignore[assignment]
        slow = tokens_per_frame(self._side, config.spatial_pool_stride, mode)
        if not config.faster_token_stride:
            return frames * slow
        fast = tokens_per_frame(self._side, 2 * config.spatial_pool_stride, mode)
        few = math.ceil(frames / config.faster_token_stride)
        # One more token closes each frame.
        return few * slow + (frames - few) * fast + frames

    def _pixels(self, request: CaptionRequest) -> torch.Tensor:
        # Pillow lets other threads run while it scales; on one, a batch would wait for seconds.
        with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as pool:
            frames = list(pool.map(self._scaled_to_square, request.frames))
        return torch.from_numpy(np.stack(frames)).permute(0, 3, 1, 2).float() / 127.5 - 1

    def _scaled_to_square(self, frame: NDArray[np.uint8]) -> NDArray[np.uint8]:
        # The published processor squashes each frame to a square with Pillow's bicubic filter,
        # whose result differs from torchvision's; the scale is to [-1, 1].
        image = Image.fromarray(frame)
        return np.asarray(image.resize((self._size, self._size), Image.Resampling.BICUBIC))

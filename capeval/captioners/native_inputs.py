"""Batches of frames and prompts, made by a model's own processor.

Which classes of transformers can be given videos that differ in their numbers of frames was tried
with a tiny model of each: the captions are those of the same videos alone. The tests keep one for
each way. Classes that are in neither set get videos of equal numbers of frames.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jinja2.exceptions import TemplateError
from torch.nn.utils.rnn import pad_sequence

from capeval.captioners.protocol import CaptionRequest

PACKED = frozenset(
    {
        *("qwen2_vl", "qwen2_5_vl", "qwen2_5_omni_thinker"),
        *("qwen3_vl", "qwen3_vl_moe", "qwen3_omni_moe_thinker", "qwen3_5", "qwen3_5_moe"),
        *("glm4v", "glm4v_moe", "gemma4", "gemma4_unified", "molmo2", "minicpmv4_6"),
        *("ernie4_5_vl_moe", "video_llama_3", "smolvlm"),
    }
)
"""Model types whose processors take such a batch themselves."""

JOINED = frozenset({"internvl", "llava_next_video", "perception_lm", "video_llava"})
"""Model types that embed each frame on its own: their frames can be put one after the other."""


class NativeInputs:
    """Turns requests into a left-padded batch with the model's own processor.

    `template` are arguments of the chat template, and `options` of the processor. `is_joined` is
    for models whose processor takes only videos with equal numbers of frames: others are processed
    alone and joined.
    """

    def __init__(
        self,
        processor: Any,
        *,
        system_prompt: str | None,
        options: Mapping[str, Any],
        template: Mapping[str, Any],
        is_joined: bool,
    ) -> None:
        self._processor, self._system_prompt = processor, system_prompt
        self._options, self._template = options, template
        self._is_joined = is_joined

    def __call__(self, requests: Sequence[CaptionRequest]) -> Mapping[str, Any]:
        """Return the model's inputs; raises `ValueError` for a video that cannot be taken."""
        if self._is_joined and len({len(request.frames) for request in requests}) > 1:
            padding = int(self._processor.tokenizer.pad_token_id)
            return _join([self._batch([request]) for request in requests], padding=padding)
        return self._batch(requests)

    def _batch(self, requests: Sequence[CaptionRequest]) -> Mapping[str, Any]:
        texts = [self._text(request) for request in requests]
        first = self._processor.tokenizer.bos_token
        # As transformers does where it renders the prompt and tokenizes it in one step.
        begun = {"add_special_tokens": False} if first and texts[0].startswith(first) else {}
        batch: dict[str, Any] = self._processor(
            text=texts,
            **self._videos(requests),
            padding=True,
            return_tensors="pt",
            **begun,
            **self._options,
        )
        if "video_second_per_grid" in batch:
            # The processors of omni models assume two frames a second.
            frames = self._processor.video_processor.temporal_patch_size
            batch["video_second_per_grid"] = torch.tensor(
                [frames * request.duration / len(request.frames) for request in requests]
            )
        return batch

    def _videos(self, requests: Sequence[CaptionRequest]) -> dict[str, Any]:
        shown = [bool(len(request.frames)) for request in requests]
        if not any(shown):
            return {}
        if not all(shown):
            raise ValueError("requests with and without frames cannot share a batch")
        return {
            "videos": [request.frames for request in requests],
            # Without these some processors sample again, or believe the video has 24 frames a
            # second.
            "do_sample_frames": False,
            "video_metadata": [
                {
                    **request.timing(),
                    "height": int(request.frames.shape[1]),
                    "width": int(request.frames.shape[2]),
                    "video_backend": None,
                }
                for request in requests
            ],
        }

    def _text(self, request: CaptionRequest) -> str:
        if request.system is None:
            return self._rendered(request.prompt, request, self._system_prompt)
        try:
            text = self._rendered(request.prompt, request, request.system)
        except TemplateError:
            text = ""
        if request.system in text:
            return text
        # Some templates refuse a system prompt, and others leave it out.
        return self._rendered(f"{request.system}\n\n{request.prompt}", request, None)

    def _rendered(self, prompt: str, request: CaptionRequest, system: str | None) -> str:
        first = [{"role": "system", "content": [{"type": "text", "text": system}]}]
        video = [{"type": "video"}] if len(request.frames) else []
        user = {"role": "user", "content": [*video, {"type": "text", "text": prompt}]}
        text: str = self._processor.apply_chat_template(
            [*(first if system is not None else []), user],
            tokenize=False,
            add_generation_prompt=True,
            **self._template,
        )
        return text


def _join(batches: Sequence[Mapping[str, Any]], *, padding: int) -> dict[str, Any]:
    """Return one batch of several, each of one video: rows padded on the left, frames in a row.

    `padding` is the token that shorter prompts are padded with.
    """

    def joined(name: str, values: list[torch.Tensor]) -> torch.Tensor:
        if name.startswith("pixel_values"):
            # (videos, frames, channels, height, width), or without the first.
            return torch.cat(values, dim=1 if values[0].dim() == 5 else 0)
        fill = padding if name == "input_ids" else 0
        rows = [value[0] for value in values]
        return pad_sequence(rows, batch_first=True, padding_value=fill, padding_side="left")

    return {name: joined(name, [batch[name] for batch in batches]) for name in batches[0]}

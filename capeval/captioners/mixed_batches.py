"""Batches of videos that differ in their numbers of frames.

Which classes of transformers can be given such a batch was tried with a tiny model of each: the
captions are those of the same videos alone. The tests keep one for each way. Classes that are in
neither set get videos of equal numbers of frames.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

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


def mixes_frame_counts(model_type: str) -> bool:
    """Return whether a model takes videos with different numbers of frames in one batch."""
    return model_type in PACKED or model_type in JOINED


def join(batches: Sequence[Mapping[str, Any]], *, padding: int) -> dict[str, Any]:
    """Return one batch of several, each of one video: rows padded on the left, frames in a row.

    `padding` is the token that shorter prompts are padded with.
    """
    longest = max(int(batch["input_ids"].shape[1]) for batch in batches)
    return {
        name: _joined(name, [batch[name] for batch in batches], longest, padding)
        for name in batches[0]
    }


def _joined(name: str, values: Sequence[torch.Tensor], longest: int, padding: int) -> torch.Tensor:
    if name.startswith("pixel_values"):
        # (videos, frames, channels, height, width), or without the first.
        return torch.cat([*values], dim=1 if values[0].dim() == 5 else 0)
    fill = padding if name == "input_ids" else 0
    padded = [
        torch.nn.functional.pad(value, (longest - value.shape[1], 0), value=fill)
        for value in values
    ]
    return torch.cat(padded)


def left_padded(rows: Sequence[Sequence[int]], padding: int) -> dict[str, torch.Tensor]:
    """Return `input_ids` and `attention_mask` of rows of token ids."""
    longest = max(len(row) for row in rows)
    return {
        "input_ids": torch.tensor([[padding] * (longest - len(row)) + list(row) for row in rows]),
        "attention_mask": torch.tensor(
            [[0] * (longest - len(row)) + [1] * len(row) for row in rows]
        ),
    }

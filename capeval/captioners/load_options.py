"""The options with which a model is loaded into this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypedDict

DEFAULT_MAX_NEW_TOKENS = 1024


class LoadOptions(TypedDict, total=False):
    """How a model is loaded and used; absent options have the checkpoint's values.

    - `revision`: a commit, tag or branch of the hub
    - `device`: auto, cuda, mps, cpu, or one of several ("cuda:1")
    - `dtype`: auto (bfloat16, or float32 on a CPU), bfloat16, float16 or float32
    - `attention`: transformers' attention, sdpa by default, or eager, flash_attention_2, …
    - `max_new_tokens`: tokens a caption may have; 1,024 by default, 2,048 in the preset tuna
    - `system_prompt`: replaces the chat template's own
    - `preset`: for LLaVA-Video, Qwen2-VL and Qwen2.5-VL, published (the default) or tuna
    - `generation`: changes to the checkpoint's decoding, such as `{"repetition_penalty": 1.0}`
    - `template`: arguments of the chat template, such as `{"enable_thinking": False}`
    - `serve`: the command that starts a server of it, named where it does not fit
    - `on_notice`: called with messages about what takes long
    """

    revision: str | None
    device: str
    dtype: str
    attention: str | None
    max_new_tokens: int | None
    system_prompt: str | None
    preset: str | None
    generation: Mapping[str, Any] | None
    template: Mapping[str, Any] | None
    serve: str | None
    on_notice: Callable[[str], None]

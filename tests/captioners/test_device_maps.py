"""Spreading models over several GPUs, tried with models of full size that have no weights."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from transformers import AutoModelForImageTextToText, Qwen2VLConfig

from capeval.captioners.device_maps import spread
from capeval.captioners.llava_video import (
    PRESETS,
    LlavaVideoForConditionalGeneration,
    build_config,
)
from tests.captioners import tiny

GIB = 2**30
SEVENTY_TWO = {
    "hidden_size": 8192,
    "intermediate_size": 29568,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
}


@pytest.fixture(scope="module", params=["llava-video", "qwen2-vl"])
def large(request: pytest.FixtureRequest) -> Any:
    """A model of 72 billion parameters on the meta device."""
    with torch.device("meta"):
        if request.param == "qwen2-vl":
            config = Qwen2VLConfig(text_config={"vocab_size": 152064, **SEVENTY_TWO})
            return AutoModelForImageTextToText.from_config(config)
        published = tiny.published_config(**SEVENTY_TWO, mm_hidden_size=1152, vocab_size=152064)
        config = build_config(published, model="m", preset=PRESETS["published"])
        return LlavaVideoForConditionalGeneration(config)


def gpu_of(name: str, parts: dict[str, int]) -> int:
    owners = [part for part in parts if name == part or name.startswith(f"{part}.") or not part]
    return parts[max(owners, key=len)]


def placed(model: Any, parts: dict[str, int]) -> Counter[int]:
    sizes: Counter[int] = Counter()
    for name, parameter in model.named_parameters():
        sizes[gpu_of(name, parts)] += 2 * parameter.numel()
    return sizes


@pytest.mark.parametrize("room", [[70, 70], [70, 70, 70, 70], [24, 70, 70]])
def test_each_gpu_gets_what_it_has_room_for(room: list[int], large: Any) -> None:
    limits = {gpu: size * GIB for gpu, size in enumerate(room)}
    parts = spread(large, limits, torch.bfloat16)
    assert parts is not None
    sizes = placed(large, parts)
    assert set(sizes) == set(limits)
    assert all(sizes[gpu] <= limits[gpu] for gpu in limits)
    # In proportion: none is full while another is empty.
    shares = [sizes[gpu] / limits[gpu] for gpu in limits]
    assert max(shares) - min(shares) < 0.2


def test_a_layer_is_never_split(large: Any) -> None:
    parts = spread(large, {0: 70 * GIB, 1: 70 * GIB, 2: 70 * GIB}, torch.bfloat16)
    assert parts is not None
    layers: dict[str, set[int]] = {}
    for name, _ in large.named_parameters():
        if ".layers." in name or ".blocks." in name:
            stem, _, rest = name.replace(".blocks.", ".layers.").rpartition(".layers.")
            layers.setdefault(f"{stem}.{rest.split('.')[0]}", set()).add(gpu_of(name, parts))
    assert len(layers) > 80
    assert all(len(gpus) == 1 for gpus in layers.values())


@pytest.mark.parametrize("room", [{0: 70}, {0: 60, 1: 60}, {0: 68, 1: 66}])
def test_what_does_not_fit_has_no_map(room: dict[int, int], large: Any) -> None:
    assert spread(large, {gpu: size * GIB for gpu, size in room.items()}, torch.bfloat16) is None

"""Spreading models over several GPUs, tried with models of full size that have no weights."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForImageTextToText, PreTrainedModel, Qwen2VLConfig

from capeval.captioners import loaded_model
from capeval.captioners.device_maps import spread
from capeval.captioners.llava_video import (
    PRESETS,
    LlavaVideoForConditionalGeneration,
    build_config,
)
from capeval.captioners.loading import load_model
from capeval.errors import UsageError
from capeval.local_models.checkpoint_size import CheckpointSize
from capeval.local_models.devices import Placement
from tests.captioners import tiny

Checkpoint = Callable[[str], Path]

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


@pytest.mark.parametrize(
    "family",
    ["llava-video", "llava-video-72b", "qwen2-vl", "internvl2", "tarsier", "longva", "pllava"],
)
def test_a_folder_is_loaded_with_its_map(
    family: str, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}

    def two_gpus(name: str, size: CheckpointSize, **_: Any) -> Placement:
        half = size.bytes(torch.float32) * 2 // 3
        return Placement(torch.device("cuda", 0), torch.float32, {0: half, 1: half})

    def remember(*_: Any, **arguments: Any) -> Any:
        seen.update(arguments)
        raise UsageError("no further")

    monkeypatch.setattr(loaded_model, "place", two_gpus)
    for model in (AutoModelForImageTextToText, PreTrainedModel):
        monkeypatch.setattr(model, "from_pretrained", remember)
    with pytest.raises(UsageError, match="no further"):
        load_model(str(checkpoint(family)), name="m")
    assert set(seen["device_map"].values()) == {0, 1}
    assert "max_memory" not in seen


def test_layers_that_do_not_fit_any_gpu_are_refused_with_the_line_of_the_server(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slivers(name: str, size: CheckpointSize, **_: Any) -> Placement:
        part = size.bytes(torch.float32) // 64
        return Placement(torch.device("cuda", 0), torch.float32, dict.fromkeys(range(64), part))

    monkeypatch.setattr(loaded_model, "place", slivers)
    monkeypatch.setattr(loaded_model, "free_memory", lambda _: 1000)
    with pytest.raises(UsageError, match=r"on 64 GPUs together, .*\(`vllm serve ORG/M`\)"):
        load_model(str(checkpoint("qwen2-vl")), name="m", serve="vllm serve ORG/M")


def test_packed_weights_are_placed_by_their_quantiser(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in checkpoint("qwen2-vl").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "gptq", "bits": 4, "group_size": 128}
    (tmp_path / "config.json").write_text(json.dumps(config))
    seen: dict[str, Any] = {}

    def remember(*_: Any, **arguments: Any) -> Any:
        seen.update(arguments)
        raise UsageError("no further")

    room = {0: 1000, 1: 2000}
    monkeypatch.setattr(
        loaded_model,
        "place",
        lambda *_, **__: Placement(torch.device("cuda", 0), torch.float16, room),
    )
    monkeypatch.setattr(AutoModelForImageTextToText, "from_pretrained", remember)
    with pytest.raises(UsageError, match="no further"):
        load_model(str(tmp_path), name="m")
    assert (seen["device_map"], seen["max_memory"]) == ("auto", room)

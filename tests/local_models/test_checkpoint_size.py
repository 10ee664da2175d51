"""The memory of quantised weights, counted as they are stored."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from capeval.captioners import loaded_model
from capeval.captioners.loading import load_model
from capeval.errors import UsageError
from capeval.local_models.checkpoint_size import checkpoint_size
from capeval.local_models.devices import place

Checkpoint = Callable[[str], Path]

AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False}
NF4 = {
    "quant_method": "bitsandbytes",
    "load_in_4bit": True,
    "load_in_8bit": False,
    "bnb_4bit_quant_type": "nf4",
}
INT8 = {"quant_method": "bitsandbytes", "load_in_8bit": True, "load_in_4bit": False}
FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}

ROWS = COLUMNS = 256


def packed(kind: str) -> dict[str, torch.Tensor]:
    """Return one layer of 256 x 256 as each format stores it, and one that is not quantised."""
    plain = {"embed_tokens.weight": torch.zeros(10, COLUMNS, dtype=torch.float16)}
    name = "layers.0.mlp.up_proj"
    match kind:
        case "awq" | "gptq":
            return plain | {
                f"{name}.qweight": torch.zeros(ROWS, COLUMNS // 8, dtype=torch.int32),
                f"{name}.qzeros": torch.zeros(ROWS // 128, COLUMNS // 8, dtype=torch.int32),
                f"{name}.scales": torch.zeros(ROWS // 128, COLUMNS, dtype=torch.float16),
            }
        case "nf4":
            return plain | {
                f"{name}.weight": torch.zeros(ROWS * COLUMNS // 2, 1, dtype=torch.uint8),
                f"{name}.weight.absmax": torch.zeros(ROWS * COLUMNS // 64, dtype=torch.uint8),
            }
        case "int8":
            return plain | {f"{name}.weight": torch.zeros(ROWS, COLUMNS, dtype=torch.int8)}
        case _:
            return plain | {f"{name}.weight": torch.zeros(ROWS, COLUMNS, dtype=torch.float8_e4m3fn)}


@pytest.mark.parametrize(
    ("kind", "config", "called", "expected"),
    [
        ("awq", AWQ, "awq, 4 bits", 10 * 256 * 2 + 256 * 32 * 4 + 2 * 32 * 4 + 2 * 256 * 2),
        ("gptq", GPTQ, "gptq, 4 bits", 10 * 256 * 2 + 256 * 32 * 4 + 2 * 32 * 4 + 2 * 256 * 2),
        ("nf4", NF4, "bitsandbytes, 4 bits", 10 * 256 * 2 + 256 * 128 + 256 * 4),
        ("int8", INT8, "bitsandbytes, 8 bits", 10 * 256 * 2 + 256 * 256),
        ("fp8", FP8, "fp8, 8 bits", 10 * 256 * 2 + 256 * 256),
    ],
)
@pytest.mark.parametrize("nested", [False, True])
def test_the_size_is_that_of_the_packed_tensors(
    kind: str, config: dict[str, Any], called: str, expected: int, nested: bool, tmp_path: Path
) -> None:
    save_file(packed(kind), tmp_path / "model.safetensors")
    published: dict[str, Any] = {"quantization_config": config}
    size = checkpoint_size(70_000, {"text_config": published} if nested else published, tmp_path)
    assert size.bytes(torch.bfloat16) == expected
    # What is not packed is loaded in the precision that was asked for.
    assert size.bytes(torch.float32) > expected
    assert size.precision(torch.bfloat16) == called


def test_the_files_of_an_index_are_counted_and_no_others(tmp_path: Path) -> None:
    parts = packed("awq")
    names = sorted(parts)
    for number, name in enumerate(names):
        save_file({name: parts[name]}, tmp_path / f"model-{number}.safetensors")
    save_file(parts, tmp_path / "another.safetensors")
    index = {"weight_map": {name: f"model-{n}.safetensors" for n, name in enumerate(names)}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    size = checkpoint_size(70_000, {"quantization_config": AWQ}, tmp_path)
    assert size.bytes(torch.float16) == sum(t.numel() * t.itemsize for t in parts.values())


@pytest.mark.parametrize("content", [b"", b"\xff" * 64, b"\x10" + bytes(7) + b'{"a": {"b": 1}} '])
def test_headers_that_cannot_be_read_leave_an_estimate(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    size = checkpoint_size(1_000_000, {"quantization_config": AWQ}, tmp_path)
    assert 500_000 < size.bytes(torch.bfloat16) < 1_000_000


def test_a_hub_models_headers_are_asked_for_before_its_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def metadata(model: str, revision: str | None) -> Any:
        asked.append((model, revision))
        tensor = SimpleNamespace(dtype="I32", shape=[1000, 10])
        return SimpleNamespace(files_metadata={"a": SimpleNamespace(tensors={"t": tensor})})

    monkeypatch.setattr("huggingface_hub.get_safetensors_metadata", metadata)
    published = {"quantization_config": AWQ}
    size = checkpoint_size(70_000, published, tmp_path, hub=("org/m", "c" * 40))
    assert size.bytes(torch.bfloat16) == 40_000
    assert asked == [("org/m", "c" * 40)]
    # What is not quantised needs no headers.
    assert (
        checkpoint_size(70_000, {}, tmp_path, hub=("org/m", None)).bytes(torch.float16) == 140_000
    )
    assert len(asked) == 1


def test_seventy_two_billion_in_four_bits_fit_where_bf16_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr("capeval.local_models.devices.free_memory", lambda _: 79 << 30)
    packed = checkpoint_size(72_700_000_000, {"quantization_config": GPTQ}, None)
    assert place("m", packed).device == torch.device("cuda", 0)
    whole = checkpoint_size(72_700_000_000, {}, None)
    with pytest.raises(UsageError, match=r"needs about 156 GiB \(bfloat16\) on cuda:0"):
        place("m", whole)


def test_a_quantised_folder_is_placed_by_its_packed_size(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = checkpoint("qwen2-vl")
    for file in source.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"quantization_config": AWQ}))
    tensors = load_file(tmp_path / "model.safetensors")
    save_file(tensors | packed("awq"), tmp_path / "model.safetensors", {"format": "pt"})
    seen: list[Any] = []

    def remember(name: str, size: Any, **_: Any) -> Any:
        seen.append(size)
        raise UsageError("no further")

    monkeypatch.setattr(loaded_model, "place", remember)
    with pytest.raises(UsageError, match="no further"):
        load_model(str(tmp_path), name="m")
    stored = {"I32": 256 * 32 + 2 * 32, "F16": 10 * 256 + 2 * 256}
    assert {kind: seen[0].stored[kind] for kind in stored} == stored
    # Without the package that unpacks them, one line says which it is.
    monkeypatch.undo()
    with pytest.raises(UsageError, match=r"cannot be loaded: .*gptqmodel"):
        load_model(str(tmp_path), name="m", device="cpu")

"""Folders of models that are damaged or hostile: one line, and nothing is loaded."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from capeval.captioners.loading import load_model
from capeval.errors import UsageError

Checkpoint = Callable[[str], Path]


def _weights(header: object, content: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + content


def _pair(shape: list[int]) -> dict[str, Any]:
    return {"dtype": "F32", "shape": shape, "data_offsets": [0, 8]}


DAMAGED: dict[str, tuple[str, bytes]] = {
    "no weights": ("model.safetensors", b""),
    "half a length": ("model.safetensors", b"\1\2"),
    "an absurd length": ("model.safetensors", b"\xff" * 8 + b"{}"),
    "no table": ("model.safetensors", _weights([])),
    "nested without end": ("model.safetensors", _weights(b'{"a":' + b"[" * 5000)),
    "overlapping": ("model.safetensors", _weights({"a": _pair([2]), "b": _pair([2])}, bytes(8))),
    "a huge shape": ("model.safetensors", _weights({"a": _pair([2**62, 2**62])}, bytes(8))),
    "deep config": ("config.json", b'{"a":' * 100_000),
    "types of config": ("config.json", b'{"model_type": {"a": 1}, "architectures": 5}'),
    "list of generation": ("generation_config.json", b"[]"),
    "half of generation": ("generation_config.json", b'{"eos_token_id": 1,'),
    "types of generation": ("generation_config.json", b'{"eos_token_id": [[1]]}'),
    "list of tokens": ("tokenizer.json", b"[]"),
    "no tokens": ("tokenizer.json", b""),
    "types of tokens": ("tokenizer_config.json", b'{"eos_token": [1]}'),
}


def _refusal(folder: Path) -> str:
    with pytest.raises(UsageError) as refused:
        load_model(str(folder), name="m", device="cpu")
    message = str(refused.value)
    assert "\n" not in message
    assert "\x1b" not in message
    return message


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(params=["qwen2-vl", "llava-video"])
def folder(request: pytest.FixtureRequest, checkpoint: Checkpoint, tmp_path: Path) -> Path:
    return Path(shutil.copytree(checkpoint(request.param), tmp_path / "model"))


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_files_are_refused_in_one_line(folder: Path, case: str) -> None:
    name, content = DAMAGED[case]
    (folder / name).write_bytes(content)
    assert "model" in _refusal(folder)


@pytest.mark.parametrize("target", [5, None, "/etc/passwd", {}, "../config.json"])
def test_an_index_of_anything_else_is_refused(folder: Path, target: object) -> None:
    (folder / "model.safetensors").unlink()
    index = {"metadata": {}, "weight_map": {"a": target}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    _refusal(folder)


def test_pickled_code_is_not_advertised(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"garbage")
    assert "weights_only" not in _refusal(folder)


@pytest.mark.parametrize("value", [1_000_000, 10**18])
def test_absurd_numbers_of_layers_are_refused_at_once(folder: Path, value: int) -> None:
    config = json.loads((folder / "config.json").read_text())
    part = config.get("text_config", config)
    part["num_hidden_layers"] = value
    (folder / "config.json").write_text(json.dumps(config))
    assert f"num_hidden_layers: {value} is above" in _refusal(folder)


@pytest.mark.parametrize("value", [-1, 0, 10**18, "x", 1.5, [1], True])
@pytest.mark.parametrize("field", ["hidden_size", "num_attention_heads", "vocab_size"])
def test_impossible_sizes_are_refused(folder: Path, field: str, value: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    config.get("text_config", config)[field] = value
    (folder / "config.json").write_text(json.dumps(config))
    _refusal(folder)


def test_a_part_of_the_layers_is_not_loaded(checkpoint: Checkpoint, tmp_path: Path) -> None:
    model = Path(shutil.copytree(checkpoint("llava-video"), tmp_path / "model"))
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 1}))
    assert "more layers than its config.json states" in _refusal(model)


def test_an_adapter_is_refused(checkpoint: Checkpoint, tmp_path: Path) -> None:
    model = Path(shutil.copytree(checkpoint("qwen2-vl"), tmp_path / "model"))
    (model / "adapter_config.json").write_text("{}")
    assert "merge it first" in _refusal(model)


@pytest.mark.parametrize("name", ["/etc/x.safetensors", "below/x.safetensors", 5])
def test_weights_named_elsewhere_by_the_config_are_refused(
    checkpoint: Checkpoint, tmp_path: Path, name: object
) -> None:
    model = Path(shutil.copytree(checkpoint("qwen2-vl"), tmp_path / "model"))
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "transformers_weights": name}))
    assert "transformers_weights" in _refusal(model)

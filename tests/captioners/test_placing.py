"""Where a model is loaded: over several GPUs, and with packed weights."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from capeval.captioners import loading
from capeval.errors import UsageError
from capeval.local_models.checkpoint import CheckpointSize, find_checkpoint
from capeval.local_models.devices import Placement
from tests.captioners import tiny

Checkpoint = Callable[[str], Path]

AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"}


@pytest.fixture
def quantised(checkpoint: Checkpoint, tmp_path: Path) -> Path:
    """A tiny Qwen2-VL that says that its weights are packed."""
    folder = Path(shutil.copytree(checkpoint("qwen2-vl"), tmp_path / "model"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"quantization_config": AWQ}))
    return folder


@pytest.mark.parametrize("family", ["llava-video", "qwen2-vl"])
@pytest.mark.parametrize(("least", "device_map"), [(10**9, "auto"), (1000, "sequential")])
def test_a_model_that_fits_on_no_gpu_is_loaded_by_accelerates_map(
    family: str,
    least: int,
    device_map: str,
    checkpoint: Checkpoint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: dict[str, Any] = {}
    room = {0: least, 1: 2 * 10**9}

    def remember(*_: Any, **arguments: Any) -> Any:
        seen.update(arguments)
        raise UsageError("no further")

    gpu = Placement(torch.device("cuda", 0), torch.float32, room)
    monkeypatch.setattr(loading, "place", lambda *_, **__: gpu)
    monkeypatch.setattr(PreTrainedModel, "from_pretrained", remember)
    with pytest.raises(UsageError, match="no further"):
        tiny.load(checkpoint(family))
    assert (seen["device_map"], seen["max_memory"]) == (device_map, room)


def test_packed_weights_count_as_they_are_stored(
    quantised: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[CheckpointSize] = []

    def remember(_: str, size: CheckpointSize, **__: Any) -> Any:
        seen.append(size)
        raise UsageError("no further")

    monkeypatch.setattr(loading, "place", remember)
    with pytest.raises(UsageError, match="no further"):
        tiny.load(quantised)
    (size,) = seen
    assert size.precision(torch.bfloat16) == "awq"
    assert size.bytes(torch.bfloat16) == (quantised / "model.safetensors").stat().st_size
    # Without the package that unpacks them, one line says which it is.
    monkeypatch.undo()
    with pytest.raises(UsageError, match=r"cannot be loaded: .*gptqmodel"):
        tiny.load(quantised)


def test_the_hub_is_asked_for_the_size_before_its_weights_are_downloaded(
    quantised: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = "c" * 40
    snapshot = tmp_path / "models--org--m" / "snapshots" / commit
    snapshot.mkdir(parents=True)
    shutil.copy(quantised / "config.json", snapshot)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    source = find_checkpoint("org/m", commit)
    asked: list[Any] = []

    class File:
        def __init__(self, name: str, size: int) -> None:
            self.rfilename, self.size = name, size

    class Info:
        siblings = (File("a.safetensors", 4000), File("b.safetensors", 2), File("x.bin", 9))

    def info(model: str, **more: Any) -> Any:
        asked.append((model, more))
        return Info

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("capeval.local_models.checkpoint.model_info", info)
    assert source.size(torch.nn.Linear(2, 2)).bytes(torch.bfloat16) == 4002
    assert asked == [("org/m", {"revision": commit, "files_metadata": True})]

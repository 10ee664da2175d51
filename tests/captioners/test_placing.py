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
from capeval.local_models.devices import ModelSize, Placement
from tests.captioners import tiny

Checkpoint = Callable[[str], Path]

AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"}


@pytest.mark.parametrize("family", ["llava-video", "qwen2-vl"])
def test_a_model_that_fits_on_no_gpu_is_loaded_by_accelerates_map(
    family: str, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}
    room = {0: 10**9, 1: 2 * 10**9}

    def remember(*_: Any, **arguments: Any) -> Any:
        seen.update(arguments)
        raise UsageError("no further")

    gpu = Placement(torch.device("cuda", 0), torch.float32, room)
    monkeypatch.setattr(loading, "place", lambda *_, **__: gpu)
    monkeypatch.setattr(PreTrainedModel, "from_pretrained", remember)
    with pytest.raises(UsageError, match="no further"):
        tiny.load(checkpoint(family))
    assert (seen["device_map"], seen["max_memory"]) == ("auto", room)


def test_packed_weights_count_as_they_are_packed(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(checkpoint("qwen2-vl"), tmp_path / "model"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"quantization_config": AWQ}))
    seen: list[ModelSize] = []

    def remember(_: str, size: ModelSize, **__: Any) -> Any:
        seen.append(size)
        raise UsageError("no further")

    monkeypatch.setattr(loading, "place", remember)
    with pytest.raises(UsageError, match="no further"):
        tiny.load(folder)
    (size,) = seen
    assert size.needed(torch.bfloat16).endswith(" GiB (awq)")
    assert size.bytes(torch.bfloat16) == size.parameters // 2
    # Without the package that unpacks them, one line says which it is.
    monkeypatch.undo()
    with pytest.raises(UsageError, match=r"cannot be loaded: .*gptqmodel"):
        tiny.load(folder)

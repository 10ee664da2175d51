"""Folders of models that are damaged: one line, and nothing is loaded."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from capeval.errors import UsageError
from tests.captioners import tiny

Checkpoint = Callable[[str], Path]


DAMAGED = {
    "no weights": ("model.safetensors", b""),
    "half of the weights": ("model.safetensors", b"\x10\0\0\0\0\0\0\0{"),
    "half of the tokens": ("tokenizer.json", b'{"version": '),
}


def _refusal(folder: Path) -> str:
    with pytest.raises(UsageError) as refused:
        tiny.load(folder)
    message = str(refused.value)
    assert "\n" not in message
    return message


@pytest.fixture(params=["qwen2-vl", "llava-video"])
def folder(request: pytest.FixtureRequest, checkpoint: Checkpoint, tmp_path: Path) -> Path:
    return Path(shutil.copytree(checkpoint(request.param), tmp_path / "model"))


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_files_are_refused_in_one_line(folder: Path, case: str) -> None:
    name, content = DAMAGED[case]
    (folder / name).write_bytes(content)
    assert "model" in _refusal(folder)


def test_a_part_of_the_layers_is_not_loaded(checkpoint: Checkpoint, tmp_path: Path) -> None:
    model = Path(shutil.copytree(checkpoint("llava-video"), tmp_path / "model"))
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 1}))
    assert "more layers than its config.json states" in _refusal(model)


def test_an_adapter_is_refused(checkpoint: Checkpoint, tmp_path: Path) -> None:
    model = Path(shutil.copytree(checkpoint("qwen2-vl"), tmp_path / "model"))
    (model / "adapter_config.json").write_text("{}")
    assert "merge it first" in _refusal(model)

"""Which weights a folder or a hub id means."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from capeval.local_models import weights_identity
from capeval.local_models.weights_identity import folder_hash, model_files
from tests.captioners import tiny

Checkpoint = Callable[[str], Path]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "model"
    made.mkdir()
    for name in (
        *("config.json", "generation_config.json", "preprocessor_config.json", "merges.txt"),
        *("tokenizer.json", "chat_template.jinja", "model-1.safetensors", "model-2.safetensors"),
        *("README.md", "trainer_state.json", "pytorch_model.bin", ".hidden.json"),
        "model.safetensors.index.json",
    ):
        (made / name).write_text(f"content of {name}")
    return made


def test_everything_that_is_loaded_counts_and_nothing_else(folder: Path) -> None:
    before = folder_hash(folder)
    used = {path.name for path in model_files(folder)}
    assert used == {
        *("config.json", "generation_config.json", "preprocessor_config.json", "merges.txt"),
        *("tokenizer.json", "chat_template.jinja", "model-1.safetensors", "model-2.safetensors"),
        "model.safetensors.index.json",
    }
    for path in sorted(folder.iterdir()):
        content = path.read_text()
        path.write_text(f"{content}!")
        assert (folder_hash(folder) != before) == (path.name in used), path.name
        path.write_text(content)
        assert folder_hash(folder) == before
    (folder / "model-1.safetensors").rename(folder / "model-3.safetensors")
    assert folder_hash(folder) != before


def test_large_weights_are_announced(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights_identity, "_WORTH_A_NOTICE", 10)
    told: list[str] = []
    folder_hash(folder, on_notice=told.append)
    assert len(told) == 1
    assert told[0].endswith("to identify them")


def test_a_folders_weights_are_a_hash(checkpoint: Checkpoint, tmp_path: Path) -> None:
    folder = tmp_path / "llava"
    folder.mkdir()
    for file in checkpoint("llava-video").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    loaded = tiny.load(folder)
    weights = loaded.settings["weights"]
    assert weights == {"sha256": folder_hash(folder)}
    assert loaded.revision is None
    data = bytearray((folder / "model.safetensors").read_bytes())
    data[-5] ^= 1
    time.sleep(0.01)
    (folder / "model.safetensors").write_bytes(data)
    again = tiny.load(folder).settings["weights"]
    assert again["sha256"] != weights["sha256"]


@pytest.mark.parametrize("family", ["llava-video", "qwen2-vl"])
def test_a_hub_models_weights_are_its_commit(
    family: str, checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    commits = ["a" * 40, "b" * 40]
    for commit in commits:
        snapshot = tmp_path / "models--org--m" / "snapshots" / commit
        snapshot.mkdir(parents=True)
        for file in checkpoint(family).iterdir():
            (snapshot / file.name).write_bytes(file.read_bytes())
    refs = tmp_path / "models--org--m" / "refs"
    refs.mkdir()
    for commit in commits:
        (refs / "main").write_text(commit)
        loaded = tiny.load("org/m")
        assert (loaded.settings["weights"], loaded.revision) == ("org/m", commit)
    pinned = tiny.load("org/m", revision=commits[0])
    assert pinned.revision == commits[0]
    assert json.dumps(dict(pinned.settings))


def test_weights_beside_safetensors_of_another_name_count(folder: Path) -> None:
    # transformers then loads pytorch_model.bin.
    (folder / "model.safetensors.index.json").unlink()
    before = folder_hash(folder)
    (folder / "pytorch_model.bin").write_text("others")
    assert folder_hash(folder) != before

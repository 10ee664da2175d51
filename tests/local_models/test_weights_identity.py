"""Which weights a folder or a hub id means."""

from __future__ import annotations

from pathlib import Path

import pytest

from capeval.local_models import checkpoint
from capeval.local_models.checkpoint import folder_hash, model_files
from tests.captioners import tiny
from tests.captioners.tiny import Checkpoint, Load


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
    monkeypatch.setattr(checkpoint, "_WORTH_A_NOTICE", 10)
    told: list[str] = []
    folder_hash(folder, on_notice=told.append)
    assert len(told) == 1
    assert told[0].endswith("to identify them")


def test_a_folders_weights_are_a_hash(checkpoint: Checkpoint, load: Load) -> None:
    loaded = load("qwen2-vl")
    assert loaded.settings["weights"] == {"sha256": folder_hash(checkpoint("qwen2-vl"))}
    assert loaded.revision is None


def test_a_hub_models_weights_are_its_commit(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    model, commits = tmp_path / "models--org--m", ["a" * 40, "b" * 40]
    (model / "snapshots").mkdir(parents=True)
    for commit in commits:
        (model / "snapshots" / commit).symlink_to(checkpoint("qwen2-vl"))
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text(commits[1])
    newest, pinned = tiny.load("org/m"), tiny.load("org/m", revision=commits[0])
    assert [one.revision for one in (pinned, newest)] == commits
    assert [one.settings["weights"] for one in (pinned, newest)] == ["org/m"] * 2


def test_weights_beside_safetensors_of_another_name_count(folder: Path) -> None:
    # transformers then loads pytorch_model.bin.
    (folder / "model.safetensors.index.json").unlink()
    before = folder_hash(folder)
    (folder / "pytorch_model.bin").write_text("others")
    assert folder_hash(folder) != before

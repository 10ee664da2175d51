"""Which weights a folder or a hub id means."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from capeval.captioners.loading import load_model
from capeval.errors import UsageError
from capeval.local_models import weights_identity
from capeval.local_models.weights_identity import folder_hash, model_files

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


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which the names of hashed files are added."""
    seen: list[str] = []
    original = hashlib.file_digest

    def digest(file: Any, name: str) -> Any:
        seen.append(Path(file.name).name)
        return original(file, name)

    monkeypatch.setattr("hashlib.file_digest", digest)
    return seen


def test_everything_that_is_loaded_counts_and_nothing_else(folder: Path, cache: Path) -> None:
    before = folder_hash(folder, cache=cache)
    used = {path.name for path in model_files(folder)}
    assert used == {
        *("config.json", "generation_config.json", "preprocessor_config.json", "merges.txt"),
        *("tokenizer.json", "chat_template.jinja", "model-1.safetensors", "model-2.safetensors"),
        "model.safetensors.index.json",
    }
    for path in sorted(folder.iterdir()):
        content = path.read_text()
        path.write_text(f"{content}!")
        assert (folder_hash(folder, cache=cache) != before) == (path.name in used), path.name
        path.write_text(content)
        assert folder_hash(folder, cache=cache) == before
    (folder / "model-1.safetensors").rename(folder / "model-3.safetensors")
    assert folder_hash(folder, cache=cache) != before


def test_a_file_is_read_once(folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = reads(monkeypatch)
    first = folder_hash(folder, cache=cache)
    assert len(seen) == 9
    seen.clear()
    assert folder_hash(folder, cache=cache) == first
    assert seen == []
    # A copy elsewhere has the same hash.
    copy = folder.with_name("copy")
    copy.mkdir()
    for path in model_files(folder):
        (copy / path.name).write_bytes(path.read_bytes())
    assert folder_hash(copy, cache=cache) == first


def test_a_replaced_file_of_equal_size_and_time_is_noticed(folder: Path, cache: Path) -> None:
    first = folder_hash(folder, cache=cache)
    file = folder / "model-1.safetensors"
    state = file.stat()
    file.with_name("new").write_text("x" * state.st_size)
    os.utime(file.with_name("new"), ns=(state.st_atime_ns, state.st_mtime_ns))
    file.with_name("new").replace(file)
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (state.st_size, state.st_mtime_ns)
    assert folder_hash(folder, cache=cache) != first


def test_a_link_that_leads_elsewhere_is_noticed(folder: Path, cache: Path) -> None:
    linked = folder.with_name("linked")
    linked.mkdir()
    for path in model_files(folder):
        (linked / path.name).symlink_to(path)
    assert folder_hash(linked, cache=cache) == folder_hash(folder, cache=cache)
    other = folder.with_name("other.safetensors")
    other.write_text("other weights")
    (linked / "model-1.safetensors").unlink()
    (linked / "model-1.safetensors").symlink_to(other)
    assert folder_hash(linked, cache=cache) != folder_hash(folder, cache=cache)


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b"null", b'{"sha256": 3}', b"\xff\xfe", b'{"sha256": "ab"}']
)
def test_a_damaged_cache_is_ignored(damage: bytes, folder: Path, cache: Path) -> None:
    first = folder_hash(folder, cache=cache)
    for entry in cache.iterdir():
        entry.write_bytes(damage)
    assert folder_hash(folder, cache=cache) == first
    assert folder_hash(folder, cache=cache) == first


def test_a_hash_of_another_file_is_not_believed(folder: Path, cache: Path) -> None:
    first = folder_hash(folder, cache=cache)
    entries = sorted(cache.iterdir())
    contents = [entry.read_bytes() for entry in entries]
    for entry, content in zip(entries, contents[1:] + contents[:1], strict=True):
        entry.write_bytes(content)
    assert folder_hash(folder, cache=cache) == first


def test_without_a_place_for_the_cache_it_is_read_each_time(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    first = folder_hash(folder, cache=tmp_path / "file")
    assert folder_hash(folder, cache=tmp_path / "file") == first


def test_several_processes_agree(folder: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; "
        "from capeval.local_models.weights_identity import folder_hash; "
        "print(folder_hash(Path(sys.argv[1])))"
    )
    (folder / "model-1.safetensors").write_bytes(bytes(20_000_000))
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "home")}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(folder)],
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for _ in range(4)
    ]
    outputs = {process.communicate(timeout=60)[0] for process in started}
    assert outputs == {f"{folder_hash(folder, cache=tmp_path / 'own')}\n"}
    assert not list((tmp_path / "home").rglob("*.tmp"))


def test_large_weights_are_announced(
    folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights_identity, "_WORTH_A_NOTICE", 10)
    told: list[str] = []
    folder_hash(folder, cache=cache, on_notice=told.append)
    folder_hash(folder, cache=cache, on_notice=told.append)
    assert len(told) == 1
    assert "to identify them; this is done once for each file" in told[0]


def test_a_file_that_cannot_be_read_is_one_line(folder: Path, cache: Path) -> None:
    (folder / "model-1.safetensors").chmod(0)
    if os.access(folder / "model-1.safetensors", os.R_OK):
        pytest.skip("this user may read everything")
    with pytest.raises(UsageError, match=r"model-1\.safetensors: cannot be read"):
        folder_hash(folder, cache=cache)


def test_a_folders_weights_are_a_hash(checkpoint: Checkpoint, tmp_path: Path) -> None:
    folder = tmp_path / "llava"
    folder.mkdir()
    for file in checkpoint("llava-video").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    loaded = load_model(str(folder), name="m", device="cpu")
    weights = loaded.settings["weights"]
    assert weights == {"folder": "llava", "sha256": folder_hash(folder)}
    assert loaded.revision is None
    data = bytearray((folder / "model.safetensors").read_bytes())
    data[-5] ^= 1
    time.sleep(0.01)
    (folder / "model.safetensors").write_bytes(data)
    again = load_model(str(folder), name="m", device="cpu").settings["weights"]
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
        loaded = load_model("org/m", name="m", device="cpu")
        assert (loaded.settings["weights"], loaded.revision) == ("org/m", commit)
    pinned = load_model("org/m", name="m", device="cpu", revision=commits[0])
    assert pinned.revision == commits[0]
    assert json.dumps(dict(pinned.settings))


def test_weights_beside_safetensors_of_another_name_count(folder: Path, cache: Path) -> None:
    # transformers then loads pytorch_model.bin.
    (folder / "model.safetensors.index.json").unlink()
    before = folder_hash(folder, cache=cache)
    (folder / "pytorch_model.bin").write_text("others")
    assert folder_hash(folder, cache=cache) != before


def test_weights_in_a_subfolder_count(folder: Path, cache: Path) -> None:
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "below/x.safetensors"}}))
    (folder / "below").mkdir()
    (folder / "below" / "x.safetensors").write_text("some")
    before = folder_hash(folder, cache=cache)
    (folder / "below" / "x.safetensors").write_text("others")
    assert folder_hash(folder, cache=cache) != before


@pytest.mark.parametrize("name", ["/etc/passwd", "../x.safetensors", "a/../../x", 5, None, ""])
def test_an_index_that_names_a_file_elsewhere_is_refused(
    folder: Path, cache: Path, name: object
) -> None:
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": name}}))
    with pytest.raises(UsageError, match=r"weight_map: .* is not a file in its folder"):
        folder_hash(folder, cache=cache)


def test_names_that_are_not_utf_8_count(folder: Path, cache: Path) -> None:
    before = folder_hash(folder, cache=cache)
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.json")).write_text("{}")
    assert folder_hash(folder, cache=cache) != before


@pytest.mark.parametrize("name", ["config.json", "model-1.safetensors", "tokenizer.json"])
def test_a_pipe_is_refused_and_not_waited_for(folder: Path, name: str) -> None:
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(UsageError, match=f"{name}: is not a regular file"):
        load_model(str(folder), name="m")


def test_weights_that_are_replaced_while_they_are_loaded_are_refused(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "model"
    shutil.copytree(checkpoint("qwen2-vl"), model)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    original = weights_identity.folder_hash

    def replacing(folder: Path, **more: Any) -> str:
        found = original(folder, **more)
        weights = folder / "model.safetensors"
        weights.with_name("new").write_bytes(weights.read_bytes())
        weights.with_name("new").replace(weights)
        return found

    monkeypatch.setattr("capeval.local_models.checkpoint.folder_hash", replacing)
    with pytest.raises(UsageError, match="was changed while it was loaded"):
        load_model(str(model), name="m", device="cpu")

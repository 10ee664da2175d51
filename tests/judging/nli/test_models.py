"""Which models can judge: the order of their labels, and what is refused in one line."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from capeval.errors import MissingExtra, UsageError
from capeval.judging.nli import open_nli
from capeval.judging.nli.cross_encoder import CrossEncoder, read_labels
from capeval.judging.registry import load_judge
from tests.judging.nli.conftest import Checkpoint
from tests.judging.nli.tiny_nli import edit_config

MEANS = {"entailment": "entailment", "neutral": "lack", "contradiction": "contradiction"}


@pytest.mark.parametrize("order", list(permutations(MEANS)), ids="-".join)
def test_the_order_of_labels_is_that_of_their_names(order: tuple[str, ...]) -> None:
    numbered = [*enumerate(map(str.upper, order))]
    for names in (numbered, numbered[::-1]):
        assert read_labels("m", dict(names)) == tuple(MEANS[name] for name in order)


@pytest.mark.parametrize(
    "labels",
    [
        {0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2"},
        {0: "entailment", 1: "not_entailment"},
        {0: "entailment", 1: "neutral", 2: "entailment"},
        {0: "entailment", 1: "neutral", 2: "contradiction", 3: "other"},
        {1: "entailment", 2: "neutral", 3: "contradiction"},
        {0: "x\n\x1b[2J", 1: "y"},
        {},
    ],
    ids=str,
)
def test_other_labels_are_refused(labels: dict[int, str]) -> None:
    with pytest.raises(UsageError, match="not entailment, neutral and contradiction") as refused:
        read_labels("./m", labels)
    assert str(refused.value).startswith("./m: ")
    assert str(refused.value).isprintable()


def _drop(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).unlink()


def _write(name: str, text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(text, encoding="utf-8")


def _edit(**changes: Any) -> Callable[[Path], object]:
    return lambda folder: edit_config(folder, **changes)


def _without(part: str) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        weights = load_file(folder / "model.safetensors")
        kept = {name: value for name, value in weights.items() if part not in name}
        save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})

    return change


def _own_code(folder: Path) -> None:
    (folder / "evil.py").write_text("raise SystemExit(7)", encoding="utf-8")
    named = {"AutoModelForSequenceClassification": "evil.Model", "AutoConfig": "evil.Config"}
    edit_config(folder, auto_map=named, model_type="evil")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(_drop("config.json"), "config.json", id="no config"),
        pytest.param(_write("config.json", "{"), "cannot be loaded", id="torn config"),
        pytest.param(_edit(id2label=None, label2id=None), "if the labels have no", id="no labels"),
        pytest.param(_edit(model_type="clip"), "cannot be loaded", id="of another family"),
        pytest.param(_edit(hidden_size=48), "cannot be loaded", id="of another shape"),
        pytest.param(_own_code, "cannot be loaded", id="code of its own"),
        pytest.param(_drop("tokenizer.json"), "tokenizer", id="no tokenizer"),
        pytest.param(_drop("model.safetensors"), "cannot be loaded", id="no weights"),
        pytest.param(_write("model.safetensors", "x" * 99), "cannot be loaded", id="torn weights"),
        pytest.param(_without("classifier"), "lacks 2 tensors, such as classifier", id="no head"),
        pytest.param(_without("layer.1."), "tensors, such as deberta.encoder", id="no layer"),
    ],
)
def test_a_model_that_cannot_judge_ends_in_one_line(
    checkpoint: Checkpoint, tmp_path: Path, change: Callable[[Path], object], expected: str
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(checkpoint("deberta"), folder)
    change(folder)
    with pytest.raises(UsageError) as refused:
        CrossEncoder(str(folder), device="cpu", dtype="float32").logits([{"input_ids": [2, 3]}])
    message = str(refused.value)
    assert expected in message
    assert message.startswith(str(folder))
    assert "\n" not in message


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nli:./nothing", '"./nothing" is neither a folder here nor a model of the hub'),
        ("nli:nothing", '"nothing" is neither a folder here nor a model of the hub'),
        ("nli:a/b/c", "neither a folder here nor a model of the hub"),
        ("nli:", "name a model after the colon, or write nli"),
        ("nli:some-org/some-model", "the hub cannot be reached"),
    ],
)
def test_a_name_without_a_model_ends_in_one_line(name: str, expected: str) -> None:
    with pytest.raises(UsageError) as refused:
        load_judge(name)
    assert expected in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtra, match=r"needs transformers .*pip install '\.\[nli\]'"):
        load_judge("nli")


def test_the_identity_has_everything_that_decides_a_verdict(
    checkpoint: Checkpoint, tmp_path: Path
) -> None:
    def identity(folder: Path, dtype: str = "float32") -> tuple[str, ...]:
        return open_nli(str(folder), device="cpu", dtype=dtype).identity

    first = identity(checkpoint("deberta"))
    for part in ("nli-1", "float32", "windows of 64 tokens", "lexical-2", "snowballstemmer 3"):
        assert part in "|".join(first)
    assert identity(checkpoint("deberta"), "bfloat16") != first
    # The same files elsewhere are the same weights; others under the same name are not.
    copy = tmp_path / "a" / "deberta"
    shutil.copytree(checkpoint("deberta"), copy)
    assert identity(copy) == first
    config = json.loads((copy / "config.json").read_text(encoding="utf-8"))
    edit_config(copy, id2label=dict(enumerate(config["id2label"].values())), note="other")
    assert identity(copy) != first


def test_a_model_of_the_hub_is_known_by_its_commit(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    repository = tmp_path / "models--org--m"
    for kind, commit in (("deberta", "1" * 40), ("modernbert", "2" * 40)):
        shutil.copytree(checkpoint(kind), repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("2" * 40)
    newest = open_nli("org/m", device="cpu", dtype="float32")
    older = open_nli("org/m", device="cpu", dtype="float32", revision="1" * 40)
    assert newest.name == older.name == "nli:org/m"
    assert f"weights {'2' * 40}" in newest.identity
    assert f"weights {'1' * 40}" in older.identity

"""Models that cannot judge end in one line that says why."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from capeval.errors import MissingExtra, UsageError
from capeval.judging.nli import open_nli
from capeval.judging.registry import is_registered, load_judge
from tests.captioners.published import SENTENCEPIECE
from tests.judging.nli.tiny_nli import edit_config, tokenizer

Checkpoint = Callable[[str], Path]


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


def _tokenizer(**options: Any) -> Callable[[Path], object]:
    return lambda folder: tokenizer(**options).save_pretrained(folder)


def _edit_tokenizer(**changes: Any) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        path = folder / "tokenizer.json"
        path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | changes), "utf-8")

    return change


def _larger_vocabulary(folder: Path) -> None:
    made = tokenizer()
    made.add_tokens([f"more{number}" for number in range(200)])
    made.save_pretrained(folder)


def _only_sentencepiece(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    shutil.copy(SENTENCEPIECE / "plain.model", folder / "spm.model")
    config = json.dumps({"tokenizer_class": "DebertaV2Tokenizer"})
    (folder / "tokenizer_config.json").write_text(config, encoding="utf-8")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param(_drop("config.json"), "config.json", id="no config"),
        pytest.param(_write("config.json", "{"), "cannot be loaded", id="torn config"),
        pytest.param(_write("config.json", "[]"), "is not an object", id="config is a list"),
        pytest.param(
            _edit(id2label=None, label2id=None), "config.json has no id2label", id="no labels"
        ),
        pytest.param(
            _edit(id2label={"0": "LABEL_0", "1": "LABEL_1"}),
            "names its labels",
            id="unnamed labels",
        ),
        pytest.param(
            _edit(id2label={"0": "not_entailment", "1": "entailment"}),
            "a judge must tell what a caption contradicts from what it lacks",
            id="binary",
        ),
        pytest.param(
            _edit(architectures=["DebertaV2Model"]),
            'is not a sequence classifier, but "DebertaV2Model"',
            id="no classifier",
        ),
        pytest.param(
            _edit(label2id={"Contradiction": 2, "entailment": 0, "neutral": 1}),
            "has one order of labels in id2label and another in label2id",
            id="labels in two orders",
        ),
        pytest.param(
            _edit_tokenizer(post_processor=None),
            "its tokenizer puts nothing between premise and hypothesis",
            id="no separator",
        ),
        pytest.param(_edit(architectures=None), "is not a sequence classifier", id="of no kind"),
        pytest.param(_edit(architectures=7), "is not a sequence classifier", id="kind is a number"),
        pytest.param(_edit(model_type="hhem-v2"), "cannot be loaded", id="code of its own"),
        pytest.param(_edit(model_type="clip"), "cannot be loaded", id="of another family"),
        pytest.param(
            _edit(quantization_config={"quant_method": "awq"}), "quantised", id="quantised"
        ),
        pytest.param(_edit(num_hidden_layers=10**6), "is above 10000", id="absurd"),
        pytest.param(_edit(hidden_size=48), "cannot be loaded", id="of another shape"),
        pytest.param(_edit(max_position_embeddings=10), "reads only 10 tokens", id="reads nothing"),
        pytest.param(
            _write("adapter_config.json", "{}"),
            "has an adapter (adapter_config.json)",
            id="adapter",
        ),
        pytest.param(_drop("tokenizer.json"), "tokenizer", id="no tokenizer"),
        pytest.param(_only_sentencepiece, "has no tokenizer.json; to read its", id="sentencepiece"),
        pytest.param(_write("tokenizer.json", "{}"), "cannot be loaded", id="empty tokenizer"),
        pytest.param(_tokenizer(pads=False), "has no padding token", id="no padding"),
        pytest.param(_larger_vocabulary, "they are not of one model", id="tokenizer of another"),
        pytest.param(_drop("model.safetensors"), "cannot be loaded", id="no weights"),
        pytest.param(_write("model.safetensors", "x" * 99), "cannot be loaded", id="torn weights"),
        pytest.param(_without("classifier"), "lacks 2 tensors, such as classifier", id="no head"),
        pytest.param(_without("layer.1."), "tensors, such as deberta.encoder", id="no layer"),
    ],
)
def test_a_malformed_model_ends_in_one_line(
    checkpoint: Checkpoint, tmp_path: Path, change: Callable[[Path], object], told: str
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(checkpoint("deberta"), folder)
    change(folder)
    with pytest.raises(UsageError) as refused:
        open_nli(str(folder), device="cpu", dtype="float32")._encoder.checkpoint.load()
    message = str(refused.value)
    assert told in message
    assert message.startswith(str(folder))
    assert "\n" not in message
    assert len(message) < 600


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nli:./nothing", '"./nothing" is neither a folder here nor a model of the hub'),
        ("nli:nothing", '"nothing" is neither a folder here nor a model of the hub'),
        ("nli:a/b/c", "neither a folder here nor a model of the hub"),
        ("nli:", "name a model after the colon, or write nli"),
        ("nli:some-org/some-model", "the hub cannot be reached"),
        ("nli:no such/mod el", "cannot be loaded"),
    ],
)
def test_a_name_without_a_model_ends_in_one_line(name: str, told: str) -> None:
    assert is_registered(name)
    with pytest.raises(UsageError) as refused:
        load_judge(name)
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"device": "tpu"}, "--device tpu: must be one of auto, cuda, mps, cpu, or cuda:N"),
        ({"device": "cpu:1"}, "--device cpu:1: must be one of"),
        ({"device": "cuda:x"}, "--device cuda:x: must be one of"),
        ({"device": "cuda:99"}, "--device cuda:99: this machine shows"),
        ({"revision": "main"}, "--revision is for models of the hub"),
    ],
)
def test_options_that_do_not_fit_end_in_one_line(
    checkpoint: Checkpoint, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(UsageError) as refused:
        open_nli(str(checkpoint("deberta")), **options)
    assert str(refused.value).startswith(told)


@pytest.mark.parametrize("package", ["torch", "transformers"])
def test_a_missing_package_says_what_to_install(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra) as told:
        load_judge("nli")
    assert str(told.value) == (
        f"running a model in this process needs {package} (not installed): "
        "pip install '.[nli]' in the clone of capeval"
    )


def test_no_code_of_a_folder_runs(checkpoint: Checkpoint, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(checkpoint("deberta"), folder)
    (folder / "evil.py").write_text("raise SystemExit(7)", encoding="utf-8")
    config = json.loads((folder / "config.json").read_text("utf-8"))
    named = {"AutoModelForSequenceClassification": "evil.Model", "AutoConfig": "evil.Config"}
    edit_config(folder, auto_map=named, model_type="evil", architectures=config["architectures"])
    with pytest.raises(UsageError):
        open_nli(str(folder), device="cpu", dtype="float32")

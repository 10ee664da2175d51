"""BERTScore of tiny models: compared with bert-score, with sums by hand, and with itself."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import capeval
from capeval.errors import CapevalError
from capeval.metrics.bertscore import authors_name, find_baseline
from tests.metrics.tiny_encoders import FAMILIES, LENGTH

Encoder = Callable[..., Path]
# Which texts are computed together changes float32 values by less than this.
SAME = 1e-5
LAYER = 3
F1, PRECISION, RECALL = "bertscore-f1", "bertscore-precision", "bertscore-recall"

CANDIDATES = {
    "a": "A dog runs across the kitchen.",
    "b": "Two women talking to a man in a hat, then sitting down quickly and waving",
    "c": "  the camera pans left \n",
    "d": "A man in a red hat walks into a kitchen and opens the fridge.",
}
REFERENCES = {
    "a": "The man opens the fridge quickly.",
    "b": "Two women are talking; one smiles.",
    "c": "The camera pans left, then a dog runs across the street.",
    "d": "A man in a red hat walks into a kitchen and opens the fridge.",
}


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def configure(folder: Path, **settings: Any) -> None:
    """Write the settings of the metric."""
    given = (f"{name} = {json.dumps(value)}\n" for name, value in settings.items() if value != "")
    (folder / "capeval.toml").write_text("[metrics.bertscore]\n" + "".join(given), "utf-8")


class Measure:
    """Measures candidates and keeps what was written."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.notices, self.count = folder, list[str](), 0
        self.file = folder

    def __call__(
        self,
        model: Path,
        candidates: Mapping[str, str] = CANDIDATES,
        references: Mapping[str, str | Sequence[str]] = REFERENCES,
        device: str = "cpu",
        **options: Any,
    ) -> dict[str, tuple[float | None, ...]]:
        """Return precision, recall and F1 of each candidate; `options` are the settings."""
        self.count += 1
        self.notices.clear()
        self.file = self.folder / f"{self.count}.jsonl"
        configure(self.folder, **{"model": str(model), "layer": LAYER, **options})
        with chdir(self.folder):
            capeval.measure(
                metric=["bertscore"],
                candidates=candidates,
                references=references,
                out=self.file,
                on_notice=self.notices.append,
                device=device,
            )
        self.rows = lines(self.file)
        found = {(row["index"], row["metric"]): row["value"] for row in self.rows}
        return {
            index: tuple(found[index, name] for name in (PRECISION, RECALL, F1))
            for index in candidates
        }

    def reasons(self, index: str) -> set[str | None]:
        return {row["reason"] for row in self.rows if row["index"] == index}

    @property
    def signature(self) -> str:
        (signature,) = {row["signature"] for row in self.rows}
        return str(signature)

    @property
    def details(self) -> dict[str, dict[str, Any]]:
        file = self.file.with_name(f"{self.file.stem}.details") / "bertscore.jsonl"
        return {line["index"]: line["details"] for line in lines(file)}


@pytest.fixture
def measure(tmp_path: Path) -> Measure:
    return Measure(tmp_path)


def upstream(
    model: Path,
    references: Mapping[str, Any] = REFERENCES,
    *,
    layer: int = LAYER,
    **options: Any,
) -> dict[str, tuple[float, ...]]:
    """Return what bert-score computes; one pair at a time, as padding changes its values."""
    score = pytest.importorskip("bert_score").score

    texts = [list(CANDIDATES.values()), [references[index] for index in CANDIDATES]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # how it reads baselines with a new pandas
        found = score(
            *texts,
            model_type=str(model),
            num_layers=layer,
            device="cpu",
            nthreads=0,
            batch_size=1,
            **options,
        )
    values = zip(*(one.tolist() for one in found), strict=True)
    return dict(zip(CANDIDATES, values, strict=True))


def agree(one: Mapping[str, Any], other: Mapping[str, Any], within: float = 2e-6) -> None:
    assert one.keys() == other.keys()
    for index, values in one.items():
        assert values == pytest.approx(other[index], abs=within)


@pytest.mark.parametrize("idf", [False, True], ids=["plain", "idf"])
@pytest.mark.parametrize("family", FAMILIES)
def test_values_equal_those_of_bert_score(
    family: str, idf: bool, encoder: Encoder, measure: Measure
) -> None:
    # bert-score needs a length, which DeBERTa-v3's tokenizer does not state.
    theirs = encoder(family, **({"model_max_length": LENGTH} if family == "deberta" else {}))
    found = measure(encoder(family), idf=idf, fast_tokenizer=family == "roberta")
    agree(found, upstream(theirs, idf=idf))
    assert len({round(values[2] or 0, 4) for values in found.values()}) == len(CANDIDATES)


@pytest.mark.parametrize("layer", [0, 1, 4])
def test_any_layer_equals_that_of_bert_score(
    layer: int, encoder: Encoder, measure: Measure
) -> None:
    model = encoder("bert")
    agree(measure(model, layer=layer), upstream(model, layer=layer))


def test_texts_for_roberta_begin_with_a_space(encoder: Encoder, measure: Measure) -> None:
    """As bert-score has it; transformers 5 ignores its request unless the tokenizer says so."""
    model, spaced = encoder("roberta"), encoder("roberta", add_prefix_space=True)
    found = measure(model)
    assert "|space:leading|" in measure.signature
    agree(found, upstream(spaced))
    without = measure(model, fast_tokenizer=True)
    assert "|space:none|" in measure.signature
    assert without["a"] != pytest.approx(found["a"], abs=1e-4)
    # BART has RoBERTa's tokenizer under another name, for which bert-score adds none.
    measure(encoder("bart"))
    assert "|space:none|" in measure.signature


def test_of_several_references_each_measure_is_the_highest(
    encoder: Encoder, measure: Measure
) -> None:
    model = encoder("bert")
    several = {index: [text, "One of them waves.", "A dog."] for index, text in REFERENCES.items()}
    agree(measure(model, references=several), upstream(model, several))
    agree(measure(model, references=several, idf=True), upstream(model, several, idf=True))


def test_rescaled_values_equal_those_of_bert_score(
    encoder: Encoder, measure: Measure, tmp_path: Path
) -> None:
    model, file = encoder("bert"), tmp_path / "b.tsv"
    rows = [f"{layer},0.{layer}1,0.{layer}2,0.{layer}3" for layer in range(5)]
    file.write_text("\n".join(["LAYER,P,R,F", *rows]), encoding="utf-8")
    theirs = upstream(model, rescale_with_baseline=True, lang="en", baseline_path=str(file))
    agree(measure(model, rescale=str(file)), theirs)
    assert "|rescale:file#" in measure.signature


def test_values_equal_a_computation_by_hand(encoder: Encoder, measure: Measure) -> None:
    """From the model's own hidden states; [CLS] and [SEP] are matched, and count nothing."""
    from transformers import AutoModel, AutoTokenizer

    folder = str(encoder("bert"))
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    model: Any = AutoModel.from_pretrained(folder)
    model.eval()

    def vectors(text: str) -> Any:
        with torch.no_grad():
            states = model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True)
        found = states.hidden_states[LAYER][0].numpy()
        return found / np.linalg.norm(found, axis=1, keepdims=True)

    found = measure(encoder("bert"))
    for index, text in CANDIDATES.items():
        cosines = vectors(text.strip()) @ vectors(REFERENCES[index]).T
        precision = cosines.max(axis=1)[1:-1].mean()
        recall = cosines.max(axis=0)[1:-1].mean()
        f1 = 2 * precision * recall / (precision + recall)
        assert found[index] == pytest.approx((precision, recall, f1), abs=SAME)
    # Without them as targets some token would match another.
    alone = [
        (vectors(text.strip()) @ vectors(REFERENCES[index]).T)[1:-1, 1:-1].max(axis=1).mean()
        for index, text in CANDIDATES.items()
    ]
    assert alone != pytest.approx([values[0] for values in found.values()], abs=SAME)


@pytest.mark.parametrize("family", ["bert", "roberta", "deberta"])
def test_values_do_not_depend_on_what_is_computed_together(
    family: str, encoder: Encoder, measure: Measure
) -> None:
    words = " ".join(CANDIDATES.values()).split()
    many = {f"{n}": " ".join(words[: 1 + n % 30]) for n in range(70)}
    references = {index: REFERENCES["abcd"[int(index) % 4]] for index in many}
    together = measure(encoder(family), many, references)
    for index in ("0", "7", "33", "69"):
        alone = measure(encoder(family), {index: many[index]}, references)
        agree(alone, {index: together[index]}, SAME)


def test_idf_counts_each_video_once_however_many_systems_there_are(
    encoder: Encoder, tmp_path: Path, measure: Measure
) -> None:
    one = measure(encoder("bert"), idf=True)
    signature = measure.signature
    assert "|idf:references@4#" in signature
    for name in ("s", "t"):
        text = "".join(
            json.dumps({"index": index, "caption": caption}) + "\n"
            for index, caption in CANDIDATES.items()
        )
        (tmp_path / f"{name}.jsonl").write_text(text, encoding="utf-8")
    out = tmp_path / "both.jsonl"
    files = [str(tmp_path / name) for name in ("s.jsonl", "t.jsonl")]
    with chdir(tmp_path):
        capeval.measure(
            metric=["bertscore"], candidates=files, references=REFERENCES, out=out, device="cpu"
        )
    rows = lines(out)
    assert len(rows) == 24
    assert {row["signature"] for row in rows} == {signature}
    for row in rows:
        at = (PRECISION, RECALL, F1).index(row["metric"])
        assert row["value"] == pytest.approx(one[row["index"]][at], abs=SAME)


def test_idf_weights_that_are_all_0_leave_measures_undefined(
    encoder: Encoder, measure: Measure
) -> None:
    found = measure(encoder("bert"), {"a": "A dog runs."}, {"a": "A man walks."}, idf=True)
    precision, recall, f1 = found["a"]
    assert precision is not None
    assert (recall, f1) == (None, None)
    assert "every token of the reference has weight 0" in measure.reasons("a")


LONG = 20_000


@pytest.mark.parametrize("family", ["bert", "roberta", "deberta", "t5"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", 0, id="empty"),
        pytest.param(" \t\n\u3000", 0, id="blank"),
        pytest.param("\x00\x07\u200b", 0, id="invisible"),
        pytest.param("🙂👍🏽", "a value", id="emoji"),
        pytest.param("a\x00b\x1b[31m dog\u202e", "a value", id="control characters"),
        pytest.param("dog \ud800 runs", "a value", id="surrogate"),
        pytest.param("[CLS] [SEP] </s> <s> dog", "a value", id="special tokens"),
        pytest.param("دوغ 犬が走る", "a value", id="other scripts"),
        pytest.param("dog " * LONG, "cut", id="very long"),
        pytest.param("d" * LONG, "a value", id="one long word"),
    ],
)
def test_unusual_captions(
    family: str, text: str, expected: object, encoder: Encoder, measure: Measure
) -> None:
    (values,) = measure(encoder(family), {"a": text}, {"a": REFERENCES["a"]}).values()
    if expected == 0:
        assert values == (0, 0, 0)
        return
    assert all(value is not None and -1 <= value <= 1 for value in values), measure.reasons("a")
    if expected == "cut":
        assert measure.details["a"]["cut"] == ["caption"]
        assert any("the end of 1 caption was ignored" in notice for notice in measure.notices)


def test_a_caption_without_any_token_has_no_value(encoder: Encoder, measure: Measure) -> None:
    found = measure(encoder("bert"), {"a": "\ufffd"}, {"a": REFERENCES["a"]})
    assert found["a"] == (None, None, None)
    assert measure.reasons("a") == {"the caption has nothing that the model has tokens for"}
    found = measure(encoder("bert"), {"a": "A dog."}, {"a": "\ufffd"})
    assert found["a"] == (None, None, None)
    assert measure.reasons("a") == {"the reference has nothing that the model has tokens for"}


def test_an_empty_caption_gets_0_on_the_rescaled_scale_too(
    encoder: Encoder, measure: Measure, tmp_path: Path
) -> None:
    file = tmp_path / "b.tsv"
    file.write_text("LAYER,P,R,F\n3,0.8,0.8,0.8\n", encoding="utf-8")
    found = measure(encoder("bert"), {"a": ""}, {"a": "A dog."}, rescale=str(file))
    assert found["a"] == (0, 0, 0)


@pytest.mark.parametrize(
    ("family", "tokenizer"),
    [
        ("bert", {}),
        ("bert", {"model_max_length": 10**30}),
        ("bert", {"model_max_length": 5000}),
        ("roberta", {"model_max_length": 10**30}),
        ("bart", {"model_max_length": 10**30}),
        ("deberta", {}),
    ],
)
def test_texts_are_cut_at_what_the_model_reads(
    family: str, tokenizer: dict[str, Any], encoder: Encoder, measure: Measure
) -> None:
    """Also where the tokenizer states no length, or one beyond the model's positions."""
    model = encoder(family, **tokenizer)
    candidates = {"a": "dog " * 500, "b": "dog " * 400, "c": "dog " * 3}
    references = {"a": ["A dog.", "man " * 300], "b": "A dog.", "c": "A dog."}
    found = measure(model, candidates, references)
    assert found["a"][0] == pytest.approx(max(found["a"][0] or 0, found["b"][0] or 0), abs=SAME)
    details = measure.details
    assert details["a"]["tokens"]["caption"] == details["b"]["tokens"]["caption"] == LENGTH - 2
    assert details["a"]["cut"] == ["caption", "reference"]
    assert "cut" not in details["c"]
    (notice,) = [one for one in measure.notices if "ignored" in one]
    assert "the end of 2 captions and 1 reference was ignored" in notice


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"layer": 5}, "it has 4 layers; layer in [metrics.bertscore] is 5"),
        ({"layer": ""}, "the authors of BERTScore chose no layer"),
        ({"layer": -1}, "capeval.toml: metrics.bertscore: layer: "),
        ({"model": "./nowhere"}, 'model in [metrics.bertscore]: there is no folder "./nowhere"'),
        ({"model": "no/such"}, "no/such: "),
        ({"rescale": "nowhere.tsv"}, "nowhere.tsv: does not exist"),
        ({"rescale": "en"}, 'bert-score has no baseline "en" of '),
        ({"rescale": "bad.csv"}, "bad.csv: must have a line LAYER,P,R,F for layer 3, with numbers"),
        ({"device": "tpu"}, "--device tpu: must be one of"),
    ],
)
def test_a_wrong_setting_is_one_line(
    options: dict[str, Any],
    complaint: str,
    encoder: Encoder,
    measure: Measure,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    (measure.folder / "bad.csv").write_text("LAYER,P,R,F\n3,0.1,0.2,1\n", "utf-8")
    with pytest.raises(CapevalError) as refused:
        measure(**{"model": encoder("bert"), **options})
    assert complaint in str(refused.value)
    assert "\n" not in str(refused.value)
    assert refused.value.exit_code == 2
    assert not measure.file.exists()


@pytest.mark.parametrize(
    ("model", "layer"),
    [("roberta-large", 17), ("FacebookAI/roberta-large", 17), ("me/roberta-large", None)],
)
def test_the_authors_layer_and_baseline_are_those_of_their_models(
    model: str, layer: int | None
) -> None:
    model2layers = pytest.importorskip("bert_score.utils").model2layers

    assert model2layers.get(authors_name(model)) == layer
    if layer is not None:
        values, identity = find_baseline("en", model, layer)
        assert values == (0.83150584, 0.8314941, 0.83122575)
        assert identity.startswith("en:roberta-large@bert-score-0.3.13#")
        assert find_baseline("en:roberta-large", "./copy", layer) == (values, identity)


def test_a_damaged_model_is_refused(encoder: Encoder, measure: Measure, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    copy = shutil.copytree(encoder("bert"), tmp_path / "copy")
    tensors = load_file(copy / "model.safetensors")
    del tensors["bert.encoder.layer.1.output.dense.weight"]
    save_file(tensors, copy / "model.safetensors", {"format": "pt"})
    with pytest.raises(CapevalError, match="lacks 1 tensors"):
        measure(copy)
    (copy / "model.safetensors").write_bytes(b"no")
    with pytest.raises(CapevalError, match="cannot be loaded"):
        measure(copy)


UNUSABLE: dict[str, tuple[Callable[[Path], object], str]] = {
    "adapter": (
        lambda folder: (folder / "adapter_config.json").write_text("{}"),
        "has an adapter (adapter_config.json)",
    ),
    "no tokenizer": (
        lambda folder: (folder / "tokenizer.json").unlink(),
        "its tokenizer has no vocabulary",
    ),
}


@pytest.mark.parametrize("fault", UNUSABLE)
def test_what_would_give_values_of_another_model_is_refused(
    fault: str, encoder: Encoder, measure: Measure, tmp_path: Path
) -> None:
    change, told = UNUSABLE[fault]
    copy = shutil.copytree(encoder("bert"), tmp_path / "copy")
    change(copy)
    with pytest.raises(CapevalError) as refused:
        measure(copy)
    assert told in str(refused.value)


def test_weights_that_are_not_numbers_leave_captions_unscored(
    encoder: Encoder, measure: Measure, tmp_path: Path
) -> None:
    from safetensors.torch import load_file, save_file

    copy = shutil.copytree(encoder("bert"), tmp_path / "copy")
    tensors = load_file(copy / "model.safetensors")
    tensors["bert.embeddings.LayerNorm.bias"].fill_(float("nan"))
    save_file(tensors, copy / "model.safetensors", {"format": "pt"})
    found = measure(copy)
    assert set(found.values()) == {(None, None, None)}
    assert measure.reasons("a") == {"the model's output is not a number"}


def test_other_weights_in_the_same_folder_have_another_signature(
    encoder: Encoder, measure: Measure, tmp_path: Path
) -> None:
    copy = tmp_path / "model"
    signatures = set()
    for layer in (2, 3):
        measure(shutil.copytree(encoder("bert"), copy), layer=layer)
        signatures.add(measure.signature)
        shutil.rmtree(copy)
    measure(shutil.copytree(encoder("albert"), copy))
    signatures.add(measure.signature)
    assert len(signatures) == 3
    assert all(one.startswith("capeval:bertscore|model:model@") for one in signatures)

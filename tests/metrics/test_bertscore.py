import json
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import capeval
from capeval.errors import CapevalError
from capeval.metrics.bertscore import read_baseline
from tests.metrics.tiny_encoders import FAMILIES, LENGTH, save
from tests.world import lines

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


class Measure:
    def __init__(self, folder: Path) -> None:
        self.folder, self.file, self.notices = folder, folder / "m.jsonl", list[str]()

    def __call__(
        self,
        model: Path,
        candidates: Any = CANDIDATES,
        references: Mapping[str, str | Sequence[str]] = REFERENCES,
        **options: Any,
    ) -> dict[str, tuple[float | None, ...]]:
        """Return precision, recall and F1 of each candidate; `options` are the settings."""
        self.file.unlink(missing_ok=True)
        settings = {"model": str(model), "layer": LAYER, **options}
        given = "".join(f"{name} = {json.dumps(x)}\n" for name, x in settings.items() if x != "")
        (self.folder / "capeval.toml").write_text(f"[metrics.bertscore]\n{given}", "utf-8")
        with chdir(self.folder):
            capeval.measure(
                metric=["bertscore"],
                candidates=candidates,
                references=references,
                out=self.file,
                on_notice=self.notices.append,
                device="cpu",
            )
        self.rows = lines(self.file)
        found = {(row["index"], row["metric"]): row["value"] for row in self.rows}
        names = (PRECISION, RECALL, F1)
        return {index: tuple(found[index, one] for one in names) for index in references}

    @property
    def signature(self) -> str:
        (signature,) = {row["signature"] for row in self.rows}
        return str(signature)


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    return cache(lambda family, **tokenizer: save(
        family, tmp_path_factory.mktemp("encoders"), **tokenizer
    ))  # fmt: skip


@pytest.fixture
def measure(tmp_path: Path) -> Measure:
    return Measure(tmp_path)


def upstream(
    model: Path, references: Mapping[str, Any] = REFERENCES, **options: Any
) -> dict[str, tuple[float, ...]]:
    """Return what bert-score computes; one pair at a time, as padding changes its values."""
    score = pytest.importorskip("bert_score").score
    texts = [list(CANDIDATES.values()), [references[index] for index in CANDIDATES]]
    given = {"num_layers": LAYER, "nthreads": 0, "batch_size": 1, "device": "cpu", **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # how it reads baselines with a new pandas
        found = score(*texts, model_type=str(model), **given)
    values = zip(*(one.tolist() for one in found), strict=True)
    return dict(zip(CANDIDATES, values, strict=True))


def agree(one: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    assert one.keys() == other.keys()
    for index, values in one.items():
        assert values == pytest.approx(other[index], abs=SAME)


@pytest.mark.parametrize("family", FAMILIES)
def test_values_equal_those_of_bert_score(family: str, encoder: Encoder, measure: Measure) -> None:
    tokenizer: dict[str, dict[str, Any]] = {
        # bert-score needs a length, which DeBERTa-v3's tokenizer does not state.
        "deberta": {"model_max_length": LENGTH},
        # It asks for a space before texts, which transformers 5 ignores unless the files say so.
        "roberta": {"add_prefix_space": True},
    }
    found = measure(encoder(family))
    agree(found, upstream(encoder(family, **tokenizer.get(family, {}))))
    assert len({round(values[2] or 0, 4) for values in found.values()}) == len(CANDIDATES)
    assert f"|space:{'leading' if family == 'roberta' else 'none'}|" in measure.signature


def test_several_references_layers_and_baselines_are_those_of_bert_score(
    encoder: Encoder, measure: Measure, tmp_path: Path
) -> None:
    model = encoder("bert")
    several = {index: [text, "One of them waves.", "A dog."] for index, text in REFERENCES.items()}
    agree(measure(model, references=several, idf=True), upstream(model, several, idf=True))
    agree(measure(model, layer=0), upstream(model, num_layers=0))
    file = tmp_path / "b.tsv"
    rows = [f"{layer},0.{layer}1,0.{layer}2,0.{layer}3" for layer in range(5)]
    file.write_text("\n".join(["LAYER,P,R,F", *rows]), encoding="utf-8")
    theirs = upstream(model, rescale_with_baseline=True, lang="en", baseline_path=str(file))
    agree(measure(model, rescale=str(file)), theirs)
    assert "|rescale:file#" in measure.signature
    assert "_L3_no-idf_version=0.3.12(hug_trans=" in measure.signature
    # An empty caption is the worst on any scale.
    assert measure(model, {"a": "\u200b"}, {"a": "A dog."}, rescale=str(file))["a"] == (0, 0, 0)


def test_the_authors_layer_and_baseline_are_those_of_their_model() -> None:
    model2layers = pytest.importorskip("bert_score.utils").model2layers
    values, identity = read_baseline("en", "roberta-large", model2layers["roberta-large"])
    assert values == (0.83150584, 0.8314941, 0.83122575)
    assert identity.startswith("en#")


def test_idf_counts_each_video_once_however_many_systems_there_are(
    encoder: Encoder, measure: Measure, tmp_path: Path
) -> None:
    one = measure(encoder("bert"), idf=True)
    signature = measure.signature
    assert "|idf:references@4#" in signature
    for name in "st":
        (tmp_path / f"{name}.json").write_text(json.dumps(CANDIDATES), encoding="utf-8")
    files = [str(tmp_path / f"{name}.json") for name in "st"]
    agree(measure(encoder("bert"), files, idf=True), one)
    assert (len(measure.rows), measure.signature) == (24, signature)
    # Of one video, every token of the reference has weight 0.
    found = measure(encoder("bert"), {"a": "A dog runs."}, {"a": "A man walks."}, idf=True)
    assert found["a"] == (None, None, None)
    assert "all tokens of a text have the idf weight 0" in measure.rows[0]["reason"]


UNUSUAL = {"1": "a\x00b\x1b[31m dog\u202e", "2": "dog \ud800 runs", "3": "d" * 20_000}


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_unusual_captions_have_values(family: str, encoder: Encoder, measure: Measure) -> None:
    found = measure(encoder(family), UNUSUAL, dict.fromkeys(UNUSUAL, "A dog runs."))
    assert all(value is not None and -1 <= value <= 1 for of in found.values() for value in of)


def test_texts_are_cut_at_what_the_model_reads(encoder: Encoder, measure: Measure) -> None:
    candidates = {"a": "dog " * 500, "b": "dog " * 62, "c": "dog " * 63}
    references = {"a": ["A dog.", "man " * 300], "b": "A dog.", "c": "A dog."}
    found = measure(encoder("bert"), candidates, references)
    assert found["c"] == pytest.approx(found["b"], abs=SAME)
    details = measure.file.with_name("m.details") / "bertscore.jsonl"
    cut = {line["index"]: line.get("details", {}).get("cut") for line in lines(details)}
    assert cut == {"a": ["caption", "reference"], "b": None, "c": ["caption"]}
    (notice,) = [one for one in measure.notices if "ignored" in one]
    assert "the end of 2 captions and 1 reference was ignored" in notice


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"layer": 5}, "it has 4 layers; layer in [metrics.bertscore] is 5"),
        ({"layer": ""}, "the authors of BERTScore chose no layer"),
        ({"model": "./nowhere"}, "./nowhere: cannot be loaded"),
        ({"model": "no/such"}, "no/such: "),
        ({"rescale": "nowhere.tsv"}, "nowhere.tsv: does not exist"),
        ({"rescale": "en"}, 'bert-score has no baseline "en" of '),
        ({"rescale": "bad.csv"}, "bad.csv: must have a line LAYER,P,R,F for layer 3"),
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
    (measure.folder / "bad.csv").write_text("LAYER,P,R,F\n3,0.1,0.2,x\n", "utf-8")
    with pytest.raises(CapevalError) as refused:
        measure(**{"model": encoder("bert"), **options})
    assert complaint in str(refused.value)
    assert "\n" not in str(refused.value)
    assert refused.value.exit_code == 2
    assert not measure.file.exists()


def test_a_damaged_model_is_refused_and_other_weights_have_another_signature(
    encoder: Encoder, measure: Measure, tmp_path: Path
) -> None:
    from safetensors.torch import load_file, save_file

    copy = shutil.copytree(encoder("bert"), tmp_path / "copy")
    tensors = load_file(copy / "model.safetensors")
    weights = tensors.pop("bert.encoder.layer.1.output.dense.weight")
    save_file(tensors, copy / "model.safetensors", {"format": "pt"})
    with pytest.raises(CapevalError, match="lacks 1 tensors"):
        measure(copy)
    tensors["bert.encoder.layer.1.output.dense.weight"] = 2 * weights
    save_file(tensors, copy / "model.safetensors", {"format": "pt"})
    measure(copy)
    doubled = measure.signature
    assert doubled.startswith("capeval:bertscore|bert-score:copy@")
    measure(shutil.copytree(encoder("bert"), copy, dirs_exist_ok=True))
    assert measure.signature != doubled
    (copy / "tokenizer.json").unlink()
    with pytest.raises(CapevalError, match="its tokenizer has no vocabulary"):
        measure(copy)

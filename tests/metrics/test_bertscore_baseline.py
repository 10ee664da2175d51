"""Baselines: files, the published ones, and what is wrong with them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from capeval.errors import InputError, MissingExtra, UsageError
from capeval.metrics import bertscore_baseline
from capeval.metrics.bertscore_baseline import find_baseline, read_baseline
from capeval.metrics.bertscore_layers import known_layer

published = pytest.mark.skipif(
    importlib.util.find_spec("bert_score") is None, reason="bert-score is not installed"
)


@pytest.mark.parametrize(
    "text",
    [
        "LAYER,P,R,F\n0,0.1,0.2,0.3\n1,0.5,0.6,0.7\n",
        "LAYER\tP\tR\tF\n0\t0.1\t0.2\t0.3\n1\t0.5\t0.6\t0.7\n",
        "\ufefflayer, p, r, f\r\n1, 0.5, 0.6, 0.7",
    ],
)
def test_a_baseline_is_the_line_of_the_layer(text: str, tmp_path: Path) -> None:
    file = tmp_path / "b.tsv"
    file.write_text(text, encoding="utf-8")
    assert read_baseline(file, 1).values == (0.5, 0.6, 0.7)
    rescaled = find_baseline(str(file), model="m", layer=1).rescale((0.75, 0.8, 0.4))
    assert rescaled == pytest.approx((0.5, 0.5, -1.0))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "b.tsv: is empty"),
        ("0,0.1,0.2,0.3\n", "b.tsv: line 1: must be the header LAYER,P,R,F"),
        ("LAYER,P,R,F\n0,1,2,3\n", "b.tsv: has no line for layer 1"),
        ("LAYER,P,R,F\n1,0.1,0.2\n", "b.tsv: line 2: must have the four columns LAYER,P,R,F"),
        ("LAYER,P,R,F\n0,0,0,0\n1,x,0,0\n", 'b.tsv: line 3: P: "x" must be a number'),
        ("LAYER,P,R,F\n1,0,nan,0\n", 'line 2: R: "nan" must be a number'),
        ("LAYER,P,R,F\n1,0,0,1\n", 'line 2: F: "1" must be a number from -1 to below 1'),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(text: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "b.tsv").write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as refused:
        find_baseline(str(tmp_path / "b.tsv"), model="m", layer=1)
    assert complaint in str(refused.value)


@published
def test_the_published_baseline_is_found_by_model_and_language() -> None:
    found = find_baseline("en", model="FacebookAI/roberta-large", layer=17)
    assert found.values == (0.83150584, 0.8314941, 0.83122575)
    assert found.identity.startswith("en:roberta-large@bert-score-0.3.13#")
    copy = find_baseline("en:roberta-large", model="./copy", layer=17)
    assert copy == found


@published
@pytest.mark.parametrize(
    ("wanted", "complaint"),
    [
        ("en", 'no baseline is published for "./mine"'),
        ("xx", "baselines are published for cs, de, en, en-sci"),
        ("en:robrta-large", 'did you mean "roberta-large"'),
        ("../en", "../en: "),
        ("en:../../en/roberta-large", "no baseline is published"),
    ],
)
def test_what_was_not_published_is_refused(wanted: str, complaint: str) -> None:
    with pytest.raises((UsageError, InputError)) as refused:
        find_baseline(wanted, model="./mine", layer=1)
    assert complaint in str(refused.value)


def test_without_the_package_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bertscore_baseline, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"pip install '.\[bertscore\]'.*--bertscore-rescale"):
        find_baseline("en", model="roberta-large", layer=17)


@pytest.mark.parametrize(
    ("model", "layer"),
    [
        ("roberta-large", 17),
        ("FacebookAI/roberta-large", 17),
        ("google-bert/bert-base-uncased", 9),
        ("microsoft/deberta-xlarge-mnli", 40),
        ("me/roberta-large", None),
        ("./roberta-large", None),
    ],
)
def test_the_authors_layer_is_known_for_their_models(model: str, layer: int | None) -> None:
    assert known_layer(model) == layer


@published
def test_the_table_of_layers_is_the_authors() -> None:
    utils = pytest.importorskip("bert_score.utils")
    assert {name: known_layer(name) for name in utils.model2layers} == utils.model2layers

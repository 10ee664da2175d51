from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest

from capeval.errors import InputError
from capeval.files.ratings import LabelTable, load_human
from capeval.rating.rate_merge import (
    KeyedItem,
    RatedFile,
    agreement,
    agreement_by_type,
    check_key,
    checked_raters,
    human_csv,
    read_key,
    read_rated,
)
from capeval.rating.rate_sheet import key_csv, sample_sheet
from capeval.schema import RELATIONS, Annotation
from tests.rating.rating_examples import annotation, exported

KEY = 'item_id,video_id,system,elements\ns12ab-001,w,"b, c",2\ns12ab-002,v,a,1 1\n'


pytestmark = pytest.mark.usefixtures("alone")


def key_file(text: str = KEY) -> Path:
    path = Path("key.csv")
    path.write_text(text, encoding="utf-8")
    return path


def rated(text: str, name: str = "ann.csv") -> RatedFile:
    path = Path(name)
    path.write_bytes(text.encode("utf-8"))
    return read_rated(path, read_key(key_file()))


ANN = """item_id,element_id,rater,label
s12ab-001,e1.1,ann,entailment
s12ab-001,e1.2,ann,lack
s12ab-002,e1.1,ann,contradiction
"""


def test_labels_are_read_in_any_order_and_dialect() -> None:
    plain = rated(ANN)
    assert dict(plain.labels) == {
        ("s12ab-001", "1.1"): "entailment",
        ("s12ab-001", "1.2"): "lack",
        ("s12ab-002", "1.1"): "contradiction",
    }
    assert plain.missing == (("s12ab-002", "2.1"),)
    assert plain.rater == "ann"
    # As a spreadsheet program may save it again.
    header, *lines = ANN.splitlines()
    saved = "\ufeff" + "\r\n".join([header, *lines[::-1], "s12ab-002,e2.1,ann,"])
    other = rated(saved.replace(",", ";"))
    assert (other.labels, other.missing) == (plain.labels, plain.missing)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("s12ab-003,e1.1,ann,lack", 'line 5: item_id: the key has no item "s12ab-003"; did you'),
        ("s99ff-001,e1.1,ann,lack", 'line 5: item_id: "s99ff-001" belongs to a different sheet'),
        (",e1.1,ann,lack", "line 5: item_id: is empty"),
        ("s12ab-001,e1.3,ann,lack", 'line 5: element_id: s12ab-001 has no element "e1.3"'),
        ("s12ab-001,e1.1,ann,lack", r"line 5: .*s12ab-001, 1.1 is duplicated \(see line 2\)"),
        ("s12ab-002,e2.1,ann,entaillment", 'line 5: label: .*did you mean "entailment"'),
        ("s12ab-002,e2.1,bo,lack", 'line 5: rater: two raters in one file, "ann" and "bo"'),
    ],
)
def test_faults_are_named_with_their_line(line: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        rated(f"{ANN}{line}\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("item_id,video,system,elements\nx,v,a,1\n", "has no column video_id; did you mean"),
        (KEY + "s12ab-001,x,a,1\n", "s12ab-001 is duplicated"),
        (KEY + "s12ab-003,v,a,1\n", "v, a is duplicated"),
        (KEY + "s12ab-003,x,,1\n", "line 4: system: is empty"),
        (KEY + "s12ab-003,x,a,1 0\n", "line 4: elements.2: must be at least 1"),
    ],
)
def test_a_key_is_checked(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_key(key_file(text))


@pytest.mark.parametrize("index", ['"', "=1", "'=1", "'v", "-Youtube1", "v\u2028w", "a;b;c"])
def test_a_study_comes_back_whatever_its_names(index: str) -> None:
    sheet = sample_sheet([annotation(index)], {f"s{index}": {index: index}}, videos=1)
    path = key_file(key_csv(sheet))
    key = read_key(path)
    assert [(item.video_id, item.system) for item in key.values()] == [(index, f"s{index}")]
    file = read_rated(exported(path, Path("a.csv"), "Ann"), key)
    assert set(file.labels) == {(sheet.items[0].item_id, e) for e in ("1.1", "1.2", "2.1")}
    human = Path("human.csv")
    human.write_text(human_csv([replace(file, rater="=x")], key), encoding="utf-8", newline="")
    table = load_human(human)
    assert isinstance(table, LabelTable)
    assert list(table.keys) == [(index, f"s{index}")] * 3
    assert table.raters == ("=x",)
    for text in (key_csv(sheet), human.read_text(encoding="utf-8")):
        for row in csv.reader(io.StringIO(text, newline="")):
            assert not any(cell.lstrip()[:1] in tuple("=+-@|%") for cell in row if cell.strip())


def test_a_key_is_held_against_the_annotations() -> None:
    path = key_file()
    key = read_key(path)
    check_key(key, [annotation("v", sizes=(1, 1)), annotation("w", sizes=(2,))], file=path)
    for others, named in (([annotation("v", (2,)), annotation("w", (2,))], "v"), ([], "w")):
        with pytest.raises(InputError, match=f'the annotations have no video "{named}" with as'):
            check_key(key, others, file=path)


@pytest.mark.parametrize("other", ["ANN", "ann ", "\uff41nn"])
def test_a_rater_has_one_file(other: str) -> None:
    again = rated(ANN.replace(",ann,", f",{other},"), "again.csv")
    with pytest.raises(InputError, match=r"again.csv: has the same rater as .*ann.csv"):
        checked_raters([rated(ANN), again], partial=True)


def test_human_csv_is_unblinded_and_does_not_depend_on_the_order() -> None:
    more = (ANN + "s12ab-002,e2.1,ann,entailment\n").replace(",ann,", ",bo,")
    ann, bo = rated(ANN), rated(more, "bo.csv")
    key = read_key(key_file())
    text = human_csv(checked_raters([bo, ann], partial=True), key)
    assert text == human_csv(checked_raters([ann, bo], partial=True), key)
    assert text.splitlines() == [
        "video_id,system,element_id,rater,label",
        "v,a,1.1,ann,contradiction",
        "v,a,1.1,bo,contradiction",
        "v,a,2.1,bo,entailment",
        'w,"b, c",1.1,ann,entailment',
        'w,"b, c",1.1,bo,entailment',
        'w,"b, c",1.2,ann,lack',
        'w,"b, c",1.2,bo,lack',
    ]


def made(rater: str, labels: str) -> RatedFile:
    long = {label[0]: label for label in RELATIONS}
    given = {("i", f"1.{n}"): long[c] for n, c in enumerate(labels, 1) if c != "-"}
    return RatedFile(rater, Path(rater), given, ())


ONE = {"i": KeyedItem(item_id="i", video_id="v", system="s", elements=(10,))}


def test_agreement_is_its_definition() -> None:
    krippendorff = pytest.importorskip("krippendorff")
    texts = {"a": "eelccle-lc", "b": "eelcclce-c", "c": "elle-lcelc"}
    found = agreement([made(rater, text) for rater, text in texts.items()], ONE)
    codes = [["elc".index(c) if c != "-" else float("nan") for c in t] for t in texts.values()]
    expected = krippendorff.alpha(reliability_data=codes, level_of_measurement="nominal")
    assert found.alpha.value == pytest.approx(expected, abs=1e-12)
    assert found.n == 10
    assert [(pair.first, pair.second, pair.n) for pair in found.pairs] == [
        ("a", "b", 8),
        ("a", "c", 8),
        ("b", "c", 8),
    ]
    for pair in found.pairs:
        both = [
            (x, y)
            for x, y in zip(texts[pair.first], texts[pair.second], strict=True)
            if "-" not in (x, y)
        ]
        kappa = pair.kappa.value
        first, second = zip(*both, strict=True)
        chance = sum(first.count(c) * second.count(c) for c in "elc") / len(both) ** 2
        accuracy = sum(x == y for x, y in both) / len(both)
        assert kappa == pytest.approx((accuracy - chance) / (1 - chance), abs=1e-12)


def test_agreement_that_does_not_exist_is_null() -> None:
    assert agreement([made("a", "elc")], ONE).alpha.value is None
    apart = agreement([made("a", "el--"), made("b", "--ec")], ONE)
    assert (apart.alpha.value, apart.pairs[0].kappa.value, apart.pairs[0].n) == (None, None, 0)


def test_agreement_by_type_is_that_of_the_labels_of_that_type() -> None:
    types = ("camera", "action", "camera", "action", "camera")
    elements = [{"content": "x", "type": kind, "weight": 1} for kind in types]
    events = [{"event": "x", "visual_elements": elements}]
    annotation = Annotation.model_validate({"index": "v", "events": events})
    files = [made("a", "elele"), made("b", "ececl")]
    key = {"i": KeyedItem(item_id="i", video_id="v", system="s", elements=(5,))}
    found = agreement_by_type(files, key, [annotation])
    assert list(found) == ["camera", "action"]
    camera, action = found["camera"], found["action"]
    assert (camera.n, camera.pairs[0].n) == (3, 3)
    assert camera.pairs[0].kappa.value == 0.0
    assert (action.n, action.pairs[0].kappa.value) == (2, 0.0)
    assert (
        camera.alpha.value == agreement([made("a", "e-e-e"), made("b", "e-e-l")], ONE).alpha.value
    )

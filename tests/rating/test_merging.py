"""From the raters' files to human.csv and their agreement."""

import csv
import io
import json
from pathlib import Path

import pytest

import capeval
from capeval.errors import CapevalError
from capeval.files.ratings import LabelTable, load_human
from capeval.rating.rate_merge import (
    KeyedItem,
    MergedRatings,
    RatedFile,
    agreement,
    agreement_by_type,
)
from capeval.rating.rate_sheet import key_csv, sample_sheet
from capeval.schema import RELATIONS, Annotation
from tests.rating.rating_examples import annotation, exported

pytestmark = pytest.mark.usefixtures("alone")

KEY = """item_id,video_id,system,elements,caption_hash
s12ab-001,w,"b, c",2,0a
s12ab-002,v,a,1 1,0b
"""
ANN = """item_id,element_id,rater,label
s12ab-001,e1.1,ann,entailment
s12ab-001,e1.2,ann,lack
s12ab-002,e1.1,ann,contradiction
"""
BO = ANN.replace(",ann,", ",bo,") + "s12ab-002,e2.1,bo,entailment\n"


def merged(*files: str, key: str = KEY, annotations: Path | None = None) -> MergedRatings:
    Path("key.csv").write_text(key, encoding="utf-8")
    Path("human.csv").unlink(missing_ok=True)
    paths = [Path(f"{n}.csv") for n in range(len(files))]
    for path, text in zip(paths, files, strict=True):
        path.write_bytes(text.encode("utf-8"))
    return capeval.rate_merge(
        paths,
        "key.csv",
        partial=True,
        annotations=annotations,
        on_notice=lambda _: None,
    )


def test_human_csv_is_unblinded_and_depends_on_no_order() -> None:
    found = merged(BO, ANN)
    text = Path("human.csv").read_text(encoding="utf-8")
    assert text.splitlines() == [
        "video_id,system,element_id,rater,label,caption_hash",
        "v,a,1.1,ann,contradiction,0b",
        "v,a,1.1,bo,contradiction,0b",
        "v,a,2.1,bo,entailment,0b",
        'w,"b, c",1.1,ann,entailment,0a',
        'w,"b, c",1.1,bo,entailment,0a',
        'w,"b, c",1.2,ann,lack,0a',
        'w,"b, c",1.2,bo,lack,0a',
    ]
    assert [(one.rater, one.missing) for one in found.raters] == [
        ("ann", (("s12ab-002", "2.1"),)),
        ("bo", ()),
    ]
    # As a spreadsheet program may save it again.
    header, *lines = ANN.splitlines()
    saved = "\ufeff" + "\r\n".join([header, *lines[::-1], "s12ab-002,e2.1,ann,"])
    merged(saved.replace(",", ";"), BO)
    assert Path("human.csv").read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    ("files", "key", "message"),
    [
        ([ANN + "s9-001,e1.1,ann,lack"], KEY, 'element_id: .* no element "e1.1" of "s9-001"; is'),
        ([ANN + ",e1.1,ann,lack"], KEY, "line 5: item_id: is empty"),
        ([ANN + "s12ab-001,e1.1,ann,lack"], KEY, "line 5: .*s12ab-001, 1.1 is duplicated .see li"),
        ([ANN + "s12ab-002,e2.1,ann,entaillment"], KEY, 'line 5: label: .*did you mean "entailme'),
        ([ANN + "s12ab-002,e2.1,bo,lack"], KEY, 'line 5: rater: two raters in one file, "ann" an'),
        ([ANN, ANN.replace(",ann,", ",ANN ,")], KEY, "1.csv: has the same rater as 0.csv"),
        ([ANN, ANN.replace(",ann,", ",\uff41nn,")], KEY, "1.csv: has the same rater as 0.csv"),
        ([], KEY, "name the raters' files"),
        ([ANN], KEY.replace("video_id", "video"), "has no column video_id; did you mean"),
        ([ANN], KEY + "s12ab-001,x,a,1,0c\n", "s12ab-001 is duplicated"),
        ([ANN], KEY + "s12ab-003,v,a,1,0c\n", "v, a is duplicated"),
        ([ANN], KEY + "s12ab-003,x,,1,0c\n", "line 4: system: is empty"),
        ([ANN], KEY + "s12ab-003,x,a,1 0,0c\n", "line 4: elements.2: must be at least 1"),
    ],
)
def test_faults_are_named_with_their_line(files: list[str], key: str, message: str) -> None:
    with pytest.raises(CapevalError, match=message):
        merged(*files, key=key)
    assert not Path("human.csv").exists()


def test_a_key_is_compared_with_the_annotations() -> None:
    def merge_with(*annotations: Annotation) -> None:
        path = Path("annotations.json")
        path.write_text(json.dumps([one.model_dump() for one in annotations]))
        merged(ANN, annotations=path)

    merge_with(annotation("v", sizes=(1, 1)), annotation("w", sizes=(2,)))
    for other, named in ((annotation("v", sizes=(2,)), "v"), (annotation("v", sizes=(1, 1)), "w")):
        with pytest.raises(CapevalError, match=f'the annotations have no video "{named}" with as'):
            merge_with(other, *([annotation("w", sizes=(2,))] if named == "v" else []))


@pytest.mark.parametrize("index", ['"', "=1", "'=1", "'v", "-Youtube1", "v\u2028w", "a;b;c"])
def test_a_study_comes_back_whatever_its_names(index: str) -> None:
    sheet = sample_sheet([annotation(index)], {f"s{index}": {index: index}}, videos=1)
    key = Path("key.csv")
    key.write_text(key_csv(sheet), encoding="utf-8")
    exported(key, Path("a.csv"), "'=x")
    capeval.rate_merge(["a.csv"], key)
    table = load_human("human.csv")
    assert isinstance(table, LabelTable)
    assert list(table.keys) == [(index, f"s{index}")] * 3
    assert (table.elements, table.raters) == (["1.1", "1.2", "2.1"], ("=x",))
    for text in (key_csv(sheet), Path("human.csv").read_text(encoding="utf-8")):
        for row in csv.reader(io.StringIO(text, newline="")):
            assert not any(cell.lstrip()[:1] in tuple("=+-@|%") for cell in row if cell.strip())


def made(rater: str, labels: str) -> RatedFile:
    long = {label[0]: label for label in RELATIONS}
    given = {("i", f"1.{n}"): long[c] for n, c in enumerate(labels, 1) if c != "-"}
    return RatedFile(rater, Path(rater), given, ())


ONE = {"i": KeyedItem(item_id="i", video_id="v", system="s", elements=(10,), caption_hash="0a")}


def test_agreement_is_its_definition() -> None:
    krippendorff = pytest.importorskip("krippendorff")
    texts = {"a": "eelccle-lc", "b": "eelcclce-c", "c": "elle-lcelc"}
    found = agreement([made(rater, text) for rater, text in texts.items()], ONE)
    codes = [["elc".index(c) if c != "-" else float("nan") for c in t] for t in texts.values()]
    expected = krippendorff.alpha(reliability_data=codes, level_of_measurement="nominal")
    assert found.alpha.value == pytest.approx(expected, abs=1e-12)
    assert found.n == 10
    assert [(one.first, one.second, one.n) for one in found.pairs] == [
        *(("a", "b", 8), ("a", "c", 8), ("b", "c", 8))
    ]
    for pair in found.pairs:
        both = [
            (x, y)
            for x, y in zip(texts[pair.first], texts[pair.second], strict=True)
            if "-" not in (x, y)
        ]
        first, second = zip(*both, strict=True)
        chance = sum(first.count(c) * second.count(c) for c in "elc") / len(both) ** 2
        accuracy = sum(x == y for x, y in both) / len(both)
        kappa = (accuracy - chance) / (1 - chance)
        assert pair.kappa.value == pytest.approx(kappa, abs=1e-12)


def test_agreement_that_does_not_exist_is_null() -> None:
    assert agreement([made("a", "elc")], ONE).alpha.value is None
    apart = agreement([made("a", "el--"), made("b", "--ec")], ONE)
    assert (apart.alpha.value, apart.pairs[0].kappa.value, apart.pairs[0].n) == (None, None, 0)


def test_agreement_by_type_is_that_of_the_labels_of_that_type() -> None:
    elements = [
        {"content": "x", "type": kind, "weight": 1}
        for kind in ("camera", "action", "camera", "action", "camera")
    ]
    events = [{"event": "x", "visual_elements": elements}]
    annotated = Annotation.model_validate({"index": "v", "events": events})
    key = {"i": KeyedItem(item_id="i", video_id="v", system="s", elements=(5,), caption_hash="0a")}
    found = agreement_by_type([made("a", "elele"), made("b", "ececl")], key, [annotated])
    assert {of: (one.n, one.pairs[0].kappa.value) for of, one in found.items()} == {
        "camera": (3, 0.0),
        "action": (2, 0.0),
    }
    alone = agreement([made("a", "e-e-e"), made("b", "e-e-l")], ONE)
    assert found["camera"].alpha.value == alone.alpha.value

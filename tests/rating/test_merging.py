from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest

from capeval.errors import InputError, UsageError
from capeval.files.ratings import LabelTable, load_human
from capeval.rating.agreement import agreement, agreement_by_type
from capeval.rating.merging import (
    KeyedItem,
    RatedFile,
    check_key,
    checked_raters,
    human_csv,
    read_key,
    read_rated,
)
from capeval.rating.sheet import key_csv, sample_sheet, sheet_csv
from capeval.schema import RELATIONS, Annotation
from capeval.stats.values import Missing
from tests.rating.rating_examples import annotation

KEY = 'item_id,video_id,system,elements\ns12ab-001,w,"b, c",2\ns12ab-002,v,a,1 1\n'


def key_file(folder: Path, text: str = KEY) -> Path:
    path = folder / "key.csv"
    path.write_text(text, encoding="utf-8")
    return path


def rated(folder: Path, text: str, name: str = "ann.csv") -> RatedFile:
    path = folder / name
    path.write_bytes(text.encode("utf-8"))
    return read_rated(path, read_key(key_file(folder)))


def rated_with(folder: Path, text: str, key: dict[str, KeyedItem]) -> RatedFile:
    """Fill in every label of a sheet, and read it."""
    rows = list(csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline="")))
    path = folder / "filled.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows({**row, "label": "e"} for row in rows)
    return read_rated(path, key)


ANN = "item_id,element_id,label\ns12ab-001,e1.1,e\ns12ab-001,e1.2, LACK \ns12ab-002,1.1,c\n"


def test_labels_are_read_in_any_order_case_and_dialect(tmp_path: Path) -> None:
    plain = rated(tmp_path, ANN)
    assert dict(plain.labels) == {
        ("s12ab-001", "1.1"): "entailment",
        ("s12ab-001", "1.2"): "lack",
        ("s12ab-002", "1.1"): "contradiction",
    }
    assert plain.missing == (("s12ab-002", "2.1"),)
    assert plain.rater == "ann"
    saved = (
        "\ufeffCaption;Label;ITEM_ID;element_id;Rater\r\n;;;;\r\n"
        '"two\nlines; ""quoted""";contradiction;s12ab-002;e1.1;\r\n'
        ";Lack;s12ab-001;E1.2;Ann Smith\r\n;entailment;s12ab-001;e1.1;\r\n"
    )
    other = rated(tmp_path, saved)
    assert other.labels == plain.labels
    assert other.rater == "Ann Smith"
    assert rated(tmp_path, ANN.replace(",", "\t")).labels == plain.labels


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            ANN + "s12ab-003,e1.1,e\n",
            'line 5: item_id: the key has no item "s12ab-003"; did you mean',
        ),
        (
            ANN + "s99ff-001,e1.1,e\n",
            'line 5: item_id: "s99ff-001" belongs to a different sheet than the key',
        ),
        (ANN + ",e1.1,e\n", "line 5: item_id: is empty"),
        (ANN + "s12ab-001,e1.3,e\n", 'line 5: element_id: "e1.3" is unknown; .* has e1.1-2'),
        (
            ANN + "s12ab-001,e1.1,e\n",
            r"line 5: .*s12ab-001, 1.1 is duplicated \(see line 2\)",
        ),
        (ANN + "s12ab-002,e2.1,entaillment\n", 'line 5: label: .*did you mean "entailment"'),
        (
            ANN + "s12ab-002,e2.1,1\n",
            'label: "1" is unknown; one of entailment, lack, contradiction, or e, l, c',
        ),
        (
            ANN.replace("label", "lable"),
            'has no column label; did you mean "lable"',
        ),
        (ANN.replace("label", "label,label"), 'has two columns "label"'),
        ('item_id,element_id,label\n"s12ab-001,e1.1,e\n', "line 2: is not CSV"),
        (
            "item_id,element_id,label,rater\ns12ab-001,e1.1,e,Ann\ns12ab-001,e1.2,e,Bo\n",
            'line 3: rater: two raters in one file, "Ann" and "Bo"',
        ),
    ],
)
def test_faults_are_named_with_their_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        rated(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "item_id,video,system,elements\nx,v,a,1\n",
            'has no column video_id; did you mean "video"',
        ),
        ("item_id,video_id,system,elements\n", "has no rows"),
        (KEY + "s12ab-001,x,a,1\n", "s12ab-001 is duplicated"),
        (KEY + "s12ab-003,v,a,1\n", "v, a is duplicated"),
        (KEY + "s12ab-003,x,,1\n", "system: is empty"),
        (KEY + "s12ab-003,x,a,1 0\n", "elements: must be the number of elements"),
        (KEY + "s12ab-003,x,a,9999 2\n", "elements: has 10,001 elements for one caption"),
        (KEY + "s12ab-003,x\x00,a,1\n", "line 4: video_id: .* has a control character"),
    ],
)
def test_a_key_is_checked(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_key(key_file(tmp_path, text))


@pytest.mark.parametrize(
    "index",
    [
        '"',
        "=1",
        "'=1",
        "'v",
        "@\u00a0'",
        "v\u2028w",
        "0x1e5",
        "a;b;c;d;e",
        "|x",
        "%1",
    ],
)
def test_a_study_comes_back_whatever_its_names(tmp_path: Path, index: str) -> None:
    sheet = sample_sheet([annotation(index)], {f"s{index}": {index: index}}, videos=1)
    key = read_key(key_file(tmp_path, key_csv(sheet)))
    assert [(item.video_id, item.system) for item in key.values()] == [(index, f"s{index}")]
    file = rated_with(tmp_path, sheet_csv(sheet), key)
    assert set(file.labels) == {(sheet.items[0].item_id, e) for e in ("1.1", "1.2", "2.1")}
    human = tmp_path / "human.csv"
    human.write_text(
        human_csv([replace(file, rater=f"={index}")], key), encoding="utf-8", newline=""
    )
    table = load_human(human)
    assert isinstance(table, LabelTable)
    assert list(table.keys) == [(index.strip(), f"s{index}".strip())] * 3
    assert table.raters == (f"={index}".strip(),)
    for text in (key_csv(sheet), sheet_csv(sheet), human.read_text(encoding="utf-8")):
        for row in csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline="")):
            assert not any(cell.lstrip()[:1] in tuple("=+-@|%") for cell in row if cell.strip())


@pytest.mark.parametrize("name", ["a\rb", "a\r\nb", "a\x00b", "\x1b[2J", "a\x85b"])
def test_no_study_is_made_of_names_that_end_a_line(name: str) -> None:
    with pytest.raises(UsageError, match=r"the video .* has a control character in its name"):
        sample_sheet([annotation(name)], {"s": {name: "x"}})
    with pytest.raises(UsageError, match=r"the run .* has a control character in its name"):
        sample_sheet([annotation("v")], {name: {"v": "x"}})


def test_a_key_is_held_against_the_annotations(tmp_path: Path) -> None:
    path = key_file(tmp_path)
    key = read_key(path)
    check_key(key, [annotation("v", sizes=(1, 1)), annotation("w", sizes=(2,))], file=path)
    with pytest.raises(
        InputError, match='s12ab-002: the elements of "v" in the annotations differ from'
    ):
        check_key(key, [annotation("v", sizes=(2,)), annotation("w", sizes=(2,))], file=path)
    with pytest.raises(InputError, match='the annotations have no video "w"'):
        check_key(key, [annotation("v", sizes=(1, 1))], file=path)


def test_half_filled_sheets_need_partial(tmp_path: Path) -> None:
    ann = rated(tmp_path, ANN)
    with pytest.raises(InputError, match=r"1 of 4 labels are missing \(s12ab-002 e2.1\)"):
        checked_raters([ann])
    assert checked_raters([ann], partial=True) == (ann,)
    with pytest.raises(InputError, match="has no rows"):
        checked_raters([rated(tmp_path, "item_id,element_id,label\n", "bo.csv")], partial=True)


def test_a_key_that_was_edited_is_refused(tmp_path: Path) -> None:
    sheet = sample_sheet(
        [annotation("007"), annotation("w")], {s: {"007": "x", "w": "y"} for s in "ab"}
    )
    text = key_csv(sheet)
    assert len(read_key(key_file(tmp_path, text))) == 4
    lines = [line.split(",") for line in text.splitlines()]
    swapped = [[item, system, video, *rest] for item, video, system, *rest in lines[1:]]
    for edited in (
        [lines[0], *swapped],
        [[cell.replace("007", "7") for cell in line] for line in lines],
        [lines[0], [lines[2][0], *lines[1][1:]], [lines[1][0], *lines[2][1:]]],
        [lines[0], [*lines[1][:4], "c0"]],
    ):
        path = key_file(tmp_path, "".join(",".join(line) + "\n" for line in edited))
        with pytest.raises(InputError, match="check: the row is not as `capeval rate sheet` wrote"):
            read_key(path)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("ann", "ann\u200b"),
        ("ann", " ANN "),
        ("Zoë", "Zoe\u0308"),
        ("Ann Lee", "Ann\u00a0Lee"),
        ("ann", "\uff41nn"),
        ("ann", "\u202eann"),
        ("=ann", "'=ann"),
    ],
)
def test_names_that_look_alike_are_one_rater(tmp_path: Path, name: str, other: str) -> None:
    header = "item_id,element_id,label,rater\n"
    texts = [f"{header}s12ab-001,e1.1,e,{told}\n" for told in (name, other)]
    files = [rated(tmp_path, text, f"{n}.csv") for n, text in enumerate(texts)]
    with pytest.raises(InputError, match=r"1.csv: has the same rater as .*0.csv"):
        checked_raters(files, partial=True)
    one = rated(tmp_path, f"{texts[0]}s12ab-001,e1.2,e,{other}\n")
    assert one.rater == name


@pytest.mark.parametrize(
    ("header", "rater", "name", "told"),
    [
        ("rater", "a\x1bb", "x.csv", r"line 2: rater: .*\\u001b.* has a control character"),
        ("rater,rater", "a,b", "x.csv", 'has two columns "rater"'),
        (
            "rater",
            "",
            "\u200b.csv",
            "has no name of a rater, and the file is not named after one",
        ),
    ],
)
def test_raters_must_have_names(
    tmp_path: Path, header: str, rater: str, name: str, told: str
) -> None:
    with pytest.raises(InputError, match=told):
        rated(tmp_path, f"item_id,element_id,label,{header}\ns12ab-001,e1.1,e,{rater}\n", name)


def test_a_rater_is_there_once(tmp_path: Path) -> None:
    again = rated(tmp_path, ANN, "ANN.csv")
    with pytest.raises(InputError, match=r'has the same rater as .*ann.csv, "ANN"'):
        checked_raters([rated(tmp_path, ANN), again], partial=True)


def test_human_csv_is_unblinded_and_does_not_depend_on_the_order(tmp_path: Path) -> None:
    ann, bo = rated(tmp_path, ANN), rated(tmp_path, ANN + "s12ab-002,e2.1,e\n", "bo.csv")
    key = read_key(key_file(tmp_path))
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


def test_agreement_is_that_of_independent_tools() -> None:
    krippendorff = pytest.importorskip("krippendorff")
    cohen_kappa_score = pytest.importorskip("sklearn.metrics").cohen_kappa_score
    texts = {"a": "eelccle-lc", "b": "eelcclce-c", "c": "elle-lcelc"}
    found = agreement([made(rater, text) for rater, text in texts.items()])
    codes = [["elc".index(c) if c != "-" else float("nan") for c in t] for t in texts.values()]
    expected = krippendorff.alpha(reliability_data=codes, level_of_measurement="nominal")
    assert found.alpha == pytest.approx(expected, abs=1e-12)
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
        assert pair.kappa == pytest.approx(cohen_kappa_score(*zip(*both, strict=True)), abs=1e-12)
        assert pair.accuracy == sum(x == y for x, y in both) / len(both)


def test_agreement_that_does_not_exist_is_no_number() -> None:
    assert isinstance(agreement([made("a", "elc")]).alpha, Missing)
    apart = agreement([made("a", "el--"), made("b", "--ec")])
    assert isinstance(apart.alpha, Missing)
    assert isinstance(apart.pairs[0].kappa, Missing)
    assert apart.pairs[0].n == apart.n == 0
    same = agreement([made("a", "lll"), made("b", "lll")])
    assert isinstance(same.alpha, Missing)
    assert isinstance(same.pairs[0].kappa, Missing)
    assert same.pairs[0].ac1 == 1.0


def typed_annotation() -> Annotation:
    types = ("camera", "action", "camera", "action", "camera")
    elements = [{"content": "x", "type": kind, "weight": 1} for kind in types]
    events = [{"event": "x", "visual_elements": elements}]
    return Annotation.model_validate({"index": "v", "events": events})


def test_agreement_by_type_is_that_of_the_labels_of_that_type() -> None:
    files = [made("a", "elele"), made("b", "ececl")]
    key = {"i": KeyedItem("v", "s", (5,))}
    found = agreement_by_type(files, key, [typed_annotation()])
    assert list(found) == ["camera", "action"]
    camera, action = found["camera"], found["action"]
    assert (camera.n, camera.pairs[0].n) == (3, 3)
    assert camera.pairs[0].accuracy == pytest.approx(2 / 3)
    assert (action.n, action.pairs[0].accuracy) == (2, 0.0)
    assert camera.alpha == agreement([made("a", "e-e-e"), made("b", "e-e-l")]).alpha


def test_a_type_that_nobody_labelled_is_left_out() -> None:
    files = [made("a", "e----"), made("b", "e----")]
    found = agreement_by_type(files, {"i": KeyedItem("v", "s", (5,))}, [typed_annotation()])
    assert list(found) == ["camera"]
    assert isinstance(found["camera"].alpha, Missing)


def test_strata_of_the_key_are_in_human_csv(tmp_path: Path) -> None:
    videos = [annotation("v", "Low-Dynamic"), annotation("w", "High-Dynamic")]
    sheet = sample_sheet(videos, {"a": {"v": "x", "w": "y"}})
    key = read_key(key_file(tmp_path, key_csv(sheet)))
    assert {item.stratum for item in key.values()} == {
        ("Low-Dynamic", 1, 1),
        ("High-Dynamic", 1, 1),
    }
    labels = {
        (item.item_id, element): "lack" for item in sheet.items for element in ("1.1", "1.2", "2.1")
    }
    file = RatedFile("ann", tmp_path / "ann.csv", labels, ())  # type: ignore[arg-type]
    human = tmp_path / "human.csv"
    human.write_text(human_csv([file], key), encoding="utf-8")
    table = load_human(human)
    assert isinstance(table, LabelTable)
    assert set(table.strata or ()) == {("Low-Dynamic", 1, 1), ("High-Dynamic", 1, 1)}


def test_edited_stratum_of_a_key_is_refused(tmp_path: Path) -> None:
    sheet = sample_sheet([annotation("v", "Low-Dynamic")], {"a": {"v": "x"}})
    text = key_csv(sheet)
    for old, new in ((",1,1,", ",9,1,"), ("Low-Dynamic", "High-Dynamic")):
        with pytest.raises(InputError, match="check: the row is not as `capeval rate sheet` wrote"):
            read_key(key_file(tmp_path, text.replace(old, new)))
    with pytest.raises(InputError, match="has no column stratum_sampled"):
        read_key(key_file(tmp_path, text.replace("stratum_sampled", "other")))

import csv
import io
import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

import capeval
from capeval.errors import CapevalError, UsageError
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
from tests.world import ROOT, typed

pytestmark = pytest.mark.usefixtures("alone")

SAMPLE = ROOT / "annotations" / "sample"
OF_SAMPLE = "You have no run of your own under runs/: sampling the bundled sample."


def rows(path: Path) -> list[dict[str, str]]:
    text = path.read_text(encoding="utf-8-sig")
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_a_study_from_sheet_to_human_csv(tmp_path: Path) -> None:
    made = typed(tmp_path, "rate", "sheet", "--count", "4", "--seed", "0")
    assert (made.code, made.err) == (0, f"{OF_SAMPLE}\n")
    assert "4 videos, 12 captions of 3 runs" in made.out
    assert "videos found: 4 of 4" in made.out
    folder = tmp_path / "rating"
    assert sorted(path.name for path in folder.iterdir()) == ["key.csv", "sheet.html"]
    assert "sample-" not in (folder / "sheet.html").read_text(encoding="utf-8")
    exported(folder / "key.csv", tmp_path / "ann.csv", "ann")
    exported(folder / "key.csv", tmp_path / "[bo].csv", "[bo]", "lack", leave=3)
    command = ("rate", "merge", "ann.csv", "[bo].csv", "--key", "rating/key.csv")

    refused = typed(tmp_path, *command)
    assert refused.code == 2
    assert "[bo].csv: 3 of 162 labels are missing (s" in refused.err
    assert not (tmp_path / "human.csv").exists()

    merged = typed(tmp_path, *command, "--partial", "--annotations", "sample")
    assert merged.code == 0
    assert "[bo].csv: 3 of 162 labels are missing" in merged.err
    assert "[bo] – ann" in merged.out
    assert "Krippendorff's alpha (nominal)" in merged.out
    assert "By type: camera " in merged.out
    assert merged.out.endswith(" --human human.csv\nWritten: human.csv\n")
    human = rows(tmp_path / "human.csv")
    assert list(human[0]) == ["video_id", "system", "element_id", "rater", "label", "caption_hash"]
    assert len(human) == 2 * 162 - 3
    assert {(row["rater"], row["label"]) for row in human} == {
        ("ann", "entailment"),
        ("[bo]", "lack"),
    }


def test_same_seed_same_bytes_and_a_study_is_not_overwritten(tmp_path: Path) -> None:
    command = ("rate", "sheet", "--count", "3", "sample-terse", "sample-thorough")
    assert typed(tmp_path, *command, "--out", "one").code == 0
    assert typed(tmp_path, *command, "--out", "two").code == 0
    for name in ("sheet.html", "key.csv"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert (typed(tmp_path, *command, "--out", "one")).code == 0
    other = typed(tmp_path, *command, "--out", "one", "--seed", "1")
    assert other.code == 2
    assert "one/key.csv: belongs to another sheet (of other captions, runs or options); choose" in (
        other.err
    )


def test_own_runs_and_videos(tmp_path: Path) -> None:
    shutil.copy(SAMPLE / "annotations.json", tmp_path / "own.json")
    for name in ("terse", "confused"):
        run = tmp_path / "runs" / name
        run.mkdir(parents=True)
        shutil.copy(SAMPLE / "captions" / f"{name}.jsonl", run / "captions.jsonl")
    plain = typed(tmp_path, "rate", "sheet", "--count", "10")
    assert plain.code == 2
    assert "name its annotations with --annotations" in plain.err
    (tmp_path / "films").mkdir()
    (tmp_path / "films" / "sample_01.mp4").write_bytes(b"")
    made = typed(
        tmp_path,
        *("rate", "sheet", "--count", "10", "--per-video", "1", "--annotations", "own.json"),
        *("--videos", "films", "--out", "a/b"),
    )
    assert made.code == 0
    assert "10 videos, 10 captions of 2 runs" in made.out
    assert "videos found: 1 of 10" in made.out
    assert "9 videos not found: " in made.err
    page = (tmp_path / "a" / "b" / "sheet.html").read_text(encoding="utf-8")
    assert json.dumps("./../../films/sample_01.mp4") in page


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    for arguments, message in (
        (
            ("sheet", "--count", "40"),
            "40 videos were requested, but 10 are captioned by all runs; use --count 10",
        ),
        (("merge", "x.csv", "--key", "none.csv"), "none.csv: does not exist"),
        (("sheet", "--count", "1", "--videos", "nowhere"), "nowhere: does not exist; name the fo"),
        (("merge", "x.csv", "--key", "k.csv", "--out", "x.csv"), "x.csv is one of the files"),
    ):
        ended = typed(tmp_path, "rate", *arguments)
        assert ended.code == 2, arguments
        assert message in ended.err
        assert ended.err.removeprefix(f"{OF_SAMPLE}\n").count("\n") == 1


def test_merge_replaces_nothing_that_differs(tmp_path: Path) -> None:
    assert (typed(tmp_path, "rate", "sheet", "--count", "1")).code == 0
    exported(tmp_path / "rating" / "key.csv", tmp_path / "ann.csv", "ann")
    command = ("rate", "merge", "ann.csv", "--key", "rating/key.csv")
    human = tmp_path / "human.csv"
    assert (typed(tmp_path, *command)).code == 0
    assert (typed(tmp_path, *command)).code == 0
    human.write_text("two weeks of work", encoding="utf-8")
    refused = typed(tmp_path, *command)
    assert refused.code == 2
    assert "human.csv exists with other contents; rename it" in refused.err
    assert human.read_text(encoding="utf-8") == "two weeks of work"


ANNOTATIONS = [annotation(f"v{n:02}") for n in range(80)]
SYSTEMS = ("alpha", "beta", "gamma")


def captions(annotations: list[Annotation] = ANNOTATIONS) -> dict[str, dict[str, str]]:
    return {s: {a.index: f"What {s[0]} says of {a.index}." for a in annotations} for s in SYSTEMS}


def test_every_video_is_as_likely_as_any_other_and_systems_are_balanced() -> None:
    counts: Counter[str] = Counter()
    for seed in range(60):
        sheet = sample_sheet(ANNOTATIONS, captions(), videos=39, per_video=2, seed=seed)
        used = Counter(item.system for item in sheet.items)
        assert max(used.values()) - min(used.values()) <= 1
        counts.update({item.annotation.index for item in sheet.items})
    # Binomial: 60 draws of each video.
    share = 39 / 80
    limit = 5 * (60 * share * (1 - share)) ** 0.5
    assert all(abs(n - 60 * share) <= limit for n in counts.values())


def test_captions_of_a_video_stand_together_and_systems_in_no_order() -> None:
    sheet = sample_sheet(ANNOTATIONS, captions(), videos=40)
    indexes = [item.annotation.index for item in sheet.items]
    assert indexes == [index for index in dict.fromkeys(indexes) for _ in SYSTEMS]
    assert indexes != sorted(indexes)
    firsts = Counter(item.system for item in sheet.items[::3])
    assert set(firsts) == set(SYSTEMS)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("videos", [6, 7, 40])
def test_every_system_has_every_place_equally_often(videos: int, seed: int) -> None:
    sheet = sample_sheet(ANNOTATIONS, captions(), videos=videos, seed=seed)
    counts = Counter((item.system, number % 3) for number, item in enumerate(sheet.items))
    times = [counts[system, place] for system in SYSTEMS for place in range(3)]
    assert max(times) - min(times) <= 1


def test_only_videos_that_enough_systems_captioned_are_drawn() -> None:
    some = captions(ANNOTATIONS[:10])
    some["gamma"] = {"v03": "Three.", "v04": "Four."}
    assert {item.annotation.index for item in sample_sheet(ANNOTATIONS, some, videos=2).items} == {
        "v03",
        "v04",
    }
    with pytest.raises(UsageError, match="2 are captioned by all runs; use --count 2"):
        sample_sheet(ANNOTATIONS, some, videos=3)
    assert len(sample_sheet(ANNOTATIONS, some).items) == 2 * 3
    assert len(sample_sheet(ANNOTATIONS, captions()).items) == 40 * 3
    some["delta"] = {}
    with pytest.raises(UsageError, match="no video is captioned by all runs"):
        sample_sheet(ANNOTATIONS, some)
    del some["delta"]
    assert len(sample_sheet(ANNOTATIONS, some, videos=10, per_video=2).items) == 20
    with pytest.raises(UsageError, match=r"--per-video 4 is more than there are runs \(3\)"):
        sample_sheet(ANNOTATIONS, some, videos=1, per_video=4)


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
        ([ANN + "s12ab-001,e1.1,ann,lack"], KEY, "line 5: .*s12ab-001, 1.1 is duplicated .see li"),
        ([ANN + "s12ab-002,e2.1,ann,entaillment"], KEY, 'line 5: label: .*did you mean "entailme'),
        ([ANN + "s12ab-002,e2.1,bo,lack"], KEY, 'line 5: rater: two raters in one file, "ann" an'),
        ([ANN, ANN.replace(",ann,", ",\uff21NN ,")], KEY, "1.csv: has the same rater as 0.csv"),
        ([], KEY, "name the raters' files"),
        (
            [ANN, "item_id,element_id,rater,label\ns12ab-001,e1.1,zoe,\n"],
            KEY,
            "1.csv: has no labels",
        ),
        ([ANN], KEY + "s12ab-001,x,a,1,0c\n", "s12ab-001 is duplicated"),
        ([ANN], KEY + "s12ab-003,v,a,1,0c\n", "v, a is duplicated"),
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
        with pytest.raises(CapevalError, match=f'the annotations lack video "{named}", or its'):
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
    # Of a and b by hand: 7 of 8 are alike, and by chance 22/64 are.
    assert found.pairs[0].kappa.value == pytest.approx((7 / 8 - 22 / 64) / (1 - 22 / 64))


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

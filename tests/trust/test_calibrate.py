import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import capeval
from capeval.files.judgments import caption_hash, reference_hash
from capeval.schema import RELATIONS, Inputs, Provenance, Relation
from capeval.scoring.counts import AnnotationArrays, measures
from capeval.stats.calibration import calibrate
from capeval.trust.calibrate import Calibrated
from tests.judged_runs import BY, make_run, write_annotations
from tests.scoring.making import annotation, scored
from tests.world import here as typed

SIGNS: dict[Relation, str] = {"entailment": "+", "lack": "0", "contradiction": "-"}
VIDEOS = [
    annotation(
        f"v{n:02}",
        "c3 s2 a3" if n % 3 else "s1 a3 t2",
        "t1 a1",
        visual_characteristic="High-Dynamic" if n % 2 else "Low-Dynamic",
    )
    for n in range(40)
]
ELEMENTS = ["1.1", "1.2", "1.3", "2.1", "2.2"]
CAPTION = "A dog runs."
HUMAN = Path("human.csv")
FILE = Path("runs/mine/judge/calibrated.json")
AGREEMENT = FILE.with_name("agreement.json")
OLD = Provenance(judge="old", prompts="p@1", models=("old-1",), baseline=False)


def labels(seed: int) -> dict[str, list[Relation]]:
    """Labels of every caption; the same seed gives the same system."""
    rng = np.random.default_rng(seed)
    quality = rng.random(len(VIDEOS))
    return {
        video.index: [
            "entailment" if rng.random() < q else str(rng.choice(RELATIONS[1:]))  # type: ignore[misc]
            for _ in ELEMENTS
        ]
        for video, q in zip(VIDEOS, quality, strict=True)
    }


def confused(given: dict[str, list[Relation]], seed: int) -> dict[str, list[Relation]]:
    rng = np.random.default_rng(seed)
    return {
        index: [str(rng.choice(RELATIONS)) if rng.random() < 0.3 else one for one in of]  # type: ignore[misc]
        for index, of in given.items()
    }


def make(
    name: str,
    judged: dict[str, list[Relation]],
    *,
    judge: str = "judge",
    by: Provenance = BY,
    rows: Sequence[int] = range(len(VIDEOS)),
) -> None:
    found = []
    for video in (VIDEOS[row] for row in rows):
        signs = "".join(SIGNS[one] for one in judged[video.index])
        inputs = Inputs(judge="", caption=caption_hash(CAPTION), reference=reference_hash(video))
        found.append(scored(video.index, f"{signs[:3]} {signs[3:]}", provenance=by, inputs=inputs))
    make_run(Path(), name, found, judge=judge)


def make_old(given: dict[str, list[Relation]]) -> None:
    """Make a run of some of the captions, judged by the old judge."""
    make("asked", given, judge="old", by=OLD, rows=SAMPLE)


def write_human(
    given: dict[str, list[Relation]],
    rows: Sequence[int],
    *,
    system: str = "mine",
    rater: str = "ann",
    append: bool = False,
) -> None:
    head = "" if append else "video_id,system,element_id,rater,label\n"
    lines = [
        f"{VIDEOS[row].index},{system},{element},{rater},{label}\n"
        for row in rows
        for element, label in zip(ELEMENTS, given[VIDEOS[row].index], strict=True)
    ]
    with HUMAN.open("a" if append else "w") as stream:
        stream.writelines([head, *lines])


TRUE = labels(1)
JUDGED = confused(TRUE, 2)
SAMPLE = [*range(0, 40, 2), 1, 3, 5, 7]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_annotations(Path(), VIDEOS)
    make("mine", JUDGED)
    write_human(TRUE, SAMPLE)


def calibrated(labels: str | Path = HUMAN, **options: Any) -> Calibrated:
    return capeval.calibrate("mine", labels=labels, **options)


def values_of(given: dict[str, list[Relation]], rows: Sequence[int]) -> Any:
    """Precision, recall and F1 of the videos of some rows: (video, kind, measure)."""
    relations = [(of[:3], of[3:]) for of in (given[VIDEOS[row].index] for row in rows)]
    return measures(AnnotationArrays(VIDEOS).counts(rows, relations))


@pytest.mark.parametrize(
    ("kind", "place", "measure", "column"), [("all", 0, "f1", 2), ("camera", 1, "recall", 1)]
)
def test_scores_are_those_of_the_estimator(
    kind: str, place: int, measure: str, column: int
) -> None:
    judge, human = values_of(JUDGED, range(40)), values_of(TRUE, range(40))
    labels = np.full(len(VIDEOS), np.nan)
    labels[SAMPLE] = human[SAMPLE, place, column]
    wanted = calibrate(judge[:, place, column], labels)
    one = getattr(getattr(calibrated().overall, kind), measure)
    own = getattr(getattr(capeval.score("mine").overall, kind), measure)
    assert (one.judge, one.n, one.labelled) == (own.value, wanted.videos, wanted.labelled)
    assert one.value == pytest.approx(wanted.value)
    assert (one.low, one.high) == pytest.approx(wanted.interval or (None, None))
    same = (one.same_videos.low, one.same_videos.high)
    assert same == pytest.approx(wanted.same_videos or (None, None))
    assert one.labels_alone.value == pytest.approx(wanted.alone)
    assert one.reason == wanted.reason


def test_result_is_a_table_and_a_file_of_its_own() -> None:
    before = {file for file in Path("runs").rglob("*") if file.is_file()}
    score = typed("score", "mine", "--json")
    code, out, err = typed("calibrate", "mine", "--labels", "human.csv")
    assert (code, err.splitlines()[0]) == (0, f"Written: {FILE}")
    assert "calibrated with human labels of 24/40 videos; 54.8 by gpt-4o" in out.splitlines()[0]
    assert {file for file in Path("runs").rglob("*") if file.is_file()} == {
        *(*before, FILE, AGREEMENT)
    }
    found = json.loads(FILE.read_text())
    assert found == calibrated().model_dump(mode="json")
    assert found == typed("calibrate", "mine", "--labels", "human.csv", "--json").json
    assert (found["labels"]["origin"], found["labels"]["file"]) == ("human", "human.csv")
    assert typed("score", "mine", "--json") == score
    assert found["signature"] == score.json["signature"]


def test_kappa_with_human_labels_is_known_of_the_judge() -> None:
    make_old(TRUE)
    capeval.calibrate("mine", labels="asked")
    assert not AGREEMENT.exists(), "another judge is no human rater"
    capeval.calibrate("mine", labels="human.csv")
    capeval.calibrate("mine", labels="human.csv")
    (known,) = json.loads(AGREEMENT.read_text())
    assert (known["statistic"], known["videos"], known["raters"]) == ("kappa", 24, 1)
    kappa = capeval.correlate("human.csv", {"m": "mine"}).elements.tables[0].kappa
    assert [known[end] for end in ("value", "low", "high")] == [kappa.value, kappa.low, kappa.high]


def test_verdicts_outside_a_run_leave_no_file() -> None:
    shutil.copy("runs/mine/judge/judgments.jsonl", "elsewhere.jsonl")
    write_human(TRUE, SAMPLE, system="elsewhere")
    labels = ("--labels", "human.csv", "--annotations", "annotations.json")
    of_file = typed("calibrate", "elsewhere.jsonl", *labels, "--json")
    assert of_file.err == ""
    write_human(TRUE, SAMPLE)
    assert of_file.json["overall"] == calibrated().overall.model_dump(mode="json")


def test_labels_are_of_the_run_or_of_its_model_alone() -> None:
    by_run = calibrated().overall
    write_human(labels(7), SAMPLE, system="other")
    write_human(TRUE, SAMPLE, system="mine-model", append=True)
    assert calibrated().overall == by_run


def test_raters_are_averaged_and_partial_ones_left_out() -> None:
    write_human(confused(TRUE, 5), SAMPLE[:-1], rater="bo", append=True)
    lines = HUMAN.read_text().splitlines(keepends=True)
    # Bo's last label and all but one of Ann's first video: Bo's are complete there.
    HUMAN.write_text("".join([lines[0], *lines[5:-1]]))
    found = calibrated()
    assert (found.labels.raters, found.labels.labelled) == (2, 24)
    one, other = (values_of(g, SAMPLE) for g in (TRUE, confused(TRUE, 5)))
    human = (one + other) / 2
    human[0] = other[0]
    human[-2:] = one[-2:]
    assert found.overall.all.recall.labels_alone.value == pytest.approx(human[:, 0, 1].mean())


def test_labels_that_are_left_out_are_counted() -> None:
    judge, run = Path("runs/mine/judge/judgments.jsonl"), Path("runs/mine/captions.jsonl")
    verdicts, captions, rows = (f.read_text().splitlines(True) for f in (judge, run, HUMAN))
    verdicts[2] = '{"index": "v02", "status": "unscored", "reason": "refused"}\n'
    judge.write_text("".join(verdicts))
    run.write_text("".join(captions[:4] + captions[5:]))
    HUMAN.write_text("".join([*rows[:-1], "zz,mine,1.1,ann,lack\n"]))
    found = calibrated()
    assert found.labels.left_out == {
        "of a video without an annotation": 1,
        "of a video without a caption": 1,
        "not fully labelled by any rater": 1,
        "not scored by the judge": 1,
    }
    assert found.labels.labelled == found.overall.all.f1.labelled == 21
    assert "4 labelled captions left out: " in found.warnings[1]


def test_labels_of_a_caption_that_was_replaced_are_left_out() -> None:
    head, *lines = HUMAN.read_text().splitlines()
    now, former = caption_hash(CAPTION), caption_hash("A former dog.")
    texts = [former if line.startswith("v00,") else now for line in lines]
    labelled = (f"{line},{text}" for line, text in zip(lines, texts, strict=True))
    HUMAN.write_text("\n".join([f"{head},caption_hash", *labelled]))
    found = calibrated()
    assert found.labels.left_out == {"whose labels are of another caption": 1}
    assert json.loads(AGREEMENT.read_text())[0]["videos"] == found.labels.labelled == 23
    assert "1 labelled caption left out: 1 whose labels are of another cap" in found.warnings[1]


def test_binary_labels_give_recall_alone() -> None:
    text = HUMAN.read_text().replace("entailment", "1")
    HUMAN.write_text(text.replace("lack", "0").replace("contradiction", "0"))
    found = calibrated()
    assert found.labels.scale == "binary"
    assert found.overall.all.recall.low is not None
    assert found.overall.all.f1.value is None
    assert found.overall.all.f1.reason == "binary labels give recall only"
    human = values_of(TRUE, SAMPLE)
    assert found.overall.all.recall.labels_alone.value == pytest.approx(human[:, 0, 1].mean())
    out = typed("calibrate", "mine", "--labels", "human.csv").out
    assert out.startswith("mine: recall ")


@pytest.mark.parametrize("count", [19, 20])
def test_few_labels_have_no_interval_or_a_note(count: int) -> None:
    write_human(TRUE, SAMPLE[:count])
    found = calibrated()
    least = "intervals need 20" if count < 20 else "with fewer than 40, intervals are too narrow"
    assert found.warnings[0].startswith(f"only {count} labelled videos; {least}")
    assert (found.overall.all.f1.low is None) == (count < 20)
    assert found.overall.all.f1.value is not None


def test_another_judge_says_what_it_would_give_over_all_videos() -> None:
    make_old(TRUE)
    out = typed("calibrate", "mine", "--labels", "asked").out
    assert "calibrated with labels by old of 24/40 videos" in out.splitlines()[0]
    found = calibrated("asked")
    assert found.overall == calibrated().overall
    assert json.loads(found.model_dump_json())["labels"]["origin"]["prompts"] == "p@1"
    assert calibrated("runs/asked/old") == calibrated("runs/asked/old/judgments.jsonl") == found


def judged_by_the_old_judge() -> None:
    make_old(TRUE)
    shutil.copytree("runs/asked/old", "runs/mine/old")


def other_captions() -> None:
    make_old(TRUE)
    captions = Path("runs/mine/captions.jsonl")
    captions.write_text(captions.read_text().replace(CAPTION, "A cat."))


def two_runs_of_one_model() -> None:
    write_human(TRUE, SAMPLE, system="mine-model")
    shutil.copytree("runs/mine", "runs/other-frames")


HEAD = "video_id,system,element_id,label\n"
REFUSED: list[tuple[str | Callable[[], None], tuple[str, ...], str]] = [
    ("video_id,system,score\nv00,mine,3\n", (), "has ratings of captions; calibrated scores need"),
    (HEAD + "v00,x,1.1,lack\n", (), 'no labels of mine; its systems are "x"'),
    (HEAD + "v00,mine,1.1,lack\n", (), "no complete labels of mine: 1 not"),
    (HEAD + "zz,mine,1.1,lack\n", (), "1 of a video without an annotation"),
    (HEAD + "v00,mine,9.9,lack\n", (), 'v00 has no element "9.9"'),
    (two_runs_of_one_model, (), "which is also that of other-frames; put the names of the runs"),
    (
        judged_by_the_old_judge,
        ("--labels", "asked", "--judge", "old"),
        "has verdicts of the same judge as mine (old, p@1, repeats 1)",
    ),
    (
        other_captions,
        ("--labels", "asked"),
        "no complete labels of mine: 24 whose labels are of another caption",
    ),
]


@pytest.mark.parametrize(("given", "options", "message"), REFUSED)
def test_labels_that_cannot_be_used_are_one_line(
    given: str | Callable[[], None], options: tuple[str, ...], message: str
) -> None:
    if isinstance(given, str):
        HUMAN.write_text(given)
    else:
        given()
    before = HUMAN.read_text()
    code, out, err = typed("calibrate", "mine", "--labels", "human.csv", *options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert not FILE.exists()
    assert HUMAN.read_text() == before

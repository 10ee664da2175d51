"""`capeval calibrate`: a judge's scores corrected with labels of some captions."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import capeval
from capeval.files.judgments import caption_hash, reference_hash, write_judgments
from capeval.schema import (
    RELATIONS,
    Annotation,
    Caption,
    Inputs,
    Provenance,
    Relation,
)
from capeval.scoring import AnnotationArrays, measures
from capeval.stats.calibration import calibrate
from capeval.trust.calibrate import Calibrated
from tests.judged_runs import BY
from tests.scoring.making import annotation, scored
from tests.typed import here as typed

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
HUMAN = Path("human.csv")
FILE = Path("runs/mine/judge/calibrated.json")
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
    text: str = "A dog.",
    *,
    judge: str = "judge",
    by: Provenance = BY,
    rows: Sequence[int] = range(len(VIDEOS)),
) -> None:
    run = Path("runs") / name
    (run / judge).mkdir(parents=True)
    videos = [VIDEOS[row] for row in rows]
    lines = [{"index": v.index, "caption": text, "model": f"m-{name}"} for v in videos]
    (run / "captions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    manifest = {"annotations": {"path": str(Path("a.json").absolute())}}
    (run / "manifest.json").write_text(json.dumps(manifest))
    caption = caption_hash(Caption(index="v", caption=text))
    found = [
        scored(
            v.index,
            f"{''.join(s[:3])} {''.join(s[3:])}",
            provenance=by,
            inputs=Inputs(judge="", caption=caption, reference=reference_hash(v))
            if by is not BY
            else None,
        )
        for v in videos
        if (s := [SIGNS[one] for one in judged[v.index]])
    ]
    write_judgments(run / judge / "judgments.jsonl", found)


def write_human(
    given: dict[str, list[Relation]],
    rows: Sequence[int],
    *,
    system: str = "mine",
    file: Path = HUMAN,
    rater: str = "ann",
    append: bool = False,
) -> None:
    head = ["video_id", "system", "element_id", "rater", "label"]
    with file.open("a" if append else "w", newline="") as stream:
        out = csv.writer(stream)
        if not append:
            out.writerow(head)
        for row in rows:
            video = VIDEOS[row]
            for element, label in zip(ELEMENTS, given[video.index], strict=True):
                out.writerow([video.index, system, element, rater, label])


TRUE = labels(1)
JUDGED = confused(TRUE, 2)
SAMPLE = [*range(0, 40, 2), 1, 3, 5, 7]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.json").write_text(json.dumps([video.model_dump() for video in VIDEOS]))
    make("mine", JUDGED)
    write_human(TRUE, SAMPLE)


def calibrated(labels: str | Path = HUMAN, **options: Any) -> Calibrated:
    return capeval.calibrate("mine", labels=labels, **options)


def values_of(given: dict[str, list[Relation]], videos: Sequence[Annotation]) -> Any:
    arrays = AnnotationArrays(VIDEOS)
    relations = [(of[:3], of[3:]) for of in (given[v.index] for v in videos)]
    return measures(arrays.counts([arrays.rows[v.index] for v in videos], relations))


@pytest.mark.parametrize(
    ("kind", "place", "measure", "column"), [("all", 0, "f1", 2), ("camera", 1, "recall", 1)]
)
def test_scores_are_those_of_the_estimator(
    kind: str, place: int, measure: str, column: int
) -> None:
    judge, human = values_of(JUDGED, VIDEOS), values_of(TRUE, VIDEOS)
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
    assert (code, err) == (0, f"{FILE}: written\n")
    assert "calibrated with human labels of 24/40 videos; 54.8 by gpt-4o" in out.splitlines()[0]
    assert {file for file in Path("runs").rglob("*") if file.is_file()} == before | {FILE}
    found = json.loads(FILE.read_text())
    assert found == calibrated().model_dump(mode="json")
    assert found == typed("calibrate", "mine", "--labels", "human.csv", "--json").json
    assert (found["labels"]["origin"], found["labels"]["file"]) == ("human", "human.csv")
    assert typed("score", "mine", "--json") == score
    assert found["signature"] == score.json["signature"]
    full = typed("calibrate", "mine", "--labels", "human.csv", "--format", "markdown").out
    assert "| all | precision | 24/40 |" in full


def test_verdicts_outside_a_run_leave_a_file_only_where_asked() -> None:
    shutil.copy("runs/mine/judge/judgments.jsonl", "elsewhere.jsonl")
    write_human(TRUE, SAMPLE, system="elsewhere")
    make_old(TRUE, SAMPLE)
    of_run = calibrated("asked").overall
    command = ("calibrate", "elsewhere.jsonl", "--labels", "human.csv", "--annotations", "a.json")
    assert typed(*command).err == ""
    assert typed(*command, "--out", "c.json").out.endswith("Written: c.json\n")
    assert json.loads(Path("c.json").read_text())["overall"] == of_run.model_dump(mode="json")


def test_labels_are_of_the_run_or_of_its_model_alone() -> None:
    write_human(labels(7), SAMPLE, system="other")
    write_human(TRUE, SAMPLE, system="m-mine", append=True)
    by_model = calibrated().overall
    write_human(TRUE, SAMPLE, system="mine")
    assert calibrated().overall == by_model


def test_raters_are_averaged_and_partial_ones_left_out() -> None:
    write_human(TRUE, SAMPLE)
    write_human(confused(TRUE, 5), SAMPLE[:-1], rater="bo", append=True)
    lines = HUMAN.read_text().splitlines(keepends=True)
    # Bo's last label and all but one of Ann's first video: Bo's are complete there.
    HUMAN.write_text("".join([lines[0], *lines[5:-1]]))
    found = calibrated()
    assert (found.labels.raters, found.labels.labelled) == (2, 24)
    one, other = (values_of(g, [VIDEOS[row] for row in SAMPLE]) for g in (TRUE, confused(TRUE, 5)))
    human = (one + other) / 2
    human[0] = other[0]
    human[-2:] = one[-2:]
    assert found.overall.all.recall.labels_alone.value == pytest.approx(human[:, 0, 1].mean())


def test_labels_that_are_left_out_are_counted() -> None:
    verdicts = Path("runs/mine/judge/judgments.jsonl").read_text().splitlines()
    unscored = {"index": "v02", "status": "unscored", "reason": "refused"}
    Path("runs/mine/judge/judgments.jsonl").write_text(
        "\n".join([*verdicts[:2], json.dumps(unscored), *verdicts[3:]]) + "\n"
    )
    captions = Path("runs/mine/captions.jsonl").read_text().splitlines(keepends=True)
    del captions[4]
    Path("runs/mine/captions.jsonl").write_text("".join(captions))
    text = HUMAN.read_text().splitlines()
    HUMAN.write_text("\n".join([*text[:-1], "zz,mine,1.1,ann,lack"]) + "\n")
    found = calibrated()
    assert found.labels.left_out == {
        "of a video without an annotation": 1,
        "of a video without a caption": 1,
        "not fully labelled by any rater": 1,
        "not scored by the judge": 1,
    }
    assert found.labels.labelled == found.overall.all.f1.labelled == 21
    assert "4 labelled captions left out: " in found.warnings[1]


def test_binary_labels_give_recall_alone() -> None:
    text = HUMAN.read_text().replace("entailment", "1")
    HUMAN.write_text(text.replace("lack", "0").replace("contradiction", "0"))
    found = calibrated()
    assert found.labels.scale == "binary"
    assert found.overall.all.recall.low is not None
    assert found.overall.all.f1.value is None
    assert found.overall.all.f1.reason == "binary labels give recall only"
    human = values_of(TRUE, [VIDEOS[row] for row in SAMPLE])
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


WRONG = [
    ("video_id,system,score\nv00,mine,3\n", "has ratings of captions; calibrated scores need"),
    (
        "video_id,system,element_id,label\nv00,x,1.1,lack\n",
        'no labels of mine; its systems are "x"',
    ),
    ("video_id,system,element_id,label\nv00,mine,1.1,lack\n", "no complete labels of mine: 1 not"),
    ("video_id,system,element_id,label\nzz,mine,1.1,lack\n", "1 of a video without an annotation"),
    ("video_id,system,element_id,label\nv00,mine,9.9,lack\n", 'v00 has no element "9.9"'),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_file_that_cannot_be_used_is_one_line(text: str, message: str) -> None:
    HUMAN.write_text(text)
    code, out, err = typed("calibrate", "mine", "--labels", "human.csv")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert not FILE.exists()


def test_output_cannot_replace_the_labels() -> None:
    code, _, err = typed("calibrate", "mine", "--labels", "human.csv", "--out", "human.csv")
    assert (code, "human.csv is one of the files to be read" in err) == (2, True)
    assert HUMAN.read_text().startswith("video_id,")


def make_old(given: dict[str, list[Relation]], rows: Sequence[int], name: str = "asked") -> None:
    """Make a run of some of the captions, judged by the old judge."""
    make(name, given, judge="old", by=OLD, rows=rows)


def test_another_judge_says_what_it_would_give_over_all_videos() -> None:
    make_old(TRUE, SAMPLE)
    out = typed("calibrate", "mine", "--labels", "asked").out
    assert "calibrated with labels by old of 24/40 videos" in out.splitlines()[0]
    found = calibrated("asked")
    assert found.overall == calibrated().overall
    assert json.loads(found.model_dump_json())["labels"]["origin"]["prompts"] == "p@1"
    assert calibrated("runs/asked/old") == calibrated("runs/asked/old/judgments.jsonl") == found


def test_a_judge_does_not_correct_itself() -> None:
    make_old(TRUE, SAMPLE)
    shutil.copytree("runs/asked/old", "runs/mine/old")
    code, out, err = typed("calibrate", "mine", "--judge", "old", "--labels", "asked")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "has verdicts of the same judge as mine (old, p@1, repeats 1)" in err


def test_verdicts_on_other_captions_are_no_labels() -> None:
    make_old(TRUE, SAMPLE, "asked")
    captions = Path("runs/mine/captions.jsonl")
    captions.write_text(captions.read_text().replace("A dog.", "A cat."))
    code, _, err = typed("calibrate", "mine", "--labels", "asked")
    assert (code, err.count("\n")) == (2, 1)
    assert "no complete labels of mine: 24 whose verdict is on another caption" in err


def test_labels_under_the_name_of_a_model_need_to_be_of_one_run() -> None:
    write_human(TRUE, SAMPLE, system="m-mine")
    shutil.copytree("runs/mine", "runs/other-frames")
    code, _, err = typed("calibrate", "mine", "--labels", "human.csv")
    assert (code, err.count("\n")) == (2, 1)
    assert "which is also that of other-frames; put the names of the runs into the column" in err

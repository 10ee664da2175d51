"""`capeval score RUN --labels FILE`: scores calibrated with labels of some captions."""

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
from capeval.runs.folder import RunFolder
from capeval.runs.judged_run import load_judged
from capeval.schema import (
    RELATIONS,
    Annotation,
    Caption,
    Inputs,
    LabellingJudge,
    Provenance,
    Relation,
)
from capeval.scoring import AnnotationArrays, measures
from capeval.scoring.result import Calibrated
from capeval.stats.calibration import Calibration, calibrate
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
SCORES = "runs/mine/judge/scores.json"
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
    scores = load_judged(run).scores
    text = json.dumps(scores.model_dump(mode="json"), indent=1)
    (run / judge / "scores.json").write_text(text + "\n")


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


def stored(run: str = "mine") -> dict[str, Any]:
    value: dict[str, Any] = json.loads(Path(f"runs/{run}/judge/scores.json").read_text())
    return value


def calibrated(**options: Any) -> Calibrated:
    found = capeval.score("mine", **options).calibrated
    assert found is not None
    return found


def values_of(given: dict[str, list[Relation]], videos: Sequence[Annotation]) -> Any:
    arrays = AnnotationArrays(VIDEOS)
    relations = [(of[:3], of[3:]) for of in (given[v.index] for v in videos)]
    return measures(arrays.counts([arrays.rows[v.index] for v in videos], relations))


def expected(judge: Any, human: Any, rows: Sequence[int], group: int, measure: int) -> Calibration:
    labels = np.full(len(judge), np.nan)
    labels[rows] = human[rows, group, measure]
    return calibrate(judge[:, group, measure], labels, bounds=(-1.0, 1.0))


def test_scores_are_those_of_the_estimator() -> None:
    found = calibrated(labels=HUMAN)
    judge, human = values_of(JUDGED, VIDEOS), values_of(TRUE, VIDEOS)
    f1, camera = expected(judge, human, SAMPLE, 0, 2), expected(judge, human, SAMPLE, 1, 1)
    one = found.overall.all.f1
    assert one.value == pytest.approx(f1.value)
    assert (one.low, one.high) == pytest.approx(f1.interval)
    assert (one.same_videos.low, one.same_videos.high) == pytest.approx(f1.same_videos)
    assert one.labels_alone.value == pytest.approx(human[SAMPLE, 0, 2].mean())
    assert found.overall.camera.recall.value == pytest.approx(camera.value)
    assert found.overall.camera.labelled == camera.labelled
    assert found.overall.camera.n == camera.videos
    bucket = found.by.visual_characteristic["High-Dynamic"]
    assert (bucket.all.n, bucket.all.labelled) == (20, 4)
    assert bucket.all.f1.low is None
    assert bucket.all.f1.reason == "4 labelled videos are too few: at least 20 are needed"
    assert f"|labels:human,{found.labels.hash[:6]}@24|" in found.signature
    assert found.labels.left_out == {}


def test_run_keeps_the_labels_and_every_command_shows_them() -> None:
    plain = stored()
    code, out, err = typed("score", "mine", "--labels", "human.csv")
    assert code == 0
    assert "Calibrated with human labels of 24/40 videos: F1 " in out.splitlines()[0]
    assert "mine, calibrated with human labels, %" in out
    assert err.startswith("runs/mine/labels.json: 24 labelled captions stored; every command")
    after = stored()
    assert after.pop("calibrated")["labels"]["labelled"] == 24
    assert after == plain
    for command in ("score", "leaderboard"):
        code, out, err = typed(command, *(["mine"] if command == "score" else []))
        assert (code, err) == (0, "")
        assert "Calibrated" in out
    assert typed("report", "mine")[0] == 0
    assert "Calibrated with human labels of 24/40 videos" in Path(
        "runs/mine/judge/report.html"
    ).read_text(encoding="utf-8")
    assert typed("score", "mine", "--check", SCORES)[0] == 0
    assert typed("score", "mine", "--labels", "human.csv")[2] == ""


def test_judge_writes_calibrated_scores_too() -> None:
    captions = {video.index: "A dog runs." for video in VIDEOS}
    capeval.judge(captions, VIDEOS, judge="lexical", run="other")
    write_human(TRUE, SAMPLE, system="other")
    capeval.score("other", labels=HUMAN, annotations=VIDEOS)
    file = next(Path("runs/other").glob("*/scores.json"))
    before = file.read_bytes()
    file.unlink()
    scores = capeval.judge(captions, VIDEOS, judge="lexical", run="other")
    assert scores.calibrated is not None
    assert file.read_bytes() == before


def test_changed_captions_and_annotations_make_their_labels_stale() -> None:
    capeval.score("mine", labels=HUMAN)
    lines = [json.loads(x) for x in Path("runs/mine/captions.jsonl").read_text().splitlines()]
    lines[0]["caption"] = "Another."
    del lines[2]
    Path("runs/mine/captions.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
    changed = [video.model_dump() for video in VIDEOS]
    changed[4]["events"][0]["visual_elements"][0]["content"] = "Something else."
    Path("a.json").write_text(json.dumps(changed))
    found = calibrated()
    assert found.labels.left_out == {
        "whose caption has changed since": 1,
        "of a video without a caption": 1,
        "whose annotation has changed since": 1,
    }
    assert found.overall.all.labelled == 21
    _, out, _ = typed("score", "mine")
    assert "3 labelled captions left out: 1 whose caption has changed since" in " ".join(
        out.split()
    )


def test_labels_are_of_the_run_or_of_its_model_alone() -> None:
    write_human(labels(7), SAMPLE, system="other")
    write_human(TRUE, SAMPLE, system="m-mine", append=True)
    assert calibrated(labels=HUMAN).labels.labelled == 24
    by_model = calibrated().overall
    write_human(TRUE, SAMPLE, system="mine")
    assert calibrated(labels=HUMAN).overall == by_model


def test_raters_are_averaged_and_partial_ones_left_out() -> None:
    write_human(TRUE, SAMPLE)
    write_human(confused(TRUE, 5), SAMPLE[:-1], rater="bo", append=True)
    lines = HUMAN.read_text().splitlines(keepends=True)
    # Bo's last label and all but one of Ann's first video: Bo's are complete there.
    HUMAN.write_text("".join([lines[0], *lines[5:-1]]))
    found = calibrated(labels=HUMAN)
    assert (found.labels.raters, found.labels.labelled) == (2, 24)
    one, other = (values_of(g, [VIDEOS[row] for row in SAMPLE]) for g in (TRUE, confused(TRUE, 5)))
    human = (one + other) / 2
    human[0] = other[0]
    human[-2:] = one[-2:]
    assert found.overall.all.recall.labels_alone.value == pytest.approx(human[:, 0, 1].mean())


def test_partial_unscored_and_unknown_videos_are_counted() -> None:
    verdicts = Path("runs/mine/judge/judgments.jsonl").read_text().splitlines()
    unscored = {"index": "v02", "status": "unscored", "reason": "refused"}
    Path("runs/mine/judge/judgments.jsonl").write_text(
        "\n".join([*verdicts[:2], json.dumps(unscored), *verdicts[3:]]) + "\n"
    )
    text = HUMAN.read_text().splitlines()
    HUMAN.write_text("\n".join([*text[:-1], "zz,mine,1.1,ann,lack"]) + "\n")
    found = calibrated(labels=HUMAN)
    assert found.labels.left_out == {
        "of a video without an annotation": 1,
        "not fully labelled by any rater": 1,
        "not scored by the judge": 1,
    }
    assert found.labels.labelled == 22


def test_binary_labels_give_recall_alone() -> None:
    HUMAN.write_text(
        HUMAN.read_text()
        .replace("entailment", "1")
        .replace("lack", "0")
        .replace("contradiction", "0")
    )
    found = calibrated(labels=HUMAN)
    assert found.labels.scale == "binary"
    assert found.overall.all.recall.low is not None
    assert found.overall.all.f1.value is None
    assert found.overall.all.f1.reason == "binary labels give recall only"
    human = values_of(TRUE, [VIDEOS[row] for row in SAMPLE])
    assert found.overall.all.recall.labels_alone.value == pytest.approx(human[:, 0, 1].mean())
    _, out, _ = typed("score", "mine")
    assert "Calibrated with human labels of 24/40 videos: recall " in out.splitlines()[0]


@pytest.mark.parametrize("count", [19, 20])
def test_few_labels_have_no_interval_or_a_note(count: int) -> None:
    write_human(TRUE, SAMPLE[:count])
    found = calibrated(labels=HUMAN)
    least = "intervals need 20" if count < 20 else "with fewer than 40, intervals are too narrow"
    assert found.warnings[0].startswith(f"only {count} labelled videos; {least}")
    assert (found.overall.all.f1.low is None) == (count < 20)
    assert found.overall.all.f1.value is not None


def test_differences_are_calibrated_where_both_runs_have_labels() -> None:
    better = labels(8)
    make("better", confused(better, 9), "Another dog.")
    capeval.score("mine", labels=HUMAN)
    assert "Calibrated" not in typed("compare", "mine", "better")[1]
    write_human(better, SAMPLE[:-1], system="better")
    capeval.score("better", labels=HUMAN)
    found: Any = capeval.compare(["mine", "better"])
    kept = SAMPLE[:-1]
    gaps = values_of(confused(better, 9), VIDEOS) - values_of(JUDGED, VIDEOS)
    human = values_of(better, VIDEOS) - values_of(TRUE, VIDEOS)
    f1, action = expected(gaps, human, kept, 0, 2), expected(gaps, human, kept, 3, 1)
    assert found.calibrated.labelled == len(kept)
    one = found.calibrated.overall.all.f1
    assert (one.value, one.low, one.high) == pytest.approx((f1.value, *(f1.interval or ())))
    assert found.calibrated.overall.action.recall.value == pytest.approx(action.value)
    _, out, _ = typed("compare", "mine", "better")
    assert "Calibrated with human labels of both: B − A, in points, F1" in out
    assert "23/40" in out


WRONG = [
    ("video_id,system,score\nv00,mine,3\n", "has ratings of captions; calibrated scores need"),
    (
        "video_id,system,element_id,label\nv00,x,1.1,lack\n",
        'no labels of mine; its systems are "x"',
    ),
    ("video_id,system,element_id,label\nv00,mine,1.1,lack\n", "no complete labels of mine: 1 not"),
    ("video_id,system,element_id,label\nv00,mine,9.9,lack\n", 'v00 has no element "9.9"'),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_file_that_cannot_be_used_is_one_line(text: str, message: str) -> None:
    HUMAN.write_text(text)
    code, out, err = typed("score", "mine", "--labels", "human.csv")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert not Path("runs/mine/labels.json").exists()
    assert "calibrated" not in stored()


def test_damaged_labels_of_a_run_are_replaced() -> None:
    Path("runs/mine/labels.json").write_text("{")
    code, out, err = typed("score", "mine", "--labels", "human.csv")
    assert code == 0
    assert "Calibrated with human labels of 24/40 videos" in out
    assert "24 labelled captions stored, in place of others" in err
    Path("runs/mine/labels.json").write_text("{")
    assert typed("score", "mine", "--check", SCORES, "--labels", "human.csv")[0] == 0


def test_labels_none_of_which_counts_any_more_are_no_score() -> None:
    capeval.score("mine", labels=HUMAN)
    captions = Path("runs/mine/captions.jsonl")
    captions.write_text(captions.read_text().replace("A dog.", "A cat."))
    code, out, _ = typed("score", "mine")
    assert code == 0
    assert "Calibrated with human labels of 0/40 videos: F1 –." in out.splitlines()[0]
    found = calibrated()
    assert (found.labels.labelled, found.overall.all.f1.value) == (0, None)
    assert any("24 labelled captions left out" in line for line in found.warnings)
    assert typed("report", "mine")[0] == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "must be a JSON object"),
        ("{", "labels.json"),
        ('{"source": "x"}', "store the labels again with `capeval score RUN --labels FILE`"),
    ],
)
def test_damaged_labels_of_a_run_are_one_line(content: str, message: str) -> None:
    Path("runs/mine/labels.json").write_text(content)
    code, _, err = typed("score", "mine")
    assert (code, err.count("\n")) == (2, 1)
    assert message in err
    assert "runs/mine/labels.json" in err


def test_check_recomputes_calibrated_scores() -> None:
    capeval.score("mine", labels=HUMAN)
    content = stored()
    content["calibrated"]["overall"]["all"]["f1"]["low"] += 1e-3
    Path("published.json").write_text(json.dumps(content))
    code, out, _ = typed("score", "mine", "--check", "published.json")
    assert code == 4
    assert "calibrated.overall.all.f1.low: " in out
    Path("runs/mine/labels.json").unlink()
    code, out, _ = typed("score", "mine", "--check", "published.json")
    assert code == 0
    assert "its calibrated scores are not checked, as the labels are not here" in out
    code, out, _ = typed("score", "mine", "--check", "published.json", "--labels", "human.csv")
    assert code == 4
    assert not Path("runs/mine/labels.json").exists()


def test_an_output_cannot_replace_the_labels() -> None:
    code, _, err = typed("score", "mine", "--labels", "human.csv", "--out", "human.csv")
    assert code == 2
    assert "human.csv" in err
    assert HUMAN.read_text().startswith("video_id,")
    assert not Path("runs/mine/labels.json").exists()


def make_old(given: dict[str, list[Relation]], rows: Sequence[int], name: str = "asked") -> None:
    """Make a run of some of the captions, judged by the old judge."""
    make(name, given, judge="old", by=OLD, rows=rows)


def test_another_judge_says_what_it_would_give_over_all_videos() -> None:
    make_old(TRUE, SAMPLE)
    by_raters = calibrated(labels=HUMAN)
    code, out, err = typed("score", "mine", "--labels", "asked")
    assert code == 0
    assert "Calibrated with labels by old of 24/40 videos: F1 " in out.splitlines()[0]
    assert "mine, calibrated with labels by old, %" in out
    assert "24 labelled captions stored, in place of others" in err
    found = calibrated()
    assert found.overall == by_raters.overall
    assert found.labels.origin == LabellingJudge(
        judge="old", prompts="p@1", endpoint=None, reasoning=None
    )
    assert f"|labels:old,p@1,{found.labels.hash[:6]}@24|" in found.signature
    assert calibrated(labels="runs/asked/old").signature == found.signature
    check = typed("score", "mine", "--check", SCORES, "--labels", "runs/asked/old/judgments.jsonl")
    assert check[0] == 0


def test_a_judge_does_not_correct_itself() -> None:
    """Not in the command, nor where its own verdicts serve another judge of the run as labels."""
    make_old(TRUE, SAMPLE)
    shutil.copytree("runs/asked/old", "runs/mine/old")
    code, out, err = typed("score", "mine", "--judge", "old", "--labels", "asked")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "has verdicts of the same judge as mine (old, p@1, repeats 1)" in err
    capeval.score("mine", judge="judge", labels="asked")
    assert "calibrated" in stored()
    assert "calibrated" not in Path("runs/mine/old/scores.json").read_text()
    assert capeval.score("mine", judge="old").calibrated is None
    assert typed("leaderboard")[1].count("calibrated with") == 0


def test_verdicts_on_other_captions_are_no_labels() -> None:
    make_old(TRUE, SAMPLE, "asked")
    captions = Path("runs/mine/captions.jsonl")
    captions.write_text(captions.read_text().replace("A dog.", "A cat."))
    code, _, err = typed("score", "mine", "--labels", "asked")
    assert (code, err.count("\n")) == (2, 1)
    assert "no complete labels of mine: 24 whose verdict is on another caption" in err


def test_differences_with_labels_of_two_origins_are_not_calibrated() -> None:
    make("better", labels(8))
    make_old(labels(8), SAMPLE)
    capeval.score("mine", labels=HUMAN)
    capeval.score("better", labels="asked")
    found: Any = capeval.compare(["mine", "better"])
    assert found.calibrated is None
    assert any("it needs labels of one origin for both runs" in line for line in found.notes)


def test_a_leaderboard_of_labels_of_two_origins_says_so() -> None:
    make("better", labels(8))
    make_old(labels(8), SAMPLE)
    capeval.score("mine", labels=HUMAN)
    capeval.score("better", labels="asked")
    _, out, err = typed("leaderboard", "mine", "better")
    text = " ".join((out + err).split())
    assert "calibrated scores are on different scales" in text
    assert "mine (human labels)" in text
    assert "better (labels by old)" in text


def test_labels_under_the_name_of_a_model_need_to_be_of_one_run() -> None:
    write_human(TRUE, SAMPLE, system="m-mine")
    assert typed("score", "mine", "--labels", "human.csv")[0] == 0
    shutil.copytree("runs/mine", "runs/other-frames")
    code, _, err = typed("score", "mine", "--labels", "human.csv")
    assert (code, err.count("\n")) == (2, 1)
    assert "which is also that of other-frames; put the names of the runs into the column" in err


def test_labels_are_not_stored_while_the_run_is_being_judged() -> None:
    with RunFolder(Path("runs/mine")).locked():
        code, _, err = typed("score", "mine", "--labels", "human.csv")
    assert (code, err.count("\n")) == (2, 1)
    assert "another capeval process is working on this run" in err
    assert not Path("runs/mine/labels.json").exists()

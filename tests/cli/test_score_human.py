"""`capeval score RUN --human FILE`: scores calibrated with human labels of some captions."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import capeval
from capeval.files.judgments import write_judgments
from capeval.runs.judged_run import load_judged
from capeval.schema import RELATIONS, Annotation, Relation
from capeval.scoring import AnnotationArrays, measures
from capeval.scoring.result import Calibrated
from capeval.stats.calibration import calibrate
from tests.judged_runs import BY
from tests.judged_runs import capeval as typed_in
from tests.scoring.making import annotation, scored

Typed = Callable[..., tuple[int, str, str]]
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


def make(name: str, judged: dict[str, list[Relation]], text: str = "A dog.") -> None:
    run = Path("runs") / name
    (run / "judge").mkdir(parents=True)
    lines = [{"index": v.index, "caption": text, "model": f"m-{name}"} for v in VIDEOS]
    (run / "captions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    manifest = {"annotations": {"path": str(Path("a.json").absolute())}}
    (run / "manifest.json").write_text(json.dumps(manifest))
    found = [
        scored(v.index, f"{''.join(s[:3])} {''.join(s[3:])}", provenance=BY)
        for v in VIDEOS
        if (s := [SIGNS[one] for one in judged[v.index]])
    ]
    write_judgments(run / "judge" / "judgments.jsonl", found)
    scores = load_judged(run).scores
    text = json.dumps(scores.model_dump(mode="json"), indent=1)
    (run / "judge" / "scores.json").write_text(text + "\n")


def write_human(
    given: dict[str, list[Relation]],
    rows: Sequence[int],
    *,
    system: str = "mine",
    file: Path = HUMAN,
    rater: str = "ann",
    strata: bool = False,
    append: bool = False,
) -> None:
    head = ["video_id", "system", "element_id", "rater", "label"]
    head += ["stratum", "stratum_videos", "stratum_sampled"] if strata else []
    with file.open("a" if append else "w", newline="") as stream:
        out = csv.writer(stream)
        if not append:
            out.writerow(head)
        for row in rows:
            video = VIDEOS[row]
            number = sum(
                VIDEOS[r].visual_characteristic == video.visual_characteristic for r in rows
            )
            more = [video.visual_characteristic[0], 20, number] if strata else []
            for element, label in zip(ELEMENTS, given[video.index], strict=True):
                out.writerow([video.index, system, element, rater, label, *more])


TRUE = labels(1)
JUDGED = confused(TRUE, 2)
SAMPLE = [*range(0, 40, 2), 1, 3, 5, 7]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.json").write_text(json.dumps([video.model_dump() for video in VIDEOS]))
    make("mine", JUDGED)
    write_human(TRUE, SAMPLE)


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    return lambda *arguments: typed_in(monkeypatch, capsys, *arguments)


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


def test_scores_are_those_of_the_estimator() -> None:
    found = calibrated(human=HUMAN)
    judge = values_of(JUDGED, VIDEOS).reshape(40, -1)
    human = values_of(TRUE, [VIDEOS[row] for row in SAMPLE]).reshape(len(SAMPLE), -1)
    expected = calibrate(judge, human, SAMPLE, bounds=(0.0, 1.0))
    assert found.overall.all.f1.value == pytest.approx(expected.value[2])
    assert found.overall.all.f1.low == pytest.approx(expected.low[2])
    assert found.overall.camera.recall.high == pytest.approx(expected.high[4])
    assert found.overall.camera.labelled == int(expected.labelled[4])
    assert found.overall.camera.n == int(expected.videos[4])
    assert found.overall.all.f1.same_videos.low == pytest.approx(expected.same_low[2])
    assert found.overall.all.f1.human.value == pytest.approx(human[:, 2].mean())
    bucket = found.by.visual_characteristic["High-Dynamic"]
    assert (bucket.all.n, bucket.all.labelled) == (20, 4)
    assert bucket.all.f1.low is None
    assert bucket.all.f1.reason == "4 labelled videos are too few: at least 10 are needed"
    assert found.signature.count("|human:") == 1
    assert found.labels.left_out == {}


def test_run_keeps_the_labels_and_every_command_shows_them(typed: Typed) -> None:
    plain = stored()
    code, out, err = typed("score", "mine", "--human", "human.csv")
    assert code == 0
    assert "Calibrated with human labels of 24/40 videos: F1 " in out.splitlines()[0]
    assert "mine, calibrated with human labels: F1, %" in out
    assert err.startswith("runs/mine/human.json: 24 labelled captions stored; every command")
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
    assert typed("score", "mine", "--human", "human.csv")[2] == ""


def test_judge_writes_calibrated_scores_too() -> None:
    captions = {video.index: "A dog runs." for video in VIDEOS}
    capeval.judge(captions, VIDEOS, judge="lexical", run="other")
    write_human(TRUE, SAMPLE, system="other")
    capeval.score("other", human=HUMAN, annotations=VIDEOS)
    file = next(Path("runs/other").glob("*/scores.json"))
    before = file.read_bytes()
    file.unlink()
    scores = capeval.judge(captions, VIDEOS, judge="lexical", run="other")
    assert scores.calibrated is not None
    assert file.read_bytes() == before


def test_scores_without_labels_have_no_new_key() -> None:
    text = json.dumps(capeval.score("mine").model_dump(mode="json"))
    assert "calibrated" not in text
    assert "bridged" not in text


def test_another_judge_of_the_run_is_calibrated_too() -> None:
    second = Path("runs/mine/second")
    second.mkdir()
    for name in ("judgments.jsonl", "scores.json"):
        (second / name).write_bytes(Path("runs/mine/judge", name).read_bytes())
    capeval.score("runs/mine/judge", human=HUMAN)
    assert "calibrated" in json.loads((second / "scores.json").read_text())


def test_changed_captions_and_annotations_make_their_labels_stale(typed: Typed) -> None:
    capeval.score("mine", human=HUMAN)
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
    assert calibrated(human=HUMAN).labels.labelled == 24
    by_model = calibrated().overall
    write_human(TRUE, SAMPLE, system="mine")
    assert calibrated(human=HUMAN).overall == by_model


def test_raters_are_averaged_and_partial_ones_left_out() -> None:
    write_human(TRUE, SAMPLE)
    write_human(confused(TRUE, 5), SAMPLE[:-1], rater="bo", append=True)
    lines = HUMAN.read_text().splitlines(keepends=True)
    # Bo's last label and all but one of Ann's first video: Bo's are complete there.
    HUMAN.write_text("".join([lines[0], *lines[5:-1]]))
    found = calibrated(human=HUMAN)
    assert (found.labels.raters, found.labels.labelled) == (2, 24)
    one, other = (values_of(g, [VIDEOS[row] for row in SAMPLE]) for g in (TRUE, confused(TRUE, 5)))
    human = (one + other) / 2
    human[0] = other[0]
    human[-2:] = one[-2:]
    assert found.overall.all.recall.human.value == pytest.approx(human[:, 0, 1].mean())


def test_partial_unscored_and_unknown_videos_are_counted() -> None:
    verdicts = Path("runs/mine/judge/judgments.jsonl").read_text().splitlines()
    unscored = {"index": "v02", "status": "unscored", "reason": "refused"}
    Path("runs/mine/judge/judgments.jsonl").write_text(
        "\n".join([*verdicts[:2], json.dumps(unscored), *verdicts[3:]]) + "\n"
    )
    text = HUMAN.read_text().splitlines()
    HUMAN.write_text("\n".join([*text[:-1], "zz,mine,1.1,ann,lack"]) + "\n")
    found = calibrated(human=HUMAN)
    assert found.labels.left_out == {
        "of a video without an annotation": 1,
        "not fully labelled by any rater": 1,
        "not scored by the judge": 1,
    }
    assert found.labels.labelled == 22


def test_binary_labels_give_recall_alone(typed: Typed) -> None:
    HUMAN.write_text(
        HUMAN.read_text()
        .replace("entailment", "1")
        .replace("lack", "0")
        .replace("contradiction", "0")
    )
    found = calibrated(human=HUMAN)
    assert found.labels.scale == "binary"
    assert found.overall.all.recall.low is not None
    assert found.overall.all.f1.value is None
    assert found.overall.all.f1.reason == "binary labels give recall only"
    human = values_of(TRUE, [VIDEOS[row] for row in SAMPLE])
    assert found.overall.all.recall.human.value == pytest.approx(human[:, 0, 1].mean())
    _, out, _ = typed("score", "mine")
    assert "Calibrated with human labels of 24/40 videos: recall " in out.splitlines()[0]


def test_sampling_is_read_from_the_strata() -> None:
    unknown = calibrated(human=HUMAN)
    assert unknown.labels.sampling == "unknown"
    assert any("sampled at random" in line for line in unknown.warnings)
    write_human(TRUE, SAMPLE, strata=True)
    known = calibrated(human=HUMAN)
    assert (known.labels.sampling, known.warnings) == ("stratified", ())
    # 20 of 20 low-dynamic videos, and 4 of 20 others, which the plain mean would count as 4 of 24.
    human = values_of(TRUE, [VIDEOS[row] for row in SAMPLE])[:, 0, 2]
    expected = human[:20].mean() / 2 + human[20:].mean() / 2
    assert known.overall.all.f1.human.value == pytest.approx(expected)
    assert known.overall.all.f1.human.value != unknown.overall.all.f1.human.value


@pytest.mark.parametrize("count", [9, 12])
def test_few_labels_are_warned_about(count: int) -> None:
    write_human(TRUE, SAMPLE[:count], strata=True)
    found = calibrated(human=HUMAN)
    least = "intervals need 10" if count < 10 else "with fewer than 20, intervals may be too narrow"
    assert found.warnings[0] == f"only {count} videos with human labels; {least}"
    assert (found.overall.all.f1.low is None) == (count < 10)
    assert found.overall.all.f1.value is not None


def test_sampled_captions_without_labels_are_counted() -> None:
    write_human(TRUE, SAMPLE, strata=True)
    lines = HUMAN.read_text().splitlines(keepends=True)
    HUMAN.write_text("".join(lines[:-1]))
    found = calibrated(human=HUMAN)
    assert any(line.startswith("1 sampled caption without complete") for line in found.warnings)


def test_differences_are_calibrated_where_both_runs_have_labels(typed: Typed) -> None:
    better = labels(8)
    make("better", confused(better, 9), "Another dog.")
    capeval.score("mine", human=HUMAN)
    assert "Calibrated" not in typed("compare", "mine", "better")[1]
    write_human(better, SAMPLE[:-1], system="better")
    capeval.score("better", human=HUMAN)
    found: Any = capeval.compare(["mine", "better"])
    kept = SAMPLE[:-1]
    gaps = values_of(confused(better, 9), VIDEOS) - values_of(JUDGED, VIDEOS)
    human = values_of(better, VIDEOS) - values_of(TRUE, VIDEOS)
    expected = calibrate(gaps.reshape(40, -1), human[kept].reshape(len(kept), -1), kept)
    assert found.calibrated.labelled == len(kept)
    assert found.calibrated.overall.all.f1.value == pytest.approx(expected.value[2])
    assert found.calibrated.overall.all.f1.low == pytest.approx(expected.low[2])
    assert found.calibrated.overall.action.recall.high == pytest.approx(expected.high[10])
    _, out, _ = typed("compare", "mine", "better")
    assert "Calibrated with human labels of both: B − A, in points, F1" in out
    assert "23/40" in out


STRATA = "video_id,element_id,label,stratum,stratum_videos,stratum_sampled\n"
WRONG = [
    ("video_id,system,score\nv00,mine,3\n", "has ratings of captions; calibrated scores need"),
    (
        "video_id,system,element_id,label\nv00,x,1.1,lack\n",
        'no labels of mine; its systems are "x"',
    ),
    ("video_id,system,element_id,label\nv00,mine,1.1,lack\n", "no complete labels of mine: 1 not"),
    ("video_id,system,element_id,label\nv00,mine,9.9,lack\n", 'v00 has no element "9.9"'),
    (
        "video_id,element_id,label,stratum\nv00,1.1,lack,a\n",
        "has no column stratum_videos, stratum_sampled",
    ),
    (STRATA + "v00,1.1,lack,a,3,4\n", "stratum_sampled: 4 are sampled of 3 videos"),
    (STRATA + "v00,1.1,lack,a,x,4\n", "stratum_videos: Input should be a valid number"),
    (
        STRATA + "v00,1.1,lack,a,5,4\nv00,1.2,lack,b,5,4\n",
        '"b" differs from the stratum of the same caption above',
    ),
    (
        STRATA + "v00,1.1,lack,a,5,4\nv01,1.2,lack,a,6,4\n",
        'differ from an earlier row of the stratum "a"',
    ),
    (
        STRATA + "v00,1.1,lack,a,5,1\nv00,1.2,lack,a,5,1\nv01,1.1,lack,a,5,1\n",
        'more than 1 captions of the stratum "a"',
    ),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_file_that_cannot_be_used_is_one_line(typed: Typed, text: str, message: str) -> None:
    HUMAN.write_text(text)
    code, out, err = typed("score", "mine", "--human", "human.csv")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert not Path("runs/mine/human.json").exists()
    assert "calibrated" not in stored()


def test_more_labels_than_were_sampled_are_damage(typed: Typed) -> None:
    write_human(TRUE, SAMPLE, strata=True)
    capeval.score("mine", human=HUMAN)
    file = Path("runs/mine/human.json")
    file.write_text(file.read_text().replace('"sampled": 20', '"sampled": 2'))
    code, _, err = typed("score", "mine")
    assert (code, err.count("\n")) == (2, 1)
    assert "20 labelled videos of a stratum of 2 sampled" in err


@pytest.mark.parametrize("content", ["[]", "{", '{"source": "x"}', "", "\0"])
def test_damaged_labels_of_a_run_are_replaced(typed: Typed, content: str) -> None:
    Path("runs/mine/human.json").write_text(content)
    code, out, err = typed("score", "mine", "--human", "human.csv")
    assert code == 0
    assert "Calibrated with human labels of 24/40 videos" in out
    assert "24 labelled captions stored, in place of others" in err
    Path("runs/mine/human.json").write_text(content)
    assert typed("score", "mine", "--check", SCORES, "--human", "human.csv")[0] == 0


def test_labels_none_of_which_counts_any_more_are_no_score(typed: Typed) -> None:
    capeval.score("mine", human=HUMAN)
    captions = Path("runs/mine/captions.jsonl")
    captions.write_text(captions.read_text().replace("A dog.", "A cat."))
    code, out, _ = typed("score", "mine")
    assert code == 0
    assert "Calibrated with human labels of 0/40 videos: F1 –." in out.splitlines()[0]
    found = calibrated()
    assert (found.labels.labelled, found.overall.all.f1.value) == (0, None)
    assert any("24 labelled captions left out" in line for line in found.warnings)
    assert typed("report", "mine")[0] == 0


def test_labelled_videos_that_the_judge_did_not_score_are_no_score(typed: Typed) -> None:
    file = Path("runs/mine/judge/judgments.jsonl")
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[row] for row in range(40) if row not in SAMPLE))
    code, out, _ = typed("score", "mine", "--human", "human.csv")
    assert code == 0
    assert "Calibrated with human labels of 0/16 videos: F1 –." in out.splitlines()[0]


def test_videos_outside_the_strata_are_warned_about() -> None:
    write_human(TRUE, SAMPLE[:20], strata=True)
    (line,) = [line for line in calibrated(human=HUMAN).warnings if "strata" in line]
    assert line.startswith("the strata of the labels have 20 videos, but 40 are scored")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "must be a JSON object"),
        ("{", "human.json"),
        ('{"source": "x"}', "store the labels again with `capeval score RUN --human FILE`"),
    ],
)
def test_damaged_labels_of_a_run_are_one_line(typed: Typed, content: str, message: str) -> None:
    Path("runs/mine/human.json").write_text(content)
    code, _, err = typed("score", "mine")
    assert (code, err.count("\n")) == (2, 1)
    assert message in err
    assert "runs/mine/human.json" in err


def test_check_recomputes_calibrated_scores(typed: Typed) -> None:
    capeval.score("mine", human=HUMAN)
    content = stored()
    content["calibrated"]["overall"]["all"]["f1"]["low"] += 1e-3
    Path("published.json").write_text(json.dumps(content))
    code, out, _ = typed("score", "mine", "--check", "published.json")
    assert code == 4
    assert "calibrated.overall.all.f1.low: " in out
    Path("runs/mine/human.json").unlink()
    code, out, _ = typed("score", "mine", "--check", "published.json")
    assert code == 0
    assert "its calibrated scores are not checked, as the human labels are not here" in out
    code, out, _ = typed("score", "mine", "--check", "published.json", "--human", "human.csv")
    assert code == 4
    assert not Path("runs/mine/human.json").exists()


def test_verdicts_outside_a_run_are_calibrated_once(typed: Typed) -> None:
    Path("v.jsonl").write_bytes(Path("runs/mine/judge/judgments.jsonl").read_bytes())
    write_human(TRUE, SAMPLE, system="v")
    code, out, err = typed("score", "v.jsonl", "--annotations", "a.json", "--human", "human.csv")
    assert code == 0
    assert "Calibrated with human labels of 24/40 videos" in out
    assert "the verdicts are not in a run" in err


def test_an_output_cannot_replace_the_labels(typed: Typed) -> None:
    code, _, err = typed("score", "mine", "--human", "human.csv", "--out", "human.csv")
    assert code == 2
    assert "human.csv" in err
    assert HUMAN.read_text().startswith("video_id,")
    assert not Path("runs/mine/human.json").exists()


def test_plan_is_narrower_with_labels(typed: Typed) -> None:
    code, out, _ = typed("rate", "sheet", "--run", "mine", "--plan", "12")
    assert code == 0
    assert "from the judge's scores alone" in out
    capeval.score("mine", human=HUMAN)
    (plan,) = capeval.rate_plan(12)
    assert plan.pilot == 24
    assert plan.fewest is not None
    assert plan.likely is not None
    assert plan.fewest <= plan.likely <= (plan.most or 41)
    assert plan.likely <= (plan.alone or 41)
    code, out, _ = typed("rate", "sheet", "--plan", "12")
    assert "from the 24 labelled videos that the run has" in out
    assert "cannot be reached" in typed("rate", "sheet", "--plan", "1")[1]
    assert not Path("rating").exists()


def test_plan_names_one_of_several_judges(typed: Typed) -> None:
    shutil.copytree("runs/mine/judge", "runs/mine/other")
    code, _, err = typed("rate", "sheet", "--run", "mine", "--plan", "12")
    assert code == 2
    assert "choose one with --judge" in err
    code, out, _ = typed("rate", "sheet", "--run", "mine", "--plan", "12", "--judge", "other")
    assert code == 0
    assert out.startswith("mine: F1 within ±12 points needs")
    code, _, err = typed("rate", "sheet", "--run", "mine", "--judge", "other")
    assert (code, "--judge is for --plan alone" in err) == (2, True)


def test_plan_without_labels_says_what_it_assumes(typed: Typed) -> None:
    _, out, _ = typed("rate", "sheet", "--run", "mine", "--plan", "1")
    assert "cannot be reached, if human scores vary as much as the judge's" in out


@pytest.mark.parametrize("pilot", [True, False])
def test_scores_that_are_all_equal_are_no_plan(typed: Typed, pilot: bool) -> None:
    """They promised an interval of 0.1 points from ten labels."""
    same: dict[str, list[Relation]] = {video.index: ["entailment"] * 5 for video in VIDEOS}
    if pilot:
        write_human(same, SAMPLE)
        capeval.score("mine", human=HUMAN)
    else:
        make("equal", same)
    code, out, err = typed("rate", "sheet", "--run", "mine" if pilot else "equal", "--plan", "0.1")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert ("the human scores are all equal" if pilot else "the same f1 by the judge") in err


def test_a_run_without_a_plan_does_not_keep_others_from_theirs(typed: Typed) -> None:
    make("equal", {video.index: ["entailment"] * 5 for video in VIDEOS})
    _, out, err = typed("rate", "sheet", "--plan", "12")
    assert out.startswith("mine: F1 within ±12 points needs")
    assert err.startswith("left out: ")
    assert "the same f1 by the judge" in err


@pytest.mark.parametrize("option", ["--videos=3", "--seed=1", "--out=x"])
def test_plan_writes_no_sheet(typed: Typed, option: str) -> None:
    code, _, err = typed("rate", "sheet", "--plan", "3", option)
    assert code == 2
    assert f"--plan writes no sheet; omit {option.split('=', maxsplit=1)[0]}" in err

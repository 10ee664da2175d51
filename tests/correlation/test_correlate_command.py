import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import copyfile
from typing import Any

import numpy as np
import pytest
from scipy import stats

import capeval
from capeval.config import sample_folder
from capeval.correlation.correlations import Correlations
from capeval.correlation.fields import Notice, notice_lines
from capeval.files.judgments import write_judgments
from capeval.options import ignore
from capeval.schema import Unscored
from capeval.scoring.known_agreement import Agreement, store_agreement
from tests.correlation.making import correlate, labelled
from tests.files.making import save_workbook
from tests.golden import check_golden, screen
from tests.judged_runs import make_run, write_annotations
from tests.rating.rating_examples import exported
from tests.scoring.making import annotation, scored
from tests.world import Said, run, typed

pytestmark = pytest.mark.usefixtures("alone")

LACKING = (
    "name a file that has it with --annotations, or leave such captions out with --missing drop"
)


def found(folder: Path, *arguments: str) -> dict[str, Any]:
    done = correlate(folder, *arguments, "--json")
    assert done.code == 0, done.err
    return loaded(done.out)


def loaded(text: str) -> dict[str, Any]:
    """Return a correlations.json, with its notices as they are printed."""
    result: dict[str, Any] = json.loads(text)
    result["warnings"] = notice_lines(map(Notice.model_validate, result["warnings"]))
    return result


def value(result: dict[str, Any], **wanted: str) -> Any:
    (one,) = [r for r in result["results"] if all(r[k] == v for k, v in wanted.items())]
    return one


def ratings(folder: Path, count: int = 12, systems: int = 2) -> tuple[Path, Path]:
    """Write human ratings and a metric, all different."""
    rng = np.random.default_rng(0)
    human, metric = ["video_id,system,score"], ["video_id,system,score"]
    for video in range(count):
        for system in range(systems):
            score = rng.random()
            human.append(f"v{video},s{system},{score}")
            metric.append(f"v{video},s{system},{score + rng.random() / 2}")
    csv(folder / "human.csv", *human)
    csv(folder / "metric.csv", *metric)
    return folder / "human.csv", folder / "metric.csv"


VIDEOS = [annotation(index, "a3 t1", "s2") for index in "abcd"]
LETTERS = ("++ +", "+0 0", "+- +", "00 +")


def judged(folder: Path, **judgments: list[Any]) -> None:
    write_annotations(folder, VIDEOS)
    for name, of_run in judgments.items():
        make_run(folder, name, of_run)


def test_statistics_are_those_of_scipy_on_the_joined_pairs(tmp_path: Path) -> None:
    human, metric = ratings(tmp_path)
    result = found(tmp_path, "--human", "human.csv", "--metric", "m=metric.csv")
    x, y = (
        np.array([float(line.split(",")[2]) for line in path.read_text("utf-8").split()[1:]])
        for path in (metric, human)
    )
    for statistic, oracle in {
        "kendall_b": stats.kendalltau(x, y).statistic,
        "spearman": stats.spearmanr(x, y).statistic,
        "pearson": stats.pearsonr(x, y).statistic,
    }.items():
        of = value(result, statistic=statistic, grouping="pooled")
        assert of["value"] == pytest.approx(oracle, abs=1e-10)
        assert of["low"] <= of["value"] <= of["high"]
        assert (of["n"], of["groups"]) == (24, {"used": 1, "dropped": 0})
        assert 0 < of["p"] <= 1


def test_same_inputs_and_seed_give_the_same_bytes(tmp_path: Path) -> None:
    ratings(tmp_path)
    (tmp_path / "capeval.toml").write_text("commands.correlate.seed = 7")
    typed = ("--human", "human.csv", "--metric", "m=metric.csv", "--json")
    # A process of its own has its own hashes, and so its own order of sets.
    first = run(tmp_path, "correlate", *typed, PYTHONHASHSEED="1")
    second = correlate(tmp_path, *typed)
    assert (first.code, second.code) == (0, 0)
    assert first.out == second.out


def test_captions_that_a_metric_lacks_are_an_error_or_dropped(tmp_path: Path) -> None:
    _, metric = ratings(tmp_path, count=5)
    lines = metric.read_text("utf-8").splitlines()
    metric.write_text("\n".join([*lines[:2], *lines[3:]]), encoding="utf-8")
    typed = ("--human", "human.csv", "--metric", "m=metric.csv")
    done = correlate(tmp_path, *typed)
    message = "m: 9 of 10 rated captions have a score; missing: v0 of s1"
    assert done.code == 2
    assert done.err == (
        f"capeval: human.csv: {message}; leave such captions out with --missing drop\n"
    )
    csv(tmp_path / "bare.csv", "video_id,score", *(f"v{n},{n}" for n in range(5)))
    done = correlate(tmp_path, "--human", "bare.csv", *typed[2:])
    assert "it has no column `system`, but the captions are of 2 systems" in done.refusal
    done = correlate(tmp_path, *typed, "--missing", "drop", "--json")
    assert done.code == 0
    result = loaded(done.out)
    assert message in result["warnings"]
    assert f"warning: {message}\n" in done.err
    assert value(result, statistic="pearson", grouping="pooled")["n"] == 9


def test_a_constant_metric_has_no_correlation_and_a_reason(tmp_path: Path) -> None:
    human, _ = ratings(tmp_path)
    lines = human.read_text("utf-8").split()
    constant = [lines[0], *(line.rsplit(",", 1)[0] + ",1" for line in lines[1:])]
    (tmp_path / "one.csv").write_text("\n".join(constant), "utf-8")
    typed = ("--human", "human.csv", "--metric", "one=one.csv", "--metric", "m=metric.csv")
    result = found(tmp_path, *typed)
    for grouping in ("pooled", "item", "within_system", "system"):
        of = value(result, metric="one", statistic="kendall_b", grouping=grouping)
        assert (of["value"], of["p"], of["low"], of["cluster"]) == (None, None, None, None)
        assert of["reason"]
        assert value(result, metric="m", statistic="kendall_b", grouping=grouping)["value"]
    assert any("one: constant" in line for line in result["warnings"])


def test_labels_are_compared_with_every_judged_run(tmp_path: Path) -> None:
    rows = {"one": LETTERS, "two": ("0+ +", "++ 0", "+- 0", "00 0")}
    judgments = {
        name: [scored(v.index, row) for v, row in zip(VIDEOS, of, strict=True)]
        for name, of in rows.items()
    }
    judged(tmp_path, **judgments)
    labels = {
        (v.index, s): t
        for s in ("one", "two")
        for v, t in zip(VIDEOS, ("++ +", "+0 0", "+0 +", "0- +"), strict=True)
    }
    labelled(tmp_path, labels)
    result = found(tmp_path, "--human", "human.csv")
    assert {(r["metric"], r["human"]) for r in result["results"]} == {
        ("judge:f1", "f1"),
        ("judge:recall", "recall"),
        ("judge:f1", "recall"),
        ("judge:precision", "precision"),
    }
    # By hand, in sixths: human recall is 6, 3, 5, 2; the judge's is 6, 3, 5, 2 and 3, 4, 3, 0.
    human, judge = np.array([6, 3, 5, 2] * 2), np.array([6, 3, 5, 2, 3, 4, 3, 0])
    of = value(result, metric="judge:recall", statistic="pearson", grouping="pooled")
    assert of["value"] == pytest.approx(stats.pearsonr(judge, human).statistic, abs=1e-10)
    table = next(t for t in result["elements"]["tables"] if t["by"] == "all")
    # By hand, element by element.
    assert table["labels"] == ["entailment", "lack", "contradiction"]
    assert table["confusion"] == [[11, 3, 0], [1, 5, 2], [0, 2, 0]]
    chance = (14 * 12 + 8 * 10 + 2 * 2) / 24**2
    assert table["kappa"]["value"] == pytest.approx((16 / 24 - chance) / (1 - chance))


def test_binary_labels_have_no_human_precision(tmp_path: Path) -> None:
    judged(tmp_path, one=[scored(v.index, t) for v, t in zip(VIDEOS, LETTERS, strict=True)])
    labels = {(v.index, "one-model"): t for v, t in zip(VIDEOS, LETTERS, strict=True)}
    labelled(tmp_path, labels, binary=True)
    result = found(tmp_path, "--human", "human.csv")
    assert {(r["metric"], r["human"]) for r in result["results"]} == {
        ("judge:f1", "covered"),
        ("judge:recall", "covered"),
    }
    table = result["elements"]["tables"][0]
    assert table["confusion"] == [[7, 0], [0, 5]]
    assert table["labels"] == ["covered", "not covered"]


def test_labels_of_captions_without_a_verdict_are_an_error_or_dropped(tmp_path: Path) -> None:
    rows = ("++ +", "+0 0", "+- +")
    last = Unscored(index="d", reason="no valid reply")
    judged(tmp_path, one=[*(scored(v.index, t) for v, t in zip(VIDEOS, rows, strict=False)), last])
    # The last is not labelled in full, so that it has no score and only its labels are lost.
    path = labelled(tmp_path, {(v.index, "one"): "+0 +" for v in VIDEOS[:3]})
    path.write_text(path.read_text("utf-8") + "d,one,1.1,lack\nd,one,1.2,lack\n", "utf-8")
    line = "judge: 3 of 4 rated captions have a score; missing: d of one (unscored: no valid reply)"
    done = correlate(tmp_path, "--human", "human.csv")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"capeval: human.csv: {line}; leave such captions out with --missing drop\n"
    )
    result = found(tmp_path, "--human", "human.csv", "--missing", "drop")
    assert line in result["warnings"]
    assert result["elements"]["unjudged"] == 2
    assert {t["n"] for t in result["elements"]["tables"] if t["by"] == "all"} == {9}


def test_labels_of_a_caption_that_was_replaced_are_an_error_or_dropped(tmp_path: Path) -> None:
    judged(tmp_path, one=[scored(v.index, t) for v, t in zip(VIDEOS, LETTERS, strict=True)])
    typed(tmp_path, "rate", "sheet", "one")
    key = tmp_path / "rating" / "key.csv"
    exported(key, tmp_path / "ann.csv", "ann")
    typed(tmp_path, "rate", "merge", "ann.csv", "--key", key)
    assert correlate(tmp_path, "--human", "human.csv").code == 0
    captions = tmp_path / "runs" / "one" / "captions.jsonl"
    first, *others = captions.read_text("utf-8").splitlines(keepends=True)
    captions.write_text("".join([first.replace("A dog runs.", "A cat."), *others]), "utf-8")
    line = "have a score; missing: a of one (another caption of this video was rated)"
    for metric in ((), ("--metric", "judge=one")):
        done = correlate(tmp_path, "--human", "human.csv", *metric)
        assert (done.code, done.out) == (2, "")
        assert f"{line}; leave such captions out with --missing drop\n" in done.err
    result = found(tmp_path, "--human", "human.csv", "--missing", "drop")
    assert {*result["inputs"]["human"]["matched"].values()} == {3}
    assert result["warnings"][0].endswith(f": 3 of 4 rated captions {line}")
    assert {t["n"] for t in result["elements"]["tables"] if t["by"] == "all"} == {9}
    captions.write_text(captions.read_text("utf-8").replace("A dog runs.", "A cat."), "utf-8")
    done = correlate(tmp_path, "--human", "human.csv", "--missing", "drop")
    assert "no score of any rated caption (another caption of this video was rated)" in done.err


def test_a_table_says_how_many_elements_raters_are_divided_on(tmp_path: Path) -> None:
    judged(tmp_path, one=[scored(v.index, t) for v, t in zip(VIDEOS, LETTERS, strict=True)])
    path = labelled(tmp_path, {(v.index, "one"): t for v, t in zip(VIDEOS, LETTERS, strict=True)})
    header, *lines = path.read_text("utf-8").splitlines()
    # The second rater differs from the first, and from the judge, on all of the last video.
    other = {"lack": "contradiction", "entailment": "lack"}
    rows = [f"{header.replace('label', 'rater,label')}"]
    for line in lines:
        place, _, label = line.rpartition(",")
        theirs = other[label] if line.startswith("d,") else label
        rows += [f"{place},Ann,{label}", f"{place},Bob,{theirs}"]
    path.write_text("\n".join(rows), "utf-8")
    result = found(tmp_path, "--human", "human.csv")
    table = result["elements"]["tables"][0]
    assert (table["n"], table["tied"], result["elements"]["tied"]) == (9, 3, 3)
    assert table["kappa"]["value"] == 1
    assert 0 < result["raters"]["alpha"]["value"] < 1
    text = " ".join(correlate(tmp_path, "--human", "human.csv").out.split())
    assert "3 of 12 elements are left out because raters are evenly divided" in text
    # Lack and contradiction are one label under the protocol: raters are divided on one element.
    result = found(tmp_path, "--human", "human.csv", "--protocol", "tuna")
    assert result["elements"]["tied"] == 1


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (("--metric", "metric.csv"), "--metric: 'metric.csv' must be NAME=PATH"),
        (("--metric", "m=nowhere.csv"), "nowhere.csv: is neither a file nor a run under runs/"),
        (
            (),
            "runs: contains no judged run; run `capeval judge` first (without a name it judges the",
        ),
        (("--metric", "scor=human.csv"), 'has no column "scor"; did you mean "score"?'),
        (
            ("--metric", "m=metric.csv", "--protocol", "tna"),
            "the protocol 'tna' is unknown; did you",
        ),
        (
            ("--metric", "m=metric.csv", "--protocol", "tuna", "--grouping", "item"),
            "it has kendall_b by pooled, spearman by pooled, pearson by pooled",
        ),
        (("--metric", "m=other.csv"), "none of 24 captions has a score of m"),
        (("--metric", "m=metric.csv", "--metric", "m=metric.csv"), "m=metric.csv is named twice"),
        (("--metric", "m=metric.csv", "--metric", "m=again.csv"), "m has two scores of"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    tmp_path: Path, typed: tuple[str, ...], message: str
) -> None:
    ratings(tmp_path)
    (tmp_path / "again.csv").write_bytes((tmp_path / "metric.csv").read_bytes())
    (tmp_path / "other.csv").write_text("video_id,system,score\nw,s,1\n", "utf-8")
    done = correlate(tmp_path, "--human", "human.csv", *typed)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert done.err.count("\n") == 1


def test_raters_are_kept_apart_or_made_one_and_set_a_ceiling(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    lines = ["video_id,rater,score,m"]
    for video in range(20):
        good = rng.random()
        lines += [f"v{video},{rater},{good + rng.random() / 3},{good}" for rater in ("x", "y", "z")]
    (tmp_path / "human.csv").write_text("\n".join(lines), "utf-8")
    typed = ("--human", "human.csv", "--metric", "m=human.csv", "--grouping", "pooled")
    result = found(tmp_path, *typed, "--raters", "each")
    assert {r["rater"] for r in result["results"]} == {"x", "y", "z"}
    raters = result["raters"]
    assert raters["names"] == ["x", "y", "z"]
    assert 0.5 < raters["alpha"]["value"] < 1
    (ceiling,) = [c for c in raters["ceiling"] if c["statistic"] == "pearson"]
    assert (ceiling["human"], ceiling["grouping"]) == ("score", "pooled")
    assert ceiling["value"] == pytest.approx(np.mean(list(ceiling["each"].values())))
    # What differs by rater alone is said once.
    names = "human score of x, human score of y, human score of z"
    few = f"{names}: only 20 captions (fewer than 30): intervals will be wide"
    assert result["warnings"] == [few]
    for how in ("mean", "median"):
        assert {r["rater"] for r in found(tmp_path, *typed, "--raters", how)["results"]} == {None}
    # Raters of captions of their own have no ceiling.
    csv(tmp_path / "human.csv", lines[0], *lines[1::6], *lines[5::6])
    (ceiling, *_) = found(tmp_path, *typed)["raters"]["ceiling"]
    assert (ceiling["value"], ceiling["reason"]) == (
        None,
        "no caption has a second rater",
    )


def test_the_tuna_protocol_says_where_captions_are_not_of_its_kind(tmp_path: Path) -> None:
    message = "here are 24 captions of 12 videos by 2 systems"
    ratings(tmp_path)
    typed = ("--human", "human.csv", "--metric", "m=metric.csv")
    result = found(tmp_path, *typed, "--protocol", "tuna")
    assert {(r["statistic"], r["grouping"]) for r in result["results"]} == {
        (statistic, "pooled") for statistic in ("kendall_b", "spearman", "pearson")
    }
    assert "|protocol:tuna|" in result["signature"]
    assert any(message in line for line in result["warnings"])
    assert not any(message in line for line in found(tmp_path, *typed)["warnings"])
    ratings(tmp_path, systems=1)
    result = found(tmp_path, *typed, "--protocol", "tuna")
    assert not any("tuna" in line for line in result["warnings"])


def test_agreement_of_a_judge_is_known_where_it_judges_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    judge = ("judge", "--judge", "lexical")
    assert "Agreement" not in typed(tmp_path, *judge).out
    human = sample_folder() / "human.csv"
    for statistic in ("kendall_b", "kendall_b", "pearson"):
        result = capeval.correlate(human, statistic=[statistic])
    whole = result.elements.tables[0]
    assert (whole.n, whole.by, whole.given) == (414, "all", "lexical-2")
    assert whole.kappa.value == pytest.approx(0.558, abs=5e-4)
    assert {r.n for r in result.results if r.grouping == "pooled"} == {30}
    best = value(result.as_json(), metric="lexical-2:f1", human="f1", grouping="pooled")
    places = [Path(f"runs/sample-{name}/lexical-2") for name in ("terse", "thorough")]
    for place in places:
        first, last = json.loads((place / "agreement.json").read_text())
        assert (first["statistic"], last["statistic"]) == ("kendall_b", "pearson")
        assert [last[end] for end in ("value", "low", "high")] == [
            best[end] for end in ("value", "low", "high")
        ]
        assert (last["videos"], last["raters"], last["file"]) == (10, 1, str(human))
    captions = (sample_folder() / "captions" / "terse.jsonl").read_text()
    Path("new.jsonl").write_text(captions)
    line = "Agreement with human raters: Pearson r "
    done = typed(tmp_path, *judge, "new.jsonl", "--annotations", "sample", columns=200)
    assert line in done.out
    shown = typed(tmp_path, *judge, "new", "--json").json
    assert shown["new"]["agreement"] == last
    typed(tmp_path, "report", "new", "--frames", "0")
    page = Path("runs/new/lexical-2/report.html").read_text()
    assert line in page
    assert f"{shown['new']['mean_words']:.1f} words per scored caption" in page
    # Broken files are no agreement; those of another judge are not this one's.
    for file in Path("runs").glob("*/*/agreement.json"):
        file.write_text(file.read_text().replace('"videos": 10', '"videos": "ten"'))
    done = typed(tmp_path, *judge, "new")
    assert (done.code, "Agreement" in done.out) == (0, False)
    assert "agreement.json: entry 1: videos: must be a whole number" in done.err
    correlate(tmp_path, "--human", str(human))
    assert "ten" in (places[0] / "agreement.json").read_text()


def test_commands_that_end_together_keep_each_agreement(tmp_path: Path) -> None:
    typed(tmp_path, "judge", "sample-terse", "--judge", "lexical")
    folder = tmp_path / "runs/sample-terse/lexical-2"

    def store(number: int, *others: Path) -> None:
        made = {"value": 0.5, "low": None, "high": None, "videos": 10, "raters": 1}
        hashes = {"sha256": f"human {number}", "annotations": "sample"}
        new = Agreement(statistic="kappa", human="labels", file="human.csv", **made, **hashes)
        store_agreement([folder, *others], new, ignore)

    with ThreadPoolExecutor() as pool:
        [*pool.map(store, range(10))]
    # Those of two judges together are of neither.
    other = tmp_path / "runs/sample-terse/other"
    other.mkdir()
    (other / "judge.json").write_text('{"hash": "another"}')
    store(10, other)
    assert len(json.loads((folder / "agreement.json").read_text())) == 10


def test_known_verdicts_of_probes_are_no_human_raters(tmp_path: Path) -> None:
    typed(tmp_path, "probe", "--judge", "lexical")
    copyfile(tmp_path / "probes/sample/labels.csv", tmp_path / "labels.csv")
    for labels in ("probes/sample/labels.csv", "labels.csv"):
        done = correlate(tmp_path, "--human", labels, "--metric", "a=probes/sample")
        assert (done.code, [*tmp_path.rglob("agreement.json")]) == (0, [])
    # Raters' own files may lie in a run.
    typed(tmp_path, "judge", "sample", "--judge", "lexical")
    human = copyfile(sample_folder() / "human.csv", tmp_path / "runs/sample-terse/human.csv")
    with human.open("a") as file:  # a second rater
        file.write("sample_01,sample-terse,1.1,bo,lack\n")
    for raters, is_stored in (("each", False), ("mean", True)):
        given = ("--human", str(human), "--raters", raters, "--missing", "drop")
        assert correlate(tmp_path, *given).code == 0
        assert bool([*tmp_path.rglob("agreement.json")]) == is_stored


def test_labels_of_videos_that_a_run_s_annotations_lack_can_be_left_out(tmp_path: Path) -> None:
    judged(tmp_path, one=[scored(v.index, "++ +") for v in VIDEOS])
    labels = {(v.index, "one"): "+0 +" for v in VIDEOS}
    alone = labelled(tmp_path, labels).read_text("utf-8")
    asked = found(tmp_path, "--human", "human.csv")["results"]
    path = labelled(tmp_path, {**labels, ("y1", "one"): "++ +", ("y2", "one"): "++ +"})
    done = correlate(tmp_path, "--human", "human.csv")
    line = len(alone.splitlines()) + 1
    message = f'line {line}: video_id: "y1" has no annotation; {LACKING}'
    assert (done.code, done.err) == (2, f"capeval: human.csv: {message}\n")
    result = found(tmp_path, "--human", "human.csv", "--missing", "drop")
    assert result["results"] == asked
    assert result["warnings"][0] == (
        "6 labels of videos without an annotation are left out: y1, y2"
    )
    path.write_text(f"{alone.splitlines()[0]}\ny1,one,1.1,lack\n", "utf-8")
    done = correlate(tmp_path, "--human", "human.csv", "--missing", "drop")
    message = "none of its videos has an annotation; name theirs with --annotations"
    assert (done.code, done.err) == (2, f"capeval: human.csv: {message}\n")
    path.write_text(f"{alone}a,one,3.1,lack\n", "utf-8")
    message = 'a has no element "3.1"; they are EVENT.ELEMENT, from 1.1 to 2.1'
    assert (
        f"line {line}: element_id: {message}" in correlate(tmp_path, "--human", "human.csv").refusal
    )


def test_two_runs_of_one_rated_model_are_both_named(tmp_path: Path) -> None:
    judged(tmp_path, one=[scored(v.index, "++ +") for v in VIDEOS])
    judged(tmp_path, two=[scored(v.index, "+0 +") for v in VIDEOS])
    for name in ("one", "two"):
        captions = tmp_path / "runs" / name / "captions.jsonl"
        captions.write_text(captions.read_text("utf-8").replace(f"{name}-model", "M"), "utf-8")
    labelled(tmp_path, {(v.index, "M"): "+0 +" for v in VIDEOS})
    done = correlate(tmp_path, "--human", "human.csv")
    assert "two has two scores of" in done.err or "judge:precision has two scores of" in done.err
    assert "for two runs put their names into the column `system`" in done.err
    assert done.code == 2
    csv(tmp_path / "human.csv", "video_id,score", *(f"{v.index},1" for v in VIDEOS))
    done = correlate(tmp_path, "--human", "human.csv")
    assert "(one, two), but the human file has no column `system`: add it, or" in done.refusal
    labelled(tmp_path, {(v.index, "one"): "+0 +" for v in VIDEOS})
    assert correlate(tmp_path, "--human", "human.csv").code == 0
    labelled(tmp_path, {(f"{VIDEOS[0].index}.mp4", "one"): "+0 +"})
    assert "has no annotation" in correlate(tmp_path, "--human", "human.csv").err


def test_a_run_without_a_score_is_left_out(tmp_path: Path) -> None:
    judged(tmp_path, one=[scored(v.index, "++ +") for v in VIDEOS])
    judged(tmp_path, two=[Unscored(index=v.index, reason="no reply") for v in VIDEOS])
    labelled(tmp_path, {(v.index, system): "+0 +" for v in VIDEOS for system in ("one", "two")})
    done = correlate(tmp_path, "--human", "human.csv", "--missing", "drop")
    assert done.code == 0
    assert f"left out: {Path('runs/two/judge')}: no caption is scored (no reply)" in done.err


@pytest.mark.parametrize("missing", ["error", "drop"])
def test_a_judge_of_one_run_of_two_is_left_out(tmp_path: Path, missing: str) -> None:
    judgments = [scored(v.index, row) for v, row in zip(VIDEOS, LETTERS, strict=True)]
    judged(tmp_path, one=judgments, two=judgments)
    write_judgments(tmp_path / "runs/two/newer/judgments.jsonl", judgments)
    labelled(tmp_path, {(v.index, system): "+0 +" for v in VIDEOS for system in ("one", "two")})
    typed = ("--human", "human.csv", "--missing", missing)
    done = correlate(tmp_path, *typed, "--json")
    assert done.code == 0
    assert "left out: newer: 4 of 8 rated captions have a value; complete it with `cap" in done.err
    assert {r["metric"].partition(":")[0] for r in done.json["results"]} == {"judge"}
    assert "newer" not in json.dumps(done.json["elements"])
    chosen = correlate(tmp_path, *typed, "--judge", "jud", "--json")
    assert (chosen.code, "left out" in chosen.err) == (0, False)
    assert chosen.json["results"] == done.json["results"]
    one = correlate(tmp_path, *typed, "--metric", "m=two", "--judge", "newer", "--json")
    assert one.code == (2 if missing == "error" else 0)
    wrong = correlate(tmp_path, *typed, "--judge", "gpt")
    assert "runs: contains no run that was judged by gpt" in wrong.err


FAST = ("--statistic", "kendall_b", "--grouping", "pooled")


def csv(path: Path, *rows: str) -> None:
    path.write_text("\n".join([*rows, ""]), "utf-8")


def values(done: Said) -> dict[str, float]:
    assert done.code == 0, done.err
    return {one["metric"]: one["value"] for one in done.json["results"]}


def test_workbooks_and_mapped_columns_give_the_values_of_plain_csv(tmp_path: Path) -> None:
    rows = [(f"v{n}", "m", n, n % 3) for n in range(1, 7)]
    table = [("clip", "Model", "MOS", "note"), *((v, s, y, "-") for v, s, y, _ in rows)]
    save_workbook(tmp_path / "human.xlsx", table, Notes=[["read me"], ["x"]])
    csv(tmp_path / "bleu.csv", "clip,Model,bleu,cider", *(f"{v},{s},{x},0" for v, s, _, x in rows))
    mapped = "video_id=clip,system=Model,score=MOS"
    done = correlate(
        tmp_path,
        *("--human", "human.xlsx", "--metric", "bleu=bleu.csv"),
        *("--columns", mapped, *FAST, "--json"),
    )
    plain = [("video_id", "system", "score"), *((v, s, y) for v, s, y, _ in rows)]
    csv(tmp_path / "plain.csv", *(",".join(map(str, row)) for row in plain))
    csv(tmp_path / "m.csv", "video_id,system,score", *(f"{v},{s},{x}" for v, s, _, x in rows))
    same = correlate(tmp_path, "--human", "plain.csv", "--metric", "bleu=m.csv", *FAST, "--json")
    assert values(done) == values(same)
    assert [line for line in done.lines if "ignored column" in line] == [
        'human.xlsx: ignored column: "note"',
        'bleu.csv: ignored column: "cider"',
    ]


def test_columns_are_mapped_in_the_file_that_has_them(tmp_path: Path) -> None:
    csv(tmp_path / "h.csv", "what,by,good,score", *(f"v{n},m,{n},{-n}" for n in range(6)))
    csv(tmp_path / "m.csv", "what,by,good,score", *(f"v{n},m,{-n},{n}" for n in range(6)))
    typed_files = ("--human", "h.csv", "--metric", "m=m.csv", *FAST, "--json")
    done = correlate(tmp_path, *typed_files, "--columns", "video_id=what,system=by,score=good")
    # The human scores are in `good`; a metric's are in `score`, though its file has `good` too.
    assert values(done) == {"m": 1.0}


@pytest.mark.parametrize(
    ("mapped", "message"),
    [
        ("system", "--columns: 'system' must be NAME=COLUMN"),
        ("", "--columns is empty; name at least one, or omit it"),
        ("score=a,score=b", "--columns: score is mapped twice"),
        ("score=x,rater=x", '--columns: "x" is mapped twice'),
        ("rater=x", '--columns rater=x: no such column in h.csv; found "video_id", "mos", "m"'),
        ("sore=x", '--columns: "sore" is not a column that capeval reads; name video_id'),
        ("score=x", '--columns score=x: no such column in h.csv; found "video_id", "mos", "m"'),
    ],
)
def test_mistakes_in_columns_are_one_line(tmp_path: Path, mapped: str, message: str) -> None:
    csv(tmp_path / "h.csv", "video_id,mos,m", "v,1,2")
    done = correlate(tmp_path, "--human", "h.csv", "--metric", "m=h.csv", f"--columns={mapped}")
    assert done.refusal.startswith(f"capeval: {message}")


ALIKE = [("v", "v.mp4"), ("V", "v"), ("007", "7"), ("Clip_07.MP4", "clip_7"), ("a/v.mp4", "v.mp4")]


@pytest.mark.parametrize(("rated", "given"), ALIKE)
def test_ids_that_look_alike_are_named_and_never_joined(
    tmp_path: Path, rated: str, given: str
) -> None:
    more = [f"x{n},{n}" for n in range(6)]
    csv(tmp_path / "h.csv", "video_id,score", *more, f"{rated},1")
    csv(tmp_path / "m.csv", "video_id,score", *more, f"{given},1")
    typed_files = ("--human", "h.csv", "--metric", "m=m.csv", *FAST)
    done = correlate(tmp_path, *typed_files)
    assert (done.code, done.out) == (2, "")
    hint = "look alike: (write the ids alike in both files|leading zeros were lost)"
    assert re.search(hint, done.err)
    done = correlate(tmp_path, *typed_files, "--missing", "drop", "--json")
    assert re.search(hint, done.err)
    assert done.json["results"][0]["n"] == 6


def test_names_of_systems_that_look_alike_are_named_too(tmp_path: Path) -> None:
    csv(tmp_path / "h.csv", "video_id,system,score", "v1,GPT,1", "v2,GPT,2")
    csv(tmp_path / "m.csv", "video_id,system,score", "v1,gpt,1", "v2,gpt,2")
    done = correlate(tmp_path, "--human", "h.csv", "--metric", "m=m.csv", *FAST)
    assert '"GPT" and "gpt" look alike' in done.refusal


def test_a_judge_that_lacks_a_caption_is_left_out_unless_the_caption_may_be(tmp_path: Path) -> None:
    videos = [annotation(f"v{n}", "a3 t1", "s2") for n in range(6)]
    write_annotations(tmp_path, videos)
    for judge, judged in (("whole", videos), ("part", videos[1:])):
        labels = ["++ 0" if n % 2 else "+0 -" for n in range(len(judged))]
        given = [scored(v.index, one) for v, one in zip(judged, labels, strict=True)]
        make_run(tmp_path, "one", given, judge=judge, captions={v.index: "A dog." for v in videos})
    csv(tmp_path / "h.csv", "video_id,system,score", *(f"v{n},one,{n % 4}" for n in range(6)))
    for more, judges, n in (((), {"whole"}, 6), (("--missing", "drop"), {"whole", "part"}, 5)):
        done = correlate(tmp_path, "--human", "h.csv", *FAST, *more, "--json")
        found = {one["metric"].partition(":")[0] for one in done.json["results"]}
        assert found == judges, done.err
        assert {one["n"] for one in done.json["results"]} == {n}


GOLDEN = Path(__file__).parent / "golden"
EIGHT = [annotation(index, "a3 t1", "s2") for index in "abcdefgh"]


def rated(**options: Any) -> Correlations:
    """Correlate metrics, the last one constant, with ratings of 40 captions by two raters."""
    # By metric, how much noise is added to the human score.
    noise = {"lexical-2": 2.0, "clair": 0.1, "[red]_bert|score_[/red]": 0.5, "meteor": 9.0}
    rng = np.random.default_rng(0)
    human = rng.normal(size=40)
    columns = [(human + rng.normal(size=40) / 3).round(1) for _ in range(2)]
    columns += [human + size * rng.normal(size=40) for size in noise.values()]
    names = [*noise, "constant"]
    header = ",".join(["video_id", "system", "human", "human_2", *names])
    rows = (
        ",".join([f"v{n // 4}", f"s{n % 4}", *(f"{value:.3f}" for value in row), "1"])
        for n, row in enumerate(zip(*columns, strict=True))
    )
    Path("human.csv").write_text("\n".join([header, *rows, ""]), "utf-8")
    return capeval.correlate("human.csv", dict.fromkeys(names, "human.csv"), **options)


def labelled_systems() -> Correlations:
    """Correlate a judge with the labels of five systems' captions."""
    rng = np.random.default_rng(5)
    write_annotations(Path(), EIGHT)
    labels: dict[tuple[str, str], str] = {}
    for system in range(5):
        rows = ["".join(rng.choice(list("++0-"), 3)) for _ in EIGHT]
        rows = [f"{row[:2]} {row[2]}" for row in rows]
        pairs = zip(EIGHT, rows, strict=True)
        make_run(Path(), f"s{system}", [scored(video.index, row) for video, row in pairs])
        labels |= {
            (v.index, f"s{system}"): row if rng.random() < 0.7 else "+0 0"
            for v, row in zip(EIGHT, rows, strict=True)
        }
    labelled(Path(), labels)
    return capeval.correlate("human.csv")


def test_screens_are_the_golden_ones() -> None:
    found = rated(statistic=["kendall_b", "pearson"], grouping=["pooled", "item"], published=True)
    full = screen(found)
    for title in ("Metrics compared", "Published in TUNA", "Ceilings"):
        assert title in full
    check_golden(GOLDEN / "five-metrics.txt", screen(found, 100, full=False))
    text = screen(labelled_systems(), full=False)
    check_golden(GOLDEN / "labels-of-five-systems.txt", text)

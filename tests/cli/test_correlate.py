"""`capeval correlate` as it is typed: sources, joining, mistakes, formats."""

from __future__ import annotations

import json
import os
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import capeval
from capeval.files.packaged import sample_folder
from capeval.schema import Unscored
from tests.cli_runs import capeval as started
from tests.cli_runs import run
from tests.correlation.making import correlate, make_run, write_annotations
from tests.scoring.making import annotation, scored

QUICK = ("--resamples", "99")
LACKING = (
    "name a file that has it with --annotations, or leave such captions out with --missing drop"
)
LABELS = {"+": "entailment", "0": "lack", "-": "contradiction"}


def found(folder: Path, *arguments: str) -> dict[str, Any]:
    done = correlate(folder, *arguments, *QUICK, "--json")
    assert done.code == 0, done.err
    result: dict[str, Any] = json.loads(done.out)
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
    paths = folder / "human.csv", folder / "metric.csv"
    for path, lines in zip(paths, (human, metric), strict=True):
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return paths


def labelled(folder: Path, labels: dict[tuple[str, str], str], *, binary: bool = False) -> Path:
    """Write labels of elements: by (video, system), events apart by blanks."""
    lines = ["video_id,system,element_id,label"]
    for (video, system), told in labels.items():
        for event, letters in enumerate(told.split(), start=1):
            for place, letter in enumerate(letters, start=1):
                label = str(int(letter == "+")) if binary else LABELS[letter]
                lines.append(f"{video},{system},{event}.{place},{label}")
    path = folder / "human.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


VIDEOS = [annotation(index, "a3 t1", "s2") for index in "abcd"]


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
        "kendall_c": stats.kendalltau(x, y, variant="c").statistic,
        "spearman": stats.spearmanr(x, y).statistic,
        "pearson": stats.pearsonr(x, y).statistic,
    }.items():
        of = value(result, statistic=statistic, grouping="pooled")
        assert of["value"] == pytest.approx(oracle, abs=1e-10)
        assert of["low"] <= of["value"] <= of["high"]
        assert (of["n"], of["groups"]) == (24, {"used": 1, "dropped": 0})
        assert 0 < of["p"] <= 1
        within = [
            getattr(stats, _NAMES[statistic])(x[s::2], y[s::2], **_MORE.get(statistic, {}))
            for s in (0, 1)
        ]
        mean = np.mean([each.statistic for each in within])
        of = value(result, statistic=statistic, grouping="within_system")
        assert of["value"] == pytest.approx(mean, abs=1e-10)


_NAMES = {
    "kendall_b": "kendalltau",
    "kendall_c": "kendalltau",
    "spearman": "spearmanr",
    "pearson": "pearsonr",
}
_MORE: dict[str, Any] = {"kendall_c": {"variant": "c"}}


def test_same_inputs_and_seed_give_the_same_bytes(tmp_path: Path) -> None:
    ratings(tmp_path)
    typed = ("--human", "human.csv", "--metric", "m=metric.csv", "--json", "--seed", "7", *QUICK)
    # Processes of their own: each has its own hashes, and so its own order of sets.
    first = run(tmp_path, "correlate", *typed, "--out", "c.json", PYTHONHASHSEED="1")
    second = run(tmp_path, "correlate", *typed, PYTHONHASHSEED="2")
    assert (first.code, second.code) == (0, 0)
    assert first.out == second.out == (tmp_path / "c.json").read_text("utf-8")


@pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="one core, or no way to leave all but one alone",
)
async def test_the_number_of_cores_changes_no_byte(tmp_path: Path) -> None:
    rng = random.Random(0)
    rows = [f"v{n // 5},s{n % 5},{rng.random()},{rng.random()}" for n in range(2_000)]
    (tmp_path / "h.csv").write_text("\n".join(["video_id,system,score,m", *rows]), "utf-8")
    typed = (
        "correlate",
        "--human",
        "h.csv",
        "--metric-columns",
        "m",
        "--json",
        "--resamples",
        "500",
    )

    def one_core() -> None:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

    with_all = await started(tmp_path, *typed)
    with_one = await started(tmp_path, *typed, prepare=one_core)
    assert (with_all.code, with_one.code) == (0, 0)
    assert with_all.out == with_one.out


def test_captions_that_a_metric_lacks_are_an_error_or_dropped(tmp_path: Path) -> None:
    _, metric = ratings(tmp_path, count=5)
    lines = metric.read_text("utf-8").splitlines()
    metric.write_text("\n".join([*lines[:2], *lines[3:]]), encoding="utf-8")
    typed = ("--human", "human.csv", "--metric", "m=metric.csv", *QUICK)
    done = correlate(tmp_path, *typed)
    told = "m: 9 of 10 matched; missing: v0 of s1"
    assert done.code == 2
    assert done.err == (
        f"capeval: human.csv: {told}; leave such captions out with --missing drop\n"
    )
    done = correlate(tmp_path, *typed, "--missing", "drop", "--json")
    assert done.code == 0
    result = json.loads(done.out)
    assert told in result["warnings"]
    assert f"warning: {told}\n" in done.err
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
    assert any("one is constant" in line for line in result["warnings"])


def test_missing_values_are_counted_by_cause_and_the_default_fits_a_screen(tmp_path: Path) -> None:
    names = [f"m{n}" for n in range(24)]
    rows = [
        f"v{v},{s},{v + len(s)}," + ",".join(str(v + n if n % 2 else 1) for n in range(24))
        for v in range(4)
        for s in ("x", "yy")
    ]
    header = f"video_id,system,score,{','.join(names)}"
    (tmp_path / "human.csv").write_text("\n".join([header, *rows]) + "\n", "utf-8")
    typed = ("--human", "human.csv", "--metric-columns", ",".join(names), "--resamples", "99")
    done = correlate(tmp_path, *typed)
    assert done.code == 0
    causes = [line for line in done.out.splitlines() if "correlations have no value: " in line]
    assert 1 < len(causes) < 5
    assert len({line.split("no value: ")[1].split(" (such")[0] for line in causes}) == len(causes)
    result = json.loads(correlate(tmp_path, *typed, "--json").out)
    missing = [one for one in result["results"] if one["value"] is None]
    assert sum(int(line.split(" of ")[0]) for line in causes) == len(missing)
    assert len(done.out.splitlines()) <= 60
    assert "m0 is constant, m2 is constant, m4 is constant and 9 more: it has no" in done.err
    # --full names each of them.
    everything = correlate(tmp_path, *typed, "--full")
    assert "no value: " not in everything.out
    constant = ", ".join(names[::2])
    full = " ".join(everything.out.split())
    assert f"human score, pooled: {constant}, Kendall tau-b" in full
    assert "m22 is constant" in everything.err
    assert "m22 is constant" in result["warnings"][1]


def test_the_headline_is_of_a_human_score_that_has_a_value(tmp_path: Path) -> None:
    ratings = {"ann": (3, 3, 3, 3), "bo": (1, 2, 3, 5)}
    rows = [
        f"v{n},{rater},{score},{n}" for rater, of in ratings.items() for n, score in enumerate(of)
    ]
    (tmp_path / "human.csv").write_text(
        "\n".join(["video_id,rater,score,m", *rows]) + "\n", "utf-8"
    )
    typed = ("--human", "human.csv", "--metric-columns", "m", "--raters", "each", *QUICK)
    headline = correlate(tmp_path, *typed).out.splitlines()[0]
    assert headline.startswith("m has Kendall tau-b 1.000 with the human score of bo over 4")


def test_few_captions_and_many_ties_are_warned_of(tmp_path: Path) -> None:
    text = "video_id,score,m\n" + "".join(f"v{n},{n % 2},{n}\n" for n in range(10))
    (tmp_path / "human.csv").write_text(text, "utf-8")
    result = found(tmp_path, "--human", "human.csv", "--metric-columns", "m")
    assert result["warnings"] == [
        "human score: 10 captions are few (below 30): intervals will be wide",
        "human score ties 44% of all pairs (above 30%): see --full --statistic acc_eq",
    ]


def test_labels_are_held_against_every_judged_run(tmp_path: Path) -> None:
    judged(
        tmp_path,
        one=[
            scored(v.index, told)
            for v, told in zip(VIDEOS, ("++ +", "+0 0", "+- +", "00 +"), strict=True)
        ],
        two=[
            scored(v.index, told)
            for v, told in zip(VIDEOS, ("0+ +", "++ 0", "+- 0", "00 0"), strict=True)
        ],
    )
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
    # By hand: recall of people 6/6, 3/6, 5/6, 2/6; of the judge 6, 3, 5, 2 and 3, 4, 3, 0 sixths.
    people, judge = np.array([6, 3, 5, 2] * 2), np.array([6, 3, 5, 2, 3, 4, 3, 0])
    of = value(result, metric="judge:recall", statistic="pearson", grouping="pooled")
    assert of["value"] == pytest.approx(stats.pearsonr(judge, people).statistic, abs=1e-10)
    table = next(t for t in result["elements"]["tables"] if t["by"] == "all" and not t["weighted"])
    # By hand, element by element.
    assert table["labels"] == ["entailment", "lack", "contradiction"]
    assert table["confusion"] == [[11, 3, 0], [1, 5, 2], [0, 2, 0]]
    assert table["coefficients"]["accuracy"]["value"] == pytest.approx(16 / 24)


def test_binary_labels_have_no_human_precision(tmp_path: Path) -> None:
    told = ("++ +", "+0 0", "+- +", "00 +")
    judged(tmp_path, one=[scored(v.index, t) for v, t in zip(VIDEOS, told, strict=True)])
    labels = {(v.index, "one-model"): t for v, t in zip(VIDEOS, told, strict=True)}
    labelled(tmp_path, labels, binary=True)
    result = found(tmp_path, "--human", "human.csv")
    assert {(r["metric"], r["human"]) for r in result["results"]} == {
        ("judge:f1", "covered"),
        ("judge:recall", "covered"),
    }
    table = result["elements"]["tables"][0]
    assert table["confusion"] == [[7, 0], [0, 5]]
    assert table["labels"] == ["covered", "not covered"]


def test_an_unscored_caption_is_missing_and_not_zero(tmp_path: Path) -> None:
    told = ("++ +", "+0 0", "+- +")
    last = Unscored(index="d", reason="no valid reply")
    judged(tmp_path, one=[*(scored(v.index, t) for v, t in zip(VIDEOS, told, strict=False)), last])
    labelled(tmp_path, {(v.index, "one"): "+0 +" for v in VIDEOS})
    done = correlate(tmp_path, "--human", "human.csv", *QUICK)
    assert done.code == 2
    assert "3 of 4 matched; missing: d of one (unscored: no valid reply)" in done.err
    result = found(tmp_path, "--human", "human.csv", "--missing", "drop")
    assert {r["n"] for r in result["results"] if r["grouping"] == "pooled"} <= {0, 3}


def test_labels_of_captions_without_a_verdict_are_an_error_or_dropped(tmp_path: Path) -> None:
    told = ("++ +", "+0 0", "+- +")
    last = Unscored(index="d", reason="no valid reply")
    judged(tmp_path, one=[*(scored(v.index, t) for v, t in zip(VIDEOS, told, strict=False)), last])
    # The last is not labelled in full, so that it has no score and only its labels are lost.
    path = labelled(tmp_path, {(v.index, "one"): "+0 +" for v in VIDEOS[:3]})
    path.write_text(path.read_text("utf-8") + "d,one,1.1,lack\nd,one,1.2,lack\n", "utf-8")
    line = (
        "judge: 9 of 11 labelled elements matched; no verdict on 1 caption: "
        "d of one (unscored: no valid reply)"
    )
    done = correlate(tmp_path, "--human", "human.csv", *QUICK)
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"capeval: human.csv: {line}; leave such captions out with --missing drop\n"
    )
    result = found(tmp_path, "--human", "human.csv", "--missing", "drop")
    assert line in result["warnings"]
    assert result["elements"]["unjudged"] == 2
    assert {t["n"] for t in result["elements"]["tables"] if t["by"] == "all"} == {9}


def test_a_table_says_how_many_elements_raters_are_divided_on(tmp_path: Path) -> None:
    told = ("++ +", "+0 0", "+- +", "00 +")
    judged(tmp_path, one=[scored(v.index, t) for v, t in zip(VIDEOS, told, strict=True)])
    path = labelled(tmp_path, {(v.index, "one"): t for v, t in zip(VIDEOS, told, strict=True)})
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
    assert table["coefficients"]["accuracy"]["value"] == 1
    assert table["each"]["Ann"]["accuracy"] == 1
    assert table["each"]["Bob"]["accuracy"] == pytest.approx(9 / 12)
    for form in ("markdown", "latex"):
        done = correlate(tmp_path, "--human", "human.csv", *QUICK, "--format", form)
        text = " ".join(done.out.split())
        assert "3 of 12 elements are left out because raters are evenly divided" in text
        assert "favours the judge" in text


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            "a,one,3.1,lack",
            '14: element_id: a has no element "3.1"; they are EVENT.ELEMENT, from 1.1 to 2.1',
        ),
        (
            "z,one,1.1,lack",
            f'14: video_id: "z" has no annotation; {LACKING}',
        ),
    ],
)
def test_elements_that_the_annotations_lack_are_named(tmp_path: Path, line: str, told: str) -> None:
    judged(tmp_path, one=[scored(v.index, "++ +") for v in VIDEOS])
    path = labelled(tmp_path, {(v.index, "one"): "+0 +" for v in VIDEOS})
    path.write_text(path.read_text("utf-8") + line + "\n", "utf-8")
    done = correlate(tmp_path, "--human", "human.csv", *QUICK)
    assert (done.code, done.err) == (2, f"capeval: human.csv: line {told}\n")


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (("--metric", "metric.csv"), "--metric: 'metric.csv' must be NAME=PATH"),
        (("--metric", "m=nowhere.csv"), "nowhere.csv: is neither a file nor a run under runs/"),
        (
            (),
            "runs: contains no judged run; run `capeval judge` first (without a name it judges the",
        ),
        (
            ("--metric-columns", "scor"),
            'has no column "scor"; did you mean "score"?',
        ),
        (
            ("--metric", "m=metric.csv", "--protocol", "wmt"),
            "the protocol 'wmt' is unknown; did you",
        ),
        (("--metric", "m=metric.csv", "--statistic", "tau"), "the statistic 'tau' is unknown"),
        (
            ("--metric", "m=metric.csv", "--protocol", "tuna", "--grouping", "item"),
            "it has kendall_b by pooled, spearman by pooled, pearson by pooled",
        ),
        (
            ("--metric", "m=metric.csv", "--statistic", "soft_accuracy", "--grouping", "item"),
            "the statistic soft_accuracy is by system only: --grouping system",
        ),
        (("--metric", "m=other.csv"), "none of 24 captions has a score of m"),
        (("--metric", "m=metric.csv", "--metric", "m=metric.csv"), "m=metric.csv is named twice"),
        (("--metric", "m=metric.csv", "--metric", "m=again.csv"), "m has two scores of"),
    ],
)
def test_what_cannot_be_done_is_one_line(tmp_path: Path, typed: tuple[str, ...], told: str) -> None:
    ratings(tmp_path)
    (tmp_path / "again.csv").write_bytes((tmp_path / "metric.csv").read_bytes())
    (tmp_path / "other.csv").write_text("video_id,system,score\nw,s,1\n", "utf-8")
    done = correlate(tmp_path, "--human", "human.csv", *typed)
    assert (done.code, done.out) == (2, "")
    assert told in done.err
    assert done.err.count("\n") == 1


def test_raters_are_kept_apart_or_made_one_and_set_a_ceiling(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    lines = ["video_id,rater,score,m"]
    for video in range(20):
        good = rng.random()
        lines += [f"v{video},{rater},{good + rng.random() / 3},{good}" for rater in ("x", "y", "z")]
    (tmp_path / "human.csv").write_text("\n".join(lines), "utf-8")
    typed = ("--human", "human.csv", "--metric-columns", "m", "--grouping", "pooled")
    result = found(tmp_path, *typed, "--raters", "each")
    assert {r["rater"] for r in result["results"]} == {"x", "y", "z"}
    raters = result["raters"]
    assert raters["names"] == ["x", "y", "z"]
    assert 0.5 < raters["alpha"]["value"] < 1
    (ceiling,) = [c for c in raters["ceiling"] if c["statistic"] == "pearson"]
    assert (ceiling["human"], ceiling["grouping"]) == ("score", "pooled")
    assert ceiling["value"] == pytest.approx(np.mean(list(ceiling["each"].values())))
    assert ceiling["low"] < ceiling["value"] < ceiling["high"]
    # What differs by rater alone is said once.
    few = "human score of x: 20 captions are few (below 30): intervals will be wide"
    assert result["warnings"] == [f"{few} (also for 2 other raters)"]
    for how in ("mean", "median", "zmean"):
        assert {r["rater"] for r in found(tmp_path, *typed, "--raters", how)["results"]} == {None}


def test_protocols_take_what_their_sources_take(tmp_path: Path) -> None:
    ratings(tmp_path)
    typed = ("--human", "human.csv", "--metric", "m=metric.csv", "--protocol")
    for name, taken in {
        "tuna": {("kendall_b", "pooled"), ("spearman", "pooled"), ("pearson", "pooled")},
        "wmt24": {("soft_accuracy", "system"), ("acc_eq", "item")},
        "wmt23": {
            ("acc_eq", "system"),
            ("pearson", "system"),
            ("pearson", "pooled"),
            ("acc_eq", "item"),
        },
    }.items():
        result = found(tmp_path, *typed, name)
        assert {(r["statistic"], r["grouping"]) for r in result["results"]} == taken
        assert f"|protocol:{name}|" in result["signature"]


def test_of_five_systems_soft_pairwise_accuracy_and_ranks_are_on_the_screen(
    tmp_path: Path,
) -> None:
    ratings(tmp_path, systems=5)
    typed = ("--human", "human.csv", "--metric", "m=metric.csv", "--metric", "n=metric.csv", *QUICK)
    one = value(found(tmp_path, *typed), metric="m", statistic="soft_accuracy")
    alone = found(tmp_path, *typed, "--statistic", "soft_accuracy")
    assert value(alone, metric="m")["value"] == one["value"]
    shown = correlate(tmp_path, *typed).out
    (row, *_) = [line for line in shown.splitlines() if line.startswith("m  ")]
    assert row.count(" #1") >= 2
    assert "soft accuracy" in shown
    assert re.search(rf"{one['value']:.3f} \[\d.\d+, \d.\d+\] #1", shown)
    narrow = found(tmp_path, *typed, "--grouping", "pooled,item")
    assert not [r for r in narrow["results"] if r["statistic"] == "soft_accuracy"]


def test_soft_pairwise_accuracy_that_takes_long_is_left_out_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ratings(tmp_path, systems=5)
    monkeypatch.setattr("capeval.correlation.protocols._AFFORDABLE", 1)
    typed = ("--human", "human.csv", "--metric", "m=metric.csv", *QUICK)
    result = found(tmp_path, *typed)
    assert not [r for r in result["results"] if r["statistic"] == "soft_accuracy"]
    assert any("see --statistic soft_accuracy" in line for line in result["warnings"])
    asked = found(tmp_path, *typed, "--statistic", "soft_accuracy")
    assert len(asked["results"]) == 1


def test_soft_pairwise_accuracy_is_computed_when_asked_for(tmp_path: Path) -> None:
    ratings(tmp_path, systems=4)
    typed = ("--human", "human.csv", "--metric", "m=metric.csv", "--metric", "n=metric.csv")
    result = found(tmp_path, *typed, "--statistic", "soft_accuracy,pearson", "--raters", "mean")
    one = value(result, metric="m", statistic="soft_accuracy")
    assert 0.5 < one["value"] <= 1
    assert one["grouping"] == "system"
    assert one["test"] == "exact permutation of systems"
    assert one["low"] <= one["value"] <= one["high"]
    assert one["interval"].startswith("bootstrap")
    assert set(one["without"]) == {"s0", "s1", "s2", "s3"}
    (test,) = [c for c in result["comparisons"] if c["statistic"] == "soft_accuracy"]
    assert (test["difference"], test["p"]) == (0.0, 1.0)
    assert not [r for r in found(tmp_path, *typed)["results"] if r["statistic"] == "soft_accuracy"]
    shown = correlate(tmp_path, *typed, "--protocol", "wmt24", "--full", *QUICK)
    assert "soft pairwise accuracy" in shown.out


def test_the_tuna_protocol_says_where_captions_are_not_of_its_kind(tmp_path: Path) -> None:
    told = "here are 24 captions of 12 videos by 2 systems"
    ratings(tmp_path)
    typed = ("--human", "human.csv", "--metric", "m=metric.csv", "--protocol")
    assert any(told in line for line in found(tmp_path, *typed, "tuna")["warnings"])
    assert not any(told in line for line in found(tmp_path, *typed, "wmt23")["warnings"])
    ratings(tmp_path, systems=1)
    assert not any("tuna" in line for line in found(tmp_path, *typed, "tuna")["warnings"])


def test_published_rows_are_in_the_file_and_marked(tmp_path: Path) -> None:
    ratings(tmp_path)
    typed = ("--human", "human.csv", "--metric", "m=metric.csv", *QUICK, "--out", "c.json")
    assert correlate(tmp_path, *typed).code == 0
    assert json.loads((tmp_path / "c.json").read_text("utf-8"))["published"] == []
    assert correlate(tmp_path, *typed, "--published").code == 0
    shown = correlate(tmp_path, *typed, "--published").out
    assert "TUNA-CAP" in shown
    assert len(shown.splitlines()) <= 60
    rows = json.loads((tmp_path / "c.json").read_text("utf-8"))["published"]
    assert [row["metric"] for row in rows if row["kendall"] == 0.572] == ["TUNA-CAP"]
    for row in rows:
        for name in ("kendall", "spearman", "pearson"):
            low, high = row[f"{name}_interval"]
            assert low < row[name] < high
    assert {(row["n"], row["source"]) for row in rows} == {(40, "TUNA (ACL 2025), table 3")}


def test_equal_means_of_raters_are_equal_in_any_order(tmp_path: Path) -> None:
    rows = [(".1", ".2", ".3"), (".3", ".2", ".1"), (".2", ".1", ".3"), (".3", ".1", ".2")]
    lines = ["video_id,human,human_2,human_3,m"]
    lines += [f"v{n},{','.join(row)},{n}" for n, row in enumerate(rows)]
    (tmp_path / "human.csv").write_text("\n".join(lines), "utf-8")
    typed = ("--human", "human.csv", "--metric-columns", "m", "--grouping", "pooled")
    for how in ("mean", "median"):
        of = value(found(tmp_path, *typed, "--raters", how), statistic="kendall_b")
        assert (of["value"], of["reason"]) == (None, "the human scores are constant")


@pytest.mark.parametrize(("form", "mark"), [("markdown", "| --- |"), ("latex", r"\midrule")])
def test_tables_are_markdown_and_latex_too(tmp_path: Path, form: str, mark: str) -> None:
    ratings(tmp_path)
    (tmp_path / "metric.csv").rename(tmp_path / "m.csv")
    typed = ("--human", "human.csv", "--metric", "a_b|c=m.csv", "--format", form, "--published")
    done = correlate(tmp_path, *typed, *QUICK)
    assert done.code == 0
    assert mark in done.out
    assert {"markdown": r"a\_b\|c", "latex": r"a\_b\textbar{}c"}[form] in done.out
    assert "Published in TUNA" in done.out
    assert "n = 40" in done.out


def test_the_judged_sample_has_element_and_video_statistics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for path in sorted((sample_folder() / "captions").glob("*.jsonl")):
        capeval.judge(path, "sample", judge="lexical", run=f"sample-{path.stem}")
    result = capeval.correlate(sample_folder() / "human.csv", resamples=99)
    whole = result.elements.tables[0]
    # As scripts/agreement has it.
    assert (whole.n, whole.by, whole.given) == (414, "all", "lexical-1")
    assert whole.coefficients["kappa"].value == pytest.approx(0.531, abs=5e-4)
    assert {r.n for r in result.results if r.grouping == "pooled"} == {30}
    assert isinstance(result, capeval.Correlations)


def test_inputs_are_kept_with_hashes_for_reproduction(tmp_path: Path) -> None:
    ratings(tmp_path)
    inputs = found(tmp_path, "--human", "human.csv", "--metric", "m=metric.csv")["inputs"]
    assert inputs["human"]["captions"] == 24
    assert inputs["human"]["matched"] == {"score": 24}
    assert len(inputs["human"]["sha256"]) == 64
    assert inputs["metrics"] == {"m": {"sources": ["metric.csv"], "signatures": []}}


def test_repeats_of_a_judge_are_held_against_each_other(tmp_path: Path) -> None:
    passes = [
        scored("x", t).model_dump(include={"candidate_events", "matches", "relations"})
        for t in ("++ +", "+0 +")
    ]
    judged(tmp_path, one=[scored(v.index, "++ +", repeats=tuple(passes)) for v in VIDEOS])
    labelled(tmp_path, {(v.index, "one"): "+0 +" for v in VIDEOS})
    tables = found(tmp_path, "--human", "human.csv")["elements"]["tables"]
    (table,) = [
        t
        for t in tables
        if t["truth"] == "judge repeat 1" and t["by"] == "all" and not t["weighted"]
    ]
    assert table["given"] == "judge repeat 2"
    assert table["coefficients"]["accuracy"]["value"] == pytest.approx(2 / 3)


def test_labels_of_videos_that_a_run_s_annotations_lack_can_be_left_out(tmp_path: Path) -> None:
    judged(tmp_path, one=[scored(v.index, "++ +") for v in VIDEOS])
    labels = {(v.index, "one"): "+0 +" for v in VIDEOS}
    alone = labelled(tmp_path, labels).read_text("utf-8")
    asked = found(tmp_path, "--human", "human.csv")["results"]
    path = labelled(tmp_path, {**labels, ("y1", "one"): "++ +", ("y2", "one"): "++ +"})
    done = correlate(tmp_path, "--human", "human.csv", *QUICK)
    line = len(alone.splitlines()) + 1
    told = f'line {line}: video_id: "y1" has no annotation (and 1 other labelled video); {LACKING}'
    assert (done.code, done.err) == (2, f"capeval: human.csv: {told}\n")
    result = found(tmp_path, "--human", "human.csv", "--missing", "drop")
    assert result["results"] == asked
    assert result["warnings"][0] == (
        "6 labels are of videos without an annotation, and are left out: y1, y2"
    )
    path.write_text(f"{alone.splitlines()[0]}\ny1,one,1.1,lack\n", "utf-8")
    done = correlate(tmp_path, "--human", "human.csv", "--missing", "drop", *QUICK)
    told = "none of its videos has an annotation; name theirs with --annotations"
    assert (done.code, done.err) == (2, f"capeval: human.csv: {told}\n")


def test_runs_of_other_systems_are_named_beside_the_rated_ones(tmp_path: Path) -> None:
    judged(tmp_path, one=[scored(v.index, "++ +") for v in VIDEOS])
    labelled(tmp_path, {(v.index, system): "+0 +" for v in VIDEOS for system in ("two", "three")})
    done = correlate(tmp_path, "--human", "human.csv", *QUICK)
    assert done.code == 2
    assert (
        "its judged runs are one (model one-model), but human raters rated three, two: " in done.err
    )
    assert "--metric NAME=PATH" in done.err


def test_two_runs_of_one_rated_model_are_both_named(tmp_path: Path) -> None:
    judged(tmp_path, one=[scored(v.index, "++ +") for v in VIDEOS])
    judged(tmp_path, two=[scored(v.index, "+0 +") for v in VIDEOS])
    for name in ("one", "two"):
        captions = tmp_path / "runs" / name / "captions.jsonl"
        captions.write_text(captions.read_text("utf-8").replace(f"{name}-model", "M"), "utf-8")
    labelled(tmp_path, {(v.index, "M"): "+0 +" for v in VIDEOS})
    done = correlate(tmp_path, "--human", "human.csv", *QUICK)
    one, two = (str(Path("runs", name)) for name in ("one", "two"))
    assert f"in {one} and {two}, which have the model M; put the names of the runs" in done.err
    assert done.code == 2
    labelled(tmp_path, {(v.index, "one"): "+0 +" for v in VIDEOS})
    assert correlate(tmp_path, "--human", "human.csv", *QUICK).code == 0


def test_a_run_without_a_score_is_left_out(tmp_path: Path) -> None:
    judged(tmp_path, one=[scored(v.index, "++ +") for v in VIDEOS])
    judged(tmp_path, two=[Unscored(index=v.index, reason="no reply") for v in VIDEOS])
    labelled(tmp_path, {(v.index, system): "+0 +" for v in VIDEOS for system in ("one", "two")})
    done = correlate(tmp_path, "--human", "human.csv", "--missing", "drop", *QUICK)
    assert done.code == 0
    assert f"left out: {Path('runs/two/judge')}: no caption is scored (no reply)" in done.err


def test_four_videos_have_no_interval_and_are_told_why(tmp_path: Path) -> None:
    ratings(tmp_path, count=4)
    typed = ("--human", "human.csv", "--metric", "m=metric.csv", *QUICK)
    done = correlate(tmp_path, *typed)
    assert done.err == (
        "warning: human score: 4 videos: no intervals, and no p by resampling (needs 5)\n"
    )
    summary, overview = done.out.split("\n\n", 1)
    assert summary.count("no interval") == 4
    reason = "No interval and no p: fewer than 5 videos cannot be resampled."
    assert " ".join(overview.split()).count("fewer than 5 videos cannot be resampled.") == 1
    # What one table said is not repeated below the next.
    assert correlate(tmp_path, *typed, "--format", "markdown").out.count(reason) == 1
    assert "No interval" not in correlate(tmp_path, *typed, "--ci", "none").out


def test_p_that_can_be_no_smaller_says_so(tmp_path: Path) -> None:
    ratings(tmp_path, count=10, systems=3)
    result = found(tmp_path, "--human", "human.csv", "--metric", "m=metric.csv")
    assert {r["p_least"] for r in result["results"] if r["p"] is None} <= {None}
    for r in result["results"]:
        assert r["p"] is None or r["p"] >= r["p_least"] - 1e-12
    of_systems = {r["statistic"]: r for r in result["results"] if r["grouping"] == "system"}
    assert of_systems["kendall_b"]["p_least"] == pytest.approx(2 / 6)
    assert of_systems["pearson"]["p_least"] == pytest.approx(1 / 6)
    asked = ("--human", "human.csv", "--metric", "m=human.csv", "--format", "markdown", *QUICK)
    text = " ".join(correlate(tmp_path, *asked).out.split())
    assert "With 3 systems, p cannot be below 0.333 (Pearson r 0.167)." in text
    # 2 of the 1,024 ways to reverse ten videos.
    assert "With this number of videos, p cannot be below 0.002." in text

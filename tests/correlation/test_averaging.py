"""Results of several data sets, averaged, as it is typed."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest

import capeval
from tests.correlation.making import correlate

QUICK = ("--resamples", "199", "--statistic", "kendall_b,acc_eq")


def data_set(
    folder: Path, name: str, *, seed: int, metrics: str = "a,b,c", systems: int = 3
) -> str:
    """Write ratings and metrics that err more and more, correlate them, and return the result."""
    rng = np.random.default_rng(seed)
    names = metrics.split(",")
    rows = [f"video_id,system,score,{metrics}"]
    for video in range(24):
        for system in range(systems):
            human = system / 2 + rng.normal()
            scores = (human + (ord(one) - 96) * rng.normal() for one in names)
            rows.append(f"v{video},s{system},{human:.4f},{','.join(f'{s:.4f}' for s in scores)}")
    (folder / name).mkdir()
    (folder / name / "human.csv").write_text("\n".join(rows) + "\n", "utf-8")
    typed = ("--human", f"{name}/human.csv", "--metric-columns", metrics)
    done = correlate(folder, *typed, *QUICK, "--out", f"{name}/correlations.json")
    assert done.code == 0, done.err
    return f"{name}/correlations.json"


def averaged(folder: Path, *files: str) -> dict[str, Any]:
    done = correlate(folder, *(part for file in files for part in ("--average", file)), "--json")
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


def read(folder: Path, file: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / file).read_text("utf-8"))
    return found


def by_key(found: dict[str, Any]) -> dict[tuple[str, ...], dict[str, Any]]:
    return {(r["statistic"], r["grouping"], r["metric"]): r for r in found["results"]}


def compared(found: dict[str, Any]) -> dict[tuple[str, ...], dict[str, Any]]:
    return {
        (c["statistic"], c["grouping"], c["first"], c["second"]): c for c in found["comparisons"]
    }


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    folder = tmp_path_factory.mktemp("sets")
    return folder, [data_set(folder, name, seed=n) for n, name in enumerate(("x", "y", "z"))]


def test_the_average_of_one_data_set_is_its_own(sets: tuple[Path, list[str]]) -> None:
    folder, (file, *_) = sets
    found, own = averaged(folder, file), read(folder, file)
    same = ("value", "low", "high", "n", "cluster", "groups", "interval_reason")
    for key, one in by_key(own).items():
        mean = by_key(found)[key]
        assert {name: mean[name] for name in same} == {name: one[name] for name in same}
        assert mean["data_sets"] == {"correlations": one["value"]}
        if key[0] == "kendall_b":
            assert (mean["p"], mean["test"]) == (one["p"], one["test"])
    for pair, test in compared(own).items():
        mean = compared(found)[pair]
        for name in ("difference", "low", "high", "p", "p_adjusted", "p_one_sided", "method"):
            assert mean[name] == test[name]


def test_the_order_of_the_data_sets_changes_no_number(sets: tuple[Path, list[str]]) -> None:
    folder, files = sets
    first, *others = (averaged(folder, *order) for order in permutations(files))
    for other in others:
        for of in (by_key, compared):
            for key, one in of(first).items():
                assert {**of(other)[key], "data_sets": None} == {**one, "data_sets": None}


def test_a_mean_has_an_interval_p_of_differences_and_ranks(sets: tuple[Path, list[str]]) -> None:
    folder, files = sets
    found = averaged(folder, *files)
    of_each = [by_key(read(folder, file)) for file in files]
    for key, mean in by_key(found).items():
        values = [of[key]["value"] for of in of_each]
        assert mean["value"] == pytest.approx(fmean(values))
        assert mean["data_sets"] == dict(zip("xyz", values, strict=True))
        widths = [of[key]["high"] - of[key]["low"] for of in of_each if of[key]["low"] is not None]
        if len(widths) == 3:
            assert mean["high"] - mean["low"] < min(1.1 * max(widths), sum(widths) / 3)
    pooled = [by_key(found)["kendall_b", "pooled", name] for name in "abc"]
    assert [one["cluster"] for one in pooled] == [1, 2, 3]
    one = compared(found)["kendall_b", "pooled", "a", "c"]
    assert one["p"] < min(
        compared(read(folder, file))["kendall_b", "pooled", "a", "c"]["p"] for file in files
    )
    assert 0 < one["low"] < one["difference"] < one["high"]
    assert found["inputs"]["data_sets"]["y"]["path"] == "y/correlations.json"
    assert "|average:x@" in found["signature"]


def test_averages_can_be_averaged(sets: tuple[Path, list[str]]) -> None:
    folder, files = sets
    typed = ("--average", ",".join(files[:2]), "--out", "first.json")
    assert correlate(folder, *typed).code == 0
    found = averaged(folder, "first.json", files[2])
    of_each = [by_key(read(folder, file)) for file in files]
    key = ("kendall_b", "pooled", "a")
    x, y, z = (of[key]["value"] for of in of_each)
    assert by_key(found)[key]["value"] == pytest.approx(((x + y) / 2 + z) / 2)
    done = correlate(folder, "--average", f"first.json,{files[0]}")
    assert (done.code, done.out) == (2, "")
    assert "x/correlations.json and first.json have the same human ratings (first: x)" in done.err


def test_a_metric_that_one_data_set_lacks_has_no_average(tmp_path: Path) -> None:
    one, two = data_set(tmp_path, "x", seed=0), data_set(tmp_path, "y", seed=1, metrics="a,b")
    found = averaged(tmp_path, one, two)
    lost = by_key(found)["kendall_b", "pooled", "c"]
    assert (lost["value"], lost["low"], lost["cluster"]) == (None, None, None)
    assert lost["reason"] == "no value in y (not in its file)"
    assert lost["data_sets"]["y"] is None
    assert lost["data_sets"]["x"] is not None
    assert "c" not in {c[side] for c in found["comparisons"] for side in ("first", "second")}
    said = correlate(tmp_path, "--average", f"{one},{two}")
    assert "no value in y (not in its file)" in " ".join(said.out.split())
    assert "y lacks c, so there is no average of it" in said.err


@pytest.mark.parametrize(
    ("metrics", "told"),
    [
        ("A,d", '; "a" and "A" may be one metric; a metric must have the same name in all: '),
        ("d,e", "no metric is in every file; a metric must have the same name in all: x has a, b"),
    ],
)
def test_data_sets_without_a_common_metric_have_no_average(
    tmp_path: Path, metrics: str, told: str
) -> None:
    one = data_set(tmp_path, "x", seed=0, metrics="a,b")
    two = data_set(tmp_path, "y", seed=1, metrics=metrics)
    done = correlate(tmp_path, "--average", f"{one},{two}")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("capeval: y/correlations.json: no metric is in every file")
    assert told in done.err
    assert done.err.count("\n") == 1


def test_a_metric_without_a_value_in_one_data_set_has_no_average(tmp_path: Path) -> None:
    one, two = data_set(tmp_path, "x", seed=0), data_set(tmp_path, "y", seed=1)
    text = (tmp_path / "y" / "human.csv").read_text("utf-8")
    lines = [f"{line.rpartition(',')[0]},1" for line in text.splitlines()[1:]]
    (tmp_path / "y" / "human.csv").write_text("\n".join([text.splitlines()[0], *lines]), "utf-8")
    typed = ("--human", "y/human.csv", "--metric-columns", "a,b,c", *QUICK, "--out", two)
    assert correlate(tmp_path, *typed).code == 0
    lost = by_key(averaged(tmp_path, one, two))["kendall_b", "pooled", "c"]
    assert lost["value"] is None
    assert lost["reason"] == "no value in y (the metric is constant)"


def test_what_is_not_in_every_data_set_is_left_out_with_a_warning(tmp_path: Path) -> None:
    one, two = data_set(tmp_path, "x", seed=0), data_set(tmp_path, "y", seed=1)
    typed = ("--human", "y/human.csv", "--metric-columns", "a,b,c", "--resamples", "199")
    narrow = ("--statistic", "kendall_b", "--grouping", "pooled", "--out", two)
    assert correlate(tmp_path, *typed, *narrow).code == 0
    found = averaged(tmp_path, one, two)
    assert {(r["statistic"], r["grouping"]) for r in found["results"]} == {("kendall_b", "pooled")}
    assert found["warnings"] == [
        (
            "x: 7 statistics not in every data set, and left out (such as acc_eq by pooled with "
            "the human score)"
        )
    ]


def test_the_python_function_returns_the_same(sets: tuple[Path, list[str]]) -> None:
    folder, files = sets
    paths = [folder / file for file in files]
    found = capeval.correlate(average=paths, statistic="kendall_b", grouping="item")
    (mean, *_) = [r for r in found.results if r.metric == "a"]
    assert mean.value == by_key(averaged(folder, *files))["kendall_b", "item", "a"]["value"]
    assert {(r.statistic, r.grouping) for r in found.results} == {("kendall_b", "item")}


def test_the_screen_shows_means_ranks_and_data_sets(sets: tuple[Path, list[str]]) -> None:
    folder, files = sets
    said = correlate(folder, "--average", ",".join(files))
    assert said.out.startswith(
        "a has the highest Kendall tau-b of 3 metrics with the human score: "
    )
    assert "over 216 captions of 3 data sets, averaged (pooled)" in said.out
    assert "Kendall tau-b, pooled, by data set" in said.out
    assert len(said.out.splitlines()) <= 60
    assert max(map(len, said.out.splitlines()[6:-1])) <= 120


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (("--average", "none.json"), "none.json: does not exist"),
        (("--average", "x/human.csv"), "x/human.csv: line 1: is not JSON"),
        (("--average", "list.json"), "list.json: is no correlations.json"),
        (("--average", "later.json"), "later.json: newer: Extra inputs"),
        (("--average", "wrong.json"), "wrong.json: results.1: has the value 0.9 outside its"),
        (("--average", "raters.json"), "raters.json: keeps raters apart"),
        (("--average", "x/correlations.json", "--human", "h.csv"), "--human has no effect on an"),
        (("--average", "x/correlations.json", "--seed", "1"), "--seed has no effect on an average"),
        (("--average", "x/correlations.json,./x/correlations.json"), "is the same file as"),
        (("--average", "x/correlations.json,copy.json"), "have the same human ratings"),
        (("--average", "x/correlations.json,other.json"), "has no statistic of a human score in"),
        (("--average", "x/correlations.json", "--out", "x/correlations.json"), "--out"),
        ((), "name the file of human ratings with --human, or files of results with --average"),
    ],
)
def test_what_cannot_be_averaged_is_one_line(
    sets: tuple[Path, list[str]], typed: tuple[str, ...], told: str
) -> None:
    folder, (file, other, _) = sets
    found = read(folder, file)
    (folder / "copy.json").write_text(json.dumps(found), "utf-8")
    (folder / "list.json").write_text("[]", "utf-8")
    (folder / "later.json").write_text(json.dumps(found | {"newer": 1}), "utf-8")
    first = {**found["results"][0], "value": 0.9, "low": 0.1, "high": 0.2}
    (folder / "wrong.json").write_text(json.dumps(found | {"results": [first]}), "utf-8")
    apart = {**found["results"][0], "rater": "Ann"}
    (folder / "raters.json").write_text(json.dumps(found | {"results": [apart]}), "utf-8")
    renamed = [r | {"human": "f1"} for r in found["results"]]
    inputs = read(folder, other)["inputs"]
    (folder / "other.json").write_text(
        json.dumps(found | {"results": renamed, "inputs": inputs}), "utf-8"
    )
    before = (folder / file).read_bytes()
    said = correlate(folder, *typed)
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert told in said.err
    assert (folder / file).read_bytes() == before


def refused(folder: Path, found: dict[str, Any]) -> str:
    """Return the one line about a file of results, without its name."""
    (folder / "edited.json").write_text(json.dumps(found), "utf-8")
    said = correlate(folder, "--average", "edited.json")
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    return said.err.partition("edited.json: ")[2].strip()


@pytest.mark.parametrize(
    ("rows", "path", "number", "field"),
    [
        ("results", ("value",), 1.9, "results.1.value"),
        ("results", ("low",), -1e308, "results.1.low"),
        ("results", ("high",), 1e308, "results.1.high"),
        ("results", ("high",), 10**400, "results.1.high"),
        ("results", ("n",), -1, "results.1.n"),
        ("results", ("n",), 10**400, "results.1.n"),
        ("results", ("groups", "used"), 10**400, "results.1.groups.used"),
        ("results", ("groups", "dropped"), -2, "results.1.groups.dropped"),
        ("results", ("ties", "metric"), -1, "results.1.ties.metric"),
        ("results", ("ties", "human"), 10**400, "results.1.ties.human"),
        ("results", ("p_least",), 2, "results.1.p_least"),
        ("results", ("threshold",), -1, "results.1.threshold"),
        ("results", ("cross_fitted",), 1e308, "results.1.cross_fitted"),
        ("results", ("without", "s0"), 3, "results.1.without.s0"),
        ("results", ("data_sets",), {"x": -4}, "results.1.data_sets.x"),
        ("comparisons", ("difference",), 1e308, "comparisons.1.difference"),
        ("comparisons", ("n",), -1, "comparisons.1.n"),
        ("comparisons", ("low",), -1e308, "comparisons.1.low"),
        ("comparisons", ("p_adjusted",), -1, "comparisons.1.p_adjusted"),
        ("comparisons", ("p_one_sided",), 1.5, "comparisons.1.p_one_sided"),
    ],
)
def test_impossible_numbers_are_refused_by_row_and_field(
    sets: tuple[Path, list[str]], rows: str, path: tuple[str, ...], number: Any, field: str
) -> None:
    folder, (file, *_) = sets
    found = read(folder, file)
    row = found[rows][0]
    for name in path[:-1]:
        row = row[name]
    row[path[-1]] = number
    told = refused(folder, found)
    assert told.startswith(f"{field}: ")
    assert len(told) < 150


def test_a_repeated_row_is_refused(sets: tuple[Path, list[str]]) -> None:
    folder, (file, *_) = sets
    found = read(folder, file)
    more = [*found["results"], {**found["results"][1], "value": None, "low": None, "high": None}]
    place = len(more)
    told = refused(folder, found | {"results": more})
    assert told == f"results.{place}: repeats results.2; leave one of them out"
    first = found["comparisons"][0]
    turned = {**first, "first": first["second"], "second": first["first"], "difference": None}
    for again in (first, {**first, "method": "other"}, {**turned, "low": None, "high": None}):
        more = [*found["comparisons"], again]
        told = refused(folder, found | {"comparisons": more})
        assert told == f"comparisons.{len(more)}: repeats comparisons.1; leave one of them out"


def test_a_difference_that_contradicts_its_values_is_refused(
    sets: tuple[Path, list[str]],
) -> None:
    folder, (file, *_) = sets
    found = read(folder, file)
    number, one = next(
        (number, c)
        for number, c in enumerate(found["comparisons"], start=1)
        if c["statistic"] == "kendall_b" and c["difference"] > 0.01
    )
    one["difference"], one["low"], one["high"] = -one["difference"], None, None
    told = refused(folder, found)
    assert told.startswith(f"comparisons.{number}.difference: is not 0.")
    assert told.endswith(f", the difference of the values of {one['first']} and {one['second']}")
    # Of other groups, it may be another.
    one["groups"]["dropped"] += 1
    (folder / "edited.json").write_text(json.dumps(found), "utf-8")
    assert correlate(folder, "--average", "edited.json").code == 0


@pytest.mark.parametrize(
    "inputs",
    [
        {},
        {"human": {"sha256": "A" * 64}},
        {"human": {"sha256": "a" * 63}},
        {"human": {"sha256": 1}},
        {"human": "h.csv"},
        {"data_sets": {}},
        {"data_sets": []},
        {"data_sets": {"x": {"human": "a" * 64}}},
        {"data_sets": {"x": {"human": []}}},
        {"data_sets": {"x": {"human": ["A" * 64]}}},
        {"data_sets": {"x": {"human": [["a"]]}}},
        {"data_sets": {"x": {"human": ["a" * 64]}, "y": {"human": []}}},
    ],
)
def test_a_file_names_the_human_files_that_it_is_of(
    sets: tuple[Path, list[str]], inputs: dict[str, Any]
) -> None:
    folder, (file, *_) = sets
    told = refused(folder, read(folder, file) | {"inputs": inputs})
    assert told == "inputs: does not name its human file"

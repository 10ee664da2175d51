"""Systems left out, and those on which a correlation depends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import capeval
from capeval.correlation.excluding import outlier_warnings
from capeval.correlation.result import Correlation, Correlations, Groups, Ties
from capeval.errors import UsageError
from tests.correlation.making import ROOT, correlate
from tests.correlation.test_real_ratings import needs, write_csv
from tests.typed import typed


def _rows(raters: int = 1) -> list[tuple[object, ...]]:
    """Return ratings of 12 videos by five alike systems and by people, whom the metric fails."""
    rng = np.random.default_rng(3)
    rows: list[tuple[object, ...]] = []
    for video in range(12):
        for system in ("a", "b", "c", "d", "e", "people"):
            score = rng.random() + 2 * (system == "people")
            metric = score + 0.2 * rng.random() if system != "people" else rng.random() - 0.5
            given = [score + 0.1 * rng.random() for _ in range(raters)]
            rows.append((f"v{video}", system, metric, *given))
    return rows


def _write(path: Path, rows: list[tuple[object, ...]], raters: int = 1) -> Path:
    names = ["human"] + [f"human_{n}" for n in range(2, raters + 1)]
    write_csv(path, [("video_id", "system", "m", *names), *rows])
    return path


def _found(path: Path, *without: str) -> Correlations:
    return capeval.correlate(
        path, metric_columns=["m"], exclude_system=without, resamples=99, statistic=["pearson"]
    )


def test_leaving_systems_out_is_like_a_file_without_them(tmp_path: Path) -> None:
    rows = _rows(2)
    whole = _found(_write(tmp_path / "whole.csv", rows, 2), "people", "a")
    kept = [row for row in rows if row[1] not in ("people", "a")]
    rest = _found(_write(tmp_path / "rest.csv", kept, 2))
    assert whole.results == rest.results
    assert whole.raters == rest.raters
    assert whole.inputs["settings"]["excluded"] == ["a", "people"]
    assert "excluded:a+people" in whole.signature
    assert "excluded" not in rest.signature


def test_labels_of_a_system_are_left_out_too(tmp_path: Path) -> None:
    (tmp_path / "human.csv").write_bytes((ROOT / "annotations/sample/human.csv").read_bytes())
    assert typed(tmp_path, "judge", "sample", "--judge", "lexical").code == 0
    asked = ["--human", "human.csv", "--resamples", "99", "--json", "--statistic", "kendall_b"]
    whole, rest = (
        json.loads(correlate(tmp_path, *asked, *more).out)
        for more in ((), ("--exclude-system", "sample-terse"))
    )
    systems = {name for r in whole["results"] for name in r["without"]}
    assert "sample-terse" in systems

    def pooled(of: dict[str, Any]) -> Any:
        return next(r for r in of["results"] if r["grouping"] == "pooled" and r["value"])

    assert pooled(rest)["value"] == pytest.approx(pooled(whole)["without"]["sample-terse"])
    assert rest["elements"]["labels"] < whole["elements"]["labels"]


def test_a_rater_of_no_other_system_is_no_rater(tmp_path: Path) -> None:
    rows = [(*row[:3], row[3], row[4] if row[1] == "a" else "") for row in _rows(2)]
    found = _found(_write(tmp_path / "human.csv", rows, 2), "a")
    assert found.raters.names == ("human",)


@pytest.mark.parametrize(
    ("without", "told"),
    [
        (("peple",), "has no system 'peple'; did you mean \"people\"?"),
        (("x",), "has no system 'x'; it has a, b, c"),
        (("a", "b", "c", "d", "e", "people"), "has no other system"),
    ],
)
def test_what_cannot_be_left_out_is_said(
    tmp_path: Path, without: tuple[str, ...], told: str
) -> None:
    path = _write(tmp_path / "human.csv", _rows())
    with pytest.raises(UsageError) as raised:
        _found(path, *without)
    assert told in str(raised.value)


def test_a_file_without_systems_has_none_to_leave_out(tmp_path: Path) -> None:
    path = tmp_path / "human.csv"
    path.write_text("video_id,m,score\na,1,1\nb,2,2\n", "utf-8")
    with pytest.raises(UsageError, match="names no systems"):
        _found(path, "a")


def test_a_system_on_which_a_value_depends_is_named_once(tmp_path: Path) -> None:
    path = _write(tmp_path / "human.csv", _rows())
    done = correlate(tmp_path, "--human", str(path), "--metric-columns", "m", "--resamples", "99")
    lines = [line for line in done.err.splitlines() if "leaving out" in line]
    assert len(lines) == 1
    assert lines[0].startswith(
        "warning: human score: leaving out people changes the pooled Pearson r of m from -0."
    )
    assert not [line for line in _found(path, "people").warnings if "leaving out" in line]


def _result(grouping: Any, value: float, without: dict[str, float | None], n: int) -> Correlation:
    return Correlation(
        metric="m",
        human="score",
        statistic="pearson",
        grouping=grouping,
        value=value,
        n=n,
        groups=Groups(used=1, dropped=0),
        ties=Ties(metric=0.0, human=0.0),
        without=without,
    )


@pytest.mark.parametrize(
    ("grouping", "values", "named"),
    [
        ("pooled", [0.61, 0.54, 0.5, 0.5, 0.5], True),
        ("pooled", [0.59, 0.5, 0.5, 0.5, 0.5], False),
        # Another system matters nearly as much.
        ("pooled", [0.61, 0.56, 0.5, 0.5, 0.5], False),
        ("system", [0.85, 0.5, 0.45, 0.5, 0.5], True),
        ("system", [0.75, 0.5, 0.45, 0.5, 0.5], False),
        # Of few systems, nearly any decides.
        ("pooled", [0.85, 0.5, 0.5, 0.5], False),
        ("item", [0.9, 0.5, 0.5, 0.5, 0.5], False),
        ("pooled", [0.9, None, None, None, None], False),
    ],
)
def test_a_system_stands_out_if_the_value_without_it_does(
    grouping: str, values: list[float | None], named: bool
) -> None:
    without = dict(zip("abcde", values, strict=False))
    assert bool(outlier_warnings([_result(grouping, 0.5, without, 60)])) == named


def _common(a: list[str], b: list[str]) -> int:
    row = [0] * (len(b) + 1)
    for one in a:
        new = [0]
        for at, other in enumerate(b):
            new.append(row[at] + 1 if one == other else max(new[-1], row[at + 1]))
        row = new
    return row[-1]


def test_people_of_thumb_hide_what_rouge_l_can_do(tmp_path: Path) -> None:
    folder = needs("thumb")

    def rows_of(name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (folder / name).read_text("utf-8").splitlines()]

    references = {r["seg_id"]: r["refs"] for r in rows_of("mscoco_references.json")}
    table: list[tuple[object, ...]] = [("video_id", "system", "score", "m")]
    for r in rows_of("mscoco_THumB-1.0.jsonl"):
        words = r["hyp"].lower().rstrip(".").split()
        known = [text.lower().rstrip(".").split() for text in references[r["seg_id"]]]
        best = max(_common(words, one) / (len(words) + len(one)) for one in known)
        table.append((r["seg_id"], r["SYS"], r["human_score"], 2 * best))
    write_csv(tmp_path / "human.csv", table)
    found = _found(tmp_path / "human.csv")
    pooled = next(r for r in found.results if r.grouping == "pooled")
    assert pooled.value == pytest.approx(0.18, abs=0.03)
    assert pooled.without["Human"] == pytest.approx(0.31, abs=0.03)
    assert [line for line in found.warnings if "leaving out Human changes the pooled" in line]
    rest = next(
        r for r in _found(tmp_path / "human.csv", "Human").results if r.grouping == "pooled"
    )
    assert rest.value == pytest.approx(pooled.without["Human"])

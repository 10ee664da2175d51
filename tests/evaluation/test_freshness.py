"""Scores held against the verdicts beside them, without a bootstrap."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capeval.errors import InputError
from capeval.evaluation.freshness import Reference, why_stale
from capeval.evaluation.summary import summarise
from capeval.files.judgments import write_judgments
from capeval.schema import Judgment, Unscored
from capeval.scoring import Scores
from tests.judged_runs import BY, VIDEOS, judgments
from tests.scoring.making import scored

LABELS = "+0- 0++ | 0+- | 00 +"
REFERENCE = Reference(VIDEOS)


def summary(judged: list[Judgment]) -> Scores:
    return summarise(VIDEOS, judged, captioned=3, seed=0, draws=99)


def label(events: list[int]) -> Any:
    return st.tuples(*(st.text("+0-", min_size=n, max_size=n) for n in events)).map(" ".join)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.tuples(label([3, 3]), label([3]), label([2, 1])), st.sets(st.integers(0, 2), min_size=1))
def test_scores_of_the_verdicts_are_fresh_and_of_any_others_stale(
    tmp_path: Path, told: tuple[str, str, str], kept: set[int]
) -> None:
    judged: list[Judgment] = [
        scored(VIDEOS[n].index, told[n], provenance=BY)
        if n in kept
        else Unscored(index=VIDEOS[n].index, reason="no", provenance=BY)
        for n in range(3)
    ]
    write_judgments(tmp_path / "j.jsonl", judged)
    assert why_stale(summary(judged), tmp_path / "j.jsonl", REFERENCE) is None
    one = min(kept)
    first = "-" if told[one][0] == "+" else "+"
    judged[one] = scored(VIDEOS[one].index, first + told[one][1:], provenance=BY)
    assert why_stale(summary(judged), tmp_path / "j.jsonl", REFERENCE) is not None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"status": "unscored"}, "2 videos have verdicts, and 3 are scored"),
        ({"index": "z"}, "do not fit the annotations"),
        ({"index": ["a"]}, None),
        ({"relations": []}, "do not fit the annotations"),
        ({"relations": None}, "do not fit the annotations"),
        ({"relations": [["lack", "lack", 3], ["lack"] * 3]}, "do not fit the annotations"),
        ({"relations": [["lack", "lack", "x"], ["lack"] * 3]}, "do not fit the annotations"),
        ({"relations": [["lack"] * 3, ["lack"] * 3]}, "overall.all.precision is not that"),
        ({"provenance": {"judge": "other"}}, "of another judge"),
        ({"provenance": {"judge": ["gpt-4o"]}}, "of another judge"),
        ({"provenance": None}, "do not fit the annotations"),
        ({"repeats": [1, 2, 3]}, "of another judge"),
        ({"repeats": 3}, "do not fit the annotations"),
        ({"status": None}, "2 videos have verdicts"),
    ],
)
def test_changed_line_is_told(tmp_path: Path, change: dict[str, Any], told: str | None) -> None:
    file = tmp_path / "j.jsonl"
    judged = judgments(LABELS)
    write_judgments(file, judged)
    first, *rest = file.read_text().splitlines()
    file.write_text("\n".join([json.dumps(json.loads(first) | change), *rest]) + "\n")
    if told is None:
        with pytest.raises(InputError, match="line 1: is damaged"):
            why_stale(summary(judged), file, REFERENCE)
    else:
        assert told in str(why_stale(summary(judged), file, REFERENCE))


def test_torn_last_line_is_passed_over_and_damage_before_it_is_not(tmp_path: Path) -> None:
    file = tmp_path / "j.jsonl"
    judged = judgments(LABELS)
    write_judgments(file, judged)
    whole = file.read_text()
    file.write_text(whole + '{"index": "c", "sta')
    assert why_stale(summary(judged), file, REFERENCE) is None
    file.write_text('{"index": "c", "sta\n' + whole)
    with pytest.raises(InputError, match="line 1: is damaged"):
        why_stale(summary(judged), file, REFERENCE)


def test_of_several_lines_the_last_counts(tmp_path: Path) -> None:
    file = tmp_path / "j.jsonl"
    judged = judgments(LABELS)
    write_judgments(file, [*judgments("000 000"), *judged])
    assert why_stale(summary(judged), file, REFERENCE) is None


def test_other_annotations_are_told(tmp_path: Path) -> None:
    judged = judgments(LABELS)
    write_judgments(tmp_path / "j.jsonl", judged)
    other = Reference([VIDEOS[0].model_copy(update={"domain": "Food"}), *VIDEOS[1:]])
    told = why_stale(summary(judged), tmp_path / "j.jsonl", other)
    assert told == "the annotations have changed since"

"""What `capeval mcq grade` prints: the headline, and tables that fit on a screen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import capeval
from capeval.errors import InputError, UsageError
from tests.mcq.graded_files import line, write
from tests.typed import here as typed

TYPES = ("rotation", "direction", "velocity&frequency", "shape&trend", "visual_cues", "count")


def printed(*arguments: str | Path) -> str:
    code, out, _ = typed("mcq", "grade", *arguments)
    assert code == 0
    return out


def tomato(tmp_path: Path) -> Path:
    lines = []
    for number in range(1, 121):
        tags: dict[str, Any] = {
            "benchmark": "tomato",
            "reasoning_type": TYPES[number % 6],
            "demonstration_type": ("human", "object", "simulated")[number % 3],
            "counterfactual": number % 2,
            "zoom": number % 5 == 0,
            "first_person": number % 7 == 0,
            "composite": number % 4 == 0,
        }
        lines.append(line(number, "" if number % 9 == 0 else "ABC"[number % 3], **tags))
    return write(tmp_path / "responses.jsonl", lines)


def test_first_screen_has_whole_groupings_and_names_the_others(tmp_path: Path) -> None:
    file = tomato(tmp_path)
    out = printed(file)
    assert all(name in out for name in (*TYPES, "simulated"))
    assert "continued" not in out
    assert "With --full: " in out
    assert out.count("\n") <= 41
    headline, *table = out.split("Decided by")[0].splitlines()
    assert headline.startswith("TOMATO: accuracy ")
    assert max(map(len, table)) <= 80
    full = printed(file, "--full")
    assert "First person" in full
    assert "--full" not in full


def test_empty_replies_are_not_counted_among_answers_that_were_drawn(tmp_path: Path) -> None:
    out = printed(tomato(tmp_path), "--as", "tomato")
    assert "No answer: 0 of 120 replies. Empty replies: 13." in " ".join(out.split())


def test_headline_says_when_no_reply_counts(tmp_path: Path) -> None:
    file = write(tmp_path / "responses.jsonl", [line(1, None), line(2, None)])
    out = printed(file)
    assert out.startswith(
        "Own questions: no accuracy (exact): of 2 responses, 2 unscored, 0 unread."
    )


def test_out_has_the_format_of_its_suffix(tmp_path: Path) -> None:
    file = tomato(tmp_path)
    for suffix, start in {
        ".json": "{",
        ".md": "**Accuracy**",
        ".tex": "% ",
        ".txt": "TOMATO: ",
    }.items():
        out = tmp_path / f"table{suffix}"
        printed(file, "--out", out)
        assert out.read_text("utf-8").startswith(start)
    with pytest.raises(UsageError, match=r"are written as \.json, \.md, \.tex or \.txt"):
        capeval.mcq_grade(file, out=tmp_path / "table.csv")


def test_where_grades_some_questions_and_keeps_the_grades_of_the_run(tmp_path: Path) -> None:
    file = tomato(tmp_path)
    capeval.mcq_grade(file)
    grades = (tmp_path / "grades.json").read_bytes()
    found = capeval.mcq_grade(file, where=["reasoning_type=count", "counterfactual=1"])
    assert {item.tags["reasoning_type"] for item in found.items} == {"count"}
    assert found.counts.responses == 20
    assert found.settings["where"] == ["reasoning_type=count", "counterfactual=1"]
    assert (tmp_path / "grades.json").read_bytes() == grades
    some = tmp_path / "some.json"
    capeval.mcq_grade(file, where=["zoom=true"], out=some)
    assert some.exists()
    with pytest.raises(UsageError, match='did you mean "count"'):
        capeval.mcq_grade(file, where=["reasoning_type=cuont"])


def test_questions_in_place_of_responses_are_named(tmp_path: Path) -> None:
    question = {name: value for name, value in line(1, "").items() if name != "reply"}
    del question["benchmark"]
    with pytest.raises(InputError, match="line 1: is a question without a reply"):
        capeval.mcq_grade(write(tmp_path / "questions.jsonl", [question]))

"""What `capeval mcq grade` prints: the headline, and tables that fit on a screen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from capeval.cli.main import main
from tests.mcq.graded_files import line, write

TYPES = ("rotation", "direction", "velocity&frequency", "shape&trend", "visual_cues", "count")


def printed(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    *arguments: str | Path,
    width: int = 80,
) -> str:
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["mcq", "grade", *map(str, arguments)]) == 0
    return capsys.readouterr().out


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


def test_first_screen_has_whole_groupings_and_names_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tomato(tmp_path)
    out = printed(capsys, monkeypatch, file)
    assert all(name in out for name in (*TYPES, "simulated", "Human: as published, with videos"))
    assert "continued" not in out
    assert "With --full: " in out
    assert out.count("\n") <= 41
    assert max(map(len, out.split("Decided by")[0].splitlines())) <= 80
    full = printed(capsys, monkeypatch, file, "--full", width=120)
    assert "Human (frames)" in full
    assert "First person" in full
    assert "--full" not in full


def test_empty_replies_are_not_counted_among_answers_that_were_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = printed(capsys, monkeypatch, tomato(tmp_path), "--as", "tomato")
    assert "No answer: 0 of 120 replies. Empty replies: 13." in " ".join(out.split())


def test_headline_says_when_no_reply_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path / "responses.jsonl", [line(1, None), line(2, None)])
    out = printed(capsys, monkeypatch, file)
    assert out.startswith(
        "Own questions: no accuracy (exact): of 2 responses, 2 unscored, 0 unread."
    )


def test_own_tags_with_one_value_per_question_are_no_groups(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [line(n, "C", best_frame=n, speed="fast" if n % 2 else "slow") for n in range(1, 11)]
    out = printed(capsys, monkeypatch, write(tmp_path / "responses.jsonl", lines))
    assert "Speed" in out
    assert "est_frame" not in out
    file = write(tmp_path / "responses.jsonl", lines)
    assert "Best_frame" in printed(capsys, monkeypatch, file, "--by", "best_frame")


def test_rotations_of_a_question_are_one_question_of_a_tag(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [line(n, "C", best_frame=n, rotation=r) for n in range(1, 6) for r in range(4)]
    out = printed(capsys, monkeypatch, write(tmp_path / "responses.jsonl", lines))
    assert "est_frame" not in out

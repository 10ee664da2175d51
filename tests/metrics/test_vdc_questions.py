"""Files of questions: the layouts that are read, and what is wrong with others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.typed import Said, typed

GOOD = [{"question": "q", "answer": "a"}]


def estimated(folder: Path, name: str, content: Any) -> Said:
    (folder / "c.json").write_text('{"1": "A dog.", "22": "A cat."}', "utf-8")
    if content is not None:
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / name).write_text(text, "utf-8")
    command = ("metrics", "--candidates", "c.json", "--metric", "vdcscore", "--qa", name)
    return typed(folder, *command, "--judge", "gpt-4o-2024-08-06", "--dry-run", "--json")


MALFORMED: list[tuple[str, Any, str]] = [
    ("qa.jsonl", "nonsense", "qa.jsonl: line 1: is not JSON: "),
    ("qa.json", "{}", "must be a JSON object with the questions of a video, not {}"),
    ("qa.jsonl", "[]", "qa.jsonl: has no records"),
    ("qa.jsonl", {"1": []}, 'line 1: index "1": questions: needs at least 1'),
    ("qa.jsonl", {"1": "q"}, 'line 1: index "1": questions: Input should be a valid tuple'),
    ("qa.jsonl", {"1": [*GOOD, {"question": "q"}]}, "questions.2.answer: Field required"),
    ("qa.jsonl", {"1": [{"question": "q", "answer": 3}]}, "questions.1.answer: Input should be"),
    ("qa.jsonl", {"index": 1, "questions": GOOD}, "line 1: index: Input should be a valid string"),
    ("qa.jsonl", {"questions": GOOD}, "line 1: index: Field required"),
    ("qa.jsonl", {"other": GOOD}, "no caption is known to"),
    ("qa.jsonl", {"1": GOOD}, 'qa.jsonl: index "22": index: is unknown to the qa'),
    ("gone.jsonl", None, "gone.jsonl: does not exist"),
]


@pytest.mark.parametrize(("name", "content", "message"), MALFORMED)
def test_a_malformed_file_is_one_line(
    name: str, content: Any, message: str, tmp_path: Path
) -> None:
    done = estimated(tmp_path, name, content)
    assert done.code == 2
    assert message in done.lines[-1]
    assert len([*tmp_path.iterdir()]) <= 2


READ: list[tuple[str, str]] = [
    ("qa.jsonl", json.dumps({"1": GOOD}) + "\n" + json.dumps({"22": GOOD})),
    ("qa.json", json.dumps({"1": GOOD, "22": GOOD}, indent=1)),
    ("qa.json", json.dumps([{"1": GOOD}, {"22": GOOD}])),
    ("qa.jsonl", "\n".join(json.dumps({"index": n, "questions": GOOD}) for n in ("1", "22"))),
    ("qa.jsonl", "\n".join(json.dumps({n: GOOD}) for n in ("1", "22", "1"))),
]


@pytest.mark.parametrize(("name", "content"), READ)
def test_both_layouts_are_read(name: str, content: str, tmp_path: Path) -> None:
    done = estimated(tmp_path, name, content)
    assert done.code == 0, done.err
    assert done.json["calls"] == 4
    assert "different lists" not in done.err


def test_of_two_different_lists_the_last_counts(tmp_path: Path) -> None:
    other = [*GOOD, {"question": "r", "answer": "b"}, {"question": "s", "answer": "c"}]
    lines = [{"1": GOOD, "22": GOOD}, {"1": other}]
    done = estimated(tmp_path, "qa.jsonl", "\n".join(map(json.dumps, lines)))
    assert done.json["calls"] == 8
    assert 'qa.jsonl: different lists of questions for 1 video (such as "1")' in done.err


def test_the_questions_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text('{"1": "A dog."}', "utf-8")
    (tmp_path / "qa.jsonl").write_text(json.dumps({"1": GOOD}), "utf-8")
    command = ("metrics", "--candidates", "c.json", "--metric", "vdcscore", "--qa", "qa.jsonl")
    done = typed(tmp_path, *command, "--out", "qa.jsonl", "--dry-run")
    assert done.code == 2
    assert "--out: qa.jsonl is one of the files to be read" in done.err
    done = typed(tmp_path, "metrics", "sample", "--metric", "vdcscore", "--dry-run")
    assert "name their file with --qa" in done.err

"""Which run of questions an argument means, and where its grades go."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import capeval
from capeval.errors import InputError
from capeval.mcq.find_run import all_grades, find_grades, find_responses
from tests.mcq.graded_files import line, write
from tests.typed import here as typed


def answered(place: str, replies: str = "AB", questions: int | None = None) -> Path:
    """Write a run with one reply for each character."""
    folder = Path(place)
    folder.mkdir(parents=True)
    options = {"options": ["left", "right"], "frames": {}}
    lines = [line(n, reply, "A", **options) for n, reply in enumerate(replies)]
    write(folder / "responses.jsonl", lines)
    if questions is not None:
        (folder / "manifest.json").write_text(json.dumps({"questions": {"count": questions}}))
    return folder


def test_a_run_is_graded_by_its_name_and_keeps_its_grades() -> None:
    run = answered("runs/mcq/own/mine@8")
    code, out, _ = typed("mcq", "grade", "mine@8")
    assert code == 0
    assert out.rstrip().endswith("runs/mcq/own/mine@8/grades.json")
    stored = json.loads((run / "grades.json").read_text("utf-8"))
    assert stored["overall"]["accuracy"]["value"] == 0.5
    assert find_grades("mine@8") == run / "grades.json"
    assert all_grades() == [run / "grades.json"]
    (section,) = capeval.leaderboard(questions=True).sections
    assert section.entries[0].name == "mine@8"


def test_grades_go_next_to_responses_jsonl_alone_and_only_without_out() -> None:
    run = answered("elsewhere")
    capeval.mcq_grade(run, resamples=99, out="other.json")
    assert (not (run / "grades.json").exists(), Path("other.json").is_file()) == (True, True)
    capeval.mcq_grade(run / "responses.jsonl", resamples=99)
    assert (run / "grades.json").is_file()
    (run / "grades.json").unlink()
    (run / "responses.jsonl").rename(run / "theirs.jsonl")
    capeval.mcq_grade(run / "theirs.jsonl", resamples=99)
    assert not (run / "grades.json").exists()


def test_grading_again_replaces_the_grades() -> None:
    run = answered("runs/mcq/own/m")
    capeval.mcq_grade("m", resamples=99)
    capeval.mcq_grade("m", select="exact+random", resamples=99)
    stored = json.loads((run / "grades.json").read_text("utf-8"))
    assert stored["settings"]["select"] == "exact+random"


@pytest.mark.parametrize("find", [find_responses, find_grades])
def test_a_name_that_several_runs_have_is_refused(find: Callable[[str], Path]) -> None:
    for benchmark in ("own", "tuna", "tomato"):
        run = answered(f"runs/mcq/{benchmark}/m@16")
        capeval.mcq_grade(run, resamples=99)
    with pytest.raises(InputError) as refused:
        find("m@16")
    assert str(refused.value) == (
        "m@16: can mean runs/mcq/own/m@16, runs/mcq/tomato/m@16 or runs/mcq/tuna/m@16; name one of "
        "these paths"
    )
    assert find("runs/mcq/tuna/m@16").is_relative_to("runs/mcq/tuna/m@16")


def test_what_means_no_run_is_explained() -> None:
    answered("runs/mcq/own/mine@8")
    with pytest.raises(InputError, match=r'nor a run under runs/; did you mean "mine@8"\?'):
        find_responses("mime@8")


def test_an_unfinished_run_says_how_many_questions_have_a_response() -> None:
    answered("runs/mcq/own/half", replies="AB", questions=5)
    code, _, err = typed("mcq", "grade", "half")
    assert code == 0
    assert "2 of the run's 5 questions have a response" in err
    answered("runs/mcq/own/whole", replies="AB", questions=2)
    assert "have a response" not in typed("mcq", "grade", "whole")[2]

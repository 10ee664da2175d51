"""`capeval leaderboard --questions`: graded runs in sections, and published tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import capeval
from capeval.comparing.sections import Leaderboard
from capeval.errors import InputError
from tests.mcq.graded_runs import FRAMES, edit, grade, paired
from tests.world import here as typed

BOARD = ("leaderboard", "--questions")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


def ranked(named: Sequence[str] = (), **more: Any) -> Leaderboard:
    return capeval.leaderboard(named, questions=True, **more)


def make(name: str, correct: list[bool | None], **more: Any) -> Path:
    return grade(Path("runs") / name, correct, more.pop("frames", FRAMES["multi"]), **more)


def test_runs_are_ranked_and_ties_share_a_rank() -> None:
    good, poor = paired(1, 0.7, 0.3)
    for name, correct in (("poor", poor), ("good", good), ("good-again", good)):
        make(name, correct)
    (section,) = ranked().sections
    ranks = [(one.name, one.rank) for one in section.entries if one.rank]
    assert ranks == [("good", 1), ("good-again", 1), ("poor", 3)]
    columns = section.tables["overall"].columns[-3:]
    found = [(column.heading, column.under) for column in columns]
    assert found == [("rotation", "20"), ("direction", "20"), ("count", "20")]


def test_runs_that_saw_less_have_no_rank() -> None:
    many, one = paired(1, 0.6, 0.9)
    make("many", many)
    make("shuffled", one, frames=FRAMES["shuffled"])
    (section,) = ranked().sections
    assert [(e.name, e.rank) for e in section.entries[:2]] == [("many", 1), ("shuffled", None)]
    out = typed(*BOARD)[1]
    assert "One frame, shuffled frames or none" in out
    assert "Not ranked" not in out


def test_run_with_too_few_scored_comes_last_and_the_reason_is_shown() -> None:
    good, poor = paired(1, 0.9, 0.3)
    make("poor", poor)
    make("good-but-part", [None, *good[1:]])
    (section,) = ranked().sections
    ranks = [(one.name, one.rank) for one in section.entries[:2]]
    assert ranks == [("poor", 1), ("good-but-part", None)]
    out = " ".join(typed(*BOARD)[1].split())
    assert "Not ranked, fewer than 99% of the questions are scored: good-but-part" in out


def test_other_strategies_questions_and_benchmarks_are_other_sections() -> None:
    correct = paired(1, 0.5)[0]
    make("a", correct)
    make("b", correct, select="exact+random")
    make("c", correct[:30])
    make("d", correct, benchmark="own")
    sections = ranked().sections
    assert sorted(section.entries[0].name for section in sections) == ["a", "b", "c", "d"]


def test_published_tables_follow() -> None:
    make("one", paired(1, 0.5)[0])
    board = ranked(published=True)
    assert [one.shared["benchmark"] for one in board.sections] == [
        "tomato",
        "tuna",
        "tomato",
        "mmmu-pro",
        "mmmu-pro",
    ]
    code, out, err = typed(*BOARD, "--published", "--full")
    assert (code, err) == (0, "")
    assert out.startswith("one: accuracy ")
    flat = " ".join(out.split())
    assert flat.count("published, not computed here") == 5 - 1
    assert "LLaVA-Video-7B: 20.1% is no share of 286 questions" in flat
    assert "13.12" in out
    assert "1,440" in out


def test_nothing_to_show_is_an_error() -> None:
    with pytest.raises(InputError, match="has no graded run"):
        ranked()


def test_broken_run_is_left_out_unless_it_is_named() -> None:
    make("one", paired(1, 0.5)[0])
    edit(make("broken", paired(2, 0.5)[0]), items=None)
    code, out, err = typed(*BOARD)
    assert code == 3
    assert "broken" not in out
    assert err.startswith("left out: ")
    with pytest.raises(InputError, match="broken"):
        ranked(["broken"])


def test_json_has_what_the_function_returns() -> None:
    make("one", paired(1, 0.5)[0])
    shown = json.loads(typed(*BOARD, "--json", "--published")[1])
    own, *published = shown
    assert (own["run"], own["count_n"], own["scored_of"]) == ("one", 20, 60)
    (tuna,) = (r for r in published if (r["run"], r["section"]) == ("Gemini 1.5 Pro", 2))
    cell = [tuna[f"Camera Motion{end}"] for end in ("", "_low", "_high", "_n")]
    assert cell == [0.494, None, None, 256]
    remarked = {r["run"] for r in published if r["section"] == 3 and r["remark"]}
    assert remarked == {"LLaVA-Video-7B", "AuroraCap-7B-VID"}

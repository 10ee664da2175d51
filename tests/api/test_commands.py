"""The public functions of the commands that read judged runs: results, notices and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import capeval
from capeval.errors import InputError, UsageError
from capeval.scoring.comparison_result import Comparison, Matrix
from tests.judged_runs import VIDEOS, make_run, write_annotations
from tests.rating.rating_examples import exported

OLD, NEW, THIRD = "+0- 0++ | 0+- | 00 +", "+++ 0++ | 0++ | +0 +", "000 000 | 00- | 00 +"


@pytest.fixture(autouse=True)
def notices() -> list[str]:
    """Three judged runs; the list collects what `on_notice` is called with."""
    write_annotations(Path("a.json"))
    for name, labels in (("old", OLD), ("new", NEW), ("third", THIRD)):
        make_run(name, labels)
    return []


def test_score_uses_the_annotations_that_the_run_names() -> None:
    scores = capeval.score("old")
    stored = json.loads(Path("runs/old/judge/scores.json").read_bytes())
    assert scores.model_dump(mode="json")["overall"] == stored["overall"]
    assert scores == capeval.score("runs/old/judge", VIDEOS) == capeval.score("old", "a.json")
    assert scores == capeval.score("old", judge="jud")


def test_score_writes_what_it_returns_and_overwrites_no_input() -> None:
    scores = capeval.score("old", out="s.json")
    assert json.loads(Path("s.json").read_bytes()) == scores.model_dump(mode="json")
    assert scores.overall.all.f1.low is not None
    assert scores == capeval.score("old")
    before = Path("a.json").read_bytes()
    with pytest.raises(UsageError, match="is one of the files to be read"):
        capeval.score("old", out="a.json")
    assert Path("a.json").read_bytes() == before


def test_compare_returns_gates_and_writes_the_result() -> None:
    found = capeval.compare(["old", "new"], fail_under=["f1=0"], resamples=99, out="c.json")
    assert isinstance(found, Comparison)
    assert [(gate.gate, gate.passed) for gate in found.gates] == [("f1", True)]
    assert json.loads(Path("c.json").read_bytes()) == found.model_dump(mode="json")
    assert isinstance(capeval.compare(["old", "new", "third"], resamples=99), Matrix)


def test_correlate_accepts_the_names_of_runs() -> None:
    rows = "".join(f"{video.index},{n}\n" for n, video in enumerate(VIDEOS))
    Path("human.csv").write_text("video_id,score\n" + rows)
    found = capeval.correlate("human.csv", {"judge": "old"}, out="c.json")
    assert {one.metric for one in found.results} >= {"judge:f1"}
    assert json.loads(Path("c.json").read_bytes()) == found.model_dump(mode="json")


def test_report_returns_its_file_and_size(notices: list[str]) -> None:
    made = capeval.report(["old", "new"], frames=0, on_notice=notices.append)
    assert made.file == Path("report.html")
    assert made.size == made.file.stat().st_size
    assert capeval.report(["old"], frames=0).file == Path("runs/old/judge/report.html")
    assert notices == []
    capeval.report(["old"], on_notice=notices.append)
    assert "no frames" in notices[0]


def test_leaderboard_ranks_and_writes() -> None:
    board = capeval.leaderboard(out="board.csv")
    assert board.sections[0].entries[0].name == "new"
    assert Path("board.csv").read_text(encoding="utf-8").count("\n") > 3


def test_a_share_is_a_text_or_a_number() -> None:
    shares: list[Any] = ["100%", 1.0, 5, "5"]
    for share in shares:
        (gate,) = capeval.compare(["old", "new"], min_coverage=share, resamples=99).gates
        assert gate.passed


def test_plot_returns_its_files(notices: list[str]) -> None:
    pytest.importorskip("matplotlib")
    files = capeval.plot(
        ["types", "frames"], ["old"], format=["svg"], out="f", on_notice=notices.append
    )
    assert files == [Path("f/types.svg")]
    assert notices == ["frames: left out, no model has runs with different numbers of frames"]


def test_a_sheet_is_made_and_merged(notices: list[str]) -> None:
    made = capeval.rate_sheet(["old", "new"], out="sheet", on_notice=notices.append)
    assert (made.videos, made.runs, len(made.sheet.items)) == (10, 2, 20)
    assert "only 10" in notices[0]
    ann = exported(made.key, Path("ann.csv"), "ann")
    merged = capeval.rate_merge([ann], made.key)
    assert len(merged.raters[0].labels) == made.sheet.labels
    assert merged.file == Path("human.csv")
    assert merged.file.exists()


def test_models_frames_and_cache() -> None:
    assert [entry.name for entry in capeval.models("qwen2.5-vl-7b")] == ["qwen2.5-vl-7b"]
    assert len(capeval.models()) > 1
    assert capeval.cache_info().entries == 0
    Path("notes.png").write_text("mine")
    with pytest.raises(UsageError, match="is not a PNG"):
        capeval.sample_frames("none.mp4", sheet="notes.png")


@pytest.mark.parametrize("name", ["score", "compare", "report", "plot"])
def test_a_run_that_does_not_exist_is_an_input_error(name: str) -> None:
    given: dict[str, tuple[object, ...]] = {"score": ("none",), "plot": (["types"], ["none"])}
    with pytest.raises(InputError, match="none"):
        getattr(capeval, name)(*given.get(name, (["none", "old"],)))

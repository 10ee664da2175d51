"""The public functions of the commands that read judged runs: results, notices and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import capeval
from capeval.errors import UsageError
from tests.judged_runs import VIDEOS, make_run, write_annotations

OLD, NEW = "+0- 0++ | 0+- | 00 +", "+++ 0++ | 0++ | +0 +"


@pytest.fixture(autouse=True)
def _runs() -> None:
    """Two judged runs."""
    write_annotations(Path("a.json"))
    for name, labels in (("old", OLD), ("new", NEW)):
        make_run(name, labels)


def test_score_uses_the_annotations_that_the_run_names() -> None:
    scores = capeval.score("old")
    stored = json.loads(Path("runs/old/judge/scores.json").read_bytes())
    assert scores.model_dump(mode="json")["overall"] == stored["overall"]
    assert scores == capeval.score("runs/old/judge", VIDEOS) == capeval.score("old", "a.json")
    assert scores == capeval.score("old", judge="jud")


def test_a_share_is_a_text_or_a_number() -> None:
    shares: list[Any] = ["100%", 1.0, 5, "5"]
    for share in shares:
        (gate,) = capeval.compare(["old", "new"], min_coverage=share, resamples=99).gates
        assert gate.passed


def test_models_frames_and_cache() -> None:
    assert [entry.name for entry in capeval.models("qwen2.5-vl-7b")] == ["qwen2.5-vl-7b"]
    assert len(capeval.models()) > 1
    assert capeval.cache_info().entries == 0
    Path("notes.png").write_text("mine")
    with pytest.raises(UsageError, match="is not a PNG"):
        capeval.sample_frames("none.mp4", sheet="notes.png")

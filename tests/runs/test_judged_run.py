"""Loading judged runs: incomplete last lines, and annotations that moved."""

from __future__ import annotations

from pathlib import Path

import pytest

from capeval.files.annotations import annotations_hash, load_annotations
from capeval.schema import Provenance
from capeval.scoring.judged_run import load_judged
from tests.correlation.making import make_run, write_annotations
from tests.scoring.making import annotation, scored

pytestmark = pytest.mark.usefixtures("alone")

BY = Provenance(judge="judge-1", prompts="set@1")
VIDEOS = [annotation(index, "c3 s1", "a2") for index in ("a", "b")]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with annotations and a judged run, whose manifest names them as they were typed."""
    home = tmp_path / "home"
    home.mkdir()
    write_annotations(home, VIDEOS)
    digest = annotations_hash(load_annotations(home / "annotations.json"))
    notes = ("asked again: “…”",)
    judged = [scored(i, "++ -", provenance=BY).model_copy(update={"notes": notes}) for i in "ab"]
    make_run(home, "run", [*judged], annotations={"path": "annotations.json", "sha256": digest})
    monkeypatch.chdir(home)
    return home


def judgments(home: Path) -> Path:
    return home / "runs/run/judge/judgments.jsonl"


def test_a_last_line_torn_at_any_byte_is_passed_over(home: Path) -> None:
    path = judgments(home)
    data = path.read_bytes()
    start = data.index(b"\n") + 1
    assert max(data[start:]) > 127
    for end in range(start, len(data) - 1):
        path.write_bytes(data[:end])
        assert list(load_judged("run").judgments) == ["a"]
        assert list(load_judged(path).judgments) == ["a"]

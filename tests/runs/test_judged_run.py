"""Judged runs as whoever shows them finds them: torn files, and annotations that moved."""

from __future__ import annotations

import codecs
from dataclasses import replace
from pathlib import Path

import pytest

from capeval.errors import InputError
from capeval.files.annotations import annotations_hash, load_annotations
from capeval.files.packaged import sample_folder
from capeval.runs.judged_run import files_behind, load_judged
from capeval.schema import Provenance
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


def test_a_byte_order_mark_is_no_damage(home: Path) -> None:
    whole = load_judged("run").judgments
    path = judgments(home)
    path.write_bytes(codecs.BOM_UTF8 + path.read_bytes())
    assert load_judged(path).judgments == whole


def test_annotations_are_found_beside_the_runs(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = load_judged("run")
    monkeypatch.chdir(tmp_path)
    there = load_judged("home/runs/run")
    assert there.scores == here.scores
    assert there.annotations_path == str(Path("home/annotations.json"))
    assert load_judged(judgments(home)).scores == here.scores


def test_other_annotations_of_that_name_are_not_taken(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_annotations(home, [video.model_copy(update={"domain": "Film"}) for video in VIDEOS])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as refused:
        load_judged("home/runs/run")
    assert str(refused.value).startswith("home/runs/run: its annotations annotations.json ")
    assert str(refused.value).endswith("name them with --annotations")
    # Named, they are the user's own choice.
    assert load_judged(
        "home/runs/run", annotations="home/annotations.json"
    ).annotations_path == "home/annotations.json"  # fmt: skip


@pytest.mark.parametrize("stored", ["annotations.json", "/nowhere/annotations.json"])
def test_lost_annotations_are_told_of_the_run(home: Path, stored: str) -> None:
    (home / "annotations.json").unlink()
    (home / "runs/run/manifest.json").write_text(f'{{"annotations": {{"path": "{stored}"}}}}')
    with pytest.raises(InputError) as refused:
        load_judged("run")
    told = str(refused.value)
    assert told.startswith(f"run: its annotations {stored} do not exist")
    assert told.endswith("name them with --annotations")


def test_the_files_behind_a_run_are_its_verdicts_and_annotations(home: Path) -> None:
    found = {path.resolve() for path in files_behind([load_judged("run")])}
    assert found == {judgments(home), home / "annotations.json"}
    of_sample = replace(load_judged("run"), annotations_path="sample")
    assert sample_folder() / "annotations.json" in files_behind([of_sample])


def test_annotations_that_are_named_and_missing_are_told_as_they_are(home: Path) -> None:
    with pytest.raises(InputError, match=r"^none.json: does not exist"):
        load_judged("run", annotations="none.json")

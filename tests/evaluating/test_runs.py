"""`capeval runs`: what is under runs/."""

import json
import os
from pathlib import Path

import pytest

from tests.judged_runs import score_run, write_annotations
from tests.world import here

OLD, NEW = "+0- 0++ | 0+- | 00 +", "+++ 0++ | 0++ | +0 +"


@pytest.fixture(autouse=True)
def _runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`new` has two judges, `old` one, `bare` none; the annotations of `lost` are gone."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.json", "b.json"):
        write_annotations(Path(name))
    files = [score_run("old", OLD), score_run("new", NEW)]
    files.append(score_run("lost", OLD, annotations=Path("b.json")))
    Path("b.json").unlink()
    second = Path("runs/new/second")
    second.mkdir()
    (second / "judgments.jsonl").write_bytes((files[0] / "judgments.jsonl").read_bytes())
    Path("runs/bare").mkdir()
    Path("runs/bare/captions.jsonl").write_text('{"index": "a", "caption": "A dog."}\n')
    for day, path in enumerate((files[2], files[0], second, files[1]), start=1):
        os.utime(path / "judgments.jsonl", (day * 86_400,) * 2)
    os.utime("runs/bare/captions.jsonl", (0, 0))


def test_runs_are_listed_with_their_judges_the_newest_first() -> None:
    done = here("runs")
    assert done.code == 0
    rows = [line.split() for line in done.out.splitlines()[5:]]
    assert [row[:2] for row in rows] == [
        ["new", "judge"],
        ["new", "second"],
        ["old", "judge"],
        ["lost", "judge"],
        ["bare", "–"],
    ]
    assert rows[0][2] == "10/10"
    assert done.err.startswith("no score: runs/lost/judge: its annotations")
    found = here("runs", "--json").json
    scores = here("score", "new", "--judge", "judge", "--json").json
    assert here("score", "new/judge", "--json").json == scores
    assert found[0]["f1"] == scores["overall"]["all"]["f1"]
    assert found[0]["size"] == sum(
        file.stat().st_size for file in Path("runs/new/judge").rglob("*") if file.is_file()
    )


def test_a_run_elsewhere_has_the_annotations_of_its_own_project(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    manifest = {"annotations": {"path": "a.json"}}
    Path("runs/old/manifest.json").write_text(json.dumps(manifest), "utf-8")
    scores = here("score", "old", "--json").json
    other = Path("other")
    other.mkdir()
    # Another file of the same name, where the command is run.
    text = Path("a.json").read_text("utf-8")
    (other / "a.json").write_text(text.replace('"weight": 1', '"weight": 3'), "utf-8")
    monkeypatch.chdir(other)
    assert here("score", "../runs/old", "--json").json == scores

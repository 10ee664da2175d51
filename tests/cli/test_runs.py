"""`capeval runs`: what is under runs/, and what may go."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from capeval.runs.folder import RunFolder
from tests.judged_runs import make_run, write_annotations
from tests.typed import here

OLD, NEW = "+0- 0++ | 0+- | 00 +", "+++ 0++ | 0++ | +0 +"


@pytest.fixture(autouse=True)
def _runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`new` has two judges, `old` one, `bare` none; the annotations of `lost` are gone."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.json", "b.json"):
        write_annotations(Path(name))
    files = [make_run("old", OLD), make_run("new", NEW)]
    files.append(make_run("lost", OLD, annotations=Path("b.json")))
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
    rows = [line.split() for line in done.out.splitlines()[3:]]
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


def test_a_run_and_one_judges_verdicts_are_deleted() -> None:
    done = here("runs", "rm", "old", "new/second", "--yes")
    assert done.code == 0
    assert "deleted runs/old, " in done.out
    assert "deleted runs/new/second, " in done.out
    assert sorted(path.name for path in Path("runs").iterdir()) == ["bare", "lost", "new"]
    assert Path("runs/new/judge/judgments.jsonl").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("old",), "this deletes 1 folder (runs/old), "),
        (("old", "none", "--yes"), "none: is neither a run's folder nor a run under runs/"),
        (("new/third", "--yes"), "new/third: does not exist"),
        ((".", "--yes"), ".: is neither a run under runs/"),
        (("runs", "--yes"), "runs: is neither a run under runs/"),
    ],
)
def test_what_is_refused_deletes_nothing(arguments: tuple[str, ...], message: str) -> None:
    # A project may have a captions.jsonl as well.
    Path("captions.jsonl").write_bytes(Path("runs/old/captions.jsonl").read_bytes())
    done = here("runs", "rm", *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert len(list(Path("runs").iterdir())) == 4


@pytest.mark.parametrize("part", ["", "1-of-2"])
def test_a_run_in_use_stays(part: str) -> None:
    with RunFolder(Path("runs/old")).locked(part=part):
        done = here("runs", "rm", "new", "old/judge", "--yes")
    assert (done.code, "another capeval process is working on this run" in done.err) == (2, True)
    assert Path("runs/new").is_dir()
    assert Path("runs/old/judge").is_dir()


def test_a_link_among_the_runs_stays() -> None:
    Path("runs/link").symlink_to("old")
    done = here("runs", "rm", "old", "link", "--yes")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert Path("runs/old/captions.jsonl").exists()

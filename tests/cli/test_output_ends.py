"""Where output goes: to files that hold nothing else, and to readers who may go away."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from capeval.files.annotations import FORMATS
from tests.cli_runs import ROOT
from tests.correlation.making import make_run, write_annotations
from tests.files.making import record
from tests.scoring.making import annotation, scored
from tests.typed import Said, typed

VIDEOS = [annotation(index, "a3 t1", "s2") for index in "abcd"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_annotations(tmp_path, VIDEOS)
    for name in ("one", "two"):
        run = make_run(tmp_path, name, [scored(v.index, "++ 0") for v in VIDEOS])
        (run / "judge" / "scores.json").write_text("{}", "utf-8")
    rows = "".join(f"{v.index},{n},{n % 3}\n" for n, v in enumerate(VIDEOS))
    (tmp_path / "human.csv").write_text("video_id,score,m\n" + rows, "utf-8")
    metric = "video_id,score\n" + "".join(f"{v.index},1\n" for v in VIDEOS)
    (tmp_path / "metric.csv").write_text(metric, "utf-8")
    (tmp_path / "hard.csv").hardlink_to(tmp_path / "human.csv")
    (tmp_path / "soft.csv").symlink_to("human.csv")
    (tmp_path / "link").symlink_to("runs")
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


CORRELATE = ("correlate", "--human", "human.csv")
JUDGMENTS = "runs/one/judge/judgments.jsonl"


@pytest.mark.parametrize(
    ("command", "out"),
    [
        ((*CORRELATE, "--metric", "m=human.csv"), "hard.csv"),
        ((*CORRELATE, "--metric", "x=metric.csv"), "metric.csv"),
        ((*CORRELATE, "--metric", "x=runs/one"), JUDGMENTS),
        (CORRELATE, "annotations.json"),
        (("compare", "one", "two"), "runs/two/judge/scores.json"),
        ((*CORRELATE, "--metric", "m=human.csv"), "soft.csv"),
        ((*CORRELATE, "--metric", "m=human.csv"), "runs/../human.csv"),
        (("score", "one"), JUDGMENTS),
        (("score", "one"), "annotations.json"),
    ],
)
def test_no_command_overwrites_what_it_reads(
    folder: Path, command: tuple[str, ...], out: str
) -> None:
    before = contents(folder)
    done = typed(folder, *command, "--out", out)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"capeval: --out: {out} ")
    assert "is one of the files to be read" in done.err or "that capeval uses itself" in done.err
    assert done.err.count("\n") == 1
    assert contents(folder) == before


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("", "--out is empty; give it a value, or omit it"),
        ("runs", "--out: runs is a folder; name a file in it"),
        ("link", "--out: link is a folder"),
        ("pipe", "--out: pipe is no regular file; choose another"),
        ("/dev/zero", "--out: /dev/zero is no regular file"),
    ],
)
def test_what_is_no_file_is_refused_before_any_work(folder: Path, out: str, message: str) -> None:
    for command in ((*CORRELATE, "--metric", "x=metric.csv"), ("score", "one")):
        done = typed(folder, *command, "--out", out)
        assert done.code == 2
        assert message in done.err


@pytest.mark.parametrize(
    ("command", "both"),
    [
        ((*CORRELATE, "--metric", "m=human.csv", "--json", "--out", "c.json"), False),
        (("--help",), True),
    ],
)
def test_a_reader_who_goes_away_ends_a_command_as_a_signal_would(
    folder: Path, command: tuple[str, ...], both: bool
) -> None:
    # The reader is gone before the command begins, so that no other process can hold its end.
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "capeval", *command],
            stdout=writer,
            stderr=writer if both else subprocess.PIPE,
            cwd=folder,
            env={"PYTHONPATH": str(ROOT), "PATH": ""},
            timeout=60,
            check=False,
        )
    finally:
        os.close(writer)
    stderr = done.stderr or b""
    assert done.returncode == 141
    assert b"Error" not in stderr
    assert b"a fault" not in stderr
    if "--out" in command and not both:
        assert json.loads((folder / "c.json").read_text("utf-8"))["results"]


# A name that every command may write: `plot` chooses its own.
FILE = Path("data/types.svg")


def read_lines(path: Path) -> Iterator[tuple[str, Any]]:
    """A format of annotations: names of videos, in a file or in all files of a folder."""
    for file in path.rglob(FILE.name) if path.is_dir() else [path]:
        for video in file.read_text().split():
            yield video, record(video)


COMMANDS = [
    "leaderboard --annotations lines:{path}",
    "report mine --frames 0",
    "correlate --human human.csv --metric a=runs/mine --annotations lines:{path}",
    "rate merge human.csv --key human.csv --annotations lines:{path} --force",
    "plot types mine --format svg",
]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(FORMATS.packaged, "lines", f"{__name__}:read_lines")
    FILE.parent.mkdir()
    FILE.write_text("v1 v2 v3")
    Path("human.csv").write_text("video_id,system,score\nv1,mine,1\nv2,mine,2\nv3,mine,3\n")
    lines = [json.dumps({"index": f"v{n}", "caption": "A dog."}) for n in (1, 2, 3)]
    for name in ("mine", "other"):
        Path(f"{name}.jsonl").write_text("\n".join(lines))


def judge(path: Path) -> None:
    given = ("--annotations", f"lines:{path}", "--judge", "lexical")
    assert run("judge", "mine.jsonl", "other.jsonl", *given).code == 0


def run(*arguments: str) -> Said:
    return typed(Path(), *arguments)


def refused(*arguments: str) -> None:
    before = {file: file.read_bytes() for file in Path().rglob("*") if file.is_file()}
    done = run(*arguments)
    assert (done.code, done.err.count("\n")) == (2, 1), (arguments, done)
    why = ("is one of the files to be read", "a report is HTML")
    assert any(each in done.err for each in why), (arguments, done)
    assert {file: file.read_bytes() for file in Path().rglob("*") if file.is_file()} == before


@pytest.mark.parametrize("path", [FILE, FILE.parent])
def test_annotations_in_the_format_of_a_plugin_are_kept(path: Path) -> None:
    judge(path)
    for command in COMMANDS:
        out = FILE.parent if command.startswith("plot") else FILE
        refused(*command.format(path=path).split(), "--out", str(out))


def test_a_rating_sheet_replaces_no_annotations() -> None:
    page = Path("rating/sheet.html")
    page.parent.mkdir()
    page.write_text("v1 v2 v3")
    judge(page)
    refused("rate", "sheet", "mine", "--count", "3")


def test_a_file_beside_the_annotations_may_be_new_and_earlier_outputs_may_be_replaced() -> None:
    judge(FILE.parent)
    assert run("leaderboard", "--out", "data/board.txt").code == 0
    Path("data/board.txt").unlink()
    judge(Path())
    for _ in range(2):
        assert run("leaderboard", "--out", "board.txt").code == 0

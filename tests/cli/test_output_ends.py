"""Where output goes: to files that hold nothing else, and to readers who may go away."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli_runs import ROOT
from tests.correlation.making import make_run, write_annotations
from tests.scoring.making import annotation, scored
from tests.typed import typed

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

"""Where output goes: to files that hold nothing else, and to readers who may go away."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.correlation.making import make_run, write_annotations
from tests.scoring.making import annotation, scored
from tests.world import ROOT, here

VIDEOS = [annotation(index, "a3 t1", "s2") for index in "abcd"]


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_annotations(Path(), VIDEOS)
    make_run(Path(), "one", [scored(v.index, "++ 0") for v in VIDEOS])
    Path("hard.json").hardlink_to("annotations.json")
    Path("soft.json").symlink_to("annotations.json")
    Path("link").symlink_to("runs")
    os.mkfifo("pipe")


def refusal(command: str, out: str) -> str:
    """Return why a command refuses to write a file: in one line, and nothing has changed."""
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    refusal = here(*command.split(), "--out", out).refusal
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before
    return refusal


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("hard.json", "is one of the files to be read"),
        ("soft.json", "is one of the files to be read"),
        ("runs/../annotations.json", "is one of the files to be read"),
        ("runs/one/judge/judgments.jsonl", "is one of the files to be read"),
        ("runs/new/captions.jsonl", "has a name that capeval uses itself"),
        ("", "is empty; give it a value, or omit it"),
        ("link", "is a folder; name a file in it"),
        ("pipe", "is no"),
        ("/dev/zero", "is no"),
    ],
)
def test_what_is_read_and_what_is_no_file_is_not_written_over(out: str, message: str) -> None:
    assert message in refusal("score one", out)


def test_a_reader_who_goes_away_ends_a_command_as_a_signal_would() -> None:
    command = "score one --json"
    # The reader is gone before the command begins, so that no other process can hold its end.
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "capeval", *command.split()],
            stdout=writer,
            stderr=subprocess.PIPE,
            env={"PYTHONPATH": str(ROOT), "PATH": ""},
            timeout=60,
            check=False,
        )
    finally:
        os.close(writer)
    assert done.returncode == 141
    assert b"Error" not in done.stderr
    assert b"a bug" not in done.stderr

"""`--out` never replaces what a command reads, whichever way it is read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from capeval.files.annotations import FORMATS
from tests.files.making import record
from tests.typed import Said, typed

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

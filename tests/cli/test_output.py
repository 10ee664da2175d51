"""What all commands have alike: `-q`, `--json`, `--help`, and where their output goes."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from capeval.cli.app import app
from tests.cli.conftest import Workspace
from tests.judge_responder import answer
from tests.judged_runs import score_run, write_annotations
from tests.server import LoopbackServer
from tests.world import ROOT, typed

OLD, NEW = "+0- 0++ | 0+- | 00 +", "+++ 0++ | 0++ | +0 +"
COMPARE = ("compare", "old", "new")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_annotations(Path("a.json"))
    for name, labels in (("old", OLD), ("new", NEW)):
        score_run(name, labels)
    return tmp_path


def test_quiet_prints_only_a_failed_gate_and_json(folder: Path) -> None:
    for command in (COMPARE, ("leaderboard", "--format", "markdown"), ("report", "old")):
        for arguments in ((*command, "-q"), ("--quiet", *command)):
            done = typed(folder, *arguments)
            assert (done.code, done.out, done.err) == (0, "", "")
    done = typed(folder, "compare", "new", "old", "--fail-under", "f1=0", "-q")
    assert (done.code, done.out) == (4, "")
    assert done.err.startswith("capeval: ")
    assert typed(folder, "score", "old", "--json", "-q").json["overall"]


NASTY = "evil\x1b[2J\x9b31m\u202e\u2066\u200b\u2028 caf\u00e9 \u4e2d"


@pytest.mark.parametrize(
    "command",
    [
        ("inspect", "old", "a", "--json"),
        ("score", "old", "--out", "/dev/stdout", "-q"),
        ("leaderboard", "--json"),
        ("compare", "old", "new", "--json"),
        ("judge", "old", "--judge", "lexical", "--json"),
        ("judge", "old", "--judge", "lexical", "--json", "--dry-run"),
    ],
    ids=" ".join,
)
def test_json_on_stdout_cannot_act_on_a_terminal(folder: Path, command: tuple[str, ...]) -> None:
    """The run's name, a caption, a domain and a reason have control characters."""
    for path in (Path("a.json"), Path("runs/old/captions.jsonl")):
        values = path.read_text(encoding="utf-8")
        path.write_text(
            re.sub("A dog|Film", lambda _: json.dumps(NASTY)[1:-1], values), encoding="utf-8"
        )
    Path("runs/old").rename(f"runs/{NASTY}")
    done = typed(folder, *(f"runs/{NASTY}" if word == "old" else word for word in command))
    assert done.json
    assert all(c.isprintable() or c == "\n" for c in done.out)
    assert "caf\u00e9 \u4e2d" in done.out


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("hard.json", "is one of the files to be read"),
        ("soft.json", "is one of the files to be read"),
        ("runs/../a.json", "is one of the files to be read"),
        ("runs/old/judge/judgments.jsonl", "is one of the files to be read"),
        ("runs/new/captions.jsonl", "has a name that capeval uses itself"),
        ("", "is empty; give it a value, or omit it"),
        ("link", "is a folder; name a file in it"),
        ("pipe", "is no"),
        ("/dev/zero", "is no"),
    ],
)
def test_what_is_read_and_what_is_no_file_is_not_written_over(
    folder: Path, out: str, message: str
) -> None:
    Path("hard.json").hardlink_to("a.json")
    Path("soft.json").symlink_to("a.json")
    Path("link").symlink_to("runs")
    os.mkfifo("pipe")
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    assert message in typed(folder, "score", "old", "--out", out).refusal
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before


def test_a_reader_who_goes_away_ends_a_command_as_a_signal_would(folder: Path) -> None:
    # The reader is gone before the command begins, so that no other process can hold its end.
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "capeval", "score", "old", "--json"],
            cwd=folder,
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


def commands(group: Any = None, *names: str) -> Iterator[tuple[str, Any]]:
    group = group or get_command(app)
    yield " ".join(names), group
    for name in getattr(group, "commands", {}):
        yield from commands(group.get_command(None, name), *names, name)


@pytest.mark.parametrize("name", [name for name, _ in commands()])
def test_help_is_a_screen_of_names_and_sentences(name: str) -> None:
    shown = typed(Path(), *name.split(), "--help", columns=80)
    lines = shown.out.splitlines()
    assert (shown.code, "…" in shown.out) == (0, False)
    assert len(lines) <= (72 if name else 70)  # the list of commands has headings
    assert max(map(len, lines)) <= 80


def test_there_are_few_options() -> None:
    counts = {
        name: sum(one.param_type_name == "option" for one in command.params)
        for name, command in commands()
    }
    assert sum(counts.values()) <= 270
    long = {name for name, count in counts.items() if count > 20}
    assert long <= {"generate", "judge", "mcq answer"}


async def judged_by(responder: Any, work: Workspace, *arguments: str) -> str:
    async with LoopbackServer(responder) as server:
        work.url = server.url
        ran = await asyncio.to_thread(work.judge, "-q", *arguments)
    assert (ran.code, ran.out) == (0, "")
    return ran.err


async def test_a_cost_that_is_an_estimate_is_reported(work: Workspace) -> None:
    def silent(request: dict[str, Any]) -> dict[str, Any]:
        return {**answer(request), "usage": None}

    assert await judged_by(silent, work, "--limit", "1") == ""
    work.write("capeval.toml", '[prices."judge-model"]\ninput = 1\noutput = 1\n')
    err = await judged_by(silent, work, "--limit", "2")
    assert err == "capeval: 3 replies came without token counts: the cost is an estimate\n"

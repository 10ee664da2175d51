"""One faulty run under runs/ does not stop a command that was not asked for it."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.files.making import record
from tests.world import here, typed

BAD = Path("runs/bad")
RUNS = ("bad", "one", "two")


def damage(name: str, content: str | bytes) -> Callable[[], object]:
    def make() -> None:
        (file,) = BAD.glob(name)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())

    return make


def annotated_by(path: str) -> Callable[[], object]:
    return damage("manifest.json", json.dumps({"annotations": {"path": path, "sha256": "0"}}))


# What happened to the run, and what the notice says.
FAULTS: dict[str, tuple[Callable[[], object], str]] = {
    "captions": (damage("captions.jsonl", "{\n{\n"), "captions.jsonl: line 1: broken JSON"),
    "not UTF-8": (damage("*/judgments.jsonl", b"\xff\n{}\n"), "UTF-8"),
    "verdicts": (damage("*/judgments.jsonl", '{"index": 3}\n'), "judgments.jsonl: has no"),
    "no annotations": (annotated_by("gone.json"), "gone.json"),
}
if os.getuid():  # root may read everything
    FAULTS["unreadable"] = (lambda: BAD.chmod(0), "Permission denied")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    videos = [f"v{n}" for n in range(6)]
    (folder / "a.json").write_text(json.dumps([record(video) for video in videos]))
    for name in RUNS:
        lines = [
            {"index": v, "caption": f"A dog runs {'fast ' * n}."} for n, v in enumerate(videos)
        ]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    files = [f"{name}.jsonl" for name in RUNS]
    judged = typed(folder, "judge", *files, "--annotations", "a.json", "--judge", "lexical")
    assert judged.code == 0, judged.err
    rows = [f"{video},{run},{n}\n" for n, video in enumerate(videos) for run in RUNS]
    (folder / "human.csv").write_text("video_id,system,score\n" + "".join(rows))
    return folder


@pytest.fixture(autouse=True)
def _runs(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    yield
    BAD.chmod(0o755)


COMMANDS = (
    (3, "leaderboard"),
    (0, "judge --judge lexical --json"),
    (0, "correlate --human human.csv --missing drop"),
    (0, "rate sheet --count 3"),
)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_run_is_left_out_with_one_notice_unless_it_is_named(fault: str) -> None:
    make, why = FAULTS[fault]
    make()
    for code, arguments in COMMANDS:
        if arguments.startswith("rate") and fault in ("not UTF-8", "verdicts"):
            continue  # it reads no verdicts
        done = here(*arguments.split())
        assert done.code == code, (arguments, done)
        (notice,) = (line for line in done.err.splitlines() if "left out: " in line)
        assert why in notice, arguments
        assert "bad" in notice, arguments
        assert "Traceback" not in done.err
    compared = here("compare", "one", "two")
    assert (compared.code, compared.err) == (0, "")
    for arguments in ("leaderboard bad", "compare one bad", "inspect bad v0"):
        done = here(*arguments.split())
        (line,) = (line for line in done.err.splitlines() if line.startswith("capeval: "))
        assert done.code == 2, (arguments, done)
        assert why in line or "gone" in line, (arguments, line)


def test_where_every_run_is_faulty_the_first_fault_is_the_error() -> None:
    for run in RUNS:
        Path("runs", run, "captions.jsonl").write_text("{\n{\n")
    done = here("judge", "--judge", "lexical")
    assert done.code == 2
    assert "runs/bad/captions.jsonl: line 1: broken JSON" in done.err.splitlines()[-1]

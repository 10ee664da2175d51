from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from capeval.errors import InputError, RunLocked
from capeval.files.captions import load_captions
from capeval.runs.folder import JudgeFolder, RunFolder
from capeval.schema import Caption

CAPTIONS = [
    Caption(index="a", caption="A dog \ud800.", model="m"),
    Caption.model_validate({"index": "b", "caption": "", "frames": [1]}),
]


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    run = RunFolder(tmp_path / "runs" / "mine")
    run.store_captions(CAPTIONS)
    run.write_manifest({"source": "c.jsonl"})
    return run


def test_stored_captions_are_read_the_same(run: RunFolder) -> None:
    assert list(load_captions(run.captions)) == CAPTIONS
    assert run.read_manifest() == {"source": "c.jsonl"}


def test_same_captions_in_another_order_are_the_same_run(run: RunFolder) -> None:
    before = run.captions.read_bytes()
    run.store_captions(CAPTIONS[::-1])
    assert run.captions.read_bytes() == before


@pytest.mark.parametrize(
    "others",
    [
        CAPTIONS[:1],
        [*CAPTIONS, Caption(index="c", caption="A cat.")],
        [CAPTIONS[0], Caption(index="b", caption="A cat.")],
    ],
)
def test_other_captions_are_refused(run: RunFolder, others: list[Caption]) -> None:
    before = {path: path.read_bytes() for path in run.path.iterdir()}
    with pytest.raises(InputError, match="holds other captions") as error:
        run.store_captions(others)
    assert "--run" in str(error.value)
    assert {path: path.read_bytes() for path in run.path.iterdir()} == before


def test_captions_of_a_file_may_be_corrected_until_a_judge_has_a_verdict(run: RunFolder) -> None:
    run.write_manifest({"captions": {"source": "c.jsonl"}})
    empty = run.judge("m", None).judgments
    empty.parent.mkdir()
    empty.touch()
    run.store_captions(CAPTIONS[:1])
    assert list(load_captions(run.captions)) == CAPTIONS[:1]
    empty.write_text('{"index": "a", "status": "unscored", "reason": "timed out"}\n')
    with pytest.raises(InputError, match="holds other captions"):
        run.store_captions(CAPTIONS)


def test_second_process_is_refused_until_the_first_is_done(run: RunFolder) -> None:
    code = (
        "import sys; from pathlib import Path; from capeval.runs.folder import RunFolder\n"
        "from capeval.errors import RunLocked\n"
        "try:\n"
        "    with RunFolder(Path(sys.argv[1])).locked(): print('held')\n"
        "except RunLocked as error: print(error.exit_code, error)\n"
    )
    command = [sys.executable, "-c", code, str(run.path)]
    with run.locked():
        refused = subprocess.run(command, capture_output=True, text=True, check=True)
    free = subprocess.run(command, capture_output=True, text=True, check=True)
    assert refused.stdout.startswith(
        f"2 {run.path}: another capeval process is working on this run"
    )
    assert refused.stdout.count("\n") == 1
    assert free.stdout == "held\n"


def test_lock_of_a_killed_process_is_free(run: RunFolder) -> None:
    code = (
        "import os, sys; from pathlib import Path; from capeval.runs.folder import RunFolder\n"
        "with RunFolder(Path(sys.argv[1])).locked(): os.kill(os.getpid(), 9)\n"
    )
    assert subprocess.run([sys.executable, "-c", code, str(run.path)], check=False).returncode == -9
    with run.locked():
        pass


def test_lock_is_given_back_after_a_failure(run: RunFolder) -> None:
    with pytest.raises(RuntimeError), run.locked():
        raise RuntimeError
    with run.locked(), pytest.raises(RunLocked), RunFolder(run.path).locked():
        pass


def test_all_runs_of_a_folder_are_listed(run: RunFolder) -> None:
    assert RunFolder.all(run.path.parent) == [run]
    assert RunFolder.all(run.path.parent / "elsewhere") == []


def test_judges_have_folders_of_their_own(run: RunFolder) -> None:
    paths = {
        run.judge("gpt-4o", "tuna-cap-v1").path,
        run.judge("gpt-4o", "mine").path,
        run.judge("org/gpt-4o", "mine").path,
        run.judge("org-gpt-4o", "mine").path,
        run.judge("lexical-1", None).path,
    }
    assert len(paths) == 5
    assert {path.parent for path in paths} == {run.path}
    assert run.judges() == []
    for path in paths:
        path.mkdir()
        JudgeFolder(path).judgments.write_text("{}\n")
    assert [judge.path for judge in run.judges()] == sorted(paths)


def test_judges_whose_names_differ_by_case_have_folders_of_their_own(run: RunFolder) -> None:
    """Many file systems take such folders for one."""
    assert run.judge("Mine-1", None).path.name == "Mine-1"
    run.judge("Mine-1", None).path.mkdir()
    other = run.judge("mine-1", None).path
    assert other.name == "mine-1-231d70"
    other.mkdir()
    assert [run.judge(name, None).path.name for name in ("Mine-1", "mine-1")] == [
        "Mine-1",
        "mine-1-231d70",
    ]
    run.judge("Mine-1", None).path.rmdir()
    assert run.judge("mine-1", None).path == other
    # What an earlier version made is found.
    (run.path / "mine-1").mkdir()
    assert run.judge("mine-1", None).path.name == "mine-1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "must be a JSON object"),
        ("", "is empty"),
        ("{", "line 1: broken JSON at column 2"),
        (json.dumps("x"), "must be a JSON object"),
    ],
)
def test_damaged_manifest_is_told(run: RunFolder, text: str, message: str) -> None:
    run.manifest.write_text(text)
    with pytest.raises(InputError, match=message):
        run.read_manifest()

"""A command that could not begin leaves nothing behind that a later command stumbles over."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.cli.conftest import ROOT, Workspace, caption


def test_a_refused_judge_leaves_no_run_and_corrected_captions_are_accepted(
    work: Workspace, endpoint: object
) -> None:
    url, work.url = work.url, "http://127.0.0.1:9/v1"
    refused = work.judge("--judge", "m", "--timeout", "1")
    assert refused.code == 2
    assert "cannot reach http://127.0.0.1:9/v1: ConnectionRefused" in refused.lines[-1]
    assert not (work.folder / "runs").exists()
    work.url = url
    corrected = [caption(number) for number in range(12)]
    corrected[0]["caption"] = "A corrected caption of a dog."
    work.write("captions.jsonl", "".join(json.dumps(line) + "\n" for line in corrected))
    assert work.judge().code == 0


def test_a_second_judge_that_is_refused_is_no_judge_of_the_run(
    work: Workspace, endpoint: object
) -> None:
    assert work.judge().code == 0
    before = sorted(path.name for path in work.judged.parent.iterdir())
    refused = work.run("judge", "captions", "--base-url", "http://127.0.0.1:9/v1", "--judge", "m")
    assert refused.code in (2, 3), refused.err
    assert sorted(path.name for path in work.judged.parent.iterdir()) == before
    assert work.run("score", "captions").code == 0


@pytest.mark.parametrize("shard", [(), ("--shard", "2/2")])
def test_a_refused_generate_leaves_no_run_and_no_lock(
    shard: tuple[str, ...], work: Workspace
) -> None:
    run = work.folder / "runs" / "m"
    run.mkdir(parents=True)
    (run / "ungenerated.jsonl").write_text('{"index": "sample_01", "reason": "filtered"}\n')
    before = sorted(work.folder.rglob("*"))
    refused = work.run(
        *("generate", "--model", "m", "--base-url", "http://127.0.0.1:9/v1", "--limit", "2"),
        *("--frames", "2", "--timeout", "1", *shard),
    )
    assert refused.code in (2, 3), refused.err
    assert [path for path in sorted(work.folder.rglob("*")) if "xdg" not in str(path)] == before


# In blocks of 1,024 bytes, as a full disk would: the captions fit, and the first verdict does not.
@pytest.mark.parametrize(
    ("blocks", "left"),
    [(0, []), (1, ["captions.jsonl", "judge.json", "judgments.jsonl", "manifest.json"])],
)
def test_a_full_disk_leaves_a_run_that_can_go_on(
    work: Workspace, blocks: int, left: list[str]
) -> None:
    work.fill(1)
    text = " ".join(f"Dog number {number} barks." for number in range(35))
    work.write("captions.jsonl", json.dumps({"index": "V000", "caption": text}))
    command = "judge captions.jsonl --annotations annotations.json --judge lexical"
    full = subprocess.run(
        ["bash", "-c", f"ulimit -f {blocks}; exec {sys.executable} -m capeval {command}"],
        cwd=work.folder,
        env=work.env(PYTHONPATH=str(ROOT), PYTHONDONTWRITEBYTECODE="1"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert full.returncode == 2, full
    assert full.stderr.splitlines()[-1].endswith("File too large")
    files = [path for path in (work.folder / "runs").rglob("*") if path.is_file()]
    assert sorted(path.name for path in files) == left
    assert (work.folder / "runs").exists() == bool(left)
    assert work.run(*command.split()).code == 0

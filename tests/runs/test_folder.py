from __future__ import annotations

import json
from pathlib import Path

import pytest

from capeval.errors import RunLocked
from capeval.files.captions import load_captions
from capeval.runs import sources
from capeval.runs.folder import JudgeFolder, RunFolder
from capeval.runs.sources import Source
from capeval.schema import Caption
from tests.scoring.making import annotation

CAPTIONS = [
    Caption(index="a", caption="A dog \ud800.", model="m"),
    Caption.model_validate({"index": "b", "caption": "", "frames": [1]}),
]


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    run = RunFolder(tmp_path / "runs" / "mine")
    source(run, CAPTIONS).store()
    run.write_manifest({"source": "c.jsonl"})
    return run


def source(run: RunFolder, captions: list[Caption]) -> Source:
    known = (annotation("a", "c1"), annotation("b", "c1"))
    return Source("mine", run, known, tuple(captions), "a.json", origin="c.jsonl")


def test_same_captions_in_another_order_are_the_same_run(run: RunFolder) -> None:
    before = run.captions.read_bytes()
    source(run, CAPTIONS[::-1]).store()
    assert run.captions.read_bytes() == before
    assert list(load_captions(run.captions)) == CAPTIONS


@pytest.mark.parametrize("write", ["write_manifest", "captions"])
def test_a_run_that_was_half_written_takes_other_captions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    run = RunFolder(tmp_path / "runs" / "mine")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if write == "captions":
            patch.setattr(sources, "write_jsonl", killed)
        else:
            patch.setattr(RunFolder, write, killed)
        with pytest.raises(KeyboardInterrupt):
            source(run, CAPTIONS[:1]).store()
    source(run, CAPTIONS).store()
    assert list(load_captions(run.captions)) == CAPTIONS
    assert run.read_manifest()["captions"]["count"] == 2


def test_the_manifest_of_generated_captions_names_no_file(run: RunFolder) -> None:
    run.write_manifest({"generation": {"model": "m"}})
    source(run, CAPTIONS).store()
    assert sorted(run.read_manifest()) == ["annotations", "generation"]


UNSCORED = '{"index": "a", "status": "unscored", "reason": "timed out"}\n'


def test_a_locked_run_is_refused_until_it_is_free(run: RunFolder) -> None:
    refused = pytest.raises(RunLocked, match="another capeval process is working on this run")
    with run.locked(), refused, RunFolder(run.path).locked():
        pytest.fail("it was locked twice")
    with pytest.raises(RuntimeError), run.locked():
        raise RuntimeError
    # A killed process leaves its file.
    (run.path / ".lock").touch()
    with run.locked():
        assert (run.path / ".lock").exists()
    assert not (run.path / ".lock").exists()


def test_judges_have_folders_of_their_own(run: RunFolder) -> None:
    judges = [
        ("gpt-4o", "tuna-cap-v1", "1"),
        ("gpt-4o", "mine", "2"),
        ("gpt-4o", "mine", "3"),  # other prompts of the same name
        ("org/gpt-4o", "mine", "4"),
        ("org-gpt-4o", "mine", "5"),
        ("lexical-2", None, "6"),
        ("Lexical-1", None, "7"),  # many file systems take both names for one
    ]
    for _ in range(2):
        made = []
        for name, prompts, identity in judges:
            made.append(run.judge(name, prompts, identity=identity * 64))
            made[-1].path.mkdir(exist_ok=True)
            made[-1].judgments.write_text(UNSCORED)
            made[-1].write_judge({"judge": name, "hash": identity * 64, "repeats": 3})
        assert len({str(one.path).lower() for one in made}) == len(judges)
    assert {judge.path for judge in run.judges()} == {one.path for one in made}
    assert [one.path.name for one in made[1:3]] == ["gpt-4o@mine", "gpt-4o@mine-333333"]
    assert made[0].repeats == 3


def test_verdicts_made_elsewhere_keep_their_folder(run: RunFolder) -> None:
    for line, is_own in (
        ({"inputs": {"judge": "mine", "caption": "", "reference": ""}}, True),
        ({"inputs": {"judge": "other", "caption": "", "reference": ""}}, False),
        ({}, False),
    ):
        made = JudgeFolder(run.path / "m")
        made.path.mkdir(exist_ok=True)
        made.judgments.write_text(json.dumps(json.loads(UNSCORED) | line) + "\n")
        assert (run.judge("m", None, identity="mine") == made) is is_own

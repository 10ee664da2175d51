"""The files of a run, and what `--out` may name."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import capeval
from capeval.config import sample_folder
from capeval.errors import InputError, RunLocked, UsageError
from capeval.files.captions import load_captions
from capeval.files.jsonl import check_output, write_output
from capeval.runs import sources
from capeval.runs.folder import RunFolder, Shard, safe_name
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


def test_captions_in_another_order_are_the_same_run(run: RunFolder) -> None:
    before = run.captions.read_bytes()
    source(run, CAPTIONS[::-1]).store()
    assert run.captions.read_bytes() == before
    assert list(load_captions(run.captions)) == CAPTIONS


def store_and_die(of: Source, step: str) -> None:
    """Store the captions of a source; the process is killed at a step."""

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunFolder if step == "write_manifest" else sources, step, killed)
        with pytest.raises(KeyboardInterrupt):
            of.store()


@pytest.mark.parametrize("step", ["write_manifest", "write_jsonl"])
def test_a_run_that_was_half_written_takes_other_captions(tmp_path: Path, step: str) -> None:
    run = RunFolder(tmp_path / "runs" / "mine")
    store_and_die(source(run, CAPTIONS[:1]), step)
    source(run, CAPTIONS).store()
    assert list(load_captions(run.captions)) == CAPTIONS
    assert run.read_manifest()["captions"]["count"] == 2


@pytest.mark.parametrize("step", ["write_atomic", "write_jsonl", "write_manifest"])
def test_a_replacement_that_was_killed_loses_nothing(run: RunFolder, step: str) -> None:
    before, others = run.captions.read_bytes(), replace(source(run, CAPTIONS[:1]), replaces=True)
    store_and_die(others, step)
    assert run.captions.read_bytes() == before
    kept = run.captions_before()
    others.store()
    assert kept.read_bytes() == before
    assert list(load_captions(run.captions)) == CAPTIONS[:1]
    assert run.read_manifest()["captions"]["count"] == 1


UNSCORED = '{"index": "a", "status": "unscored", "reason": "timed out"}\n'


def test_a_locked_run_is_refused_until_it_is_free(run: RunFolder) -> None:
    refused = pytest.raises(RunLocked, match="another capeval process is working in this folder")
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
        ("gpt-4o", "tuna-cap-v1"),
        ("gpt-4o", "mine"),
        ("gpt-4o", "mine"),  # other prompts of the same name
        ("org/gpt-4o", "mine"),
        ("org-gpt-4o", "mine"),
        ("lexical-2", None),
        ("Lexical-2", None),  # many file systems take both names for one
    ]
    for _ in range(2):
        made = []
        for number, (name, prompts) in enumerate(judges):
            made.append(run.judge(name, prompts, identity=f"{number}" * 64))
            made[-1].path.mkdir(exist_ok=True)
            made[-1].judgments.write_text(UNSCORED)
            made[-1].write_judge({"judge": name, "hash": f"{number}" * 64})
        assert len({str(one.path).lower() for one in made}) == len(judges)
    assert {judge.path for judge in run.judges()} == {one.path for one in made}
    assert [one.path.name for one in made[1:3]] == ["gpt-4o@mine", "gpt-4o@mine-222222"]


NAME = st.text(st.characters(), max_size=150) | st.from_regex(r"[a-c/.-]{1,3}", fullmatch=True)


@settings(deadline=None)
@given(NAME, NAME)
@example("a/b", "a-b")
@example("..", "../../etc/passwd")
@example("a/b", safe_name("a/b"))
@example("a" * 200, "a" * 201)
def test_safe_names_are_plain_path_components_and_stay_distinct(one: str, other: str) -> None:
    safe = safe_name(one)
    assert re.fullmatch(r"[A-Za-z0-9_@+][A-Za-z0-9._@+-]*", safe)
    assert not safe.endswith(".")
    assert len(safe) <= 120
    assert (safe == safe_name(other)) == (one == other)


@pytest.mark.parametrize("text", ["", "0/2", "3/2", "1/2/3", "1.5/2"])
def test_an_invalid_shard_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="must be I/N"):
        Shard.read(text)


def test_captions_of_copied_shards_are_judged_and_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of the whole; a shard may lack captions, or have later ones than another file."""
    monkeypatch.chdir(tmp_path)
    lines = (sample_folder() / "captions" / "terse.jsonl").read_text("utf-8").splitlines(True)
    parts = {"parts": (lines[::2], lines[1::2]), "less": (lines[::2], [*lines[:2], lines[1][:20]])}
    for name, shards in parts.items():
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        for number, part in enumerate(shards, start=1):
            (folder / f"captions.{number}-of-2.jsonl").write_text("".join(part), "utf-8")
    (tmp_path / "whole.jsonl").write_text("".join(lines), "utf-8")
    names = ("whole.jsonl", "parts", "less")
    whole, joined, less = (capeval.judge(name, "sample", judge="lexical") for name in names)
    assert joined == whole
    assert less.counts.captioned == len(lines[::2]) + 1
    (measured,) = capeval.measure("parts", annotations="sample", metric="length")
    assert measured.results[0].scored == len(lines)
    assert not RunFolder(tmp_path / "runs" / "parts").captions.exists()
    assert {run.name for run in RunFolder.all(tmp_path / "runs")} == {"whole", "parts", "less"}
    assert capeval.score("parts") == whole


def test_shards_of_other_settings_are_refused_and_empty_ones_passed_over(tmp_path: Path) -> None:
    for number, made in ((1, "a"), (2, "b")):
        line = {"index": str(number), "caption": "A dog.", "settings": made}
        (tmp_path / f"captions.{number}-of-3.jsonl").write_text(json.dumps(line) + "\n")
    (tmp_path / "captions.3-of-3.jsonl").write_text('{"index": "3", "capt')
    with pytest.raises(InputError, match=r"2-of-3.jsonl: was generated with other settings"):
        RunFolder(tmp_path).read_captions()
    (tmp_path / "captions.2-of-3.jsonl").unlink()
    assert [one.index for one in RunFolder(tmp_path).read_captions()] == ["1"]


@pytest.mark.parametrize("path", ["new.json", "new/er/new.json", "old.json", "link.json"])
@pytest.mark.usefixtures("alone")
def test_new_and_other_files_are_written_and_links_followed(path: str) -> None:
    Path("old.json").write_text("old")
    Path("link.json").symlink_to("old.json")
    check_output(Path(path), ["in.csv"])
    write_output(Path(path), "text")
    assert Path(path).read_text() == "text"
    assert Path("link.json").is_symlink()

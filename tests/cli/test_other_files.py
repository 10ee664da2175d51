"""Captions that other programs wrote are judged, and verdicts are written for other programs."""

import json
from pathlib import Path

import pytest

from tests.world import ROOT, here

pytestmark = pytest.mark.usefixtures("alone")

SAMPLE = ROOT / "annotations" / "sample" / "captions" / "thorough.jsonl"
CAPTIONS = {
    line["index"]: line["caption"] for line in map(json.loads, SAMPLE.read_text().splitlines())
}
JUDGE = ("--annotations", "sample", "--judge", "lexical")


def test_own_columns_are_named() -> None:
    lines = [json.dumps({"clip": index, "text": text}) for index, text in CAPTIONS.items()]
    Path("mine.jsonl").write_text("\n".join(lines))

    refused = here("judge", "mine.jsonl", *JUDGE)
    done = here("judge", "mine.jsonl", *JUDGE, "--columns", "index=clip")
    measured = here("metrics", "mine.jsonl", *JUDGE[:2], "--columns", "index=clip,caption=text")

    assert '"clip", "text"' in refused.refusal
    assert "--columns index=NAME" in refused.err
    assert (done.code, measured.code) == (0, 0)


def test_files_of_one_name_are_runs_named_after_their_folders() -> None:
    files = [f"step{n}/captions.jsonl" for n in (1, 2)]
    for file in files:
        Path(file).parent.mkdir()
        Path(file).write_text(SAMPLE.read_text())
    named = {"captions", "step1", "step2"}

    judged = here("judge", *files, *JUDGE, "--json")
    measured = here(
        *("metrics", "--candidates", files[0], "--candidates", files[1]),
        *("--metric", "length", "--json"),
    )
    twice = here("judge", files[0], f"./{files[0]}", *JUDGE)

    assert (judged.code, judged.json.keys() & named) == (0, {"step1", "step2"})
    assert (measured.code, twice.code) == (0, 2)
    assert {one["name"] for one in measured.json} == {"step1", "step2"}
    assert "2 arguments name the run 'captions'" in twice.err


def test_a_result_file_of_tuna_has_the_same_scores() -> None:
    assert here("judge", SAMPLE, *JUDGE, "--run", "mine").code == 0

    written = here("score", "mine", "--out", "v.json", "--layout", "tuna", "--json")
    read = here("score", "v.json", "--annotations", "sample", "--json")

    assert (written.code, read.code) == (0, 0)
    texts = {
        one["index"]: one["candidate_caption"] for one in json.loads(Path("v.json").read_text())
    }
    assert texts == CAPTIONS
    for key in ("overall", "by", "videos", "counts", "unmatched_events"):
        assert read.json[key] == written.json[key]


def test_verdicts_of_two_runs_in_one_file_are_refused() -> None:
    assert here("judge", SAMPLE, *JUDGE, "--run", "mine").code == 0
    (verdicts,) = Path().glob("runs/mine/*/judgments.jsonl")
    Path("both.jsonl").write_bytes(2 * verdicts.read_bytes())

    done = here("score", "both.jsonl", "--annotations", "sample")
    assert "has two verdicts; keep those of one run" in done.refusal

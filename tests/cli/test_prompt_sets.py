"""Judging at a real endpoint with packaged and own prompts, and with reasons."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from capeval.files.packaged import packaged
from tests.cli.conftest import Endpoint, Workspace

PARTS = ("candidate_events", "matches", "relations")


def own_prompts(folder: Path) -> None:
    """Make other prompts of the packaged ones, without a template for reasons."""
    shutil.copytree(packaged("prompts") / "tuna-cap-v1", folder / "own")
    declared = folder / "own" / "set.toml"
    lines = [line for line in declared.read_text().splitlines() if "explain" not in line]
    declared.write_text("\n".join(lines))
    for stage in ("split", "match", "classify"):
        with (folder / "own" / f"{stage}.txt").open("a") as template:
            template.write("\nBe brief.\n")


def test_all_prompt_sets_give_the_same_verdicts(work: Workspace, endpoint: Endpoint) -> None:
    own_prompts(work.folder)
    runs = work.folder / "runs" / "captions"
    found = {}
    for given, name, asked in (
        (("--prompts", "./own"), "own", 36),
        ((), "tuna-cap-v1", 36),
        # The first two stages ask nothing new.
        (("--explain",), "tuna-cap-v1+explain", 12),
    ):
        calls = endpoint.calls()
        ran = work.judge(*given, "--quiet")
        assert ran.code == 0
        # A run never changes its judge silently: the default prompts are other ones than before.
        assert ("is a different judge" in ran.err) is (not given), ran.err
        assert endpoint.calls() == calls + asked
        path = runs / f"judge-model@{name}" / "judgments.jsonl"
        judgments = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        assert {one["provenance"]["prompts"].split("@")[0] for one in judgments} == {name}
        assert {"explanations" in one for one in judgments} == {name.endswith("+explain")}
        found[name] = [[one[part] for part in PARTS] for one in judgments]
        # What was judged with other prompts stays as it is, and this is not judged again.
        assert work.judge(*given, "--quiet").code == 0
        assert endpoint.calls() == calls + asked
    assert len(list(runs.glob("judge-model@*"))) == 3
    assert found["tuna-cap-v1+explain"] == found["tuna-cap-v1"] == found["own"]


def test_reasons_are_stored_and_shown(work: Workspace) -> None:
    assert work.judge("--explain", "--quiet").code == 0
    for line in work.judgments("tuna-cap-v1+explain").values():
        matched = set(line["matches"])
        pairs = zip(line["relations"], line["explanations"], strict=True)
        for number, (labels, reasons) in enumerate(pairs, start=1):
            assert len(labels) == len(reasons)
            assert all(("of the words are there" in r) == (number in matched) for r in reasons)
    assert work.run("inspect", "captions", "V000").out.count("→ ") > 0

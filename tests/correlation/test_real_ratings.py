"""Real human ratings through the command."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from tests.correlation.making import ROOT, correlate

DATA = ROOT.parent / "shared" / "data"


def needs(name: str) -> Path:
    if not (DATA / name).is_dir():
        pytest.skip(f"{DATA / name} is not here")
    return DATA / name


def write_csv(path: Path, rows: Sequence[Sequence[object]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)


def test_thumb_is_a_complete_grid(tmp_path: Path) -> None:
    path = needs("thumb") / "mscoco_THumB-1.0.jsonl"
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    told = [(r["seg_id"], r["SYS"], r["human_score"], r["P"], r["R"]) for r in rows]
    write_csv(tmp_path / "human.csv", [("video_id", "system", "score", "P", "R"), *told])
    done = correlate(
        tmp_path, "--human", "human.csv", "--metric-cols", "P,R", "--draws", "199", "--json"
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    of = {(r["metric"], r["statistic"], r["grouping"]): r for r in result["results"]}
    human, recall = (np.array([r[at] for r in told], dtype=float) for at in (2, 4))
    pooled = of["R", "kendall_b", "pooled"]
    assert pooled["value"] == pytest.approx(stats.kendalltau(recall, human).statistic, abs=1e-10)
    assert pooled["n"] == 2500
    item = of["R", "kendall_b", "item"]
    assert item["groups"]["used"] + item["groups"]["dropped"] == 500
    # Both metrics are taken on the images where both have a value.
    assert item["groups"] == of["P", "kendall_b", "item"]["groups"]
    assert set(pooled["without"]) == {r[1] for r in told}
    # Which metric is the better one depends on the grouping.
    assert item["value"] < of["P", "kendall_b", "item"]["value"]
    assert pooled["value"] > of["P", "kendall_b", "pooled"]["value"]


def test_trecvid_is_unbalanced_and_has_a_row_without_a_caption(tmp_path: Path) -> None:
    folder = needs("trecvid2017")
    references = (folder / "trecvid17-vtt.en-en.HUMAN-B").read_text("utf-8", "replace").split("\n")
    human, metric = [("video_id", "system", "score")], [("video_id", "system", "score")]
    with (folder / "ad-seg-scores-en-en.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            name, line = row["SYS"], int(row["SID"])
            human.append((row["SID"], name, row["RAW.SCR"]))
            if line == 0:  # lines are numbered from 1: no caption, so no score of one
                continue
            system = folder / "systems" / f"trecvid17-vtt.en-en.{name}"
            text = system.read_text("utf-8", "replace").split("\n")[line - 1]
            ours, theirs = set(text.lower().split()), set(references[line - 1].lower().split())
            score = len(ours & theirs) / max(len(ours | theirs), 1)
            metric.append((row["SID"], name, str(score)))
    write_csv(tmp_path / "human.csv", human)
    write_csv(tmp_path / "overlap.csv", metric)
    typed = ["--human", "human.csv", "--auto", "overlap=overlap.csv", "--draws", "199"]
    done = correlate(tmp_path, *typed)
    assert done.returncode == 2
    told = "overlap: 1539 of 1540 matched; missing: 0 of CCNY"
    assert told in done.stderr
    done = correlate(tmp_path, *typed, "--missing", "drop", "--json")
    assert done.returncode == 0, done.stderr
    assert f"warning: {told}\n" in done.stderr
    result = json.loads(done.stdout)
    of = {(r["statistic"], r["grouping"]): r for r in result["results"]}
    pooled = of["spearman", "pooled"]
    assert pooled["n"] == 1539
    assert 0.2 < pooled["low"] < pooled["value"] < pooled["high"] < 0.6
    assert pooled["p"] < 0.05
    assert of["kendall_b", "item"]["groups"]["dropped"] >= 665 - 1
    assert of["pearson", "system"]["n"] == 13

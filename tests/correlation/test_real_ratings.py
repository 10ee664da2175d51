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
    rated = [(r["seg_id"], r["SYS"], r["human_score"], r["P"], r["R"]) for r in rows]
    write_csv(tmp_path / "human.csv", [("video_id", "system", "score", "P", "R"), *rated])
    done = correlate(
        tmp_path, "--human", "human.csv", "--metric=P=human.csv", "--metric=R=human.csv", "--json"
    )
    assert done.code == 0, done.err
    result = json.loads(done.out)
    of = {(r["metric"], r["statistic"], r["grouping"]): r for r in result["results"]}
    human, recall = (np.array([r[at] for r in rated], dtype=float) for at in (2, 4))
    pooled = of["R", "kendall_b", "pooled"]
    assert pooled["value"] == pytest.approx(stats.kendalltau(recall, human).statistic, abs=1e-10)
    assert pooled["n"] == 2500
    item = of["R", "kendall_b", "item"]
    assert item["groups"]["used"] + item["groups"]["dropped"] == 500
    # Both metrics are taken on the images where both have a value.
    assert item["groups"] == of["P", "kendall_b", "item"]["groups"]
    # Which metric is the better one depends on the grouping.
    assert item["value"] < of["P", "kendall_b", "item"]["value"]
    assert pooled["value"] > of["P", "kendall_b", "pooled"]["value"]


def test_trecvid_is_unbalanced_and_has_a_row_without_a_caption(tmp_path: Path) -> None:
    folder = needs("trecvid2017")
    references = (folder / "trecvid17-vtt.en-en.HUMAN-B").read_text("utf-8", "replace").split("\n")
    metric = [("video_id", "system", "score")]
    for path in sorted((folder / "systems").iterdir()):
        captions = path.read_text("utf-8", "replace").split("\n")
        for line, (text, reference) in enumerate(zip(captions, references, strict=False), start=1):
            ours, theirs = set(text.lower().split()), set(reference.lower().split())
            score = len(ours & theirs) / max(len(ours | theirs), 1)
            metric.append((str(line), path.suffix[1:], str(score)))
    write_csv(tmp_path / "overlap.csv", metric)
    human = folder / "ad-seg-scores-en-en.csv"
    typed = ("--human", str(human), "--metric", "overlap=overlap.csv", "--json")
    done = correlate(tmp_path, *typed)
    assert done.code == 0, done.err
    assert "SID is 0 and lines count from 1, so this row of CCNY rates no caption" in done.err
    result = json.loads(done.out)
    assert sum("SID is 0" in str(line) for line in result["warnings"]) == 1
    of = {(r["statistic"], r["grouping"]): r for r in result["results"]}
    pooled = of["spearman", "pooled"]
    assert pooled["n"] == 1539
    assert 0.2 < pooled["low"] < pooled["value"] < pooled["high"] < 0.6
    assert pooled["p"] < 0.05
    assert of["kendall_b", "item"]["groups"]["dropped"] >= 665 - 1
    assert of["pearson", "system"]["n"] == 13

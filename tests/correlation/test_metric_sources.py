"""What is named as a metric and is none, and judgments that are not right."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.correlation.making import make_run, write_annotations
from tests.scoring.making import annotation, scored
from tests.typed import typed

VIDEOS = [annotation(index, "a3 t1", "s2") for index in "abcd"]
CORRELATE = ("correlate", "--human", "human.csv")
JUDGMENTS = "runs/one/judge/judgments.jsonl"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_annotations(tmp_path, VIDEOS)
    make_run(tmp_path, "one", [scored(v.index, "++ 0") for v in VIDEOS])
    rows = "".join(f"{v.index},{n}\n" for n, v in enumerate(VIDEOS))
    (tmp_path / "human.csv").write_text("video_id,score\n" + rows, "utf-8")
    return tmp_path


SOURCES = {
    "runs": "runs: is neither a judged run nor a judge's folder",
    "runs/bare": "runs/bare: is a run that is not judged; run `capeval judge runs/bare` first",
    "empty": "empty: is neither a judged run nor a judge's folder: it has no verdicts",
    "list.json": "list.json: entry 2: score: must be a number",
    "numbers.json": "numbers.json: entry 1: must be a JSON object, not 1",
    "link": "link: is a link to gone, which does not exist",
    "judgments.jsonl": 'index "a": matches.1: must be at least 1',
}


@pytest.mark.parametrize("source", SOURCES)
def test_what_is_no_metric_is_told_for_what_it_is(folder: Path, source: str) -> None:
    (folder / "runs" / "bare").mkdir()
    (folder / "runs" / "bare" / "captions.jsonl").write_text('{"index": "a", "caption": "A."}\n')
    (folder / "empty").mkdir()
    (folder / "list.json").write_text(
        '[{"video_id": "a", "score": 1},\n\n{"video_id": "b", "score": "x"}]'
    )
    (folder / "numbers.json").write_text("[1, 2]")
    (folder / "link").symlink_to("gone")
    judged = (folder / JUDGMENTS).read_text("utf-8").replace('"matches": [1', '"matches": [0')
    (folder / "judgments.jsonl").write_text(judged, "utf-8")
    typed_source = (*CORRELATE, "--metric", f"m={source}", "--annotations", "annotations.json")
    done = typed(folder, *typed_source)
    assert (done.code, done.out) == (2, "")
    assert SOURCES[source] in done.err
    assert done.err.count("\n") == 1

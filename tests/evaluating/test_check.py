"""`capeval check`: problems, warnings and statistics of a set of annotations."""

from __future__ import annotations

import json
from pathlib import Path

from tests.files.making import record
from tests.world import typed

ROOT = Path(__file__).resolve().parents[2]
VIDEOS = ROOT / "annotations" / "sample" / "videos"


def test_a_set_without_problems_has_statistics(tmp_path: Path) -> None:
    done = typed(tmp_path, "check", "sample", "--videos", VIDEOS)

    assert done.code == 0
    assert "no problems, 0 warnings; 10 valid videos." in done.out.splitlines()[0]
    row = next(line for line in done.out.splitlines() if line.startswith("High-Dynamic"))
    assert row.split()[1:] == ["5", "7.5", "3.2", "14.8", "4.6", "124.6"]
    assert "camera" in done.out


def test_problems_are_lines_and_exit_2(tmp_path: Path) -> None:
    wrong = record("b")
    wrong["events"][0]["visual_elements"][0]["weight"] = 5
    lines = [record("a", video="missing"), wrong, record("a")]
    (tmp_path / "set.jsonl").write_text("\n".join(map(json.dumps, lines)))

    done = typed(tmp_path, "check", "set.jsonl", "--videos", VIDEOS)

    assert done.code == 2
    assert done.out.splitlines()[0] == "set.jsonl: 2 problems, 1 warning; 1 valid video."
    assert 'line 2: index "b": event 1: element 1: weight: must be' in done.out
    assert 'line 3: index "a": is duplicated (see line 1)' in done.out
    assert 'warning: line 1: index "a": video: ' in done.out
    told = typed(tmp_path, "check", "set.jsonl", "--json")
    assert told.code == 2
    assert [(p["event"], p["element"]) for p in told.json["problems"]] == [(1, 1), (None, None)]
    assert told.json["total"]["videos"] == 1

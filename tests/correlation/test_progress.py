"""Progress of `correlate`."""

from __future__ import annotations

from pathlib import Path

import pytest

import capeval
from capeval.correlation import correlate as module
from capeval.runs.engine import Status


class Shown:
    """Keeps every status."""

    def __init__(self) -> None:
        self.statuses: list[Status] = []

    def update(self, status: Status) -> None:
        self.statuses.append(status)


def human_file(folder: Path) -> Path:
    rows = "".join(f"v{n // 2},s{n % 2},{n % 7},{n % 5},{n % 3}\n" for n in range(24))
    path = folder / "human.csv"
    path.write_text(f"video_id,system,score,a,b\n{rows}", "utf-8")
    return path


def test_long_work_shows_each_metric_by_each_grouping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SECONDS", 0.0)
    shown = Shown()
    human = human_file(tmp_path)
    found = capeval.correlate(human, {"a": human, "b": human}, progress=shown)
    # Two metrics by four groupings, of three statistics each.
    assert len(found.results) == 24
    assert [one.done for one in shown.statuses] == list(range(9))
    assert {one.total for one in shown.statuses} == {8}

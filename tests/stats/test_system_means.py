"""Means of systems in resamples."""

from __future__ import annotations

import pytest

from capeval.stats import system_means
from capeval.stats.intervals import interval
from capeval.stats.values import Interval
from tests.stats.making import scores


def test_means_of_systems_over_many_videos_come_from_their_normal_distribution(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, y, design = scores(800, 5)
    drawn = interval(x, y, design, "pearson", "system", draws=4000)
    monkeypatch.setattr(system_means, "MANY", 700)
    normal = interval(x, y, design, "pearson", "system", draws=4000)
    assert isinstance(drawn, Interval)
    assert isinstance(normal, Interval)
    assert normal.low == pytest.approx(drawn.low, abs=0.01)
    assert normal.high == pytest.approx(drawn.high, abs=0.01)

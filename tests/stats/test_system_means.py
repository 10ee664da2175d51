"""Means of systems in resamples."""

from __future__ import annotations

import numpy as np
import pytest

from capeval.stats import system_means
from capeval.stats.design import Design
from capeval.stats.intervals import interval
from capeval.stats.pair import Pair
from capeval.stats.values import Interval
from tests.stats.making import correlate_arrays, scores


def test_means_of_systems_over_many_videos_come_from_their_normal_distribution(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, y, design = scores(800, 5)
    drawn = interval(Pair.of(x, y, design).by("pearson", "system"), draws=4000)
    monkeypatch.setattr(system_means, "MANY", 700)
    normal = interval(Pair.of(x, y, design).by("pearson", "system"), draws=4000)
    assert isinstance(drawn, Interval)
    assert isinstance(normal, Interval)
    assert normal.low == pytest.approx(drawn.low, abs=0.01)
    assert normal.high == pytest.approx(drawn.high, abs=0.01)


@pytest.mark.parametrize("statistic", ["pearson", "kendall_b", "spearman"])
def test_intervals_of_system_means_cover_the_value_of_very_many_videos(
    statistic: str,
) -> None:
    # Noise in the means attenuates r; this is one world, in docs/statistics.md are many.
    rng = np.random.default_rng(0)
    systems, videos, runs = 11, 40, 200
    human = np.linspace(-0.6, 0.6, systems)
    metric = 0.9 * human + 0.19 * 0.6 * np.sin(7.0 * np.arange(systems))
    truth = correlate_arrays(metric, human, statistic)
    design = Design(np.repeat(np.arange(videos), systems), np.tile(np.arange(systems), videos))
    held = 0
    for _ in range(runs):
        noise = rng.normal(size=(3, videos, systems))
        y = (human + rng.normal(size=(videos, 1)) + noise[0]).ravel()
        x = (metric + 0.5 * noise[0] + noise[1]).ravel()
        found = interval(Pair.of(x, y, design).by(statistic, "system"), draws=300)
        assert isinstance(found, Interval)
        assert found.low <= found.high
        assert isinstance(truth, float)
        held += found.low <= truth <= found.high
    assert held / runs >= 0.9


def test_systems_far_apart_have_an_interval_of_one_value() -> None:
    x, y, design = scores(40, 11)
    far = 100.0 * design.system
    assert interval(
        Pair.of(x + far, y + far, design).by("kendall_b", "system"), draws=200
    ) == Interval(1.0, 1.0, "bootstrap")

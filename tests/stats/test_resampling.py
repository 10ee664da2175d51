"""Intervals from the values of resamples."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from capeval.stats.values import Interval, Missing
from capeval.stats.video_ratios import percentiles


def test_expanded_percentiles_reach_out_as_far_as_t() -> None:
    values = stats.norm.ppf((np.arange(100_000) + 0.5) / 100_000) * np.sqrt(39 / 40)
    found = percentiles(values, units=40, around=0.0)
    assert isinstance(found, Interval)
    assert found.high == pytest.approx(stats.t.ppf(0.975, 39), abs=1e-3)


def test_most_resamples_need_a_value() -> None:
    found = percentiles(np.array([np.nan, np.nan, 1.0]), units=9, around=1.0)
    assert found == Missing("most resamples have no value")


def test_a_value_outside_its_resamples_has_an_interval_around_it() -> None:
    found = percentiles(np.linspace(0.49, 0.75, 1_001), units=1_000_000, around=0.455)
    assert isinstance(found, Interval)
    assert 0.455 - found.low == pytest.approx(found.high - 0.455)
    assert found.high == pytest.approx(0.737, abs=1e-3)

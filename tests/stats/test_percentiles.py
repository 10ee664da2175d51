"""Percentiles of resamples."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from capeval.stats.percentiles import percentiles
from capeval.stats.values import Interval, Missing


def test_expanded_percentiles_reach_out_as_far_as_t() -> None:
    values = stats.norm.ppf((np.arange(100_000) + 0.5) / 100_000) * np.sqrt(39 / 40)
    found = percentiles(values, 0.95, units=40)
    assert isinstance(found, Interval)
    assert found.high == pytest.approx(stats.t.ppf(0.975, 39), abs=1e-3)


def test_most_resamples_need_a_value() -> None:
    found = percentiles(np.array([np.nan, np.nan, 1.0]))
    assert found == Missing("most resamples have no value")

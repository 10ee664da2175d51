"""Intervals in closed form are scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from capeval.stats.analytic import fisher_interval, t_interval
from capeval.stats.intervals import interval
from capeval.stats.values import Interval, Missing
from tests.stats.making import scores


def test_fisher_is_scipys() -> None:
    x, y, design = scores(40, 1)
    expected = stats.pearsonr(x, y).confidence_interval(0.9)
    found = interval(x, y, design, "pearson", "pooled", confidence=0.9)
    assert isinstance(found, Interval)
    assert (found.low, found.high) == pytest.approx(tuple(expected), abs=1e-10)


def test_t_interval_is_scipys() -> None:
    values = np.random.default_rng(0).random(20) / 3
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    found = t_interval(values)
    assert isinstance(found, Interval)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-10)


def test_fisher_needs_four_pairs_that_are_not_in_line() -> None:
    assert fisher_interval(1.0, 10) == Missing("a perfect correlation has no analytic interval")
    assert fisher_interval(0.5, 3) == Missing("3 pairs; Fisher's interval needs 4")

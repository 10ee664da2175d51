"""Intervals in closed form are scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from capeval.stats.analytic import fisher_interval, interval_of_value, t_interval
from capeval.stats.intervals import interval
from capeval.stats.pair import Pair
from capeval.stats.statistic import STATISTICS
from capeval.stats.values import Interval, Missing
from tests.stats.making import scores


def test_fisher_is_scipys() -> None:
    x, y, design = scores(40, 1)
    expected = stats.pearsonr(x, y).confidence_interval(0.95)
    found = interval(Pair.of(x, y, design).by("pearson", "pooled"))
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


@pytest.mark.parametrize(
    ("statistic", "value", "low", "high"),
    [
        # Worked by hand from the published variances.
        ("kendall_b", 0.572, 0.4090, 0.6994),
        ("spearman", 0.767, 0.5690, 0.8807),
        ("pearson", 0.699, 0.4954, 0.8302),
    ],
)
def test_an_interval_follows_from_a_value_and_n(
    statistic: str, value: float, low: float, high: float
) -> None:
    found = interval_of_value(statistic, value, 40)
    assert (found.low, found.high) == pytest.approx((low, high), abs=5e-4)


@pytest.mark.parametrize(
    ("statistic", "value", "n", "ends"),
    [
        # The examples of ci.kendalltau and ci.spear in Bonett's R package statpsych 2.0.
        ("kendall_b", 0.734, 40, (0.6178, 0.8188)),
        ("spearman", 0.8699639, 15, (0.5840951, 0.9638297)),
    ],
)
def test_an_interval_is_that_of_another_package(
    statistic: str, value: float, n: int, ends: tuple[float, float]
) -> None:
    found = interval_of_value(statistic, value, n)
    assert (found.low, found.high) == pytest.approx(ends, abs=5e-5)


@pytest.mark.parametrize("statistic", ["kendall_b", "spearman", "pearson"])
def test_such_an_interval_covers_normal_scores(statistic: str) -> None:
    rng = np.random.default_rng(0)
    runs, n, r = 1_500, 40, 0.7
    x = rng.normal(size=(runs, n))
    y = r * x + np.sqrt(1 - r**2) * rng.normal(size=(runs, n))
    true = {
        "kendall_b": 2 / np.pi * np.arcsin(r),
        "spearman": 6 / np.pi * np.arcsin(r / 2),
        "pearson": r,
    }[statistic]
    ends = [interval_of_value(statistic, v, n) for v in STATISTICS[statistic].rows(x, y).tolist()]
    covered = np.mean([one.low <= true <= one.high for one in ends])
    # Three standard errors of a share of 1,500.
    assert covered == pytest.approx(0.95, abs=0.017)


@pytest.mark.parametrize(("value", "n"), [(1.0, 40), (0.5, 4)])
def test_a_perfect_value_and_too_few_pairs_have_none(value: float, n: int) -> None:
    with pytest.raises(ValueError, match="no interval"):
        interval_of_value("kendall_b", value, n)

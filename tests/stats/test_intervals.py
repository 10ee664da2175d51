"""Intervals: which method a design has, and that what it finds is an interval."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capeval.stats.design import Design
from capeval.stats.groupings import GROUPINGS
from capeval.stats.intervals import Kind, interval
from capeval.stats.pair import Pair
from capeval.stats.statistic import STATISTICS
from capeval.stats.values import Interval, Missing
from tests.stats.making import scores


@given(
    rows=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=5, max_size=12),
    systems=st.integers(1, 3),
)
@settings(deadline=None, max_examples=40)
def test_an_interval_holds_its_value_and_captions_give_it_a_width(
    rows: list[tuple[int, int]], systems: int
) -> None:
    rows = rows * systems
    x, y = np.array(rows, dtype=np.float64).T
    design = Design.of(
        [n // systems for n in range(len(rows))], [n % systems for n in range(len(rows))]
    )
    for statistic in STATISTICS:
        for grouping in GROUPINGS:
            found = interval(Pair.of(x, y, design).by(statistic, grouping), draws=100)
            value = Pair.of(x, y, design).by(statistic, grouping).value
            if isinstance(found, Interval):
                assert isinstance(value, float)
                assert found.low <= value <= found.high
                assert found.low < found.high or grouping == "system"


@pytest.mark.parametrize("size", [4, 5, 27, 30])
def test_a_perfect_order_has_no_interval(size: int) -> None:
    x = np.arange(float(size))
    for statistic in STATISTICS:
        found = interval(Pair.of(x, x, Design.of(range(size))).by(statistic, "pooled"), draws=500)
        assert isinstance(found, Missing)


@pytest.mark.parametrize(
    ("statistic", "repeats", "ci", "method"),
    [
        ("pearson", False, None, "fisher"),
        ("pearson", False, "bootstrap", "bootstrap"),
        ("pearson", True, None, "bootstrap"),
        ("pearson", True, "analytic", "jackknife"),
        ("kendall_b", False, None, "bootstrap"),
        ("spearman", False, "analytic", "jackknife"),
    ],
)
def test_method_follows_design(statistic: str, repeats: bool, ci: Kind | None, method: str) -> None:
    x, y, design = scores(20, 2 if repeats else 1)
    found = interval(Pair.of(x, y, design).by(statistic, "pooled"), ci=ci, draws=200)
    assert isinstance(found, Interval)
    assert found.method == method


def test_a_group_above_1500_has_the_jackknife() -> None:
    x = np.arange(1501.0)
    design = Design.of(range(1501))
    rng = np.random.default_rng(0)
    found = interval(Pair.of(x, x + 900 * rng.random(1501), design).by("kendall_b", "pooled"))
    assert isinstance(found, Interval)
    assert found.method == "jackknife"


def test_every_metric_sees_the_same_resamples() -> None:
    x, y, design = scores(30, 3)
    first = interval(Pair.of(x, y, design).by("kendall_b", "pooled"), draws=500, seed=0)
    assert first == interval(Pair.of(x, y, design).by("kendall_b", "pooled"), draws=500, seed=0)
    assert first == interval(Pair.of(x * 2, y, design).by("kendall_b", "pooled"), draws=500, seed=0)
    assert first != interval(Pair.of(x, y, design).by("kendall_b", "pooled"), draws=500, seed=1)


def test_no_interval_says_why() -> None:
    x, y, design = scores(10, 2)
    flat = np.ones_like(x)
    for grouping in GROUPINGS:
        for statistic in list(STATISTICS)[:4]:
            assert isinstance(
                interval(Pair.of(flat, y, design).by(statistic, grouping), draws=50), Missing
            )
    one = Design.of([0, 0, 0], [0, 1, 2])
    assert interval(Pair.of(x[:3], y[:3], one).by("kendall_b", "pooled")) == Missing(
        "1 video is too few to resample: at least 5"
    )
    found = interval(Pair.of(x, y, design).by("kendall_b", "pooled"), ci="none")
    assert found == Missing("no interval was asked for")

"""Groupings: what is grouped, used and dropped."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from capeval.stats.design import Design
from capeval.stats.estimate import common_to
from capeval.stats.pair import Pair
from capeval.stats.values import Missing

VIDEO, SYSTEM = np.repeat(np.arange(30), 4), np.tile(np.arange(4), 30)


@pytest.fixture
def scores() -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], ...]:
    rng = np.random.default_rng(2)
    x = rng.integers(0, 6, 120) + SYSTEM / 2
    return x, x + rng.integers(0, 6, 120)


def test_every_grouping_is_its_definition(scores: tuple[np.ndarray, ...]) -> None:
    x, y = scores
    design = Design(VIDEO, SYSTEM)
    tau = stats.kendalltau
    assert Pair.of(x, y, design).by("kendall_b", "pooled").value == pytest.approx(tau(x, y)[0])
    item = [tau(x[v == VIDEO], y[v == VIDEO])[0] for v in range(30)]
    found = Pair.of(x, y, design).by("kendall_b", "item")
    assert found.value == pytest.approx(np.nanmean(item))
    assert (found.used, found.dropped) == (30 - np.isnan(item).sum(), np.isnan(item).sum())
    within = [tau(x[s == SYSTEM], y[s == SYSTEM])[0] for s in range(4)]
    found = Pair.of(x, y, design).by("kendall_b", "within_system")
    assert found.value == pytest.approx(np.mean(within))
    assert (found.n, found.used, found.dropped) == (120, 4, 0)
    means = [[side[s == SYSTEM].mean() for s in range(4)] for side in (x, y)]
    found = Pair.of(x, y, design).by("kendall_b", "system")
    assert found.value == pytest.approx(tau(*means)[0])
    assert found.n == 4


def test_groups_without_a_value_are_dropped_and_counted() -> None:
    design = Design.of([0, 0, 1, 1, 2], [0, 1, 0, 1, 0])
    found = Pair.of([1, 2, 3, 3, 1], [1, 2, 1, 2, 1], design).by("kendall_b", "item")
    assert (found.value, found.n, found.used, found.dropped) == (1.0, 2, 1, 2)


def test_no_group_is_missing_with_its_reason() -> None:
    design = Design.of(range(3))
    found = Pair.of([1, 2, 3], [1, 2, 3], design).by("kendall_b", "item")
    assert isinstance(found.value, Missing)
    assert (found.used, found.dropped) == (0, 3)
    found = Pair.of([1, 1, 1], [1, 2, 3], design).by("pearson", "pooled")
    assert found.value == Missing("the metric is constant")
    found = Pair.of([1, 2, 3], [1, 2, 3], design).by("kendall_b", "system")
    assert found.value == Missing("1 pair; kendall_b needs 2")


def test_metrics_are_compared_on_groups_where_all_have_a_value() -> None:
    design = Design.of([0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1])
    human = np.array([1.0, 2, 1, 2, 1, 2])
    good, gap = np.array([1.0, 2, 2, 1, 1, 2]), np.array([1.0, 2, 1, 1, 1, 2])
    use = common_to([Pair.of(x, human, design) for x in (good, gap)], "kendall_b", "item")
    assert use.tolist() == [True, False, True]
    assert Pair.of(good, human, design).by("kendall_b", "item").value == pytest.approx(1 / 3)
    found = Pair.of(good, human, design).by("kendall_b", "item", only=use)
    assert (found.value, found.used, found.dropped) == (1.0, 2, 1)


def test_groups_of_many_sizes_keep_their_places() -> None:
    rng = np.random.default_rng(0)
    group = rng.integers(0, 40, 500)
    x, y = rng.random((2, 500))
    values = Pair.of(x, y, Design(group, np.arange(500))).values("spearman", "item")
    for one in np.unique(group):
        expected = stats.spearmanr(x[group == one], y[group == one])[0]
        assert values[one] == pytest.approx(expected, abs=1e-10)


def test_a_design_knows_its_shape() -> None:
    full = Design(VIDEO, SYSTEM)
    assert (full.videos, full.systems, full.rows) == (30, 4, 120)
    assert full.repeats
    assert full.take(np.arange(120) != 5).rows == 119
    assert not Design.of("abc").repeats
    with pytest.raises(ValueError, match="more than one row"):
        Design.of("aa", "xx")
    with pytest.raises(ValueError, match="2 videos but 1"):
        Design.of("ab", "x")
    with pytest.raises(ValueError, match="rows in the design"):
        Pair.of([1, 2], [1, 2], full).by("kendall_b", "pooled")

"""Intervals and one-sided p of the difference between two metrics."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from capeval.stats import system_differences
from capeval.stats.comparison import williams
from capeval.stats.design import Design
from capeval.stats.groupings import GROUPINGS
from capeval.stats.pair import Pair
from capeval.stats.percentiles import percentiles
from capeval.stats.statistic import STATISTICS
from capeval.stats.system_differences import percentile_p
from capeval.stats.system_means import system_values
from capeval.stats.values import Floats, GroupingName, Interval, Missing
from tests.stats.making import compared
from tests.stats.making import scores as two_scores


def _scores(
    videos: int, systems: int, seed: int = 0, *, worse: float = 1.2
) -> tuple[Floats, Floats, Floats, Design]:
    """Return a metric, a worse one, the human scores, and the design."""
    x, human, design = two_scores(videos, systems, seed)
    noise = np.random.default_rng(seed + 100).normal(size=len(x))
    return x, (x + worse * noise).round(1), human, design


@pytest.mark.parametrize("statistic", list(STATISTICS))
@pytest.mark.parametrize("grouping", GROUPINGS)
def test_a_difference_has_an_interval_around_it(statistic: str, grouping: GroupingName) -> None:
    first, second, human, design = _scores(30, 5)
    found = compared(first, second, human, design, statistic, grouping, draws=99, resamples=300)
    back = compared(second, first, human, design, statistic, grouping, draws=99, resamples=300)
    assert isinstance(found.interval, Interval)
    assert isinstance(back.interval, Interval)
    assert isinstance(found.difference, float)
    assert found.interval.low <= found.difference <= found.interval.high
    assert (back.interval.low, back.interval.high) == pytest.approx(
        (-found.interval.high, -found.interval.low), abs=1e-9
    )


@pytest.mark.parametrize("statistic", list(STATISTICS))
@pytest.mark.parametrize("grouping", ["pooled", "within_system"])
def test_it_leaves_zero_out_just_where_p_is_below_5_percent(
    statistic: str, grouping: GroupingName
) -> None:
    seen = set()
    worse = 0.3 if grouping == "pooled" else 0.6
    for seed in range(12):
        found = compared(*_scores(20, 4, seed, worse=worse), statistic, grouping, resamples=1)
        assert isinstance(found.interval, Interval)
        assert isinstance(found.p, float)
        inside = found.interval.low <= 0 <= found.interval.high
        assert inside == (found.p >= 0.05)
        seen.add(inside)
    assert seen == {True, False}


@pytest.mark.parametrize("statistic", ["pearson", "spearman", "kendall_b"])
def test_by_system_it_leaves_zero_out_just_where_p_is_below_5_percent(statistic: str) -> None:
    seen = set()
    for seed in range(20):
        first, second, human, design = _scores(20, 8, seed)
        second = second - 0.8 * (seed % 2) * design.system
        found = compared(first, second, human, design, statistic, "system", resamples=400)
        assert isinstance(found.interval, Interval)
        assert isinstance(found.p, float)
        inside = found.interval.low <= 0 <= found.interval.high
        assert inside == (found.p >= 0.05)
        seen.add(inside)
    assert seen == {True, False}


@pytest.mark.parametrize("kinds", [1, 2])
@pytest.mark.parametrize("around", [0.2, 0.9])
def test_p_is_the_share_at_which_the_interval_reaches_zero(kinds: int, around: float) -> None:
    values = np.random.default_rng(kinds).normal(0.25, 0.15, (kinds, 2_000))
    p = percentile_p(values, 30, around=around)
    for share, holds in ((p * 1.02, False), (p * 0.98, True)):
        bounds = percentiles(values, 1 - share, units=30, around=around)
        assert isinstance(bounds, Interval)
        assert (bounds.low <= 0 <= bounds.high) is holds


def test_above_20000_videos_means_are_drawn_with_the_same_errors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = _scores(400, 6, worse=2.0)
    for statistic in ("pearson", "spearman"):
        few = compared(*data, statistic, "system", resamples=2_000)
        monkeypatch.setattr(system_differences, "MANY", 100)
        many = compared(*data, statistic, "system", resamples=2_000)
        monkeypatch.undo()
        assert isinstance(few.interval, Interval)
        assert isinstance(many.interval, Interval)
        width = few.interval.high - few.interval.low
        assert many.interval.low == pytest.approx(few.interval.low, abs=width / 4)
        assert many.interval.high == pytest.approx(few.interval.high, abs=width / 4)


def test_by_item_it_is_students_of_the_videos_differences() -> None:
    first, second, human, design = _scores(9, 5)
    found = compared(first, second, human, design, "spearman", "item", resamples=1)
    one, two = (Pair.of(x, human, design).values("spearman", "item") for x in (first, second))
    t = stats.ttest_1samp(one - two, 0.0).confidence_interval()
    assert isinstance(found.interval, Interval)
    assert (found.interval.low, found.interval.high) == pytest.approx((t.low, t.high))


def test_by_system_both_metrics_are_of_the_same_resamples() -> None:
    first, second, human, design = _scores(15, 6)
    found = compared(first, second, human, design, "pearson", "system", draws=9, resamples=400)
    pairs = [Pair.of(x, human, design) for x in (first, second)]
    one, two = (system_values(pair, STATISTICS["pearson"], 400, 0) for pair in pairs)
    assert not isinstance(one, Missing)
    assert not isinstance(two, Missing)
    gaps = one - two
    assert isinstance(found.interval, Interval)
    # Plain percentiles of either kind are within the expanded ones of both.
    assert found.interval.low <= np.nanquantile(gaps, 0.025, axis=1).min()
    assert found.interval.high >= np.nanquantile(gaps, 0.975, axis=1).max()
    assert found.interval.high - found.interval.low < np.nanmax(gaps) - np.nanmin(gaps)


def test_a_metric_and_itself_differ_by_nothing_without_an_interval() -> None:
    first, _, human, design = _scores(10, 3)
    for grouping in ("pooled", "item", "within_system"):
        found = compared(first, first, human, design, "kendall_b", grouping, resamples=1)
        assert found.interval == Missing("no video moves the difference")


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_few_videos_and_nobody_who_asks_have_no_interval(grouping: GroupingName) -> None:
    few = compared(*_scores(4, 6), "pearson", grouping, draws=9, resamples=99)
    assert isinstance(few.interval, Missing)
    assert "too few" in few.interval.reason
    unasked = compared(*_scores(9, 6), "pearson", grouping, draws=9)
    assert unasked.interval == Missing("no interval was asked for")


def test_a_perfect_metric_has_an_interval_that_ends_at_its_difference() -> None:
    _, second, human, design = _scores(12, 3)
    found = compared(human, second, human, design, "spearman", "pooled", resamples=1)
    assert isinstance(found.interval, Interval)
    assert isinstance(found.difference, float)
    assert found.interval.low < found.difference <= found.interval.high


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_one_sided_p_is_of_the_first_metric(grouping: GroupingName) -> None:
    first, second, human, design = _scores(12, 5)
    found = compared(first, second, human, design, "pearson", grouping, draws=999)
    back = compared(second, first, human, design, "pearson", grouping, draws=999)
    assert isinstance(found.difference, float)
    assert isinstance(found.p, float)
    assert found.difference > 0
    assert found.one_sided == found.p / 2
    assert back.one_sided == 1 - found.p / 2


def test_one_sided_p_by_item_is_the_share_of_flips_that_are_so_good() -> None:
    first, second, human, design = _scores(8, 5)
    found = compared(first, second, human, design, "pearson", "item")
    one, two = (Pair.of(x, human, design).values("pearson", "item") for x in (first, second))
    gaps = one - two
    flips = 1 - 2 * (np.arange(2**8)[:, None] >> np.arange(8) & 1)
    assert found.one_sided == np.mean(flips @ gaps >= gaps.sum() - 1e-12)


def test_one_sided_p_of_williams_is_of_one_tail() -> None:
    first, second, human, _ = _scores(40, 1)
    found = williams(first, second, human, Design.of(range(40)))
    assert isinstance(found.p, float)
    assert found.one_sided == pytest.approx(found.p / 2)
    assert found.interval == Missing("Williams' test has no interval")


def test_a_share_is_within_its_scale() -> None:
    _, second, human, design = _scores(12, 3)
    found = compared(human, second, human, design, "acc_eq", "pooled", resamples=1)
    values = [Pair.of(x, human, design).by("acc_eq", "pooled").value for x in (human, second)]
    assert values[0] == 1.0
    assert isinstance(found.interval, Interval)
    assert -1 <= found.interval.low <= found.interval.high <= 1

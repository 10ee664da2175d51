"""Intervals: resamples are what scipy makes of repeated captions, and whole videos are drawn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import capeval.stats.intervals as module
from capeval.stats.correlation import correlate_arrays
from capeval.stats.design import Design
from capeval.stats.grouping import grouped
from capeval.stats.intervals import (
    Kind,
    bootstrap_values,
    fisher_interval,
    interval,
    jackknife_estimates,
    percentiles,
    t_interval,
)
from capeval.stats.resampling import Counts, draw_counts, resampled
from capeval.stats.values import (
    GROUPINGS,
    STATISTICS,
    Floats,
    Grouping,
    Interval,
    Missing,
    Statistic,
)


def scores(videos: int, systems: int, seed: int = 0) -> tuple[Floats, Floats, Design]:
    rng = np.random.default_rng(seed)
    design = Design(np.repeat(np.arange(videos), systems), np.tile(np.arange(systems), videos))
    video = rng.normal(size=videos)[design.video]
    x = (video + rng.normal(size=design.rows) + design.system / 3).round(1)
    return x, (x + video + rng.normal(size=design.rows)).round(1), design


def counts(units: int, draws: int) -> Counts:
    return np.concatenate(list(draw_counts(units, draws, np.random.default_rng(0))))


@pytest.mark.parametrize("statistic", ["kendall_b", "spearman", "pearson"])
@pytest.mark.parametrize("levels", [3, 1000])
def test_a_resample_is_the_captions_repeated(statistic: Statistic, levels: int) -> None:
    rng = np.random.default_rng(1)
    x = rng.integers(0, levels, 15).astype(float)
    y = x + rng.integers(0, levels, 15)
    drawn = counts(15, 200)
    found = resampled(x, np.asarray(y, dtype=np.float64), statistic)(drawn)
    for value, row in zip(found, drawn.astype(int), strict=True):
        expected = correlate_arrays(np.repeat(x, row), np.repeat(y, row), statistic)
        if isinstance(expected, Missing):
            assert np.isnan(value)
        else:
            assert value == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("threshold", [0.0, 2.0])
def test_a_resample_of_acc_eq_leaves_out_own_copies(threshold: float) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.integers(0, 9, (2, 12)).astype(float)
    dx = np.subtract.outer(x, x)
    signs = np.where(np.abs(dx) <= threshold, 0, np.sign(dx))
    right = signs == np.sign(np.subtract.outer(y, y))
    drawn = counts(12, 50)
    found = resampled(x, y, "acc_eq", threshold=threshold)(drawn)
    for value, row in zip(found, drawn.astype(int), strict=True):
        names = np.repeat(np.arange(12), row)
        pairs = [right[i, j] for i in names for j in names if i != j]
        assert value == pytest.approx(np.mean(pairs))


def test_a_resample_of_tau_c_leaves_out_own_copies_and_keeps_the_scale() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.integers(0, 9, 12).astype(float), rng.integers(0, 4, 12).astype(float)
    signs = np.sign(np.subtract.outer(x, x)) * np.sign(np.subtract.outer(y, y))
    whole = correlate_arrays(x, y, "kendall_c")
    mean = signs.sum() / (12 * 11)
    drawn = counts(12, 50)
    found = resampled(x, y, "kendall_c")(drawn)
    for value, row in zip(found, drawn.astype(int), strict=True):
        names = np.repeat(np.arange(12), row)
        pairs = [signs[i, j] for i in names for j in names if i != j]
        assert value == pytest.approx(np.clip(whole / mean * np.mean(pairs), -1, 1))


@given(
    rows=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=5, max_size=12),
    systems=st.integers(1, 3),
)
@settings(deadline=None, max_examples=40)
def test_an_interval_holds_its_value_and_has_a_width(
    rows: list[tuple[int, int]], systems: int
) -> None:
    rows = rows * systems
    x, y = np.array(rows, dtype=np.float64).T
    design = Design.of(
        [n // systems for n in range(len(rows))], [n % systems for n in range(len(rows))]
    )
    for statistic in STATISTICS:
        for grouping in GROUPINGS:
            found = interval(x, y, design, statistic, grouping, draws=100)
            value = grouped(x, y, design, statistic, grouping).value
            if isinstance(found, Interval):
                assert isinstance(value, float)
                assert found.low <= value <= found.high
                assert found.low < found.high


@pytest.mark.parametrize("size", [4, 5, 27, 30])
def test_a_perfect_order_has_no_interval(size: int) -> None:
    x = np.arange(float(size))
    for statistic in STATISTICS:
        found = interval(x, x, Design.of(range(size)), statistic, "pooled", draws=500)
        assert isinstance(found, Missing)


def test_no_matrix_of_all_pairs_above_1500() -> None:
    x = np.arange(1501.0)
    with pytest.raises(ValueError, match="too many"):
        resampled(x, x, "kendall_b")
    design = Design.of(range(1501))
    rng = np.random.default_rng(0)
    found = interval(x, x + 900 * rng.random(1501), design, "kendall_b", "pooled")
    assert isinstance(found, Interval)
    assert found.method == "jackknife"


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("grouping", GROUPINGS)
def test_whole_videos_are_resampled(statistic: Statistic, grouping: Grouping) -> None:
    x, y, design = scores(12, 4)
    drawn = counts(12, 100)
    found = bootstrap_values(x, y, design, statistic, grouping, draws=100, seed=0)
    assert not isinstance(found, Missing)
    if statistic in {"acc_eq", "kendall_c"} and grouping not in {"item", "system"}:
        pytest.skip("own copies are left out; shown above")
    for value, row in zip(found[:20], drawn.astype(int), strict=False):
        rows = np.repeat(np.arange(48), row[design.video])
        copy = np.concatenate([np.tile(np.arange(n), 4) for n in row])
        names = [*zip(design.video[rows], copy, strict=True)]
        repeated = Design.of(names, design.system[rows].tolist())
        expected = grouped(x[rows], y[rows], repeated, statistic, grouping).value
        if isinstance(expected, float):
            assert value == pytest.approx(expected, abs=1e-9)
        else:
            assert np.isnan(value)


def test_every_metric_sees_the_same_resamples() -> None:
    x, y, design = scores(30, 3)
    first = interval(x, y, design, "kendall_b", "pooled", draws=500, seed=0)
    assert first == interval(x, y, design, "kendall_b", "pooled", draws=500, seed=0)
    assert first == interval(x * 2, y, design, "kendall_b", "pooled", draws=500, seed=0)
    assert first != interval(x, y, design, "kendall_b", "pooled", draws=500, seed=1)


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
def test_method_follows_design(
    statistic: Statistic, repeats: bool, ci: Kind | None, method: str
) -> None:
    x, y, design = scores(20, 2 if repeats else 1)
    found = interval(x, y, design, statistic, "pooled", ci=ci, draws=200)
    assert isinstance(found, Interval)
    assert found.method == method


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


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("grouping", ["pooled", "within_system"])
def test_jackknife_is_about_as_wide_as_the_bootstrap(
    statistic: Statistic, grouping: Grouping
) -> None:
    x, y, design = scores(400, 3)
    widths = []
    for ci in ("bootstrap", "analytic"):
        found = interval(x, y, design, statistic, grouping, ci=ci, draws=2000)
        assert isinstance(found, Interval)
        widths.append(found.high - found.low)
    assert widths[0] == pytest.approx(widths[1], rel=0.08)


def test_jackknife_estimates_are_the_single_ones() -> None:
    x, y, design = scores(60, 3)
    together = jackknife_estimates(x, y, design, STATISTICS)
    for statistic in STATISTICS:
        one = together[statistic]
        assert not isinstance(one, Missing)
        assert one[0] == pytest.approx(correlate_arrays(x, y, statistic))
        assert one[2] == interval(x, y, design, statistic, "pooled", ci="analytic")
    constant = jackknife_estimates(np.ones(180), y, design, ["spearman"])
    assert constant["spearman"] == Missing("the metric is constant")


def test_means_of_systems_over_many_videos_come_from_their_normal_distribution(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, y, design = scores(800, 5)
    drawn = interval(x, y, design, "pearson", "system", draws=4000)
    monkeypatch.setattr(module, "_MANY", 700)
    normal = interval(x, y, design, "pearson", "system", draws=4000)
    assert isinstance(drawn, Interval)
    assert isinstance(normal, Interval)
    assert normal.low == pytest.approx(drawn.low, abs=0.01)
    assert normal.high == pytest.approx(drawn.high, abs=0.01)


def test_no_interval_says_why() -> None:
    x, y, design = scores(10, 2)
    flat = np.ones_like(x)
    for grouping in GROUPINGS:
        for statistic in STATISTICS[:4]:
            assert isinstance(interval(flat, y, design, statistic, grouping, draws=50), Missing)
    one = Design.of([0, 0, 0], [0, 1, 2])
    assert interval(x[:3], y[:3], one, "kendall_b", "pooled") == Missing(
        "1 video is too few to resample: at least 5"
    )
    found = interval(x, y, design, "kendall_b", "pooled", ci="none")
    assert found == Missing("no interval was asked for")
    assert isinstance(fisher_interval(1.0, 10), Missing)
    assert isinstance(fisher_interval(0.5, 3), Missing)
    assert isinstance(percentiles(np.array([np.nan, np.nan, 1.0])), Missing)
    with pytest.raises(ValueError, match="confidence"):
        interval(x, y, design, "kendall_b", "pooled", confidence=95)


def test_expanded_percentiles_reach_out_as_far_as_t() -> None:
    values = stats.norm.ppf((np.arange(100_000) + 0.5) / 100_000) * np.sqrt(39 / 40)
    found = percentiles(values, 0.95, units=40)
    assert isinstance(found, Interval)
    assert found.high == pytest.approx(stats.t.ppf(0.975, 39), abs=1e-3)

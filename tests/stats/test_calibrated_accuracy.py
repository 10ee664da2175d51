"""Intervals and comparisons of acc_eq with a threshold, in small and in large groups."""

from __future__ import annotations

import math
import sys
from itertools import combinations
from types import FrameType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from capeval.stats.concordance import agreeing_pairs, concordance, concordance_within
from capeval.stats.design import Design
from capeval.stats.intervals import Kind, interval
from capeval.stats.jackknife import video_influence, without_each_video
from capeval.stats.jackknife_error import jackknife_error
from capeval.stats.pair import Pair
from capeval.stats.statistic import ACC_EQ, KENDALL_B, KENDALL_C, Statistic
from capeval.stats.values import Floats, GroupingName, Interval, Missing
from tests.stats.making import compared, correlate_arrays

GROUPS: tuple[GroupingName, ...] = ("pooled", "within_system")


def _scores(videos: int, systems: int, seed: int = 0) -> tuple[Floats, Floats, Floats, Design]:
    """Return two metrics, the second worse, ratings from 0 to 5, and the design."""
    rng = np.random.default_rng(seed)
    design = Design(np.repeat(np.arange(videos), systems), np.tile(np.arange(systems), videos))
    video = rng.normal(size=videos)[design.video]
    human = np.clip(2.5 + video + rng.normal(size=design.rows), 0, 5).round().astype(np.float64)
    good = human + rng.normal(size=design.rows)
    return good, good + rng.normal(size=design.rows), human, design


@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 3)), min_size=1, max_size=30),
    st.sampled_from([0.0, 1.0, 2.5]),
)
def test_partners_within_a_threshold_are_those_of_every_pair(
    values: list[tuple[int, int]], threshold: float
) -> None:
    x, y = np.array(values, dtype=float).T
    found = concordance_within(x, y, threshold)
    assert found.agreeing.sum() / 2 == agreeing_pairs(x, y, threshold)
    dx = x[:, None] - x
    a, b = np.where(np.abs(dx) <= threshold, 0, np.sign(dx)), np.sign(y[:, None] - y)
    assert found.score.tolist() == (a * b).sum(axis=1).tolist()
    assert found.untied_x.tolist() == (a != 0).sum(axis=1).tolist()
    if not threshold:
        plain = concordance(x, y)
        for name in ("score", "agreeing", "untied_x", "untied_y"):
            assert getattr(found, name).tolist() == getattr(plain, name).tolist()
        assert found.classes == plain.classes


@pytest.mark.parametrize("grouping", GROUPS)
def test_the_jackknife_with_a_threshold_is_as_wide_as_the_bootstrap(grouping: GroupingName) -> None:
    good, _, human, design = _scores(300, 3)
    widths = []
    ways: tuple[Kind, ...] = ("bootstrap", "analytic")
    for ci in ways:
        found = interval(
            Pair.of(good, human, design).by(ACC_EQ, grouping, threshold=0.7), ci=ci, draws=2_000
        )
        assert isinstance(found, Interval)
        widths.append(found.high - found.low)
    assert widths[0] == pytest.approx(widths[1], rel=0.08)


@pytest.mark.parametrize("grouping", GROUPS)
def test_influence_with_a_threshold_is_of_the_value(grouping: GroupingName) -> None:
    good, _, human, design = _scores(30, 3)
    pair = Pair.of(good, human, design)
    found = video_influence(pair.by(ACC_EQ, grouping, threshold=0.7))
    assert not isinstance(found, Missing)
    expected = Pair.of(good, human, design).by(ACC_EQ, grouping, threshold=0.7).value
    assert found[0] == pytest.approx(expected)
    left = without_each_video(pair.by(ACC_EQ, grouping, threshold=0.7))
    assert not isinstance(left, Missing)
    assert np.corrcoef(left, found[0] - found[1])[0, 1] > 0.99


def test_more_captions_than_are_resampled_have_an_interval() -> None:
    good, _, human, design = _scores(400, 4)
    found = interval(Pair.of(good, human, design).by(ACC_EQ, "pooled", threshold=0.7))
    assert isinstance(found, Interval)
    assert found.method == "jackknife"
    assert found.high - found.low < 0.1


@pytest.mark.parametrize("grouping", GROUPS)
def test_metrics_are_compared_with_their_own_thresholds(grouping: GroupingName) -> None:
    good, poor, human, design = _scores(12, 4)
    ties = (0.7, 1.1)
    found = compared(good, poor, human, design, ACC_EQ, grouping, thresholds=ties, resamples=1)

    def values(rows: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> list[float]:
        given = [
            Pair.of(x[rows], human[rows], design.take(rows)).by(ACC_EQ, grouping, threshold=t).value
            for x, t in zip((good, poor), ties, strict=True)
        ]
        return [one for one in given if isinstance(one, float)]

    one, two = values(np.ones(design.rows, dtype=bool))
    assert found.difference == pytest.approx(one - two)

    def gap(*without: int) -> float:
        first, second = np.arctanh(2 * np.array(values(~np.isin(design.video, without))) - 1)
        return float(first - second)

    each = np.array([gap(video) for video in range(12)])
    both = np.array([gap(a, b) for a, b in combinations(range(12), 2)])
    error, freedom = jackknife_error(gap(), each, both)
    assert found.p == pytest.approx(2 * stats.t.sf(abs(gap()) / error, freedom))
    assert isinstance(found.interval, Interval)


def test_large_groups_are_compared_to_nearly_the_same_p() -> None:
    good, poor, human, design = _scores(401, 4)
    rows = design.video < 375
    both = [
        compared(
            good[some],
            poor[some],
            human[some],
            design.take(some),
            ACC_EQ,
            "pooled",
            thresholds=(0.7, 1.1),
            resamples=1,
        )
        for some in (rows, np.ones(design.rows, dtype=bool))
    ]
    widths = []
    for one in both:
        assert isinstance(one.interval, Interval)
        widths.append(one.interval.high - one.interval.low)
    # 1,500 captions and 1,604.
    assert widths[0] * np.sqrt(375 / 401) == pytest.approx(widths[1], rel=0.1)


@given(
    values=st.lists(st.floats(-1e3, 1e3).map(lambda x: x / 3), min_size=1, max_size=40),
    place=st.integers(0, 1_600),
)
def test_values_within_a_threshold_are_those_whose_rounded_difference_is(
    values: list[float], place: int
) -> None:
    x = np.sort(np.array(values))
    gaps = np.abs(x[:, None] - x)
    threshold = float(gaps.ravel()[place % gaps.size])
    found = concordance_within(x, x, threshold)
    assert found.untied_x.tolist() == (gaps > threshold).sum(axis=1).tolist()


@pytest.mark.parametrize(
    ("values", "threshold"),
    [
        (np.repeat([0.1, 0.1 + 0.2], 2_000), 0.2),
        (np.concatenate([np.full(2_000, -1.0), np.linspace(0, 1e-17, 2_000)]), 1.0),
    ],
)
def test_many_values_at_the_rounding_of_a_threshold_take_few_steps(
    values: Floats, threshold: float
) -> None:
    lines = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        if frame.f_code.co_name not in ("_ends", "concordance_within"):
            return None
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        found = concordance_within(values, values, threshold)
    finally:
        sys.settrace(before)
    assert 0 < lines < 200
    tied = np.abs(values[:, None] - values) <= threshold
    assert found.untied_x.tolist() == (~tied).sum(axis=1).tolist()


@pytest.mark.parametrize("statistic", [KENDALL_B, KENDALL_C, ACC_EQ])
@pytest.mark.parametrize("size", [24, 25, 300])
def test_every_statistic_of_pairs_takes_a_threshold(statistic: Statistic, size: int) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 9, (3, size)) / 4, rng.integers(0, 4, (1, size)).astype(float)
    dx = x[:, :, None] - x[:, None]
    a, b = np.sign(np.where(np.abs(dx) <= 0.5, 0, dx)), np.sign(y[0][:, None] - y[0])
    score, pairs = (a * b).sum(axis=(1, 2)), size * (size - 1)
    m = min(9, 4)
    expected = {
        "kendall_b": score / np.sqrt(np.abs(a).sum(axis=(1, 2)) * np.abs(b).sum()),
        "kendall_c": score / (size**2 * (m - 1) / m),
        "acc_eq": ((a == b).sum(axis=(1, 2)) - size) / pairs,
    }[statistic.name]
    assert statistic.rows(x, y, threshold=0.5) == pytest.approx(expected)
    one = correlate_arrays(x[1], y[0], statistic, threshold=0.5)
    assert one == pytest.approx(expected[1])


@pytest.mark.parametrize("threshold", [-1.0, math.nan, -math.inf])
@pytest.mark.parametrize("size", [3, 300])
def test_an_impossible_threshold_is_an_error(threshold: float, size: int) -> None:
    x = np.arange(size)
    with pytest.raises(ValueError, match=r"the threshold is .*; it must be 0 or more"):
        correlate_arrays(x, x, "acc_eq", threshold=threshold)


def test_an_unknown_statistic_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="'tau' is unknown; one of kendall_b, kendall_c, spearman"):
        correlate_arrays([1, 2], [1, 2], "tau")

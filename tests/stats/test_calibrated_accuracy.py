"""Intervals and comparisons of acc_eq with a threshold, in small and in large groups."""

from __future__ import annotations

from itertools import combinations

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
from capeval.stats.statistic import ACC_EQ
from capeval.stats.values import Floats, GroupingName, Interval, Missing
from tests.stats.making import compared

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

"""Several raters made one, and the ceiling they set: brute force, and rows in any order."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capeval.stats.design import Design
from capeval.stats.groupings import GROUPINGS
from capeval.stats.human_ceiling import RatersApart
from capeval.stats.pair import Pair
from capeval.stats.raters import How, combine, combine_others
from capeval.stats.statistic import STATISTICS
from capeval.stats.values import GroupingName, Interval, Missing

HOW: tuple[How, ...] = ("mean", "median", "zmean")
GAP = float("nan")


@pytest.mark.parametrize("how", HOW)
@given(scale=st.sampled_from([1e-300, 1e-3, 1.0, 1e6, 1e307]), data=st.data())
def test_equal_as_typed_is_equal_in_any_order(how: How, scale: float, data: st.DataObject) -> None:
    orders = list(permutations([0.1 * scale, 0.2 * scale, 0.3 * scale]))
    # Each rater gives each number as often, so that standardised they are permutations too.
    captions = data.draw(st.permutations(orders))
    assert len(set(combine(np.array(captions).T, how).tolist())) == 1


def test_large_and_tiny_ratings_have_finite_means() -> None:
    assert combine([[1.5e100, 1e100], [1.7e100, 1e100]]).tolist() == pytest.approx([1.6e100, 1e100])
    assert combine([[1e-310, 0], [1e-310, 0]]).tolist() == [1e-310, 0]
    assert np.isfinite(combine([[1e100, -1e100], [9e99, -8e99]], "zmean")).all()


def test_one_rater_is_taken_as_typed() -> None:
    assert combine([[1 / 3, 1e-15, GAP]])[:2].tolist() == [1 / 3, 1e-15]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("gaps", [0.0, 0.4])
def test_the_others_are_those_that_are_left_when_one_is_taken_out(how: How, gaps: float) -> None:
    rng = np.random.default_rng(3)
    ratings = rng.integers(0, 6, (5, 40)) / 10
    ratings[rng.random(ratings.shape) < gaps] = GAP
    ratings[4] = np.where(np.isnan(ratings[4]), GAP, 0.3)
    expected = [combine(np.delete(ratings, n, axis=0), how) for n in range(len(ratings))]
    assert combine_others(ratings, how) == pytest.approx(
        np.array(expected), rel=1e-11, abs=1e-11, nan_ok=True
    )


def test_ceiling_holds_each_rater_against_the_others() -> None:
    rng = np.random.default_rng(0)
    truth = rng.random(50)
    ratings = truth + rng.normal(size=(3, 50)) / 3
    found = RatersApart(ratings).ceiling("pearson")
    expected = [
        np.corrcoef(ratings[n], np.delete(ratings, n, axis=0).mean(axis=0))[0, 1] for n in range(3)
    ]
    assert list(found.each) == pytest.approx(expected)
    assert found.value == pytest.approx(np.mean(expected))
    silent = RatersApart([ratings[0], np.ones(50)]).ceiling("pearson")
    assert silent.each[1] == Missing("the rater is constant")
    assert isinstance(RatersApart(ratings[:1]).ceiling("pearson").value, Missing)


@pytest.mark.parametrize("grouping", GROUPINGS)
@pytest.mark.parametrize("statistic", list(STATISTICS))
def test_ceiling_is_of_the_grouping_asked_for(statistic: str, grouping: GroupingName) -> None:
    rng = np.random.default_rng(1)
    design = Design.of(np.repeat(np.arange(8), 4).tolist(), list(range(4)) * 8)
    ratings = rng.integers(0, 5, (3, 32)).astype(float)
    ratings[rng.random(ratings.shape) < 0.1] = GAP
    found = RatersApart(ratings, design).ceiling(statistic, grouping)
    for rater, value in enumerate(found.each):
        others = combine(np.delete(ratings, rater, axis=0))
        both = ~np.isnan(ratings[rater]) & ~np.isnan(others)
        expected = Pair.of(ratings[rater][both], others[both], design.take(both)).by(
            statistic, grouping
        )
        assert value == pytest.approx(expected.value, abs=1e-10)


def test_the_interval_is_of_whole_videos_and_two_raters_are_one_number() -> None:
    rng = np.random.default_rng(2)
    truth = np.repeat(rng.random(20), 3)
    design = Design.of(np.repeat(np.arange(20), 3).tolist(), list(range(3)) * 20)
    ratings = truth + rng.normal(size=(3, 60)) / 4
    three, two = RatersApart(ratings, design), RatersApart(ratings[:2], design)
    bounds = three.interval("spearman", "pooled", draws=200)
    value = three.ceiling("spearman").value
    assert isinstance(bounds, Interval)
    assert isinstance(value, float)
    assert bounds.low < value < bounds.high
    assert two.symmetric
    assert len(set(two.ceiling("spearman").each)) == 1
    ratings[0, 0] = GAP
    assert isinstance(RatersApart(ratings, design).interval("spearman"), Missing)

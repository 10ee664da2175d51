"""Soft pairwise accuracy, checked against its definition."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import ndtr

from capeval.stats import soft_accuracy as soft_module
from capeval.stats.comparison import MetricComparison
from capeval.stats.design import Design
from capeval.stats.human_ceiling import RatersApart
from capeval.stats.pair import Pair
from capeval.stats.resampling import coins, same_draws
from capeval.stats.soft_accuracy import (
    UNASKED,
    SoftAccuracy,
    compare_soft,
    resampled_soft,
    soft_accuracy,
)
from capeval.stats.soft_ceiling import soft_ceiling
from capeval.stats.values import Floats, Interval, Mask, Missing, PValue
from tests.stats.making import scores


def _published(metric: Floats, human: Floats, turned: Mask) -> float:
    """Return the statistic of (systems, videos) scores as the paper defines it, pair by pair.

    p of a pair is the share of permutations, rows of `turned`, in which its difference is at least
    as large as observed. NaN marks a caption that is missing.
    """
    gaps = []
    for i, j in itertools.combinations(range(len(metric)), 2):
        shared = ~np.isnan(metric[i]) & ~np.isnan(metric[j])
        if not shared.any():
            continue
        p = []
        for side in (metric, human):
            one, two = side[i][shared], side[j][shared]
            reached = 0
            for row in turned[:, shared]:
                first, second = np.where(row, two, one), np.where(row, one, two)
                reached += first.sum() - second.sum() >= one.sum() - two.sum() - 1e-9
            p.append(reached / len(turned))
        gaps.append(abs(p[0] - p[1]))
    return float(1 - np.mean(gaps))


def _both_orders(metric: Floats, human: Floats, turned: Mask) -> float:
    here, there = (
        _published(metric[way], human[way], turned) for way in (slice(None), slice(None, None, -1))
    )
    return (here + there) / 2


def _cells(values: Floats, design: Design) -> Floats:
    cells = np.full((design.systems, design.videos), np.nan)
    cells[design.system, design.video] = values
    return cells


def _turned(videos: int, seed: int = 0) -> Mask:
    return np.asarray(np.concatenate(list(coins(videos, 1_000, seed))) == 0)


@pytest.mark.parametrize("kept", [1.0, 0.7])
def test_it_is_the_published_one(kept: float) -> None:
    x, y, whole = scores(9, 4)
    rows = np.random.default_rng(1).random(len(x)) < kept
    x, y, design = x[rows], y[rows], whole.take(rows)
    found = soft_accuracy(Pair.of(x, y, design), seed=3)
    cells = _cells(x, design), _cells(y, design)
    expected = _both_orders(*cells, _turned(design.videos, 3))
    assert found.value == pytest.approx(expected, abs=1e-12)
    for system, value in enumerate(found.without):
        metric, human = (np.delete(side, system, axis=0) for side in cells)
        rest = _both_orders(metric, human, _turned(design.videos, 3))
        assert value == pytest.approx(rest, abs=1e-12)


def test_without_ties_it_is_the_published_one_in_any_order() -> None:
    rng = np.random.default_rng(0)
    design = Design(np.repeat(np.arange(30), 3), np.tile(np.arange(3), 30))
    x, y = rng.normal(size=(2, 90))
    expected = _published(_cells(x, design), _cells(y, design), _turned(30))
    assert soft_accuracy(Pair.of(x, y, design)).value == pytest.approx(expected, abs=1e-12)


def test_neither_unit_nor_order_of_systems_matters() -> None:
    x, y, design = scores(12, 5)
    value = soft_accuracy(Pair.of(x, y, design)).value
    turned = Design(design.video, 4 - design.system)
    assert soft_accuracy(Pair.of(x, y, turned)).value == pytest.approx(value)
    assert soft_accuracy(Pair.of(3 * x + 7, y, design)).value == pytest.approx(value)


def test_the_human_scores_agree_with_themselves_and_their_reverse_does_not() -> None:
    _, y, design = scores(40, 5)
    assert soft_accuracy(Pair.of(y, y, design)).value == 1.0
    low = soft_accuracy(Pair.of(-y, y, design)).value
    assert isinstance(low, float)
    assert low < 0.5


@pytest.mark.parametrize("systems", [4, 8])
def test_p_is_of_other_orders_of_the_systems(systems: int) -> None:
    _, y, design = scores(60, systems)
    rng = np.random.default_rng(0)
    apart = y + 2.0 * design.system
    good = soft_accuracy(Pair.of(apart + rng.normal(size=len(y)), apart, design), draws=999).p
    noise = soft_accuracy(Pair.of(rng.normal(size=len(y)), apart, design), draws=999).p
    assert isinstance(good, PValue)
    assert isinstance(noise, PValue)
    if systems == 4:
        # Of 24 orders, that of the raters and its reverse are furthest from the mean.
        assert good.p == pytest.approx(2 / 24)
        assert good.method == "exact permutation of systems"
    else:
        assert good.p < 0.01
        assert good.method == "permutation of systems"
    assert noise.p > 0.05


@pytest.mark.parametrize(
    ("x", "y", "systems", "reason"),
    [
        ([1.0, 2, 3, 4], [1.0, 2, 3, 4], "aaaa", "1 system; soft pairwise accuracy needs 2"),
        ([1.0, 1, 1, 1], [1.0, 2, 3, 4], "abab", "the metric is constant"),
        ([1.0, 2, 3, 4], [1.0, 1, 1, 1], "abab", "the human scores are constant"),
        ([1.0, 2, 3, 4], [1.0, 2, 3, 4], "aabb", "no two systems have a video in common"),
    ],
)
def test_what_has_no_value_says_why(
    x: list[float], y: list[float], systems: str, reason: str
) -> None:
    videos = "1234" if systems in ("aaaa", "aabb") else "1122"
    pair = Pair.of(x, y, Design.of(videos, systems))
    missing = Missing(reason)
    assert soft_accuracy(pair) == SoftAccuracy(missing, missing, missing)
    compared = compare_soft(pair, pair)
    assert compared.difference == Missing(reason)


@pytest.mark.parametrize("kept", [1.0, 0.7])
def test_resamples_are_of_whole_videos(kept: float) -> None:
    x, y, whole = scores(8, 4, seed=2)
    rows = np.random.default_rng(1).random(len(x)) < kept
    x, y, design = x[rows], y[rows], whole.take(rows)
    values = resampled_soft(Pair.of(x, y, design), 20, 5)
    metric, human = _cells(x, design), _cells(y, design)
    first, second = np.triu_indices(4, 1)

    def limit(cells: Floats, drawn: Floats) -> Floats:
        gaps = np.repeat(cells[first] - cells[second], drawn.astype(int), axis=1)
        with np.errstate(invalid="ignore"):
            return np.asarray(ndtr(-np.nansum(gaps, 1) / np.sqrt(np.nansum(gaps**2, 1))))

    for value, drawn in zip(values, np.concatenate(list(same_draws(8, 20, 5))), strict=True):
        expected = 1 - np.nanmean(np.abs(limit(metric, drawn) - limit(human, drawn)))
        assert value == pytest.approx(expected, abs=1e-6)


def test_value_and_difference_have_intervals_that_agree_with_p() -> None:
    x, y, design = scores(30, 6, seed=4)
    y = y + 0.4 * design.system
    noise = np.random.default_rng(3).normal(size=len(x))
    pairs = [Pair.of(y + 0.5 * noise, y, design), Pair.of(noise, y, design)]
    one = soft_accuracy(pairs[0], resamples=500)
    assert isinstance(one.value, float)
    assert isinstance(one.interval, Interval)
    assert 0 <= one.interval.low < one.value < one.interval.high <= 1
    assert soft_accuracy(pairs[0]).interval == UNASKED
    seen = set()
    for share in (0.0, 1.0):
        other = Pair.of(y + 0.5 * noise + share * (noise - 0.4 * design.system), y, design)
        found = compare_soft(pairs[0], pairs[1] if share else other, resamples=500)
        assert isinstance(found.p, float)
        if isinstance(found.interval, Interval):
            inside = found.interval.low <= 0 <= found.interval.high
            assert inside == (found.p >= 0.05)
            seen.add(inside)
    assert seen == {True, False}


def test_a_better_metric_is_told_from_noise_and_not_from_itself() -> None:
    x, y, design = scores(60, 8)
    y = y + 0.5 * design.system
    good = Pair.of(y + np.random.default_rng(0).normal(size=len(y)), y, design)
    noise = Pair.of(np.random.default_rng(1).normal(size=len(y)), y, design)
    found = compare_soft(good, noise, draws=499)
    assert isinstance(found.p, float)
    assert found.p < 0.02
    same = compare_soft(good, good, draws=99)
    assert same == MetricComparison(0.0, 1.0, "bootstrap", 8, 1, 0, UNASKED)
    few = compare_soft(
        *(Pair.of(v[:16], y[:16], design.take(np.arange(len(y)) < 16)) for v in (x, y))
    )
    assert isinstance(few.p, Missing)


def test_a_ceiling_is_the_mean_over_raters_with_the_others() -> None:
    x, y, design = scores(20, 5, seed=6)
    third = np.random.default_rng(0).normal(size=len(x))
    ratings = np.stack([x, y, third])
    found, bounds = soft_ceiling(RatersApart(ratings, design), resamples=300)
    others = [(y + third) / 2, (x + third) / 2, (x + y) / 2]
    each = [
        soft_accuracy(Pair.of(a, b, design)).value for a, b in zip(ratings, others, strict=True)
    ]
    assert found.each == tuple(each)
    assert found.value == pytest.approx(np.mean([v for v in each if isinstance(v, float)]))
    assert isinstance(bounds, Interval)
    assert isinstance(found.value, float)
    assert bounds.low < found.value < bounds.high
    ratings[0, 0] = np.nan
    some, reason = soft_ceiling(RatersApart(ratings, design), resamples=300)
    assert isinstance(some.value, float)
    assert reason == Missing("not every rater rated every caption")


def test_many_systems_are_worked_on_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, design = scores(6, 30)
    pair = Pair.of(x, y, design)
    whole = soft_accuracy(pair, draws=99, resamples=199)
    sizes: list[int] = []
    original = soft_module._limit

    def limit(sums: Floats, squares: Floats) -> Floats:
        sizes.append(sums.size)
        return original(sums, squares)

    monkeypatch.setattr("capeval.stats.soft_accuracy._BLOCK", 5_000)
    monkeypatch.setattr("capeval.stats.soft_accuracy._limit", limit)
    found = soft_accuracy(Pair.of(x, y, design), draws=99, resamples=199)
    assert max(sizes) <= 5_000
    assert (found.value, found.p, found.without) == (whole.value, whole.p, whole.without)
    assert isinstance(found.interval, Interval)
    assert isinstance(whole.interval, Interval)
    assert found.interval.low == pytest.approx(whole.interval.low, abs=1e-14)
    assert found.interval.high == pytest.approx(whole.interval.high, abs=1e-14)


@pytest.mark.parametrize(("systems", "draws"), [(1_500, 1), (460, 10_000)])
def test_too_many_systems_are_refused_however_few_the_videos(systems: int, draws: int) -> None:
    rng = np.random.default_rng(0)
    design = Design(np.repeat(np.arange(2), systems), np.tile(np.arange(systems), 2))
    x, y, z = rng.normal(size=(3, 2 * systems))
    one, two = Pair.of(x, z, design), Pair.of(y, z, design)
    reason = Missing(f"{systems} systems are too many to compare each with each")
    assert soft_accuracy(one, draws=draws).value == reason
    assert compare_soft(one, two, draws=draws).difference == reason

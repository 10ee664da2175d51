"""Simulations of the error of a difference: cheap, and each fails without what it is about."""

from __future__ import annotations

import numpy as np

from capeval.stats.comparison import compare
from capeval.stats.design import Design
from capeval.stats.groupings import POOLED
from capeval.stats.jackknife import without_each_video, without_two_videos
from capeval.stats.jackknife_error import jackknife_error
from capeval.stats.pair import Pair
from capeval.stats.statistic import KENDALL_B
from capeval.stats.values import Floats, Missing


def test_the_corrected_variance_is_that_of_simulated_differences() -> None:
    rng = np.random.default_rng(0)
    videos, use = 20, np.array([True])
    design = Design.of(range(videos))
    found = []
    for _ in range(500):
        true = rng.normal(size=videos)
        human = true + 0.3 * rng.normal(size=videos)
        pairs = [Pair.of(true + rng.normal(size=videos), human, design) for _ in range(2)]
        whole, each, both = [], [], []
        for pair in pairs:
            without = without_each_video(pair.by(KENDALL_B, POOLED, only=use))
            without_two = without_two_videos(pair.by(KENDALL_B, POOLED, only=use))
            assert not isinstance(without, Missing)
            assert without_two is not None
            whole.append(float(pair.values(KENDALL_B, "pooled")[0]))
            each.append(without)
            both.append(without_two)
        gap, gaps, of_pairs = whole[0] - whole[1], each[0] - each[1], both[0] - both[1]
        corrected, plain = (jackknife_error(gap, gaps, two).error ** 2 for two in (of_pairs, None))
        found.append((gap, corrected, plain))
    gaps, corrected, plain = np.array(found).T
    # The variance of 500 differences is right to 6%.
    assert 0.85 < corrected.mean() / gaps.var() < 1.15
    assert plain.mean() / gaps.var() > 1.15


def test_few_videos_that_move_the_most_are_few_degrees_of_freedom() -> None:
    even = np.tile([1.0, -1.0], 10)
    heavy = np.where(np.arange(20) < 2, even, even / 10)
    freedom = [jackknife_error(0.0, values, None).freedom for values in (even, heavy)]
    assert freedom[0] == 19
    assert 1 <= freedom[1] < 6


def test_a_missing_value_leaves_the_variance_uncorrected() -> None:
    rng = np.random.default_rng(2)
    without, without_two = 0.5 + 0.02 * rng.normal(size=20), 0.5 + 0.03 * rng.normal(size=190)
    whole = float(without.mean())
    assert jackknife_error(whole, without, without_two) != jackknife_error(whole, without, None)
    without[3] = np.nan
    plain = jackknife_error(whole, without, None)
    assert jackknife_error(whole, without, without_two) == plain
    assert plain == jackknife_error(whole, np.delete(without, 3), None)


def test_metrics_that_rank_systems_equally_well_but_differently_are_seldom_called_different() -> (
    None
):
    rng = np.random.default_rng(1)
    systems, videos, runs = 5, 40, 150
    design = Design(np.repeat(np.arange(videos), systems), np.tile(np.arange(systems), videos))
    rejected = 0
    for _ in range(runs):
        human = rng.normal(size=systems)
        human = (human - human.mean()) / human.std()
        first, second = (_related(human, 0.6, rng) for _ in range(2))
        caption = rng.normal(size=(videos, systems))
        y = human + caption + 0.3 * rng.normal(size=caption.shape)
        pairs = [
            Pair.of((means + caption + rng.normal(size=caption.shape)).ravel(), y.ravel(), design)
            for means in (first, second)
        ]
        p = compare(pairs, ["pearson"], "system", draws=199)["pearson"][0].p
        rejected += isinstance(p, float) and p <= 0.05
    # Swaps of the metrics in whole videos reject 20%.
    assert rejected / runs < 0.11


def _related(human: Floats, r: float, rng: np.random.Generator) -> Floats:
    """Return means of systems with a correlation of just r."""
    rest = rng.normal(size=len(human))
    rest -= rest.mean()
    rest -= (rest @ human) / (human @ human) * human
    return np.asarray(r * human + np.sqrt(1 - r**2) * rest / rest.std())

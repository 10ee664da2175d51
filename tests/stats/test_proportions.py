"""Intervals of clustered proportions, against scipy and simulations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from capeval.stats.video_ratios import (
    FEWEST_CLUSTERS,
    LEAST_CORRELATION,
    design_effect,
    wilson,
)


@pytest.mark.parametrize(("correct", "n"), [(0, 5), (3, 7), (50, 50), (93, 100), (1, 1)])
def test_wilson_is_that_of_scipy(correct: int, n: int) -> None:
    expected = stats.binomtest(correct, n).proportion_ci(method="wilson")
    assert wilson(correct / n, n) == pytest.approx(tuple(expected), abs=1e-12)


def test_nothing_observed_says_nothing() -> None:
    assert wilson(0.0, 0) == (0.0, 1.0)
    assert design_effect(np.array([]), np.array([])) == 1.0
    assert design_effect(np.array([0.0]), np.array([0.0])) == 1.0


def test_design_effect_is_the_ratio_of_variances() -> None:
    # Clusters that are all right or all wrong: each counts once.
    n = np.full(40, 5.0)
    correct = np.where(np.arange(40) % 2, 5.0, 0.0)
    assert design_effect(correct, n) == pytest.approx(5 * 40 / 39)
    # One observation each: independent, but for the correction of the small sample.
    assert design_effect(correct / 5, n / 5) == pytest.approx(40 / 39)


def test_design_effect_has_a_floor_where_it_cannot_be_estimated() -> None:
    n = np.full(30, 17.0)
    assert design_effect(n, n) == pytest.approx(1 + 16 * LEAST_CORRELATION)
    few = n[: FEWEST_CLUSTERS - 1]
    assert design_effect(few, few) == 17
    enough = n[:FEWEST_CLUSTERS]
    assert design_effect(enough, enough) == pytest.approx(1 + 16 * LEAST_CORRELATION)


@pytest.mark.parametrize("clusters", [20, 60])
@pytest.mark.parametrize(("size", "correlation"), [(17, 0.1), (17, 0.03), (3, 0.1)])
@pytest.mark.parametrize("proportion", [0.85, 0.95, 0.99])
def test_intervals_cover(clusters: int, size: int, correlation: float, proportion: float) -> None:
    rng = np.random.default_rng(5)
    scale = (1 - correlation) / correlation
    covered = 0
    for _ in range(400):
        chance = rng.beta(proportion * scale, (1 - proportion) * scale, clusters)
        n = rng.poisson(size - 1, clusters).astype(np.float64) + 1.0
        correct = rng.binomial(n.astype(int), chance).astype(float)
        share = float(correct.sum() / n.sum())
        low, high = wilson(share, n.sum() / design_effect(correct, n))
        covered += low <= proportion <= high
    # Nominally 95%; three standard errors of 400 simulations are 3.3 points.
    assert covered / 400 > 0.91

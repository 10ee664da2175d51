from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from capeval.stats.values import FEWEST_VIDEOS, Floats, difference_intervals, mean_intervals

FRACTIONS = (0.0, 1.0)


def halls(values: Floats) -> tuple[float, float]:
    """Hall's interval, with the equation of the transformation solved numerically."""
    n = len(values)
    skewness = float(stats.skew(values, bias=False))
    quantile = stats.t.ppf(0.975, n - 2) / np.sqrt(n)

    def transformed(u: float) -> float:
        return u + skewness * u**2 / 3 + skewness**2 * u**3 / 27 + skewness / (6 * n)

    ends = [
        optimize.brentq(lambda u, q=q: transformed(u) - q, -1e4, 1e4) for q in (quantile, -quantile)
    ]
    ends = [float(np.clip(end, -2.5 * quantile, 2.5 * quantile)) for end in ends]
    low, high = (values.mean() - values.std(ddof=1) * end for end in ends)
    return float(low), float(high)


@pytest.mark.parametrize("n", [8, 13, 60])
@pytest.mark.parametrize("shape", [(2, 3), (9, 1), (0.2, 4)])
def test_ends_are_those_of_halls_equation_solved_numerically(
    n: int, shape: tuple[float, float]
) -> None:
    values = np.random.default_rng(n).beta(*shape, size=(n, 5))
    low, high = mean_intervals(values)
    for column in range(5):
        assert (low[column], high[column]) == pytest.approx(halls(values[:, column]), abs=1e-9)


@pytest.mark.parametrize(("rows", "has"), [(0, False), (1, False), (7, False), (8, True)])
def test_fewer_than_eight_videos_have_no_interval(rows: int, has: bool) -> None:
    values = np.linspace(0, 1, 2 * rows).reshape(rows, 2)
    assert (~np.isnan(mean_intervals(values)) == has).all()


def test_missing_values_are_as_if_the_rows_were_not_there() -> None:
    values = np.random.default_rng(1).beta(1, 3, size=(30, 3))
    values[::3, 1] = np.nan
    values[7:, 2] = np.nan
    low, high = mean_intervals(values, limits=FRACTIONS)
    alone = mean_intervals(values[~np.isnan(values[:, 1]), 1][:, None], limits=FRACTIONS)
    assert (low[1], high[1]) == pytest.approx((alone.low[0], alone.high[0]))
    assert np.isnan([low[2], high[2]]).all()


@pytest.mark.parametrize("value", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("n", [8, 40])
def test_equal_values_have_the_limits_of_clopper_and_pearson(value: float, n: int) -> None:
    low, high = mean_intervals(np.full((n, 1), value), limits=FRACTIONS)
    missed = stats.binomtest(0, n).proportion_ci(method="exact").high
    assert (low[0], high[0]) == pytest.approx((value * (1 - missed), value + missed * (1 - value)))
    # Without limits nothing is known of what could be missed.
    assert np.ravel(mean_intervals(np.full((n, 1), value))) == pytest.approx([value, value])


def test_intervals_of_differences_have_the_outer_ends_of_halls_and_students() -> None:
    values = np.random.default_rng(5).normal(size=(30, 40)).clip(-2, 1) / 4
    values[::4, 1] = np.nan
    low, high = difference_intervals(values)
    halls = mean_intervals(values, limits=(-1, 1))
    n = (~np.isnan(values)).sum(axis=0)
    students = stats.t.interval(
        0.95, n - 1, np.nanmean(values, axis=0), np.nanstd(values, axis=0, ddof=1) / np.sqrt(n)
    )
    np.testing.assert_allclose(low, np.minimum(halls.low, students[0]))
    np.testing.assert_allclose(high, np.maximum(halls.high, students[1]))
    # Either can be the longer one.
    assert (low < halls.low).any()
    assert (low < students[0]).any()


def test_differences_are_limited_and_few_have_no_interval() -> None:
    wide = np.tile([-1.0, 1.0], 4)[:, None]
    assert np.ravel(difference_intervals(wide)) == pytest.approx([-0.89, 0.89], abs=0.11)
    assert np.isnan(difference_intervals(wide[:7])).all()
    low, high = difference_intervals(np.zeros((10, 1)))
    missed = stats.binomtest(0, 10).proportion_ci(method="exact").high
    assert (low[0], high[0]) == pytest.approx((-missed, missed))


def test_differences_that_are_mostly_zero_are_covered() -> None:
    rng = np.random.default_rng(7)
    values = rng.choice([0, -0.4, 0.1, 0.2], p=[0.7, 0.04, 0.16, 0.1], size=(20, 4_000))
    low, high = difference_intervals(values)
    # Hall's interval alone covers 89%; the standard error is .35%.
    assert np.mean((low <= 0.02) & (high >= 0.02)) >= 0.94


@pytest.mark.parametrize("intervals", [mean_intervals, difference_intervals])
def test_rows_of_one_video_do_not_count_as_independent(intervals: Any) -> None:
    values = np.random.default_rng(2).normal(size=(20, 2)) / 5
    once = intervals(values)
    again = intervals(np.tile(values, (3, 1)), rows_per_video=3)
    np.testing.assert_allclose(once, again, atol=1e-12)
    assert np.isnan(intervals(values[:7].repeat(3, axis=0), rows_per_video=3)).all()


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0, 1)), min_size=8, max_size=40)
)
def test_ends_are_fractions_around_the_mean_and_mirror_with_the_values(found: list[float]) -> None:
    values = np.array(found)[:, None]
    low, high = mean_intervals(values, limits=FRACTIONS)
    assert 0 <= low[0] <= values.mean() + 1e-12
    assert values.mean() - 1e-12 <= high[0] <= 1
    mirrored = mean_intervals(1 - values, limits=FRACTIONS)
    assert (1 - mirrored.high[0], 1 - mirrored.low[0]) == pytest.approx((low[0], high[0]), abs=1e-6)


WORLDS = {
    "usual": (0.0, 0.9, 0.15, 0.0),
    "weak captions": (-2.5, 1.0, 0.35, 0.0),
    "strong captions": (2.2, 1.2, 0.05, 0.0),
    "one caption in five fails": (0.6, 0.8, 0.1, 0.2),
}
"""Mean and standard deviation of a video's logit, share contradicted, share of failed captions."""


def simulate(world: str, videos: int, runs: int, seed: int) -> Floats:
    """Return (videos, runs x 3) precision, recall and F1 of captions of 8 to 35 elements."""
    rng = np.random.default_rng(seed)
    centre, spread, contradicted, failed = WORLDS[world]
    size = (videos, runs)
    elements = rng.integers(8, 36, size=size)
    chance = 1 / (1 + np.exp(-rng.normal(centre, spread, size=size)))
    entailed = rng.binomial(elements, np.where(rng.random(size) < failed, 0.0, chance))
    wrong = rng.binomial(elements - entailed, contradicted)
    precision = entailed / np.maximum(entailed + wrong, 1)
    f1 = 2 * entailed / (entailed + wrong + elements)
    return np.stack([precision, entailed / elements, f1])


@cache
def true_means(world: str) -> Floats:
    return np.asarray(simulate(world, 1_000, 1_000, seed=7).mean(axis=(1, 2)))


@pytest.mark.slow
@pytest.mark.parametrize("videos", [FEWEST_VIDEOS, 20, 40])
@pytest.mark.parametrize("world", WORLDS)
def test_intervals_of_f1_and_recall_cover_the_true_mean(world: str, videos: int) -> None:
    truth = true_means(world)
    for values, true in zip(
        simulate(world, videos, 4_000, seed=videos)[1:], truth[1:], strict=True
    ):
        low, high = mean_intervals(values, limits=FRACTIONS)
        # 93.3% in the worst of these worlds, less two standard errors of a share of 4,000.
        assert np.mean((low <= true) & (true <= high)) >= 0.925


@pytest.mark.slow
@pytest.mark.parametrize(("videos", "least"), [(FEWEST_VIDEOS, 0.80), (20, 0.85), (40, 0.93)])
def test_intervals_of_precision_with_zeros_cover_less(videos: int, least: float) -> None:
    rng = np.random.default_rng(videos)

    def precision(runs: int, seed: int) -> Floats:
        values = simulate("usual", videos, runs, seed)[0]
        return np.where(rng.random(values.shape) < 0.08, 0.0, 0.5 + values / 2)

    truth = precision(20_000, 0).mean()
    low, high = mean_intervals(precision(2_000, 99), limits=FRACTIONS)
    assert np.mean((low <= truth) & (truth <= high)) >= least

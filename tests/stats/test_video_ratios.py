import numpy as np
import pytest
from scipy import stats

from capeval.stats.values import Floats, Interval, Missing
from capeval.stats.video_ratios import (
    FEWEST_CLUSTERS,
    LEAST_CORRELATION,
    VideoRatios,
    design_effect,
    percentiles,
    share_ends,
    wilson,
)


def answers(
    rng: np.random.Generator, videos: int, sets: int, share: float, alike: float
) -> tuple[Floats, Floats]:
    """Return right answers and questions of sets of videos with 1 to 10 questions each.

    `alike` is the correlation of two questions about a video.
    """
    asked = rng.integers(1, 11, (videos, sets))
    size = 1 / alike - 1
    right = rng.binomial(asked, rng.beta(share * size, (1 - share) * size, asked.shape))
    return right.astype(np.float64), asked.astype(np.float64)


def covered(intervals: list[Interval | Missing], true: float) -> float:
    found = [one for one in intervals if isinstance(one, Interval)]
    return sum(one.low <= true <= one.high for one in found) / len(found)


def test_ends_of_single_questions_are_those_of_wilson_with_t() -> None:
    right = np.repeat([1.0, 0.0], [17, 3])
    t = stats.t.ppf(0.975, 19)
    for end in share_ends(right, np.ones(20)):
        # The ends are the shares that are t standard errors of their own away.
        assert abs(0.85 - end) == pytest.approx(t * np.sqrt(end * (1 - end) / 19))


def test_videos_that_do_not_differ_count_every_question() -> None:
    low, high = share_ends(np.ones(20), np.full(20, 2.0))
    found = stats.binomtest(20, 40).proportion_ci(
        confidence_level=1 - 2 * stats.norm.sf(stats.t.ppf(0.975, 19)), method="wilson"
    )
    assert (low, high) == pytest.approx((found.low, found.high))


def test_every_video_is_resampled() -> None:
    one_is_wrong = VideoRatios(1 - np.eye(8), np.ones((8, 8)))
    for at in range(8):
        found = one_is_wrong.ratio(at, np.ones(8, dtype=np.bool_))
        assert isinstance(found, Interval)
        assert found.low < 0.7


@pytest.mark.parametrize(("share", "least"), [(0.95, 0.92), (0.5, 0.93), (0.05, 0.92)])
def test_accuracies_near_the_limits_are_covered(share: float, least: float) -> None:
    """Percentiles alone cover 88% at 5 and 95%."""
    right, asked = answers(np.random.default_rng(1), 40, 500, share, 0.3)
    found = VideoRatios(right, asked, resamples=1000)
    assert covered([found.share(at) for at in range(500)], share) >= least


@pytest.mark.parametrize("videos", [8, 20])
def test_ratios_to_few_right_answers_are_covered(videos: int) -> None:
    """Percentiles alone cover 84% with 8 videos, and 90% with 20."""
    rng = np.random.default_rng(2)
    hard = np.sqrt(0.7) * rng.normal(size=(videos, 800))
    upper, lower = (
        (hard + np.sqrt(0.3) * rng.normal(size=hard.shape) < stats.norm.ppf(share)).astype(float)
        for share in (0.15, 0.1)
    )
    found = VideoRatios(upper, lower, resamples=1000)
    present = np.ones(videos, dtype=np.bool_)
    assert covered([found.ratio(at, present) for at in range(800)], 1.5) >= 0.94


def test_relative_changes_of_small_groups_are_covered() -> None:
    rng = np.random.default_rng(3)
    groups, sets = 10, 400
    # The first ten videos are in the group, the other fifty in its base.
    right = (rng.random((60, sets)) < 0.3).astype(np.float64)
    inside = (np.arange(60) < groups)[:, None].astype(np.float64)
    asked = np.repeat(np.hstack([inside, 1 - inside]), sets, axis=1)
    found = VideoRatios(np.hstack([right, right]) * asked, asked, resamples=1000)
    changes = [found.share_change(at, sets + at) for at in range(sets)]
    assert covered(changes, 0.0) >= 0.94
    lows = [change.low for change in changes if not isinstance(change, Missing)]
    assert -1.0 <= min(lows) < -0.3


def test_share_above_a_group_without_right_answers_has_no_change() -> None:
    asked = np.ones((20, 2))
    right = np.stack([np.zeros(20), np.ones(20)], axis=1)
    found = VideoRatios(right, asked)
    assert found.share_change(0, 1) == Missing("no answer of one side is right")
    exact = stats.binomtest(20, 20).proportion_ci(method="exact")
    all_right = found.share(1)
    assert isinstance(all_right, Interval)
    assert (all_right.low, all_right.high) == pytest.approx((exact.low, 1))


# Proportions of clusters


@pytest.mark.parametrize(("correct", "n"), [(0, 5), (3, 7), (50, 50), (93, 100), (1, 1)])
def test_wilson_is_that_of_scipy(correct: int, n: int) -> None:
    expected = stats.binomtest(correct, n).proportion_ci(method="wilson")
    assert wilson(correct / n, n) == pytest.approx(tuple(expected), abs=1e-12)


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


# Percentiles of resamples


def test_expanded_percentiles_reach_out_as_far_as_t() -> None:
    values = stats.norm.ppf((np.arange(100_000) + 0.5) / 100_000) * np.sqrt(39 / 40)
    found = percentiles(values, units=40, around=0.0)
    assert isinstance(found, Interval)
    assert found.high == pytest.approx(stats.t.ppf(0.975, 39), abs=1e-3)


def test_most_resamples_need_a_value() -> None:
    found = percentiles(np.array([np.nan, np.nan, 1.0]), units=9, around=1.0)
    assert found == Missing("most resamples have no value")


def test_a_value_outside_its_resamples_has_an_interval_around_it() -> None:
    found = percentiles(np.linspace(0.49, 0.75, 1_001), units=1_000_000, around=0.455)
    assert isinstance(found, Interval)
    assert 0.455 - found.low == pytest.approx(found.high - 0.455)
    assert found.high == pytest.approx(0.737, abs=1e-3)

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from capeval.stats.correlation import STATISTICS, Design, correlated
from capeval.stats.values import (
    Floats,
    GroupingName,
    Inference,
    Missing,
    jackknife,
    jackknife_difference,
)

GROUPED: tuple[GroupingName, ...] = ("pooled", "item", "within_system")


def scores(videos: int, systems: int, seed: int) -> tuple[Floats, Floats, Floats, Design]:
    """Return two metrics, one of which is better, the human scores and the design."""
    rng = np.random.default_rng(seed)
    design = Design(np.repeat(np.arange(videos), systems), np.tile(np.arange(systems), videos))
    human = rng.normal(size=videos)[design.video] + rng.normal(size=design.rows)
    good, poor = (human + noise * rng.normal(size=design.rows) for noise in (1, 2))
    return good, poor, human, design


def of(
    metrics: Sequence[Floats], y: Floats, design: Design, grouping: GroupingName, name: str
) -> list[tuple[float, Floats]]:
    """Return each metric's value and those without each video, of the groups that all have."""
    found = [correlated(x, y, design, grouping) for x in metrics]
    one = STATISTICS[name]
    use = np.all([~np.isnan(each.values(one)) for each in found], axis=0)
    return [(float(each.values(one)[use].mean()), each.left_out(one, use)) for each in found]


def test_the_interval_of_a_mean_is_students_on_fishers_scale() -> None:
    values = np.array([0.1, 0.5, 0.2, 0.4, 0.3, 0.6])
    without = (values.sum() - values) / 5
    found = jackknife(float(values.mean()), without)
    assert isinstance(found, Inference)
    # By the delta method the ends are nearly those of Student's t on the scale of the values.
    half = 2.5706 * values.std(ddof=1) / np.sqrt(6)
    assert found.low == pytest.approx(values.mean() - half, abs=0.02)
    assert found.high == pytest.approx(values.mean() + half, abs=0.02)


def test_a_difference_has_satterthwaites_degrees_of_freedom() -> None:
    first = np.array([0.1, 0.5, 0.2, 0.4, 0.3, 0.6])
    # One video makes nearly all of the difference.
    second = first - np.array([0.01, 0.0, 0.01, 0.0, 0.02, 0.5])
    rest = [(one.sum() - one) / 5 for one in (first, second)]
    found = jackknife_difference((first.mean(), second.mean()), (rest[0], rest[1]))
    assert isinstance(found, Inference)
    apart = np.arctanh(rest[0]) - np.arctanh(rest[1])
    moved = (apart - apart.mean()) ** 2
    error = np.sqrt(moved.sum() * 5 / 6)
    freedom = min(max(3 * moved.sum() ** 2 / (moved**2).sum() - 2, 1), 5)
    t = (np.arctanh(first.mean()) - np.arctanh(second.mean())) / error
    assert found.p == pytest.approx(2 * stats.t.sf(t, freedom))
    assert freedom < 5


@pytest.mark.parametrize("grouping", GROUPED)
@pytest.mark.parametrize("name", list(STATISTICS))
@given(seed=st.integers(0, 10**6))
@settings(deadline=None, max_examples=15)
def test_an_interval_has_its_value_and_leaves_zero_out_just_where_p_is_small(
    grouping: GroupingName, name: str, seed: int
) -> None:
    good, poor, human, design = scores(8, 4, seed)
    first, second = of([good, poor], human, design, grouping, name)
    value, without = second
    found = jackknife(value, without)
    if isinstance(found, Inference):
        assert -1 <= found.low <= value <= found.high <= 1
        assert (found.low <= 0 <= found.high) == (found.p >= 0.05)
    apart = jackknife_difference((first[0], second[0]), (first[1], second[1]))
    if isinstance(apart, Inference):
        assert apart.low <= first[0] - second[0] <= apart.high
        assert (apart.low <= 0 <= apart.high) == (apart.p >= 0.05)
        other = jackknife_difference((second[0], first[0]), (second[1], first[1]))
        assert isinstance(other, Inference)
        assert (other.low, other.high) == pytest.approx((-apart.high, -apart.low))
        assert other.p == pytest.approx(apart.p)


@pytest.mark.parametrize(
    ("value", "without", "reason"),
    [
        (0.5, [0.4, 0.5, 0.6, 0.5], "4 videos are too few for an interval: at least 5"),
        (1 - 1e-12, [0.8] * 9, "the value, or that without one of the videos, is perfect"),
        (1.0, [1.0] * 9, "the value, or that without one of the videos, is perfect"),
        (0.9, [0.8] * 8 + [1.0], "the value, or that without one of the videos, is perfect"),
        (0.5, [0.5] * 9, "no video changes the value"),
        (0.5, [0.5] * 8 + [float("nan")], "leaving out one video leaves no value"),
    ],
)
def test_there_is_no_interval_with_a_reason(
    value: float, without: list[float], reason: str
) -> None:
    assert jackknife(value, np.array(without)) == Missing(reason)


def test_a_metric_does_not_differ_from_itself_and_a_perfect_one_has_no_error() -> None:
    good, _, human, design = scores(20, 1, 0)
    one, perfect = of([good, human], human, design, "pooled", "spearman")
    same = jackknife_difference((one[0], one[0]), (one[1], one[1]))
    assert same == Missing("the metrics do not differ in any video")
    found = jackknife_difference((perfect[0], one[0]), (perfect[1], one[1]))
    assert found == Missing("the value, or that without one of the videos, is perfect")


@pytest.mark.slow
@pytest.mark.parametrize(("systems", "grouping"), [(1, "pooled"), (4, "item")])
def test_intervals_cover_and_differences_of_equals_are_found_as_often_as_they_say(
    systems: int, grouping: GroupingName
) -> None:
    # Shares of 20 elements: bounded and tied. Half of each metric's error is shared by a video.
    rng = np.random.default_rng(4)
    names, runs = ("kendall_b", "pearson"), 100

    def draw(videos: int) -> tuple[list[Floats], Design]:
        design = Design(np.repeat(np.arange(videos), systems), np.tile(np.arange(systems), videos))

        def noise() -> Floats:
            shared = rng.normal(size=videos)[design.video]
            return np.asarray(0.5 * shared + 0.7 * rng.normal(size=design.rows))

        human = noise()
        shares = [1 / (1 + np.exp(-(human + part))) for part in (0 * human, noise(), noise())]
        return [rng.binomial(20, share) / 20 for share in shares], design

    (y, x, _), design = draw(1_500 // systems)
    truth = {name: of([x], y, design, grouping, name)[0][0] for name in names}
    covered, differ = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
    for _ in range(runs):
        (y, *metrics), design = draw(40)
        for name in names:
            first, second = of(metrics, y, design, grouping, name)
            found = jackknife(*first)
            apart = jackknife_difference((first[0], second[0]), (first[1], second[1]))
            assert isinstance(found, Inference)
            assert isinstance(apart, Inference)
            covered[name] += found.low <= truth[name] <= found.high
            differ[name] += apart.p < 0.05
    # Three standard errors of 100 runs are 6.5 points.
    assert all(count / runs >= 0.885 for count in covered.values()), covered
    assert all(count / runs <= 0.115 for count in differ.values()), differ

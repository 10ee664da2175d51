"""A grouping that capeval does not have is one object: everything else works for it."""

from __future__ import annotations

import numpy as np
import pytest

from capeval.stats.comparison import leave_one_system_out
from capeval.stats.design import Design
from capeval.stats.groupings import POOLED, WITHIN_SYSTEM, Grouping
from capeval.stats.human_ceiling import RatersApart
from capeval.stats.intervals import Kind, interval
from capeval.stats.pair import Pair
from capeval.stats.pairwise import calibrate
from capeval.stats.significance import p_value
from capeval.stats.statistic import STATISTICS
from capeval.stats.values import Interval, PValue
from tests.stats.making import compared, correlate_arrays, scores

TOPIC = Grouping(
    "topic",
    "captions of videos of one topic; mean over topics",
    "captions of one topic",
    lambda design: design.video % 2,
)
TOPIC_OF_SYSTEM = Grouping(
    "topic_of_system",
    "captions of one system and topic; mean over both",
    "captions of one system and topic",
    lambda design: design.system * 2 + design.video % 2,
)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_its_value_is_the_mean_over_its_groups(statistic: str) -> None:
    x, y, design = scores(20, 3)
    found = Pair.of(x, y, design).by(statistic, TOPIC)
    odd = design.video % 2 == 1
    each = [correlate_arrays(x[part], y[part], statistic) for part in (~odd, odd)]
    assert found.value == pytest.approx(np.mean([float(str(one)) for one in each]))
    assert (found.n, found.used) == (60, 2)


@pytest.mark.parametrize("grouping", [TOPIC, TOPIC_OF_SYSTEM])
@pytest.mark.parametrize("statistic", STATISTICS)
def test_it_has_an_interval_a_p_comparisons_and_ceilings(
    statistic: str, grouping: Grouping
) -> None:
    x, y, design = scores(24, 3)
    other = np.random.default_rng(1).normal(size=len(x)).round(1)
    value = Pair.of(x, y, design).by(statistic, grouping).value
    assert isinstance(value, float)
    ways: tuple[Kind, ...] = ("bootstrap", "analytic")
    for ci in ways:
        bounds = interval(Pair.of(x, y, design).by(statistic, grouping), ci=ci, draws=200)
        assert isinstance(bounds, Interval)
        assert bounds.low <= value <= bounds.high
    test = p_value(Pair.of(x, y, design).by(statistic, grouping), draws=199)
    assert isinstance(test, PValue)
    assert test.p < 0.05
    difference = compared(x, other, y, design, statistic, grouping, draws=99, resamples=50)
    assert isinstance(difference.p, float)
    assert difference.p < 0.05
    assert isinstance(difference.interval, Interval)
    assert isinstance(calibrate(Pair.of(x, y, design), grouping).value, float)
    ratings = np.stack([x, y, x + y])
    assert isinstance(RatersApart(ratings, design).ceiling(statistic, grouping).value, float)
    assert isinstance(RatersApart(ratings, design).interval(statistic, grouping), Interval)
    left = leave_one_system_out(Pair.of(x, y, design).by(statistic, grouping))
    assert all(isinstance(one, float) for one in left)


def test_its_test_follows_from_whether_its_groups_have_a_video_twice() -> None:
    x, y, design = scores(24, 3)
    tests = [
        p_value(Pair.of(x, y, design).by("kendall_b", one), draws=99)
        for one in (TOPIC, TOPIC_OF_SYSTEM)
    ]
    methods = [one.method for one in tests if isinstance(one, PValue)]
    assert methods == ["bootstrap of videos", "permutation of videos"]


def test_groups_that_are_those_of_another_grouping_give_its_numbers() -> None:
    x, y, design = scores(24, 3)
    same = Grouping("mine", "", "", lambda design: design.system)
    whole = Grouping("everything", "", "", lambda design: np.zeros(design.rows, int), whole=True)
    for mine, known in ((same, WITHIN_SYSTEM), (whole, POOLED)):
        for of in (interval, p_value):
            ways = (Pair.of(x, y, design).by("spearman", one) for one in (mine, known))
            first, second = (of(way, draws=199, seed=1) for way in ways)
            assert first == second


def test_permutations_of_videos_stay_in_their_group() -> None:
    # Topics differ so much that any caption that left its own would make a correlation.
    rng = np.random.default_rng(0)
    design = Design(np.repeat(np.arange(40), 2), np.tile(np.arange(2), 40))
    topic = design.video % 2
    x, y = (rng.normal(size=80) + 100 * topic for _ in range(2))
    test = p_value(Pair.of(x, y, design).by("pearson", TOPIC_OF_SYSTEM), draws=999)
    assert isinstance(test, PValue)
    assert test.p > 0.05

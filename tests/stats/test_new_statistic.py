"""A statistic that capeval does not have is one object: everything else works for it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from capeval.stats.comparison import leave_one_system_out
from capeval.stats.concordance import PairCounts
from capeval.stats.groupings import GROUPINGS
from capeval.stats.human_ceiling import RatersApart
from capeval.stats.intervals import Kind, interval
from capeval.stats.pair import Pair
from capeval.stats.significance import p_value
from capeval.stats.statistic import KENDALL_B, Statistic
from capeval.stats.values import Floats, GroupingName, Interval, PValue
from tests.stats.making import compared, correlate_arrays, scores


def _somers(pairs: PairCounts) -> Floats:
    return np.asarray(pairs.score / pairs.untied_y)


SOMERS = Statistic("somers_d", "Somers' D", KENDALL_B.kind, _somers)


def test_its_value_is_scipys() -> None:
    x, y, _ = scores(30, 1)
    assert correlate_arrays(x, y, SOMERS) == pytest.approx(stats.somersd(y, x).statistic)


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_it_has_a_value_an_interval_a_p_and_comparisons(grouping: GroupingName) -> None:
    x, y, design = scores(20, 6)
    other = np.random.default_rng(1).normal(size=len(x)).round(1)
    value = Pair.of(x, y, design).by(SOMERS, grouping).value
    bounds = interval(Pair.of(x, y, design).by(SOMERS, grouping), draws=200)
    test = p_value(Pair.of(x, y, design).by(SOMERS, grouping), draws=199)
    assert isinstance(value, float)
    assert isinstance(bounds, Interval)
    assert isinstance(test, PValue)
    assert bounds.low <= value <= bounds.high
    assert test.p < 0.05
    difference = compared(x, other, y, design, SOMERS, grouping, draws=999)
    assert isinstance(difference.difference, float)
    assert isinstance(difference.p, float)
    assert difference.difference > 0
    ratings = np.stack([x, y, x + y])
    assert isinstance(RatersApart(ratings, design).ceiling(SOMERS, grouping).value, float)
    assert isinstance(RatersApart(ratings, design).interval(SOMERS, grouping, draws=50), Interval)
    left = leave_one_system_out(Pair.of(x, y, design).by(SOMERS, grouping))
    assert all(isinstance(one, float) for one in left)


def test_its_jackknife_is_as_wide_as_its_bootstrap() -> None:
    x, y, design = scores(400, 3)
    widths = []
    ways: tuple[Kind, ...] = ("bootstrap", "analytic")
    for ci in ways:
        found = interval(Pair.of(x, y, design).by(SOMERS, "pooled"), ci=ci, draws=2000)
        assert isinstance(found, Interval)
        widths.append(found.high - found.low)
    assert widths[0] == pytest.approx(widths[1], rel=0.08)

"""The jackknife is as wide as the bootstrap that it stands in for."""

from __future__ import annotations

import numpy as np
import pytest

from capeval.stats.groupings import POOLED
from capeval.stats.intervals import interval
from capeval.stats.jackknife import jackknife_variance, video_influence
from capeval.stats.pair import Pair
from capeval.stats.statistic import KENDALL_B, STATISTICS
from capeval.stats.values import GroupingName, Interval, Missing
from tests.stats.making import scores


@pytest.mark.parametrize("statistic", list(STATISTICS))
@pytest.mark.parametrize("grouping", ["pooled", "within_system"])
def test_jackknife_is_about_as_wide_as_the_bootstrap(
    statistic: str, grouping: GroupingName
) -> None:
    x, y, design = scores(400, 3)
    widths = []
    for ci in ("bootstrap", "analytic"):
        found = interval(Pair.of(x, y, design).by(statistic, grouping), ci=ci, draws=2000)
        assert isinstance(found, Interval)
        widths.append(found.high - found.low)
    assert widths[0] == pytest.approx(widths[1], rel=0.08)


def test_jackknife_adds_up_each_video_before_it_squares() -> None:
    x, y, design = scores(20, 3)
    found = video_influence(Pair.of(x, y, design).by(KENDALL_B, POOLED))
    assert not isinstance(found, Missing)
    value, moved = KENDALL_B.influence(x, y)
    assert found[0] == value
    assert found[1] == pytest.approx(np.bincount(design.video, weights=moved))
    assert jackknife_variance(np.array([0.2, -0.2])) == pytest.approx(2 * 0.08)
    assert np.isnan(jackknife_variance(np.array([0.0])))

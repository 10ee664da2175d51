"""Whole videos are drawn, whatever the grouping."""

from __future__ import annotations

import numpy as np
import pytest

from capeval.stats.design import Design
from capeval.stats.groupings import GROUPINGS, grouping_of
from capeval.stats.pair import Pair
from capeval.stats.statistic import STATISTICS
from capeval.stats.values import GroupingName, Missing
from capeval.stats.video_bootstrap import bootstrap_values
from tests.stats.making import counts, scores


@pytest.mark.parametrize("statistic", list(STATISTICS))
@pytest.mark.parametrize("grouping", GROUPINGS)
def test_whole_videos_are_resampled(statistic: str, grouping: GroupingName) -> None:
    x, y, design = scores(12, 4)
    drawn = counts(12, 100)
    found = bootstrap_values(
        Pair.of(x, y, design).by(STATISTICS[statistic], grouping_of(grouping)), draws=100, seed=0
    )
    assert not isinstance(found, Missing)
    found = np.atleast_2d(found)[0]
    if statistic in {"acc_eq", "kendall_c"} and grouping not in {"item", "system"}:
        pytest.skip("own copies are left out; shown above")
    for value, row in zip(found[:20], drawn.astype(int), strict=False):
        rows = np.repeat(np.arange(48), row[design.video])
        copy = np.concatenate([np.tile(np.arange(n), 4) for n in row])
        names = [*zip(design.video[rows], copy, strict=True)]
        repeated = Design.of(names, design.system[rows].tolist())
        expected = Pair.of(x[rows], y[rows], repeated).by(statistic, grouping).value
        if isinstance(expected, float):
            assert value == pytest.approx(expected, abs=1e-9)
        else:
            assert np.isnan(value)

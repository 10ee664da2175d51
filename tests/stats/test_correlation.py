from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from capeval.stats import correlation
from capeval.stats.correlation import STATISTICS, Design, correlated, sums_of_rows, why_missing
from capeval.stats.values import Floats, GroupingName, Missing

ORACLES: dict[str, Any] = {
    "kendall_b": lambda x, y: stats.kendalltau(x, y).statistic,
    "spearman": lambda x, y: stats.spearmanr(x, y).statistic,
    "pearson": lambda x, y: stats.pearsonr(x, y).statistic,
}
GROUPED: tuple[GroupingName, ...] = ("pooled", "item", "within_system")
PAIRS = st.lists(st.tuples(st.integers(-4, 4), st.integers(0, 3)), min_size=3, max_size=40).filter(
    lambda pairs: all(len(set(side)) > 1 for side in zip(*pairs, strict=True))
)


def alone(rows: int) -> Design:
    return Design(np.arange(rows), np.zeros(rows, dtype=np.int64))


def some_captions(levels: int) -> tuple[Floats, Floats, Design]:
    """Return scores of some captions of 30 videos by 4 systems."""
    rng = np.random.default_rng(levels)
    rows = np.sort(rng.permutation(120)[:100])
    design = Design(np.repeat(np.arange(30), 4)[rows], np.tile(np.arange(4), 30)[rows])
    x = rng.random(100)
    y = x + rng.random(100)
    return (x * levels).round(), (y * levels).round(), design


@pytest.mark.parametrize("statistic", list(ORACLES))
@given(pairs=PAIRS, scale=st.sampled_from([1e-9, 0.1, 1.0, 1e9]))
@settings(max_examples=40)
def test_values_are_those_of_scipy(
    statistic: str, pairs: list[tuple[int, int]], scale: float
) -> None:
    x, y = np.array(pairs, dtype=np.float64).T * scale
    expected = ORACLES[statistic](x, y)
    found = correlated(x, y, alone(len(x)), "pooled").values(STATISTICS[statistic])
    assert found == pytest.approx([expected], abs=1e-10)
    rows = STATISTICS[statistic].values(sums_of_rows(np.stack([x, -x]), np.stack([y, y])))
    assert rows[0] == pytest.approx(expected, abs=1e-10)


@pytest.mark.filterwarnings("ignore:.*constant.*")
@pytest.mark.parametrize("statistic", list(ORACLES))
@pytest.mark.parametrize("levels", [4, 10**9])
def test_groups_are_taken_apart_and_without_a_value_have_none(statistic: str, levels: int) -> None:
    x, y, design = some_captions(levels)
    means = [
        np.array([side[design.system == s].mean() for s in range(design.systems)])
        for side in (x, y)
    ]
    of_systems = correlated(x, y, design, "system").values(STATISTICS[statistic])
    assert of_systems == pytest.approx([ORACLES[statistic](*means)], abs=1e-10)
    for grouping in GROUPED:
        found = correlated(x, y, design, grouping).values(STATISTICS[statistic])
        for number, value in enumerate(found):
            rows = design.groups(grouping) == number
            if rows.sum() < STATISTICS[statistic].smallest:
                assert np.isnan(value)
                continue
            expected = ORACLES[statistic](x[rows], y[rows])
            assert value == pytest.approx(expected, abs=1e-10, nan_ok=True)


@pytest.mark.filterwarnings("ignore:.*constant.*")
@pytest.mark.parametrize("grouping", GROUPED)
@pytest.mark.parametrize(("levels", "cells"), [(4, 10**6), (10**9, 10**6), (4, 500)])
def test_values_without_a_video_are_those_of_the_other_videos(
    grouping: GroupingName, levels: int, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With few cells at once, the captions of a video are in two blocks.
    monkeypatch.setattr(correlation, "_CELLS", cells)
    x, y, design = some_captions(levels)
    found = correlated(x, y, design, grouping)
    for statistic in STATISTICS.values():
        use = ~np.isnan(found.values(statistic))
        without = found.left_out(statistic, use)
        left = np.flatnonzero(use) if grouping == "item" else np.arange(design.videos)
        assert len(without) == len(left)
        for value, video in zip(without, left, strict=True):
            rest = design.video != video
            of_rest = correlated(x[rest], y[rest], design.take(rest), grouping)
            values = of_rest.values(statistic)
            assert value == pytest.approx(np.nanmean(values), abs=1e-9)


@pytest.mark.parametrize(
    ("x", "y", "reason"),
    [
        ([1, 1, 1], [1, 2, 3], "the metric is constant"),
        ([1, 2, 3], [0.1, 0.1, 0.1], "the human scores are constant"),
        ([1], [1], "fewer than 3 captions"),
        ([1, 2], [1, 2], "fewer than 3 captions"),
    ],
)
def test_what_has_no_value_is_missing_and_says_why(
    x: list[float], y: list[float], reason: str
) -> None:
    found = correlated(np.array(x, float), np.array(y, float), alone(len(x)), "pooled")
    assert np.isnan(found.values(STATISTICS["spearman"])).all()
    assert why_missing(found.sums, STATISTICS["spearman"]) == Missing(reason)

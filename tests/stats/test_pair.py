"""What statistics share: the same numbers as when each is taken by itself."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import stats

from capeval.stats.concordance import concordance, totals
from capeval.stats.design import Design
from capeval.stats.groupings import GROUPINGS
from capeval.stats.intervals import interval
from capeval.stats.pair import Pair
from capeval.stats.significance import p_value
from capeval.stats.statistic import STATISTICS
from capeval.stats.values import GroupingName, Ints


@pytest.mark.parametrize("videos", [12, 1_600])
def test_what_is_shared_changes_no_number(videos: int) -> None:
    rng = np.random.default_rng(0)
    design = Design(np.repeat(np.arange(videos), 3), np.tile(np.arange(3), videos))
    x = rng.integers(0, 40, design.rows).astype(float)
    y = x + rng.integers(0, 60, design.rows)
    pair = Pair.of(x, y, design)
    for grouping in GROUPINGS:
        for statistic in STATISTICS:
            shared, alone = (one.by(statistic, grouping) for one in (pair, Pair.of(x, y, design)))
            assert (shared.value, shared.n, shared.used) == (alone.value, alone.n, alone.used)
            assert interval(shared, draws=50) == interval(alone, draws=50)
            assert p_value(shared, draws=20) == p_value(alone, draws=20)


@pytest.mark.parametrize("videos", [7, 1_600])
def test_ties_are_of_the_pairs_that_a_grouping_compares(videos: int) -> None:
    rng = np.random.default_rng(videos)
    there = rng.random((videos, 3)) < 0.9
    video, system = (np.unique(one, return_inverse=True)[1] for one in np.nonzero(there))
    x, y = rng.integers(0, 4, (2, len(video))).astype(float)
    x += system
    pair = Pair.of(x, y, Design(video, system))
    groups: dict[GroupingName, Ints] = {"item": video, "within_system": system, "pooled": 0 * video}
    for grouping, group in groups.items():
        same = np.triu(group[:, None] == group, 1)
        tied = [np.triu(side[:, None] == side, 1)[same].mean() for side in (x, y)]
        assert pair.ties(grouping) == pytest.approx(tied)
    alone = Pair.of([1, 2], [1, 1], Design.of("ab"))
    assert np.isnan(alone.ties("item")).all()


def test_what_two_threads_ask_for_is_made_once() -> None:
    pair = Pair.of([1, 2, 3], [1, 3, 2], Design.of("abc"))
    made = []

    def make() -> str:
        made.append("one")
        time.sleep(0.05)
        return "made"

    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(pair.kept, "a key", make) for _ in range(4)]
    assert [one.result() for one in asked] == ["made"] * 4
    assert made == ["one"]


@pytest.mark.parametrize("levels", [5, 300, 10**9])
def test_long_rankings_are_counted_as_scipy_counts(levels: int) -> None:
    rng = np.random.default_rng(1)
    x = rng.integers(0, levels, 1_501)
    y = rng.integers(0, levels, 1_501)
    found = concordance(x, y)
    pairs = found.totals()
    tau = pairs.score / np.sqrt(pairs.untied_x * pairs.untied_y)
    assert tau[0] == pytest.approx(stats.kendalltau(x, y).statistic, abs=1e-12)
    if levels < 1_000:
        other = totals(x[None], y[None])
        assert other.score == pairs.score
        assert other.agreeing == pairs.agreeing

"""acc_eq and its threshold, held against trying every threshold on every pair."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import capeval.stats.pairwise as module
from capeval.stats.concordance import agreeing_pairs
from capeval.stats.design import Design
from capeval.stats.groupings import grouping_of
from capeval.stats.pair import Pair
from capeval.stats.pairwise import calibrate, constant_accuracy
from capeval.stats.ranks import tie_share
from capeval.stats.statistic import ACC_EQ
from capeval.stats.values import Floats, GroupingName, Ints, Missing


def accuracy(x: Floats, y: Floats, group: Ints, threshold: float) -> float:
    """Take the mean over groups of the share of pairs that are ordered alike."""
    shares = []
    for one in np.unique(group):
        pairs = list(itertools.combinations(np.flatnonzero(group == one), 2))
        if pairs:
            right = [
                (np.sign(y[i] - y[j]) == 0)
                if abs(x[i] - x[j]) <= threshold
                else np.sign(x[i] - x[j]) == np.sign(y[i] - y[j])
                for i, j in pairs
            ]
            shares.append(np.mean(right))
    return float(np.mean(shares))


def best(x: Floats, y: Floats, group: Ints) -> tuple[float, float]:
    gaps = {0.0} | {abs(a - b) for a, b in itertools.combinations(x, 2)}
    scores = {gap: accuracy(x, y, group, gap) for gap in gaps}
    top = max(scores.values())
    return top, min(gap for gap, score in scores.items() if score >= top - 1e-12)


@pytest.mark.parametrize("grouping", ["pooled", "item", "within_system"])
@given(
    scores=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2)), min_size=18, max_size=18),
    drop=st.integers(0, 5),
)
@settings(deadline=None, max_examples=30)
def test_threshold_is_the_best_of_all(
    grouping: GroupingName, scores: list[tuple[int, int]], drop: int
) -> None:
    x, y = np.array(scores, dtype=float)[drop:].T
    design = Design(np.repeat(np.arange(6), 3), np.tile(np.arange(3), 6)).take(
        np.arange(18) >= drop
    )
    found = calibrate(Pair.of(x, y, design), grouping)
    group = grouping_of(grouping).groups(design)
    if sum(np.bincount(group) > 1):
        top, threshold = best(x, y, group)
        assert found.value == pytest.approx(top)
        reached = accuracy(x, y, group, float(str(found.threshold)))
        assert reached == pytest.approx(top)
        if len(set(np.bincount(group))) == 1:
            assert found.threshold == threshold
        assert found.untied == pytest.approx(accuracy(x, y, group, 0))
        assert found.constant == pytest.approx(accuracy(np.zeros_like(x), y, group, 0))


def test_cross_fitted_pairs_are_judged_by_other_videos() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.random(30), rng.integers(0, 3, 30).astype(float)
    found = calibrate(Pair.of(x, y, Design.of(range(30))), "pooled", seed=4)
    fold = np.random.default_rng(4).permutation(30) % 5
    right = []
    pairs = list(itertools.combinations(range(30), 2))
    for a, b in itertools.combinations_with_replacement(range(5), 2):

        def right_at(i: int, j: int, threshold: float) -> bool:
            tie = abs(x[i] - x[j]) <= threshold
            return bool(y[i] == y[j] if tie else np.sign(x[i] - x[j]) == np.sign(y[i] - y[j]))

        train = [(i, j) for i, j in pairs if not {fold[i], fold[j]} & {a, b}]
        gaps = sorted({0.0} | {abs(x[i] - x[j]) for i, j in train})
        counts = [sum(right_at(i, j, gap) for i, j in train) for gap in gaps]
        chosen = gaps[int(np.argmax(counts))]
        held = [(i, j) for i, j in pairs if {fold[i], fold[j]} == {a, b}]
        right += [right_at(i, j, chosen) for i, j in held]
    assert len(right) == len(pairs)
    assert found.cross_fitted == pytest.approx(np.mean(right))


def test_a_metric_of_noise_gains_in_sample_only_what_a_constant_gets() -> None:
    rng = np.random.default_rng(0)
    y = (rng.random(200) < 0.1).astype(float)
    found = calibrate(Pair.of(rng.random(200), y, Design.of(range(200))), "pooled")
    assert found.constant == pytest.approx(tie_share(y))
    assert float(str(found.value)) >= float(str(found.constant))
    assert float(str(found.untied)) < 0.2


def test_slices_find_what_one_sort_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.random(300).round(2), rng.integers(0, 4, 300).astype(float)
    design = Design.of(range(300))
    whole = calibrate(Pair.of(x, y, design), "pooled")
    monkeypatch.setattr(module, "_SLICE", 3_000)
    monkeypatch.setattr(module, "_BLOCK", 1_000)
    assert calibrate(Pair.of(x, y, design), "pooled") == whole
    monkeypatch.setattr(module, "_SHORT", 4)
    assert calibrate(Pair.of(x, y, design), "pooled") == whole


@pytest.mark.parametrize("grouping", ["pooled", "within_system"])
def test_a_sample_of_pairs_gives_the_value_of_all(
    grouping: GroupingName, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    design = Design(np.repeat(np.arange(400), 3), np.tile(np.arange(3), 400))
    y = rng.integers(0, 4, 1_200).astype(float)
    for noise in (0.3, 1.0, 4.0):
        x = y + noise * rng.normal(size=1_200)
        exact = calibrate(Pair.of(x, y, design), grouping)
        with monkeypatch.context() as patched:
            patched.setattr(module, "CALIBRATED", 100)
            patched.setattr(module, "SAMPLED", 50_000)
            sampled = calibrate(Pair.of(x, y, design), grouping)
            assert calibrate(Pair.of(x, y, design), grouping) == sampled
        group = grouping_of(grouping).groups(design)
        # Of all pairs, whatever the threshold; the best is flat.
        at = accuracy(x, y, group, float(str(sampled.threshold)))
        assert sampled.value == pytest.approx(at)
        best_of_all = float(str(exact.value))
        assert best_of_all - 0.002 < at <= best_of_all + 1e-12
        assert sampled.cross_fitted == pytest.approx(exact.cross_fitted, abs=0.01)
        assert (sampled.untied, sampled.constant) == (exact.untied, exact.constant)


def test_a_sample_that_has_all_pairs_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    design = Design(np.repeat(np.arange(40), 3), np.tile(np.arange(3), 40))
    x, y = rng.random(120), rng.integers(0, 3, 120).astype(float)
    exact = calibrate(Pair.of(x, y, design), "item")
    monkeypatch.setattr(module, "CALIBRATED", 2)
    sampled = calibrate(Pair.of(x, y, design), "item")
    assert sampled.value == pytest.approx(exact.value)
    assert sampled.threshold == exact.threshold
    assert sampled.cross_fitted == exact.cross_fitted


def test_a_threshold_is_calibrated_above_5000_captions() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 20_000).astype(float)
    found = calibrate(Pair.of(y + rng.normal(size=20_000), y, Design.of(range(20_000))), "pooled")
    value, untied = float(str(found.value)), float(str(found.untied))
    assert value > untied + 0.01
    assert found.cross_fitted == pytest.approx(value, abs=0.003)


def test_no_pair_is_missing() -> None:
    found = calibrate(Pair.of([1, 2], [1, 2], Design.of([0, 1])), "item")
    assert isinstance(found.value, Missing)
    assert (found.groups, found.dropped) == (0, 2)
    assert isinstance(constant_accuracy([1, 2], np.array([0, 1])), Missing)


def test_too_few_videos_have_no_cross_fitted_value() -> None:
    design = Design(np.repeat(np.arange(2), 5), np.tile(np.arange(5), 2))
    found = calibrate(Pair.of(range(10), [*range(5), *range(5)], design), "pooled")
    assert isinstance(found.value, float)
    assert isinstance(found.cross_fitted, Missing)


def test_long_groups_count_as_short_ones_do() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.random(60), rng.integers(0, 3, 60).astype(float)
    share = ACC_EQ.rows(x[None], y[None], threshold=0.1)[0]
    assert share == pytest.approx(accuracy(x, y, np.zeros(60, dtype=np.int64), 0.1))
    assert agreeing_pairs(x, y, 0.1) == round(share * 60 * 59 / 2)

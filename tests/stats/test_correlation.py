"""Correlations and the counts under them, held against scipy and brute force."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from capeval.stats import of_pairs
from capeval.stats.concordance import concordance, smaller_before, totals
from capeval.stats.of_pairs import count_pairs
from capeval.stats.ranks import average_ranks, dense_codes, tie_share
from capeval.stats.statistic import STATISTICS
from capeval.stats.values import Floats, Missing
from tests.stats.making import correlate_arrays

COUNTS = ("score", "agreeing", "untied_x", "untied_y", "pairs", "classes")

ORACLES: dict[str, Any] = {
    "kendall_b": lambda x, y: stats.kendalltau(x, y).statistic,
    "kendall_c": lambda x, y: stats.kendalltau(x, y, variant="c").statistic,
    "spearman": lambda x, y: stats.spearmanr(x, y).statistic,
    "pearson": lambda x, y: stats.pearsonr(x, y).statistic,
}
SCORES = st.lists(st.tuples(st.integers(-4, 4), st.integers(0, 3)), min_size=3, max_size=40).filter(
    lambda pairs: all(len(set(side)) > 1 for side in zip(*pairs, strict=True))
)


def brute(x: Floats, y: Floats, statistic: str) -> float:
    """Take tau-b, tau-c or acc_eq of every pair."""
    signs = [
        (np.sign(x[i] - x[j]), np.sign(y[i] - y[j]))
        for i, j in itertools.combinations(range(len(x)), 2)
    ]
    score = sum(a * b for a, b in signs)
    if statistic == "acc_eq":
        return float(np.mean([a == b for a, b in signs]))
    if statistic == "kendall_b":
        return float(score / np.sqrt(sum(a != 0 for a, _ in signs) * sum(b != 0 for _, b in signs)))
    classes = min(len(set(x)), len(set(y)))
    return float(2 * score / (len(x) ** 2 * (classes - 1) / classes))


@pytest.mark.parametrize("statistic", list(ORACLES))
@given(pairs=SCORES)
@settings(deadline=None)
def test_agrees_with_scipy_on_tied_scores(statistic: str, pairs: list[tuple[int, int]]) -> None:
    x, y = np.array(pairs, dtype=np.float64).T
    assert correlate_arrays(x, y, statistic) == pytest.approx(ORACLES[statistic](x, y), abs=1e-10)


@pytest.mark.parametrize("statistic", list(ORACLES))
@pytest.mark.parametrize("size", [3, 24, 25, 687, 5000])
@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_agrees_with_scipy_on_real_numbers(statistic: str, size: int, scale: float) -> None:
    rng = np.random.default_rng(size)
    x = rng.random(size)
    y = (x + rng.normal(size=size)) * scale
    assert correlate_arrays(x, y, statistic) == pytest.approx(ORACLES[statistic](x, y), abs=1e-10)


@pytest.mark.parametrize("statistic", list(STATISTICS)[:4])
@pytest.mark.parametrize(
    ("x", "y", "reason"),
    [
        ([1, 1, 1], [1, 2, 3], "the metric is constant"),
        ([1, 2, 3], [0.1, 0.1, 0.1], "the human scores are constant"),
        ([], [], "0 pairs"),
        ([1], [1], "1 pair;"),
    ],
)
def test_what_has_no_value_is_missing_and_says_why(
    statistic: str, x: list[float], y: list[float], reason: str
) -> None:
    found = correlate_arrays(x, y, statistic)
    assert isinstance(found, Missing)
    assert found.reason.startswith(reason)


@pytest.mark.parametrize("statistic", list(STATISTICS))
def test_two_pairs_suffice_for_order_alone(statistic: str) -> None:
    found = correlate_arrays([1, 2], [1, 2], statistic)
    assert isinstance(found, Missing) == (statistic in {"spearman", "pearson"})


def test_a_constant_that_floats_cannot_centre_is_still_constant() -> None:
    assert isinstance(correlate_arrays([0.1] * 10, range(10), "pearson"), Missing)
    assert correlate_arrays([1e-300, 2e-300, 3e-300], [1, 2, 3], "pearson") == pytest.approx(1)


@pytest.mark.parametrize("bad", [[1, float("nan")], [1, float("inf")], [1, 2, 3], [[1, 2]]])
def test_refuses_what_is_not_two_finite_arrays(bad: Any) -> None:
    with pytest.raises(ValueError, match=r"finite|one length"):
        correlate_arrays(bad, [1, 2], "kendall_b")


@given(pairs=SCORES, seed=st.integers(0, 99))
@settings(deadline=None)
def test_order_scale_and_sides_do_not_matter(pairs: list[tuple[int, int]], seed: int) -> None:
    x, y = np.array(pairs, dtype=np.float64).T
    order = np.random.default_rng(seed).permutation(len(x))
    for statistic in STATISTICS:
        value = correlate_arrays(x, y, statistic)
        assert isinstance(value, float)
        assert -1 <= value <= 1
        assert correlate_arrays(x[order], y[order], statistic) == pytest.approx(value, abs=1e-12)
        assert correlate_arrays(y, x, statistic) == pytest.approx(value, abs=1e-12)
        assert correlate_arrays(3 * x + 7, y, statistic) == pytest.approx(value, abs=1e-12)
        if statistic != "acc_eq":
            assert correlate_arrays(-x, y, statistic) == pytest.approx(-value, abs=1e-12)


@given(pairs=SCORES)
@settings(deadline=None)
def test_pair_statistics_are_those_of_every_pair(pairs: list[tuple[int, int]]) -> None:
    x, y = np.array(pairs, dtype=np.float64).T
    wide = [np.tile(side, 30) for side in (x, y)]
    for statistic in ("kendall_b", "kendall_c", "acc_eq"):
        assert correlate_arrays(x, y, statistic) == pytest.approx(brute(x, y, statistic))
    # Short and long rows take different ways.
    both = STATISTICS["kendall_b"].rows(wide[0][None], wide[1][None])[0]
    assert both == pytest.approx(ORACLES["kendall_b"](*wide), abs=1e-10)


@given(rows=st.lists(st.lists(st.integers(0, 9), min_size=7, max_size=7), min_size=1, max_size=4))
@settings(deadline=None)
def test_counts_smaller_codes_before(rows: list[list[int]]) -> None:
    codes = np.array(rows)
    expected = [[sum(a < b for a in row[:place]) for place, b in enumerate(row)] for row in rows]
    assert smaller_before(codes).tolist() == expected
    assert smaller_before(codes, each=False).tolist() == [sum(row) for row in expected]


def test_rows_are_counted_apart() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 9, (2, 50, 40))
    together = totals(x, y)
    for row in range(50):
        alone = totals(x[row : row + 1], y[row : row + 1])
        for name in COUNTS:
            assert getattr(together, name)[row] == getattr(alone, name)[0]


def test_rows_that_are_compared_with_one_are_counted_in_any_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    for width in (9, 40):
        x, y = rng.integers(0, 6, (50, width)), rng.integers(0, 6, (1, width))
        whole = count_pairs(x, y)
        with monkeypatch.context() as patched:
            patched.setattr(of_pairs, "_CHUNK", 300)
            parts = count_pairs(x, y)
        for name in COUNTS:
            assert getattr(parts, name).tolist() == getattr(whole, name).tolist()


@pytest.mark.parametrize("size", [3, 30, 256, 400, 600])
@pytest.mark.parametrize("levels", [1, 3, 10**6])
@pytest.mark.parametrize("statistic", STATISTICS)
def test_permuted_scores_have_the_values_of_scores_in_that_order(
    statistic: str, levels: int, size: int
) -> None:
    rng = np.random.default_rng(size)
    x, y = rng.integers(0, levels, (2, size)).astype(float)
    orders = rng.permuted(np.tile(np.arange(size, dtype=np.int32), (7, 1)), axis=1)
    of = STATISTICS[statistic]
    a, b = (dense_codes(side) if of.kind.ordinal else side for side in (x, y))
    found = of.values(of.kind.permuted(a, b, 0.0, orders))
    assert found == pytest.approx(of.rows(x[orders], y[None]), abs=1e-12, nan_ok=True)


@given(pairs=SCORES)
@settings(deadline=None)
def test_partners_of_each_value_are_those_of_brute_force(pairs: list[tuple[int, int]]) -> None:
    x, y = np.array(pairs, dtype=np.float64).T
    signs_x, signs_y = (np.sign(np.subtract.outer(side, side)) for side in (x, y))
    found = concordance(x, y)
    assert found.score.tolist() == (signs_x * signs_y).sum(axis=1).tolist()
    assert found.untied_x.tolist() == np.abs(signs_x).sum(axis=1).tolist()
    assert found.untied_y.tolist() == np.abs(signs_y).sum(axis=1).tolist()
    assert found.agreeing.tolist() == ((signs_x == signs_y).sum(axis=1) - 1).tolist()


@pytest.mark.parametrize("size", [300, 640, 1537])
@pytest.mark.parametrize("levels", [(3, 1000), (1000, 3), (400, 500), (10**9, 300), (300, 10**9)])
def test_partners_in_long_rankings_are_those_of_brute_force(
    size: int, levels: tuple[int, int]
) -> None:
    rng = np.random.default_rng(size)
    x, y = (rng.integers(0, most, size).astype(float) for most in levels)
    signs_x, signs_y = (np.sign(np.subtract.outer(side, side)) for side in (x, y))
    found = concordance(x, y)
    assert found.score.tolist() == (signs_x * signs_y).sum(axis=1).tolist()
    assert found.agreeing.tolist() == ((signs_x == signs_y).sum(axis=1) - 1).tolist()
    expected = [int((y[:place] < y[place]).sum()) for place in range(size)]
    assert smaller_before(dense_codes(y)[None]).tolist() == [expected]


def test_ranks_of_long_rows_are_scipys() -> None:
    rows = np.random.default_rng(0).integers(0, 900, (3, 1200))
    assert average_ranks(rows).tolist() == stats.rankdata(rows, axis=1).tolist()


@given(values=st.lists(st.integers(0, 5), min_size=1, max_size=30))
def test_ranks_are_scipys(values: list[int]) -> None:
    assert average_ranks(values).tolist() == stats.rankdata(values).tolist()
    dense = stats.rankdata(values, method="dense") - 1
    assert dense_codes(np.array(values)).tolist() == dense.tolist()
    if len(values) > 1:
        pairs = list(itertools.combinations(values, 2))
        assert tie_share(values) == pytest.approx(sum(a == b for a, b in pairs) / len(pairs))


def weighted(x: Floats, y: Floats, w: Floats, statistic: str) -> float:
    """Take a statistic as a smooth function of weights, straight from its definition."""
    if statistic in {"spearman", "pearson"}:
        if statistic == "spearman":
            x, y = (((side[:, None] > side) + 0.5 * (side[:, None] == side)) @ w for side in (x, y))
        x, y = (side - np.average(side, weights=w) for side in (x, y))
        return float((w * x * y).sum() / np.sqrt((w * x * x).sum() * (w * y * y).sum()))
    a, b = (np.sign(np.subtract.outer(side, side)) for side in (x, y))
    if statistic == "acc_eq":
        right = (a == b).astype(float) - np.eye(len(x))
        return float(w @ right @ w / (w.sum() ** 2 - w @ w))
    score = w @ (a * b) @ w
    if statistic == "kendall_b":
        return float(score / np.sqrt((w @ np.abs(a) @ w) * (w @ np.abs(b) @ w)))
    classes = min(len(set(x)), len(set(y)))
    return float(score / (w.sum() ** 2 * (classes - 1) / classes))


@pytest.mark.parametrize("statistic", list(STATISTICS))
@pytest.mark.parametrize("levels", [4, 1000])
def test_influence_is_the_derivative_by_weight(statistic: str, levels: int) -> None:
    rng = np.random.default_rng(5)
    x = rng.integers(0, levels, 30).astype(float)
    y = x + rng.integers(0, levels, 30).astype(float)
    value, moved = STATISTICS[statistic].influence(x, y)
    ones = np.ones(30)
    assert value == pytest.approx(weighted(x, y, ones, statistic), abs=1e-12)
    assert moved.sum() == pytest.approx(0, abs=1e-9)
    for place in range(30):
        step = 1e-5 * (np.arange(30) == place)
        up, down = (weighted(x, y, ones + side * step, statistic) for side in (1, -1))
        assert moved[place] == pytest.approx((up - down) / 2e-5, abs=1e-6)

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from capeval.stats import FEWEST, bootstrap_means

Array = NDArray[np.float64]


def table(rows: int = 40, columns: int = 3, seed: int = 5) -> Array:
    return np.random.default_rng(seed).beta(2, 3, size=(rows, columns))


def slow(
    values: Array,
    *,
    draws: int,
    seed: int,
    confidence: float = 0.95,
    per_draw: int | None = None,
) -> tuple[Array, Array]:
    """The same draws, one at a time."""
    rows = len(values)
    size = (draws, per_draw or rows)
    picks = np.random.default_rng(seed).integers(0, rows, size=size, dtype=np.int32)
    low, high = (np.full(values.shape[1], np.nan) for _ in range(2))
    for column in range(values.shape[1]):
        if np.count_nonzero(~np.isnan(values[:, column])) < FEWEST:
            continue
        means = []
        for pick in picks:
            drawn = values[pick, column]
            drawn = drawn[~np.isnan(drawn)]
            if len(drawn):
                means.append(drawn.mean())
        tail = 100 * (1 - confidence) / 2
        low[column], high[column] = np.percentile(means, [tail, 100 - tail])
    return low, high


def test_bounds_are_scipys_within_monte_carlo_error() -> None:
    values = table(rows=60)
    low, high = bootstrap_means(values, draws=20_000, seed=1)
    for column in range(values.shape[1]):
        theirs = stats.bootstrap(
            (values[:, column],),
            np.mean,
            n_resamples=20_000,
            method="percentile",
            rng=np.random.default_rng(2),
        ).confidence_interval
        # The standard error of a 2.5% quantile of 20,000 normal draws is 0.019 of their sd.
        error = 5 * 0.019 * values[:, column].std() / np.sqrt(len(values))
        assert low[column] == pytest.approx(theirs.low, abs=error)
        assert high[column] == pytest.approx(theirs.high, abs=error)


@pytest.mark.parametrize("draws", [1, 7, 500, 1203])
def test_bounds_are_those_of_a_slow_loop_over_the_same_draws(draws: int) -> None:
    values = table(rows=11, columns=4)
    values[::2, 1] = np.nan
    values[6:, 2] = np.nan
    with_loop = slow(values, draws=draws, seed=3)
    np.testing.assert_allclose(bootstrap_means(values, draws=draws, seed=3), with_loop, atol=1e-12)


@pytest.mark.parametrize("per_draw", [4, 11, 30])
def test_a_draw_may_be_of_fewer_rows_or_more(
    per_draw: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = table(rows=11, columns=3)
    values[::2, 1] = np.nan
    with_loop = slow(values, draws=200, seed=3, per_draw=per_draw)
    found = bootstrap_means(values, draws=200, seed=3, per_draw=per_draw)
    np.testing.assert_allclose(found, with_loop, atol=1e-12)
    monkeypatch.setattr("capeval.stats.bootstrap._BLOCK", 2)
    blocks = bootstrap_means(values, draws=200, seed=3, per_draw=per_draw)
    np.testing.assert_allclose(blocks, with_loop, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.lists(st.sampled_from([0.0, 0.25, 1.0, float("nan")]), min_size=3, max_size=3),
        min_size=1,
        max_size=9,
    ),
    st.integers(0, 2**32),
)
def test_any_gaps_are_handled_as_the_slow_loop_does(rows: list[list[float]], seed: int) -> None:
    values = np.array(rows)
    found, with_loop = (
        bootstrap_means(values, draws=40, seed=seed),
        slow(values, draws=40, seed=seed),
    )
    np.testing.assert_allclose(found, with_loop, atol=1e-12)


@pytest.mark.parametrize(("rows", "has"), [(0, False), (1, False), (4, False), (5, True)])
def test_fewer_than_five_rows_have_no_interval(rows: int, has: bool) -> None:
    low, high = bootstrap_means(np.ones((rows, 2)), draws=10)
    assert (~np.isnan([low, high]) == has).all()


def test_column_of_few_rows_has_no_interval_beside_one_that_has() -> None:
    low, high = bootstrap_means(np.array([[0.0, 1.0], [0.0, np.nan]] * 4), draws=100)
    assert (low[0], high[0]) == (0.0, 0.0)
    assert np.isnan([low[1], high[1]]).all()


def test_constant_column_has_an_interval_without_width() -> None:
    low, high = bootstrap_means(np.full((9, 1), 0.7), draws=100)
    assert (low[0], high[0]) == pytest.approx((0.7, 0.7))


def test_zero_is_a_seed_and_seeds_differ() -> None:
    values = table()
    zero, again, one = (np.array(bootstrap_means(values, draws=300, seed=s)) for s in (0, 0, 1))
    assert np.array_equal(zero, again)
    assert not np.array_equal(zero, one)
    untouched = repr(np.random.get_state())
    bootstrap_means(values, draws=10, seed=0)
    assert repr(np.random.get_state()) == untouched


def test_columns_share_their_draws() -> None:
    one = table(columns=1)
    both = np.hstack([one, 1 - one, 2 * one])
    low, high = bootstrap_means(both, draws=500, seed=9)
    assert (1 - high[1], 1 - low[1]) == pytest.approx((low[0], high[0]))
    assert (low[2] / 2, high[2] / 2) == pytest.approx((low[0], high[0]))
    alone = bootstrap_means(one, draws=500, seed=9)
    assert (alone[0][0], alone[1][0]) == pytest.approx((low[0], high[0]))


def test_draws_do_not_depend_on_how_they_are_cut_into_chunks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = table(rows=7)
    whole = bootstrap_means(values, draws=100, seed=4)
    monkeypatch.setattr("capeval.stats.bootstrap._CHUNK", 9)
    np.testing.assert_allclose(bootstrap_means(values, draws=100, seed=4), whole, atol=1e-15)


def test_confidence_is_the_share_between_the_bounds() -> None:
    low, high = bootstrap_means(table(), draws=500, confidence=0.5)
    wide_low, wide_high = bootstrap_means(table(), draws=500, confidence=0.99)
    assert (wide_low < low).all()
    assert (high < wide_high).all()


def test_values_are_not_changed() -> None:
    values = table()
    values[0, 0] = np.nan
    before = values.copy()
    bootstrap_means(values, draws=10)
    assert np.array_equal(values, before, equal_nan=True)

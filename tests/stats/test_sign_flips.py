import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from scipy import stats

from capeval.stats.sign_flips import detectable_difference, holm, rank_clusters, sign_flips
from capeval.stats.values import Floats, Missing, Value, difference_intervals


def gaps(rows: int) -> Floats:
    rng = np.random.default_rng(rows)
    return rng.beta(2, 3, size=(rows, 3)) - rng.beta(2, 2.6, size=(rows, 3))


def exact(values: Floats) -> float:
    """Return p over every pattern of signs, with numpy."""
    patterns = np.arange(2 ** len(values))[:, None] >> np.arange(len(values)) & 1
    sums = np.abs((1 - 2 * patterns) @ values)
    return float(np.mean(sums >= sums[0] - 1e-12))


@pytest.mark.parametrize("rows", [2, 5, 9])
def test_p_of_few_rows_is_scipys_exact_one(rows: int) -> None:
    table = gaps(rows)
    found = sign_flips(table, resamples=4_096)
    for p, column in zip(found, table.T, strict=True):
        scipys = stats.permutation_test(
            (column, np.zeros(rows)),
            lambda a, b, axis: np.mean(a - b, axis=axis),
            permutation_type="samples",
            n_resamples=2**rows,
            vectorized=True,
        )
        assert p == pytest.approx(scipys.pvalue, abs=1e-12)
        assert p == pytest.approx(exact(column), abs=1e-12)


def test_p_of_more_rows_is_the_exact_one_within_monte_carlo_error() -> None:
    table = gaps(16)
    found = sign_flips(table, resamples=40_000, seed=1)
    for column in range(table.shape[1]):
        p = exact(table[:, column])
        error = 5 * math.sqrt(p * (1 - p) / 40_000) + 1 / 40_000
        assert found[column] == pytest.approx(p, abs=error)


@pytest.mark.parametrize(("resamples", "is_exact"), [(127, False), (128, True)])
def test_p_is_exact_where_the_patterns_of_signs_are_no_more_than_the_resamples(
    resamples: int, is_exact: bool
) -> None:
    p = sign_flips(np.full((7, 1), 0.1), resamples=resamples)[0]
    assert (p == 2 / 2**7) == is_exact


def test_rows_that_do_not_differ_leave_p_exact() -> None:
    table = np.zeros((500, 1))
    table[7:11] = 0.1
    assert sign_flips(table, resamples=999)[0] == 2 / 2**4


@settings(max_examples=30)
@given(
    values=hnp.arrays(
        np.int64, st.tuples(st.integers(1, 7), st.integers(1, 4)), elements=st.integers(-9, 10)
    )
)
def test_p_of_tied_and_missing_differences_is_that_by_hand(values: NDArray[np.int64]) -> None:
    # 10 stands for a row that a column lacks.
    table = np.where(values == 10, np.nan, values / 10)
    found = sign_flips(table, resamples=128)
    for p, column in zip(found, table.T, strict=True):
        there = column[~np.isnan(column)]
        assert p == pytest.approx(exact(there)) if len(there) else np.isnan(p)


def test_p_is_never_0_and_1_where_nothing_differs() -> None:
    table = np.stack([np.ones(50), np.zeros(50), -np.ones(50)], axis=1)
    assert sign_flips(table, resamples=999).tolist() == [0.001, 1.0, 0.001]


def test_swapping_the_two_changes_no_p_and_seeds_are_explicit() -> None:
    table = gaps(30)
    untouched = repr(np.random.get_state())
    one, other = sign_flips(table, resamples=999), sign_flips(-table, resamples=999)
    assert np.array_equal(one, other)
    assert not np.array_equal(one, sign_flips(table, resamples=999, seed=1))
    assert repr(np.random.get_state()) == untouched


def test_holm_is_that_of_r() -> None:
    # p.adjust(c(.01, .04, .03, .005, .6), "holm")
    found = holm([0.01, 0.04, 0.03, 0.005, 0.6])
    assert found == pytest.approx([0.04, 0.09, 0.09, 0.025, 0.6])
    assert holm([0.7, 0.8]) == [1.0, 1.0]
    gap = Missing("constant")  # no test, so it does not count
    assert holm([0.01, gap, 0.04]) == [0.02, gap, 0.04]


def test_clusters_open_below_every_member_above() -> None:
    far, near = 0.001, 0.5
    p: list[Value] = [near, far, far, near, far, far]
    assert rank_clusters([0.9, 0.8, 0.7, 0.6], p) == [1, 1, 1, 2]
    # At the level itself a metric is worse.
    p[3] = 0.05
    assert rank_clusters([0.9, 0.8, 0.7, 0.6], p) == [1, 1, 2, 3]
    p[1] = Missing("not tested")
    assert rank_clusters([0.9, 0.8, 0.7, 0.6], p) == [1, 1, 1, 2]
    assert rank_clusters([0.9, Missing("constant"), 0.7, 0.6], p) == [1, None, 1, 2]


# Scores are like TUNA's: F1 of 10 to 29 elements of which a caption has some, with a difficulty of
# the video that both runs share. They are bounded, tied and not normal.


def simulate(runs: int, videos: int, *, better: float = 0.0, seed: int) -> Floats:
    """Return (videos, runs) differences of F1, the second run better by `better` on the logits."""
    rng = np.random.default_rng(seed)
    shape = (videos, runs)
    elements = rng.integers(10, 30, size=shape)
    easy = rng.normal(0.2, 0.7, size=shape)

    def f1(shift: float) -> Floats:
        chance = 1 / (1 + np.exp(-(easy + shift + 0.5 * rng.normal(size=shape))))
        entailed = rng.binomial(elements, chance)
        contradicted = rng.binomial(elements - entailed, 0.2)
        return np.asarray(2 * entailed / (entailed + contradicted + elements))

    return f1(better) - f1(0.0)


@pytest.mark.slow
@pytest.mark.parametrize("videos", [40, 100])
def test_p_of_equals_is_small_as_often_as_it_says(videos: int) -> None:
    p = sign_flips(simulate(1_500, videos, seed=videos), resamples=499, seed=1)
    # Three standard errors of a share of 1,500.
    for level in (0.05, 0.1, 0.5):
        error = 3 * np.sqrt(level * (1 - level) / 1_500)
        assert np.mean(p <= level) == pytest.approx(level, abs=error)


@cache
def true_difference(better: float) -> float:
    return float(simulate(1_000, 1_000, better=better, seed=7).mean())


@pytest.mark.slow
@pytest.mark.parametrize(("videos", "share"), [(8, 0.964), (40, 0.953), (100, 0.948)])
@pytest.mark.parametrize("better", [0.0, 0.4])
def test_intervals_cover_the_true_difference(videos: int, share: float, better: float) -> None:
    truth = true_difference(better)
    values = simulate(1_000, videos, better=better, seed=videos)
    low, high = difference_intervals(values)
    covered = np.mean((low <= truth) & (truth <= high))
    # Three standard errors of a share of 1,000.
    assert covered == pytest.approx(share, abs=0.021)


@pytest.mark.slow
@pytest.mark.parametrize(("videos", "less"), [(40, 0.02), (100, 0.01)])
def test_what_is_detectable_is_found_four_times_in_five(videos: int, less: float) -> None:
    sd = simulate(1_000, 1_000, seed=3).std()
    gain = detectable_difference(float(sd), videos)
    values = simulate(2_000, videos, seed=videos) + gain
    found = np.mean(sign_flips(values, resamples=499, seed=1) <= 0.05)
    # The sd of few videos is itself a guess, which costs as much as Student's t has heavier tails.
    assert found == pytest.approx(0.8 - less, abs=0.03)

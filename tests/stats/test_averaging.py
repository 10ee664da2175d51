"""Means over data sets: of one it is its own, no order matters, and intervals and p agree."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from capeval.stats.averaging import mean_interval, mean_p
from capeval.stats.values import Interval, Missing

NAN = float("nan")
DATA_SETS = st.lists(
    st.tuples(st.floats(-1, 1), st.floats(0.01, 0.5), st.floats(0.01, 0.5), st.floats(1e-6, 1)),
    min_size=1,
    max_size=6,
)


def intervals(data: list[tuple[float, float, float, float]]) -> list[Interval]:
    return [Interval(value - below, value + above, "t") for value, below, above, _ in data]


def both(data: list[tuple[float, float, float, float]]) -> tuple[Interval, float]:
    values = [one[0] for one in data]
    bounds = mean_interval(values, intervals(data))
    p = mean_p(values, [one[3] for one in data], [one[1] + one[2] for one in data])
    assert isinstance(bounds, Interval)
    assert isinstance(p, float)
    return bounds, p


@given(DATA_SETS, st.randoms(use_true_random=False))
def test_order_changes_no_digit(
    data: list[tuple[float, float, float, float]], random: random.Random
) -> None:
    shuffled = random.sample(data, len(data))
    assert both(shuffled) == both(data)


@given(DATA_SETS.filter(lambda data: len(data) == 1))
def test_of_one_data_set_they_are_its_own(data: list[tuple[float, float, float, float]]) -> None:
    assert both(data) == (intervals(data)[0], data[0][3])


@given(DATA_SETS)
def test_the_mean_is_in_an_interval_narrower_than_the_widest(
    data: list[tuple[float, float, float, float]],
) -> None:
    bounds, p = both(data)
    mean = math.fsum(one[0] for one in data) / len(data)
    assert bounds.low <= mean <= bounds.high
    assert bounds.high - bounds.low <= max(one[1] + one[2] for one in data) + 1e-9
    assert 0 < p <= 1


def test_symmetric_intervals_are_those_of_summed_variances() -> None:
    errors, values = np.array([0.1, 0.2, 0.05]), np.array([0.5, 0.3, 0.4])
    half = 1.959964 * errors
    bounds = mean_interval(
        values.tolist(), [Interval(v - h, v + h, "t") for v, h in zip(values, half, strict=True)]
    )
    assert isinstance(bounds, Interval)
    error = np.sqrt((errors**2).sum()) / 3
    assert (bounds.low, bounds.high) == pytest.approx(
        (0.4 - 1.959964 * error, 0.4 + 1.959964 * error)
    )
    p = mean_p(values.tolist(), (2 * stats.norm.sf(values / errors)).tolist(), (2 * half).tolist())
    assert p == pytest.approx(2 * stats.norm.sf(0.4 / error), rel=1e-5)
    # Without intervals, the standard errors follow from p.
    same = mean_p(values.tolist(), (2 * stats.norm.sf(values / errors)).tolist(), [NAN] * 3)
    assert same == pytest.approx(p, rel=1e-5)


def test_of_equal_widths_p_is_stouffers() -> None:
    p = [0.2, 0.03, 0.5]
    expected = stats.combine_pvalues([one / 2 for one in p], method="stouffer").pvalue * 2
    assert mean_p([0.1, 0.2, 0.05], p, [0.3] * 3) == pytest.approx(expected)


def test_data_sets_that_contradict_each_other_cancel() -> None:
    assert mean_p([0.1, -0.1], [0.01, 0.01], [0.3, 0.3]) == 1.0
    # The wide interval is that of the larger difference: the mean is positive and uncertain.
    assert mean_p([0.5, -0.05], [0.1, 0.001], [1.2, 0.06]) == pytest.approx(0.12, abs=0.02)


def test_what_is_missing_stays_so() -> None:
    missing = Missing("4 videos")
    assert mean_interval([0.1, 0.2], [Interval(0, 0.2, "t"), missing]) == missing
    assert isinstance(mean_p([0.1, 0.2], [1.0, 0.1], [NAN, 0.1]), Missing)
    assert mean_p([0.0, 0.0], [1.0, 1.0], [NAN, NAN]) == 1.0
    assert mean_p([0.0, 0.2], [1.0, 0.1], [NAN, NAN]) == pytest.approx(0.1)


def test_an_interval_covers_the_mean_of_small_skewed_samples() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(1_000):
        values, ends = [], []
        for r, n in ((0.3, 30), (0.9, 20), (0.6, 40)):
            x = rng.normal(size=n)
            y = r * x + math.sqrt(1 - r**2) * rng.normal(size=n)
            found = float(np.corrcoef(x, y)[0, 1])
            half = 1.959964 / math.sqrt(n - 3)
            z = math.atanh(found)
            values.append(found)
            ends.append(Interval(math.tanh(z - half), math.tanh(z + half), "fisher"))
        bounds = mean_interval(values, ends)
        assert isinstance(bounds, Interval)
        covered += bounds.low <= 0.6 <= bounds.high
    # Three standard errors of a share of 1,000.
    assert covered / 1_000 == pytest.approx(0.95, abs=0.021)


@pytest.mark.parametrize(
    ("differences", "p", "widths"),
    [
        ([], [], []),
        ([0.1], [0.5, 0.5], [1.0, 1.0]),
        ([0.1], [0.5], []),
        ([0.1], [0.0], [1.0]),
        ([0.1, 0.2], [0.5, 1.1], [1.0, 1.0]),
        ([0.1, 0.2], [-0.5, 0.5], [1.0, 1.0]),
        ([0.1, 0.2], [math.nan, 0.5], [1.0, 1.0]),
    ],
)
def test_a_mean_of_nothing_or_of_an_impossible_p_is_an_error(
    differences: list[float], p: list[float], widths: list[float]
) -> None:
    with pytest.raises(ValueError, match=r"have no mean|must be above 0 and up to 1"):
        mean_p(differences, p, widths)


@pytest.mark.parametrize(("values", "number"), [([], 0), ([0.1], 2), ([0.1, 0.2], 1)])
def test_an_interval_of_nothing_is_an_error(values: list[float], number: int) -> None:
    with pytest.raises(ValueError, match="have no mean"):
        mean_interval(values, [Interval(0.0, 0.3, "t")] * number)

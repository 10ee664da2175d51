"""Aggregating several raters: brute force, and rows in any order."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capeval.stats.agreement import How, combine, combine_others

HOW: tuple[How, ...] = ("mean", "median")
GAP = float("nan")


@pytest.mark.parametrize("how", HOW)
@given(scale=st.sampled_from([1e-300, 1e-3, 1.0, 1e6, 1e307]), data=st.data())
def test_equal_as_typed_is_equal_in_any_order(how: How, scale: float, data: st.DataObject) -> None:
    orders = list(permutations([0.1 * scale, 0.2 * scale, 0.3 * scale]))
    captions = data.draw(st.permutations(orders))
    assert len(set(combine(np.array(captions).T, how).tolist())) == 1


def test_large_and_tiny_ratings_have_finite_means() -> None:
    assert combine([[1.5e100, 1e100], [1.7e100, 1e100]]).tolist() == pytest.approx([1.6e100, 1e100])
    assert combine([[1e-310, 0], [1e-310, 0]]).tolist() == [1e-310, 0]


def test_one_rater_is_taken_as_typed() -> None:
    assert combine([[1 / 3, 1e-15, GAP]])[:2].tolist() == [1 / 3, 1e-15]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("gaps", [0.0, 0.4])
def test_the_others_are_those_that_are_left_when_one_is_taken_out(how: How, gaps: float) -> None:
    rng = np.random.default_rng(3)
    ratings = rng.integers(0, 6, (5, 40)) / 10
    ratings[rng.random(ratings.shape) < gaps] = GAP
    ratings[4] = np.where(np.isnan(ratings[4]), GAP, 0.3)
    expected = [combine(np.delete(ratings, n, axis=0), how) for n in range(len(ratings))]
    assert combine_others(ratings, how) == pytest.approx(
        np.array(expected), rel=1e-11, abs=1e-11, nan_ok=True
    )

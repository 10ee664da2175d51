from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from capeval.judging.lexical import align

# Eighths add up without rounding, so that equal alignments are equal in float as well.
eighths = st.integers(-8, 16).map(lambda n: n / 8)


@st.composite
def tables(draw: st.DrawFn) -> NDArray[np.float64]:
    rows, columns = draw(st.integers(0, 5)), draw(st.integers(0, 3))
    cells = st.lists(eighths, min_size=columns, max_size=columns)
    return np.array(draw(st.lists(cells, min_size=rows, max_size=rows))).reshape(rows, columns)


def is_monotone(matches: list[int | None]) -> bool:
    kept = [match for match in matches if match is not None]
    return all(first <= second for first, second in pairwise(kept))


def earned(scores: NDArray[np.float64], skip: float, matches: list[int | None]) -> float:
    return sum(
        skip if match is None else float(scores[row, match]) for row, match in enumerate(matches)
    )


def best_of_all(scores: NDArray[np.float64], skip: float) -> float:
    choices = [None, *range(scores.shape[1])]
    everything = (list(matches) for matches in product(choices, repeat=len(scores)))
    return max(earned(scores, skip, matches) for matches in everything if is_monotone(matches))


@given(scores=tables(), skip=eighths)
def test_alignment_is_monotone_and_the_best_of_all(
    scores: NDArray[np.float64], skip: float
) -> None:
    matches = align(scores, skip)
    assert is_monotone(matches)
    assert earned(scores, skip, matches) == best_of_all(scores, skip)


@given(scores=tables(), skip=eighths)
def test_a_match_is_always_better_than_none(scores: NDArray[np.float64], skip: float) -> None:
    for row, match in enumerate(align(scores, skip)):
        assert match is None or scores[row, match] > skip


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        pytest.param([[1, 0], [1, 0], [0, 1]], [0, 0, 1], id="many candidates share a reference"),
        pytest.param([[0, 3], [1, 0]], [1, None], id="the order costs the smaller score"),
        pytest.param([[0, 0], [0, 0]], [None, None], id="nothing in common is no match"),
        pytest.param([[1, 1, 1]], [0], id="among equals the earliest reference"),
        pytest.param([[0, 0, 1], [1, 1, 0]], [None, 0], id="among equals the earliest alignment"),
    ],
)
def test_known_alignments(scores: list[list[float]], expected: list[int | None]) -> None:
    found = align(np.array(scores, dtype=np.float64), skip=0.25)
    assert found == expected


def test_no_candidates_and_no_references_align_to_nothing() -> None:
    assert align(np.zeros((0, 3)), skip=0.5) == []
    assert align(np.zeros((2, 0)), skip=0.5) == [None, None]


def test_a_table_of_one_axis_is_refused() -> None:
    with pytest.raises(ValueError, match="1 axes"):
        align(np.zeros(3), skip=0.5)

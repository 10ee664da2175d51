from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from capeval.judging.lexical.matching import align

# Eighths add up without rounding, so that equal alignments are equal in float as well.
eighths = st.integers(-8, 16).map(lambda n: n / 8)


@st.composite
def tables(draw: st.DrawFn) -> NDArray[np.float64]:
    rows, columns = draw(st.integers(0, 5)), draw(st.integers(0, 3))
    cells = st.lists(eighths, min_size=columns, max_size=columns)
    return np.array(draw(st.lists(cells, min_size=rows, max_size=rows))).reshape(rows, columns)


@given(scores=tables(), skip=eighths)
def test_alignment_is_monotone_and_the_best_of_all(
    scores: NDArray[np.float64], skip: float
) -> None:
    def earned(matches: tuple[int | None, ...]) -> float:
        own = [skip if n is None else float(scores[row, n]) for row, n in enumerate(matches)]
        return sum(own)

    def is_monotone(matches: tuple[int | None, ...]) -> bool:
        kept = [match for match in matches if match is not None]
        return all(first <= second for first, second in pairwise(kept))

    found = tuple(align(scores, skip))
    every = product([None, *range(scores.shape[1])], repeat=len(scores))
    assert is_monotone(found)
    assert earned(found) == max(earned(matches) for matches in every if is_monotone(matches))
    assert all(n is None or scores[row, n] > skip for row, n in enumerate(found))


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        pytest.param([[1, 0], [1, 0], [0, 1]], [0, 0, 1], id="many candidates share a reference"),
        pytest.param([[0, 3], [1, 0]], [1, None], id="the order costs the smaller score"),
        pytest.param([[1, 1, 1]], [0], id="among equals the earliest reference"),
        pytest.param([[0, 0, 1], [1, 1, 0]], [None, 0], id="among equals the earliest alignment"),
    ],
)
def test_known_alignments(scores: list[list[float]], expected: list[int | None]) -> None:
    assert align(np.array(scores, dtype=np.float64), skip=0.25) == expected

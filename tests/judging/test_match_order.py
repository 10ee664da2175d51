"""The repair of the order of time, against brute force over all subsequences."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from capeval.judging.llm_judge import repair_order

Matches = list[int | None]

SEQUENCES = st.lists(st.tuples(st.none() | st.integers(1, 5), st.integers(0, 4)), max_size=10)


def by_brute_force(matches: Sequence[int | None], sizes: Sequence[int]) -> Matches:
    matched = [place for place, match in enumerate(matches) if match is not None]
    best: tuple[int, int, list[int]] | None = None
    kept: tuple[int, ...] = ()
    for count in range(len(matched) + 1):
        for places in combinations(matched, count):
            numbers = [matches[place] or 0 for place in places]
            if numbers != sorted(numbers):
                continue
            words = sum(sizes[place] for place in places)
            rank = (count, words, [-place for place in places])
            if best is None or rank > best:
                best, kept = rank, places
    return [match if place in kept else None for place, match in enumerate(matches)]


@given(SEQUENCES)
def test_repair_is_the_best_of_all_subsequences(pairs: list[tuple[int | None, int]]) -> None:
    matches, sizes = [m for m, _ in pairs], [s for _, s in pairs]
    assert repair_order(matches, sizes) == by_brute_force(matches, sizes)

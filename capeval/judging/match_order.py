"""Chronological order: reference numbers never decrease along the candidate events."""

from __future__ import annotations

from collections.abc import Sequence

_Gain = tuple[int, int]


def repair_order(matches: Sequence[int | None], sizes: Sequence[int]) -> list[int | None]:
    """Return the matches with those that break the order set to None.

    What stays is the longest non-decreasing subsequence; among equals the one that keeps most
    words, then the one whose events come earliest.

    Parameters
    ----------
    matches : one reference number (from 1) or None per candidate event.
    sizes : words of each candidate event.

    >>> repair_order([1, 3, 2, None, 3], [5, 9, 4, 1, 6])
    [1, 3, None, None, 3]
    """
    places = [place for place, match in enumerate(matches) if match is not None]
    numbers = [match for match in matches if match is not None]
    top = max(numbers, default=0)
    # following[v]: the best gain of a subsequence of what comes later, all of it >= v.
    following: list[_Gain] = [(0, 0)] * (top + 2)
    gains: list[_Gain] = [(0, 0)] * len(places)
    for at in range(len(places) - 1, -1, -1):
        number = numbers[at]
        count, words = following[number]
        gains[at] = gain = (count + 1, words + sizes[places[at]])
        for value in range(number, -1, -1):
            if following[value] >= gain:
                break
            following[value] = gain

    repaired: list[int | None] = [None] * len(matches)
    wanted, least = following[0], 0
    for at, place in enumerate(places):
        if numbers[at] >= least and gains[at] == wanted and wanted[0] > 0:
            repaired[place] = least = numbers[at]
            wanted = (wanted[0] - 1, wanted[1] - sizes[place])
    return repaired

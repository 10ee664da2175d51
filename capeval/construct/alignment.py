"""Which events and elements of two annotations of one video state the same.

Texts are compared by the stems of their words, without function words, as the lexical judge does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from capeval.construct.drafts import Draft, DraftEvent, Place
from capeval.judging.lexical import content_words
from capeval.stats.values import Floats

SAME = 0.4
"""The least similarity of two texts that state the same.

In TUNA's published example and the bundled sample, all pairs of events of one video have less, and
so have 99% of the pairs of elements of different videos.
"""


@dataclass(frozen=True)
class Alignment:
    """Pairs of a first and a second annotation; None where one of them has no counterpart.

    `events` are in order in both. `elements` are in the order of the first; those that only the
    second has follow.
    """

    events: list[tuple[int | None, int | None]]
    elements: list[tuple[Place | None, Place | None]]


def align(first: Draft, second: Draft) -> Alignment:
    """Align the events of two annotations in their order, and their elements one to one.

    Elements are paired within matched events, and what is left then with elements of neighbouring
    events: who ends an event later than the other still states the same. Beyond a matched event,
    the same words are about another moment.
    """
    events = _in_order(_similarities(*([_text(e) for e in one.events] for one in (first, second))))
    matched = [(i, j) for i, j in events if i is not None and j is not None]
    places = [
        [(i, e) for i, event in enumerate(one.events) for e in range(len(event.visual_elements))]
        for one in (first, second)
    ]
    alike = _similarities(*([e.content for e in one.elements] for one in (first, second)))
    of = [np.array([i for i, _ in side], int) for side in places]
    together = np.zeros(alike.shape, bool)
    apart = np.zeros(alike.shape, bool)
    for i, j in matched:
        before, after = of[0][:, None] - i, of[1] - j
        together |= (before == 0) & (after == 0)
        apart |= before * after < 0
    pairs = _assigned(np.where(together, alike, 0.0))
    left = np.where(apart, 0.0, alike)
    left[[*pairs]] = 0.0
    left[:, [*pairs.values()]] = 0.0
    pairs |= _assigned(left)
    counterpart = {places[0][i]: places[1][j] for i, j in pairs.items()}
    found = {*counterpart.values()}
    return Alignment(
        events,
        [
            *((one, counterpart.get(one)) for one in places[0]),
            *((None, one) for one in places[1] if one not in found),
        ],
    )


def _text(event: DraftEvent) -> str:
    return " ".join([event.event, *(element.content for element in event.visual_elements)])


def _similarities(first: Sequence[str], second: Sequence[str]) -> Floats:
    """Return F1 of the content words of each pair of texts: (first, second)."""
    sides = [[content_words(text) for text in side] for side in (first, second)]
    found = np.zeros((len(first), len(second)))
    for i, one in enumerate(sides[0]):
        for j, other in enumerate(sides[1]):
            whole = len(one) + len(other)
            # The same text comes before another of the same words.
            alike = 0.999 * 2 * len(one & other) / whole if whole else 0.0
            found[i, j] = 1.0 if first[i] == second[j] else alike
    return found


def _in_order(alike: Floats) -> list[tuple[int | None, int | None]]:
    """Return the alignment with the greatest sum of similarities of at least `SAME`."""
    rows, columns = alike.shape
    best = np.zeros((rows + 1, columns + 1))
    for i in reversed(range(rows)):
        for j in reversed(range(columns)):
            paired = alike[i, j] + best[i + 1, j + 1] if alike[i, j] >= SAME else 0.0
            best[i, j] = max(best[i + 1, j], best[i, j + 1], paired)
    found: list[tuple[int | None, int | None]] = []
    i = j = 0
    while i < rows and j < columns:
        if best[i, j] == best[i + 1, j]:
            found.append((i, None))
            i += 1
        elif best[i, j] == best[i, j + 1]:
            found.append((None, j))
            j += 1
        else:
            found.append((i, j))
            i, j = i + 1, j + 1
    return [*found, *((n, None) for n in range(i, rows)), *((None, n) for n in range(j, columns))]


def _assigned(alike: Floats) -> dict[int, int]:
    """Return the one-to-one pairs with the greatest sum of similarities of at least `SAME`."""
    from scipy.optimize import linear_sum_assignment

    allowed = np.where(alike >= SAME, alike, 0.0)
    rows, columns = linear_sum_assignment(allowed, maximize=True)
    return {int(i): int(j) for i, j in zip(rows, columns, strict=True) if allowed[i, j]}

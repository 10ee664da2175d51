"""Splits a caption and matches its pieces to reference events, for judges without a chat model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from importlib.metadata import version
from operator import add
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from capeval.judging.lexical.lexicon import lexicon
from capeval.judging.lexical.reading import NOT, Reading, read, tokens
from capeval.judging.lexical.reference import LexicalReference
from capeval.judging.lexical.splitting import split
from capeval.judging.written_events import repeats_note
from capeval.text import storable

RULES: Final = "lexical-1"
"""The version of the rules and word lists."""

# The score of a piece without an event: a lower similarity is not a match.
_SKIP = 0.25
_SENTENCE_ENDS = frozenset(".!?…。！？")
_MAX_WORDS = 20_000


class Matched(NamedTuple):
    """A caption's pieces, what was read of each, and its reference event (from 0) or None."""

    pieces: list[str]
    readings: list[Reading]
    matches: list[int | None]
    notes: list[str]


def stemmer() -> str:
    """Return the stemmer with its version: matches depend on it, besides the rules."""
    return f"snowballstemmer {version('snowballstemmer')}"


def split_and_match(caption: str, reference: LexicalReference) -> Matched:
    """Split a caption, which may be any text, and match its pieces by the words that they share."""
    pieces, repeats = split(storable(caption))
    notes = [repeats_note(repeats)] if repeats else []
    readings, unread = _read_all(pieces)
    if unread:
        notes.append(f"split: words beyond the first {_MAX_WORDS:,} different ones were not read")
    return Matched(pieces, readings, align(_similarities(readings, reference), _SKIP), notes)


def align(scores: NDArray[np.floating], skip: float) -> list[int | None]:
    """Return the monotone alignment of a caption's events with reference events that scores most.

    `scores` is (candidates x references) and finite; `skip` is the score of a candidate without a
    reference. References never decrease along the candidates (TUNA, 4.1), and several candidates
    may share one. A candidate has a reference only if that scores more than `skip`; among equal
    alignments it has the earliest. Time and memory grow with candidates x references.

    Returns one reference (from 0) or None per candidate; raises ValueError unless `scores` has
    two axes.

    >>> align(np.array([[0.1, 0.4], [0.8, 0.2], [0.0, 0.7]]), skip=0.3)
    [None, 0, 1]
    """
    if scores.ndim != 2:
        raise ValueError(f"scores has {scores.ndim} axes, not 2")
    candidates, references = scores.shape
    if candidates == 0 or references == 0:
        return [None] * candidates
    # An alignment divides the candidates into one run per reference, and within its run a candidate
    # is matched or skipped. So the search is for the boundaries, one reference after the other.
    earned = np.maximum(scores, skip).astype(np.float64)
    sums = np.zeros((references, candidates + 1))
    np.cumsum(earned.T, axis=1, out=sums[:, 1:])
    best = sums[0]
    gains = []
    for total in sums[1:]:
        gain = best - total
        gains.append(gain)
        best = total + np.maximum.accumulate(gain)
    owner = np.zeros(candidates, dtype=np.intp)
    end = candidates
    for reference in range(references - 1, 0, -1):
        gain = gains[reference - 1][end::-1]
        start = end - int(np.argmax(gain))
        owner[start:end] = reference
        end = start
    matched = scores[np.arange(candidates), owner] > skip
    return [
        int(reference) if kept else None for reference, kept in zip(owner, matched, strict=True)
    ]


def _read_all(pieces: list[str]) -> tuple[list[Reading], bool]:
    words = lexicon()
    known: set[str] = set()
    readings: list[Reading] = []
    unread = False
    for piece in pieces:
        text = tokens(piece)
        known.update(text)
        if len(known) > _MAX_WORDS:
            # No description has so many words, and stemming a megabyte of noise would take seconds.
            unread, text = True, []
        reading = read(text, words)
        before_end = pieces[len(readings) - 1][-4:]
        if readings and not reading.actor and _SENTENCE_ENDS.isdisjoint(before_end):
            # "A girl looks up, then runs away": the clause before names who runs.
            before = readings[-1]
            reading = reading._replace(actor=before.actor, actor_concept=before.actor_concept)
        readings.append(reading)
    return readings, unread


def _similarities(readings: list[Reading], reference: LexicalReference) -> NDArray[np.float64]:
    none = (0.0,) * len(reference.events)
    worth = _Worth(reference)
    rows: list[Sequence[float]] = []
    for reading in readings:
        concepts: Iterable[str] = reading.concepts
        if reading.negates:
            # In the order of the text: the sum of floats must not depend on the order of a set.
            concepts = dict.fromkeys([concept.removeprefix(NOT) for concept in reading.concepts])
        weights = [row for row in map(worth.__getitem__, concepts) if row is not None]
        scale = (_total(reading.concepts.values()) + 1.0) ** -0.5
        columns = zip(*weights, strict=True)
        rows.append([scale * _total(column) for column in columns] if weights else none)
    return np.array(rows, dtype=np.float64).reshape(len(readings), len(reference.events))


class _Worth(dict[str, tuple[float, ...] | None]):
    """What the concepts of one caption are worth, computed once for each."""

    def __init__(self, reference: LexicalReference) -> None:
        super().__init__()
        self._of = reference.worth

    def __missing__(self, concept: str) -> tuple[float, ...] | None:
        row = self[concept] = self._of(concept)
        return row


def _total(numbers: Iterable[float]) -> float:
    """Add numbers from left to right.

    From Python 3.12 on, `sum` adds floats with less rounding. The last digit decides between two
    events that fit equally well, so verdicts would depend on the version of Python.
    """
    return reduce(add, numbers, 0.0)

"""The lexical judge: splits a caption, matches its pieces and classifies elements by rules."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache, reduce
from importlib.metadata import version
from operator import add
from typing import Final

import numpy as np
from numpy.typing import NDArray

from capeval.judging.lexical.lexicon import lexicon
from capeval.judging.lexical.reading import NOT, Reading, read, tokens
from capeval.judging.lexical.reference import LexicalReference, prepare
from capeval.judging.lexical.relations import relations
from capeval.judging.lexical.word_lists import ABBREVIATIONS
from capeval.judging.split_checks import repeats_note
from capeval.schema import Annotation, Verdict
from capeval.text import storable

# The score of a piece without an event: a lower similarity is not a match.
_SKIP = 0.25
_SENTENCE_ENDS = frozenset(".!?…。！？")
_MAX_WORDS = 20_000
# Annotations in memory: several data sets of a thousand videos.
_CACHED = 4096


class LexicalJudge:
    """A deterministic judge that uses word overlap and rules of language; no model, no network.

    It follows the three stages of TUNA (4.1) and serves as a baseline and as a smoke test of a
    pipeline. It has no world knowledge and resolves no coreference: its verdicts do not measure
    quality.
    `name` is the version of its rules and word lists; with the same stemmer, the same name gives
    the same verdicts.

    >>> annotation = Annotation.model_validate(
    ...     {
    ...         "index": "1",
    ...         "events": [
    ...             {
    ...                 "event": "A man in a red shirt runs to the left.",
    ...                 "visual_elements": [
    ...                     {"content": "A man runs.", "type": "action", "weight": 3},
    ...                     {"content": "His shirt is red.", "type": "attribute", "weight": 2},
    ...                     {"content": "It is snowing.", "type": "scene", "weight": 1},
    ...                 ],
    ...             }
    ...         ],
    ...     }
    ... )
    >>> LexicalJudge().judge(annotation, "A guy in a blue shirt is running.").relations
    (('entailment', 'contradiction', 'lack'),)
    """

    name: Final = "lexical-1"
    is_baseline: Final = True
    description: Final = "embedded baseline: compares words, understands nothing"

    def __init__(self) -> None:
        self.identity: Final = (f"snowballstemmer {version('snowballstemmer')}",)
        self.prepare: Final = lru_cache(_CACHED)(prepare)
        """Reads an annotation; the last few thousand are cached."""

    def judge(self, annotation: Annotation, caption: str) -> Verdict:
        """Judge one caption, which may be any text; an empty one lacks everything."""
        reference = self.prepare(annotation)
        pieces, repeats = split(storable(caption))
        notes = [repeats_note(repeats)] if repeats else []
        readings, unread = _read_all(pieces)
        if unread:
            notes.append(
                f"split: words beyond the first {_MAX_WORDS:,} different ones were not read"
            )
        matches = align(_similarities(readings, reference), _SKIP)
        return Verdict(
            candidate_events=tuple(pieces),
            matches=tuple(None if match is None else match + 1 for match in matches),
            relations=tuple(
                tuple(
                    relations(event, [r for r, m in zip(readings, matches, strict=True) if m == n])
                )
                for n, event in enumerate(reference.events)
            ),
            notes=tuple(notes),
        )


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


# One pass over the text: unbounded repetitions are possessive, so that no text, however long, is
# matched twice.
# Each alternative begins with a character, so that most positions are passed quickly, and ends with
# an empty group, which names it.
_CLAUSE = r"""
    (?:and|but)\sthen\s | while\s | whereas\s | after\swhich\s
    | before\s(?:the\scamera\s|he\s|she\s|it\s|they\s|[a-z]{2,20}ing\s)
"""
_CUT = re.compile(
    rf"""
    \n\s*+(?P<line>)
    | [.!?…。！？]++["'”’)\]*]*+(?P<end>)
    | ;(?P<semicolon>)
    | ,\s(?=then\s
        | (?:(?:and|but)\s)?(?:he|she|they|it|the\s(?:camera|scene|shot|view))\s
        | {_CLAUSE})(?P<comma>)
    | \s(?:(?={_CLAUSE})(?P<space>)
        | (?=[\[(]?\d{{1,2}}:\d{{2}}(?::\d{{2}})?\s?[-–—]\s?\d{{1,2}}:\d{{2}})(?P<time>))
    """,
    re.VERBOSE | re.IGNORECASE,
)
_CLAUSE_CUTS = frozenset({"semicolon", "comma", "space"})
_WORD = re.compile(r"[^\W_]++")
_LAST = re.compile(r"[^\s(\[\"“'‘*_]*\Z")
_MARKER = re.compile(r"[\s(\[*_#>-]*(?:\d{1,3}|[a-zA-Z]|[ivx]{1,4})[.)]*\Z", re.IGNORECASE)
# Characters before a full stop that decide what it is: longer than any abbreviation or marker.
_LOOK_BACK = 24
# Words on either side of a cut; fewer are a fragment, not an event.
_MIN_CLAUSE = 3


def split(caption: str) -> tuple[list[str], int]:
    """Split a caption into pieces, in order; return them and how many repeats were dropped.

    A piece is dropped if its words are those of the piece before it, or have occurred twice
    already: models fall into loops. Time grows with the caption's length.

    >>> split("A man sits down, then stands up and leaves. A dog barks. A dog barks.")
    (['A man sits down,', 'then stands up and leaves.', 'A dog barks.'], 1)
    """
    pieces: list[str] = []
    start = seen = 0
    for cut in _CUT.finditer(caption):
        if cut.lastgroup == "end" and not _is_sentence_end(caption, start, cut):
            continue
        if cut.lastgroup in _CLAUSE_CUTS and not _is_clause(caption, start, cut):
            continue
        # A bullet or a rule alone is not an event: it stays with the text that follows.
        if _WORD.search(caption, seen, cut.end()):
            pieces.append(caption[start : cut.end()].strip())
            start = cut.end()
        seen = cut.end()
    if _WORD.search(caption, seen):
        pieces.append(caption[start:].strip())
    return _without_repeats(pieces)


def _is_sentence_end(caption: str, start: int, cut: re.Match[str]) -> bool:
    mark = cut[0]
    if mark[0] in "。！？":
        return True
    if not caption[cut.end() : cut.end() + 1].isspace():
        return False
    if mark[0] != ".":
        return True
    before = caption[max(start, cut.start() - _LOOK_BACK) : cut.start()]
    last = "" if not before or before[-1].isspace() else before.rsplit(None, 1)[-1]
    if not last.isalnum():
        found = _LAST.search(last)
        last = found[0] if found else ""
    word = last.lower()
    following = caption[cut.end() : cut.end() + 3].lstrip()[:1]
    if len(before) < _LOOK_BACK and _MARKER.match(before):
        return False
    if mark.startswith(".."):
        return not following.islower()
    if word in ABBREVIATIONS:
        return word == "etc" and following.isupper()
    if (len(word) == 1 and word.isalpha()) or "." in word:
        return "." in word and following.isupper() and word not in {"e.g", "i.e", "u.s"}
    return True


def _is_clause(caption: str, start: int, cut: re.Match[str]) -> bool:
    # Only the nearest words decide, so that a long sentence is not searched again at every cut.
    before = _WORD.findall(caption[max(start, cut.start() - 80) : cut.start()])
    after = _WORD.findall(caption[cut.end() : cut.end() + 80])
    return len(before) >= _MIN_CLAUSE and len(after) >= _MIN_CLAUSE


def _without_repeats(pieces: list[str]) -> tuple[list[str], int]:
    kept: list[str] = []
    occurrences: Counter[tuple[str, ...]] = Counter()
    previous: tuple[str, ...] = ()
    for piece in pieces:
        key = tuple(_WORD.findall(piece.lower()))
        occurrences[key] += 1
        if key != previous and occurrences[key] <= 2:
            kept.append(piece)
        previous = key
    return kept, len(pieces) - len(kept)

"""The lexical judge: built in and deterministic; a baseline and a smoke test, not a measurement.

It compares stems of words. A caption is cut into pieces, each piece is matched in order to the
annotated event that has most of its words, and an element is entailed if the pieces of its event
have at least half of its words. Words that exclude each other, such as "left" and "right", make a
contradiction. Any changed rule or word here changes verdicts: give `RULES` a new number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from importlib.metadata import version
from itertools import accumulate, pairwise, permutations
from math import fsum
from typing import Final

from snowballstemmer.english_stemmer import EnglishStemmer

from capeval.judging.protocol import PreparedJudge, Tally
from capeval.language import segments, words
from capeval.schema import Annotation, Relation, Verdict
from capeval.text import storable

RULES: Final = "lexical-2"
"""The version of the rules and word lists."""

_LEAST_SHARED = 0.15
"""The least share of a piece's words that its event has; a piece below it is unmatched."""
_ENTAILED = 0.5
"""The least share of an element's words that the pieces of its event have."""
_SAME_THING = 0.4
"""The least share of an element's other words in a piece that can deny one of its words."""
_TIE_BREAK = 1e-3
"""Among events that fit a piece equally well, the one at the same place in the text is chosen."""
# No English word is longer, and stemming a megabyte of letters would take seconds.
_LONGEST_WORD = 30

_FUNCTION_WORDS = """
    a an the this that these those some any each every another i you he she it we they him them me
    us my your his her hers its our their theirs himself herself itself themselves who whom whose
    which what where when while as then than if so and or but am is are was were be been being has
    have had having do does did doing will would shall should can could may might must there here
    also too very just again even only both of to at by for from with on s t
"""
_OPPOSITES = """
    left | right
    up upward | down downward
    in into | out
    forward | backward
    toward | away
    clockwise | counterclockwise
    above | below
    front | behind
    inside | outside
    indoors indoor | outdoors outdoor
    enter | exit leave
    open | close
    raise | lower
    push | pull
    appear | disappear
    stand | sit | lie
    static still | pan tilt zoom move
    day daytime | night nighttime
    sunny | rain rainy
    bright | dark
    young | old elderly
    big large | small tiny
    tall long | short
    fast quickly | slowly
    happy smile | sad cry
    empty | full crowded
    man boy | woman girl
    red | green | blue | yellow | orange | purple | pink | brown | black | white | gray grey
    two | three | four | five | six | seven | eight | nine | ten
"""

_FUNCTION = frozenset(_FUNCTION_WORDS.split())

Words = frozenset[str]
"""The stems of a text's content words."""


# Not `snowballstemmer.stemmer`: where PyStemmer is installed, that is another program.
_STEMMER = EnglishStemmer()


@lru_cache(100_000)
def stem(word: str) -> str:
    """Return the stem of a lower-case word (Porter, 1980; Snowball's English stemmer).

    >>> stem("zooming"), stem("zooms")
    ('zoom', 'zoom')
    """
    return str(_STEMMER.stemWord(word)) if len(word) <= _LONGEST_WORD else word


def content_words(text: str) -> Words:
    """Return the stems of the words of a text, without function words.

    >>> sorted(content_words("The man's dogs are running."))
    ['dog', 'man', 'run']
    """
    parts = (part for word in words(text.replace("’", "'")) for part in word.split("'"))
    return frozenset(stem(part) for part in parts if part not in _FUNCTION)


def _exclusions() -> dict[str, Words]:
    found: dict[str, Words] = {}
    for line in _OPPOSITES.strip().splitlines():
        poles = [frozenset(map(stem, pole.split())) for pole in line.split("|")]
        for here, there in permutations(poles, 2):
            for word in here:
                found[word] = found.get(word, frozenset()) | there
    return found


_EXCLUDED = _exclusions()


class LexicalJudge(PreparedJudge):
    """A deterministic judge that compares words; no model, no network.

    It follows the three stages of TUNA (4.1). It knows no synonyms and resolves no coreference: its
    verdicts do not measure quality.

    >>> elements = [
    ...     {"content": content, "type": "attribute", "weight": 2}
    ...     for content in ("A man runs.", "His shirt is red.", "It is snowing.")
    ... ]
    >>> annotation = Annotation.model_validate(
    ...     {"index": "1", "events": [{"event": "A man runs.", "visual_elements": elements}]}
    ... )
    >>> LexicalJudge().verdict(annotation, "A man in a blue shirt is running.").relations
    (('entailment', 'contradiction', 'lack'),)
    """

    name = RULES
    is_baseline = True
    description = "built-in baseline: compares words, understands nothing"

    def __init__(self) -> None:
        # Verdicts depend on the stemmer, besides the rules.
        self.identity = (RULES, f"snowballstemmer {version('snowballstemmer')}")

    async def judge(
        self, annotation: Annotation, caption: str, *, repeat: int, tally: Tally
    ) -> Verdict:
        return self.verdict(annotation, caption)

    def verdict(self, annotation: Annotation, caption: str) -> Verdict:
        """Judge one caption, which may be any text; an empty one lacks everything."""
        pieces = [piece.strip() for piece in segments(storable(caption)) if words(piece)]
        said = [content_words(piece) for piece in pieces]
        elements = [
            [content_words(element.content) for element in event.visual_elements]
            for event in annotation.events
        ]
        events = [
            content_words(event.event).union(*own)
            for event, own in zip(annotation.events, elements, strict=True)
        ]
        matches = align(said, events)
        relations = []
        for at, own in enumerate(elements):
            about = [piece for piece, match in zip(said, matches, strict=True) if match == at]
            relations.append(tuple(relation(element, about) for element in own))
        return Verdict(
            candidate_events=tuple(pieces),
            matches=tuple(None if match is None else match + 1 for match in matches),
            relations=tuple(relations),
        )


def align(pieces: Sequence[Words], events: Sequence[Words]) -> list[int | None]:
    """Return the event (from 0) of each piece, or None, so that pieces share most words in order.

    Events never decrease along the pieces (TUNA, 4.1); several pieces may share one. The score of a
    piece is the share of its words that the event has. Words that are in many events count less.
    Time grows with pieces x events.

    >>> left, right, dog = (frozenset({word}) for word in ("left", "right", "dog"))
    >>> align([left, dog, right], [left, right])
    [0, None, 1]
    """
    having = Counter(word for event in events for word in event)
    scores = [[_share(piece, event, having) for event in events] for piece in pieces]
    places, extents = _extents(pieces), _extents(events)
    # The best sum of scores with the piece in each event, and the event of the piece before it.
    best = [0.0] * len(events)
    before: list[list[int]] = []
    for row, place in zip(scores, places, strict=True):
        sums, sources, source = [], [], 0
        for at, (score, extent) in enumerate(zip(row, extents, strict=True)):
            source = at if best[at] > best[source] else source
            sources.append(source)
            middle = sum(place) / 2
            away = max(extent[0] - middle, middle - extent[1], 0.0)
            sums.append(best[source] + max(score - _TIE_BREAK * away, _LEAST_SHARED))
        best = sums
        before.append(sources)
    at = best.index(max(best))
    matches: list[int | None] = []
    for row, sources in zip(reversed(scores), reversed(before), strict=True):
        matches.append(at if row[at] > _LEAST_SHARED else None)
        at = sources[at]
    return matches[::-1]


def _share(piece: Words, event: Words, having: Counter[str]) -> float:
    # A word that no event has counts as a word of one event. fsum does not depend on the order.
    total = fsum(1 / max(having[word], 1) for word in piece)
    return fsum(1 / having[word] for word in piece & event) / total if total else 0.0


def _extents(texts: Sequence[Words]) -> list[tuple[float, float]]:
    """Return each text's start and end in the joined texts, from 0 to 1."""
    ends = [*accumulate(map(len, texts), initial=0)]
    return [(start / max(ends[-1], 1), end / max(ends[-1], 1)) for start, end in pairwise(ends)]


def relation(element: Words, pieces: Sequence[Words]) -> Relation:
    """Return the relation of an element to the pieces that are matched to its event.

    It is contradicted if a piece about the same thing has an opposite of one of its words, and no
    piece about it has the word itself.
    """
    said = frozenset[str]().union(*pieces)
    if element and element <= said:
        return "entailment"
    for word in element & _EXCLUDED.keys():
        rest = element - {word}
        about = [piece for piece in pieces if len(rest & piece) >= _SAME_THING * len(rest)]
        if any(_EXCLUDED[word] & piece for piece in about) and not any(word in p for p in about):
            return "contradiction"
    return "entailment" if element and len(element & said) >= _ENTAILED * len(element) else "lack"

"""Splits a caption into pieces by rules of punctuation and clauses."""

from __future__ import annotations

import re
from collections import Counter

from capeval.judging.lexical.lexicon import ABBREVIATIONS

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

"""The language of captions and replies: words, segments, and reasoning in front of a reply."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

from capeval.text import normal_form

# A mark is part of its letter; in scripts without spaces each character counts as a word.
_UNSPACED = r"\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u0e00-\u0e7f"
_LETTER = rf"[^\W_{_UNSPACED}]\u0300*+"
_WORD = re.compile(rf"(?=\w)[{_UNSPACED}]\u0300*+|(?:{_LETTER})++(?:'(?:{_LETTER})++)*+")
# The same of ASCII text, in half the time.
_ASCII_WORD = re.compile(r"[^\W_]++(?:'[^\W_]++)*+", re.ASCII)
# Of one word: joiners, as Persian and Hindi have them, and places where it may be divided.
_WITHIN_WORDS = str.maketrans({"’": "'", "\u200c": None, "\u200d": None, "\u00ad": None})


def with_plain_marks(text: str) -> str:
    """Return a text with U+0300 for every combining mark, which a pattern cannot name otherwise.

    >>> len(with_plain_marks("हिन्दी")), with_plain_marks("हिन्दी").count("\u0300")
    (6, 3)
    """
    if text.isascii():
        return text
    return "".join("\u0300" if unicodedata.category(c)[0] == "M" else c for c in text)


def words(text: str) -> list[str]:
    """Return the words of a text in order, without case: letters, digits, apostrophes within.

    >>> words("A man’s RED car -- stops."), words("हिन्दी में"), words("狗 runs")
    (['a', "man's", 'red', 'car', 'stops'], ['हिन्दी', 'में'], ['狗', 'runs'])
    """
    text = normal_form(text).casefold().translate(_WITHIN_WORDS)
    return [text[slice(*found.span())] for found in _WORD.finditer(with_plain_marks(text))]


def word_count(text: str) -> int:
    """Return the number of words of a text, as `words` finds them."""
    if text.isascii():
        return len(_ASCII_WORD.findall(text))
    return len(_WORD.findall(with_plain_marks(normal_form(text).translate(_WITHIN_WORDS))))


def normalised(text: str) -> str:
    """Return text for comparison: without case, punctuation and extra spaces.

    >>> normalised("The  van has the logo “KXBD”.")
    'the van has the logo kxbd'
    """
    return " ".join(words(text))


# ---- Segments of a caption: its sentences, and the clauses of long sentences ---------------------

# A judge names the segments at which events begin. So they need not be perfect, but must be fine
# enough that an event can begin at one, few enough that they cost little, always the same, and
# together exactly the caption. The rules know punctuation, not languages, apart from two short
# lists of English words.

SEGMENTS_VERSION = 2
"""Part of the hash of prompts: new rules divide captions differently, which changes prompts."""

# Sizes are in characters; one of these counts as three, because a word has about two of them.
_WIDE = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9d\U00020000-\U0003ffff]")
# Every pattern is possessive and begins only where a run of its characters does: linear time.
_CLOSING = r"[\"'”’»›)\]}*_」』）】》]*+"
_BREAK = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
_MARK = ".!?…‼⁇⁈⁉"
_SENTENCE_END = re.compile(
    rf"(?P<line>[{_BREAK}]\s*+)"
    rf"|(?P<full>[。！？｡．।॥؟۔።။།]++{_CLOSING}\s*+)"
    rf"|(?<![{_MARK}])(?P<mark>[{_MARK}]++)(?P<closing>{_CLOSING})"
    rf"(?:[^\S{_BREAK}]++|(?=[\u2600-\u27bf\U0001f000-\U0001faff]))"
    # "He stops.The dog runs": the space was forgotten.
    r"|(?<=[a-z][a-z])[.!?](?=[A-Z](?:[a-z]|\s))"
)
_ABBREVIATION = re.compile(
    "mr|mrs|ms|dr|prof|st|mt|jr|sr|vs|approx|fig|inc|ltd|dept|capt|sgt|lt|col|gen|rev|hon"
)
_DIGIT = re.compile(r"\d")

_SCRIPT_WITHOUT_SPACES = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
_CLAUSE_START = re.compile(
    r"[;:؛；：]++\s*+|(?<!\.)\.{2,}+\s++|…\s++|\s[-–—]{1,2}+\s++|—"
    r"|[,،]\s++(?=(?:and|then|while|before|after|as|but|so|until|where|when|which|who|followed)\b)"
    r"|(?<!\s)\s++(?=(?:and then|then|while|before|until)\b)"
    r"|[，、]"
    rf"|(?<=[{_SCRIPT_WITHOUT_SPACES}])\s++(?=[{_SCRIPT_WITHOUT_SPACES}])",
    re.IGNORECASE,
)
_COMMA = re.compile(r"[,،]\s++")
# Where punctuation is missing, a clause is most often opened by one of these words.
_OPENING_WORD = re.compile(
    r"(?<!\s)\s++(?=(?:he|she|it|they|there|and|while|as|the (?:camera|scene|video|view))\b)",
    re.IGNORECASE,
)
_ARTICLE = re.compile(r"(?<!\s)\s++(?=(?:the|a|an)\b)", re.IGNORECASE)
_SPACE = re.compile(r"(?<!\s)\s++")
# Text larger than the first number is cut at a pattern, into pieces of at least the second: a
# sentence of more than about 17 English words at its clauses, and endless clauses, as in captions
# without punctuation, wherever an event could begin.
_LONGEST = 160
_LEVELS = (
    (_CLAUSE_START, 100, 20),
    (_COMMA, 120, 20),
    (_OPENING_WORD, 120, 20),
    (_ARTICLE, _LONGEST, 40),
    (_SPACE, _LONGEST, 50),
)
_LETTERS = re.compile(r"(?:[^\W\d_]\u0300*+)++")
_JOINED = re.compile(r"[\u200d\U0001f3fb-\U0001f3ff]")
# A word of this size is not a fragment but text without spaces.
_FRAGMENT = 20
# How far a cut moves back to keep a character and its marks together.
_MARKS = 16


@lru_cache(maxsize=128)
def segments(caption: str) -> tuple[str, ...]:
    """Return the segments of a caption; joined, they are the caption.

    >>> segments("A man runs at 3.5 m/s. Mr. Bell stops... and waves!")
    ('A man runs at 3.5 m/s. ', 'Mr. Bell stops... and waves!')
    """
    cuts: list[int] = []
    start = 0
    for end in (*_sentence_ends(caption), len(caption)):
        cuts += _clauses(caption, start, end)
        cuts.append(end)
        start = end
    kept = _without_fragments(caption, cuts)
    return tuple(caption[start:end] for start, end in pairwise((0, *kept)))


def size(text: str) -> int:
    """Return a text's length in characters; those of scripts like Chinese count as three."""
    return len(text) if text.isascii() else len(text) + 2 * len(_WIDE.findall(text))


def _sentence_ends(text: str) -> Iterator[int]:
    for found in _SENTENCE_END.finditer(text):
        if found["mark"] is None or _ends_sentence(text, found):
            yield found.end()


def _ends_sentence(text: str, found: re.Match[str]) -> bool:
    mark = found["mark"]
    following = text[found.end() : found.end() + 1]
    if following.islower() and (mark.endswith(("..", "…")) or found["closing"]):
        # "He waits... and leaves", '"Stop!" he shouts'
        return False
    if mark != ".":
        return True
    before = text[max(0, found.start() - 16) : found.start()]
    written = before.split()[-1].lstrip("([{\"'“‘") if before[-1:].strip() else ""
    word = written.lower()
    if word in ("a.m", "p.m", "etc"):
        return not following.islower()
    if word == "no":
        return not _DIGIT.match(text, found.end())
    # An initial, or letters as in "U.S." and "e.g."
    is_initial = written.isupper() if len(word) == 1 else word[-2:-1] == "." and word[-1].isalpha()
    return not (is_initial or _ABBREVIATION.fullmatch(word))


def _clauses(text: str, start: int, end: int, level: int = 0) -> Iterator[int]:
    if level == len(_LEVELS):
        while _has_size(text, start, end, _LONGEST + 1):
            start = _between_characters(text, start, start + _LONGEST // 3)
            yield start
        return
    pattern, limit, least = _LEVELS[level]
    if not _has_size(text, start, end, limit + 1):
        return
    for found in pattern.finditer(text, start, end):
        cut = found.end()
        if _has_size(text, start, cut, least) and _has_size(text, cut, end, least):
            yield from _clauses(text, start, cut, level + 1)
            yield cut
            start = cut
    yield from _clauses(text, start, end, level + 1)


def _has_size(text: str, start: int, end: int, least: int) -> bool:
    # A text is never smaller than its length, so a long one is not measured.
    return end - start >= least or size(text[start:end]) >= least


def _between_characters(text: str, start: int, cut: int) -> int:
    """Return the nearest place up to `cut` that separates no character from its marks."""
    for place in range(cut, max(start, cut - _MARKS), -1):
        following = text[place : place + 1]
        is_mark = unicodedata.category(following or " ").startswith("M")
        if not (is_mark or _JOINED.match(following) or text[place - 1] == "\u200d"):
            return place
    return cut


def _without_fragments(text: str, cuts: list[int]) -> list[int]:
    """Join fragments that begin no event, such as "2." or "Scene 1:", to the text after them."""
    kept: list[int] = []
    start = words = 0
    for cut in cuts:
        piece = text[start:cut]
        words += 2 if _WIDE.search(piece) else len(_LETTERS.findall(with_plain_marks(piece)))
        if words > 1 or (words and size(piece) >= _FRAGMENT):
            kept.append(cut)
            words = 0
        start = cut
    return [*kept[:-1], len(text)] if text else []


# ---- The reasoning that servers leave in front of a model's reply --------------------------------

# What a server without the model's reasoning parser leaves: DeepSeek's and Qwen's tags (their chat
# templates open the first tag themselves), Seed's, OpenThinker's, Magistral's, Kimi's, Gemma's, and
# OpenAI's Harmony format with and without its special tokens. Reasoning may quote its own mark, so
# the last one ends it.
_REASONING = re.compile(
    r"<(?P<tag>(?:seed:)?think|thinking|thought|reasoning)>.*</(?P=tag)>"
    r"|<\|begin_of_thought\|>.*<\|end_of_thought\|>"
    r"|\[THINK\].*\[/THINK\]"
    r"|◁think▷.*◁/think▷"
    r"|<\|channel>.*<channel\|>"
    r"|(?:<\|start\|>assistant)?<\|channel\|>analysis<\|message\|>.*"
    r"<\|channel\|>final ?(?:<\|constrain\|>\w+)?<\|message\|>"
    r"|analysis(?=[A-Z]).*assistantfinal"
    r"|(?:(?!<think|<thought|<reason).)*</think>",
    re.DOTALL,
)
# Any other mark of reasoning leaves open what is reasoning.
_REASONING_MARK = re.compile(
    r"<[\s/|]{0,3}[\w:]{0,12}(?:think(?:ing)?|thought|reasoning|reflection|scratchpad|analysis)"
    r"\b[^<>]{0,200}>"
    r"|\[/?THINK\]|◁/?think▷|<\|?channel\|?>|\Aanalysis(?-i:(?=[A-Z]))",
    re.IGNORECASE,
)


def after_thinking(text: str) -> str | None:
    """Return what follows the reasoning in front of a reply; None if its end is not clear.

    The end is not clear if reasoning is never closed, or begins after other text.

    >>> after_thinking("<think>A dog?</think> A dog runs."), after_thinking("A dog? </think>A dog.")
    ('A dog runs.', 'A dog.')
    >>> after_thinking("A dog runs."), after_thinking("Well. <think>A dog")
    ('A dog runs.', None)
    """
    text = text.lstrip()
    reasoning = _REASONING.match(text)
    rest = text[reasoning.end() :].lstrip() if reasoning else text
    tag = reasoning["tag"] if reasoning else None
    # Reasoning that starts again has no certain end.
    is_open = tag and text.count(f"<{tag}>") > text.count(f"</{tag}>")
    return None if is_open or _REASONING_MARK.search(rest) else rest

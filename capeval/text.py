"""Text: of messages; the words and segments of captions; the reasoning in front of replies."""

from __future__ import annotations

import json
import re
import traceback
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ValidationError


class Loss(str):
    """A notice about money or lost work: `-q` prints it too, and hides all other notices."""

    __slots__ = ()


def one_line(text: str, limit: int = 300) -> str:
    r"""Return `text` on one line, control characters shown as escapes, cut at `limit` characters.

    >>> one_line("two\nlines\x00")
    'two lines\\x00'
    """
    # A text can be a megabyte long: only the part that can be shown is processed.
    flat = " ".join(text[: 4 * limit].split())
    escaped = (c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in flat)
    return cut("".join(escaped), limit)


def normal_form(text: str) -> str:
    """Return the compatibility form of a text (NFKC)."""
    return unicodedata.normalize("NFKC", text)


# A mark is part of its letter; in scripts without spaces each character counts as a word.
_UNSPACED = r"\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u0e00-\u0e7f"
_LETTER = rf"[^\W_{_UNSPACED}]\u0300*+"
_WORD = re.compile(rf"(?=\w)[{_UNSPACED}]\u0300*+|(?:{_LETTER})++(?:'(?:{_LETTER})++)*+")
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
    return len(_WORD.findall(with_plain_marks(normal_form(text).translate(_WITHIN_WORDS))))


def normalised(text: str) -> str:
    """Return text for comparison: without case, punctuation and extra spaces.

    >>> normalised("The  van has the logo “KXBD”.")
    'the van has the logo kxbd'
    """
    return " ".join(words(text))


def describe(error: BaseException, limit: int = 200) -> str:
    r"""Return an exception as `TYPE: message`; for a group, the first.

    >>> describe(OSError("no\nweights"))
    'OSError: no weights'
    """
    error = _first(error)
    message = one_line(str(error), limit)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def described(error: BaseException) -> str:
    """Return an exception as `describe` does, with the file and the line that raised it."""
    frames = traceback.extract_tb(_first(error).__traceback__)
    at = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return describe(error) + at


def _first(error: BaseException) -> BaseException:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def both_ends(text: str, limit: int) -> str:
    """Return `text` on one line; longer text keeps its beginning and its end.

    Names of runs and checkpoints often differ only at the end.

    >>> both_ends("a-model-with-a-long-name-step-2000", 20)
    'a-model-wi…step-2000'
    """
    flat = one_line(text, 2000)
    if len(flat) <= limit:
        return flat
    head = limit // 2
    return f"{flat[:head]}…{flat[len(flat) - (limit - head - 1) :]}"


def shown(value: Any) -> str:
    """Return a short JSON-like rendering of a value from a file."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = type(value).__name__
    return cut(text)


def cut(text: str, limit: int = 60) -> str:
    """Return text cut at `limit` characters.

    >>> cut("abcdef", 4)
    'abc…'
    """
    return text if len(text) <= limit else text[: limit - 1] + "…"


def listed(things: Iterable[object], limit: int = 5) -> str:
    """Return the names of the first few things, and how many more there are.

    >>> listed(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    names = list(map(str, things))
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def distinct(names: Sequence[str], *others: Sequence[str]) -> list[str]:
    """Return names, each shared one as the first of `others` in which all become distinct.

    >>> distinct(["a", "a", "b"], ["a/x", "a/y", "b/x"])
    ['a/x', 'a/y', 'b']
    """
    count = Counter(names)
    for other in others:
        found = [own if count[name] > 1 else name for name, own in zip(names, other, strict=True)]
        if len({*found}) == len(found):
            return found
    return [*names]


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun.

    >>> counted(1, "video"), counted(1000, "video"), counted(2, "reply")
    ('1 video', '1,000 videos', '2 replies')
    """
    if not plural:
        plural = f"{noun[:-1]}ies" if noun.endswith("ly") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"


def nearest(value: Any, valid: Sequence[str]) -> str:
    """Return `; did you mean X?` if one of `valid` is similar, else an empty string.

    >>> nearest("cammera", ["camera", "scene"])
    '; did you mean "camera"?'
    """
    names = {name.casefold(): name for name in valid}
    # Three of four characters agree: one slip in the shortest names, and two that are swapped.
    found = get_close_matches(str(value).casefold(), names, n=1, cutoff=0.75)
    return f'; did you mean "{names[found[0]]}"?' if found else ""


# One plain sentence for each kind of pydantic's errors; users never see its own.
_SENTENCES = {
    "missing": "is missing",
    "missing_argument": "is missing",
    "extra_forbidden": "is not a known field",
    "unexpected_keyword_argument": "is not a known field",
    "literal_error": "must be {expected}",
    "union_tag_invalid": "must be {expected_tags}",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "finite_number": "must be a finite number",
    "string_pattern_mismatch": "is blank",
    "string_too_short": "is empty",
    "too_short": "needs at least {min_length}, and has {actual_length}",
    "too_long": "takes at most {max_length}, and has {actual_length}",
    "value_error": "{error}",
}
# Errors of type are named after the type, such as int_parsing and int_from_float.
_TYPES = {
    "string": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "none": "null",
    **dict.fromkeys(("list", "tuple", "set"), "a list"),
    **dict.fromkeys(("dict", "mapping", "model", "dataclass"), "a JSON object"),
}


def complaint(faults: ValidationError) -> tuple[str, str]:
    """Return the dotted field (list positions from 1) and the message of the first error."""
    place, message = complaints(faults)[0]
    return ".".join(str(p + 1) if isinstance(p, int) else str(p) for p in place), message


def complaints(faults: ValidationError) -> list[tuple[tuple[int | str, ...], str]]:
    """Return the place (list positions from 0) and the message of each error of validation."""
    found = []
    for fault in faults.errors(include_url=False):
        kind, given, limits = fault["type"], fault["input"], fault.get("ctx", {})
        limits |= {name: f"{of:g}" for name, of in limits.items() if isinstance(of, float)}
        if kind == "too_short" and len(given) >= limits["min_length"]:
            continue  # its items are wrong, and have errors of their own
        of = _TYPES.get(kind.partition("_")[0])
        message = _SENTENCES.get(kind, f"must be {of}" if of else "is not valid").format(**limits)
        if message.startswith("must") and isinstance(given, str | int | float | None):
            message += f", not {shown(given)}"
        if kind == "literal_error":
            message += nearest(given, re.findall("'(.*?)'", limits["expected"]))
        found.append((fault["loc"], message))
    return found


def storable(text: str) -> str:
    """Return text that can be sent and stored as UTF-8: unpaired surrogates become U+FFFD.

    >>> storable("a\\ud800b")
    'a\ufffdb'
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def filled(text: str, values: Mapping[str, str]) -> str:
    """Fill a template in one pass: inserted text is never searched for placeholders.

    >>> filled("{a} and {b}, {other}", {"a": "{b}", "b": "2"})
    '{b} and 2, {other}'
    """
    names = "|".join(map(re.escape, values))
    return re.sub(rf"\{{({names})\}}", lambda hole: values[hole[1]], text)


def tag_free_json(value: Any) -> str:
    r"""Return JSON without < and >, so that nothing in it can close a tag or end a chat turn.

    >>> tag_free_json('</caption> "quoted"')
    '"\\u003c/caption\\u003e \\"quoted\\""'
    """
    text = storable(json.dumps(value, ensure_ascii=False))
    return text.replace("<", "\\u003c").replace(">", "\\u003e")


# ---- Segments of a caption: its sentences, and the clauses of long sentences ---------------------

# A judge names the segments at which events begin. So they need not be perfect, but must be fine
# enough that an event can begin at one, few enough that they cost little, always the same, and
# together exactly the caption. The rules know punctuation, not languages, apart from two short
# lists of English words.

SEGMENTS_VERSION = 2
"""Part of the hash of prompts: whoever changes a rule changes what judges are asked."""

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

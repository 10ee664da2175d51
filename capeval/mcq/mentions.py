"""Find where a text mentions options, by symbol, by text or by position."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from capeval.mcq.answer_phrases import (
    CUE_AFTER,
    FOLLOWS_SYMBOL,
    NUMBERED,
    TITLE,
    concludes,
    leads_to_symbol,
    may_number_options,
    numbered_option,
)
from capeval.text import normal_form

MOST_MENTIONS = 300
"""The last so many are read: a reply with more has no answer that its end does not state."""

# Single letters that are looked at, most of which are words.
_MOST_LETTERS = 1_000

# Characters beside a symbol that say whether it is one.
_BEFORE, _AFTER = 40, 20

_NAMED_OPTION = re.compile(r"\b(?:option|choice|letter)s?\s*[\"'(]?$", re.IGNORECASE)
_OPTION_NUMBER = re.compile(r"\b(?:option|choice)\s*#?\s*$", re.IGNORECASE)
# "He runs and then jumps": what happened is more than this option says.
_GOES_ON = re.compile(r"[\s\"')\]]*,?\s*(?:and\s+)?then\b", re.IGNORECASE)
# "frame 3", "more than 5": a number of something else, or another number.
_LABELLED = re.compile(
    r"\b(?:(?:frame|scene|step|image|figure|shot|clip|part|page|player|minute|second|point|stage)s?"
    r"|(?:more|less|fewer|greater|other|higher|lower) than)\s*#?\(?$",
    re.IGNORECASE,
)
_ITEM = re.compile(r"[.)] +\w")
_NEXT_ITEM = re.compile(r"\n[ \t-]*[0-9]{1,2}[.)] +\w")
_ENDS = re.compile(r"\s*(?:$|[.,;!)\n])")


@dataclass(slots=True)
class Mention:
    """A place that mentions an option; the last fields are found by `capeval.mcq.exact`."""

    start: int
    end: int
    option: int
    by_text: bool
    numbered: bool = False
    loose: bool = False
    sentence: int = 0
    denied: bool = False
    stated: bool = False
    listed: bool = False


def option_key(text: str) -> str:
    """Return a text for comparison: case, spacing and marks around it do not matter.

    >>> option_key(" Zoom  in, then pan left. ")
    'zoom in, then pan left'
    """
    if not text.isascii():
        text = normal_form(text)
    return " ".join(text.casefold().split()).strip(" .!?,;:\"'()[]*。")


class Symbols:
    """The patterns of one set of symbols; they do not depend on the options' texts."""

    def __init__(self, symbols: tuple[str, ...]) -> None:
        self.symbols = symbols
        self.number = {symbol: n for n, symbol in enumerate(symbols)}
        upper = {symbol.upper(): n for n, symbol in enumerate(symbols)}
        self.option = {**upper, **{s.lower(): n for s, n in upper.items()}, **self.number}
        one = "|".join(sorted(map(re.escape, self.option), key=len, reverse=True))
        # A set of characters in front is found much faster than lookbehinds.
        single = f"[{''.join(map(re.escape, self.option))}]"
        after = r"(?![A-Za-z0-9_'])(?!-[A-Za-z])(?!\.[a-z0-9])"
        self.anywhere = re.compile(
            rf"{single}{after}(?<![A-Za-z0-9'_.\\-].)(?<![A-Za-z0-9]-.)"
            if one.isascii() and all(len(symbol) == 1 for symbol in self.option)
            else rf"(?<![A-Za-z0-9'_.\\-])(?<![A-Za-z0-9]-)(?:{one}){after}"
            if one.isascii()
            # Kana are also letters of words: only what surrounds an answer may touch them.
            else rf"(?:(?<!\w)|(?<=[はをの肢案号]))(?:{one})(?:(?!\w)|(?=です|だ|が|で))"
        )
        self.alone = re.compile(
            rf"""\W*(?:(?:the|my)\s+)?(?:(?:final|best|correct|right)\s+)?
            (?:answer|option|choice|letter|assistant|response)?\s*(?:is\b|:|-)?\s*
            (?:option\b|choice\b|letter\b)?\s*[("'\[{{<*\s]*({one})[)"'\]}}>.,:;*\s]*\Z""",
            re.IGNORECASE | re.VERBOSE,
        )
        self.with_text = re.compile(
            rf"\W*(?:answer\s*:?\s*)?[(\[]?({one})(?:[)\].:,]+\s*|\s*[-–]\s*|\s+)(\S.*)\Z",
            re.IGNORECASE | re.DOTALL,
        )


@lru_cache(maxsize=1_000)
def symbols_of(symbols: tuple[str, ...]) -> Symbols:
    """Return the patterns of some symbols; questions with as many options share them."""
    return Symbols(symbols)


class OptionTexts:
    """The texts of one question's options. Of options that are alike, none is meant by its text."""

    def __init__(self, options: Sequence[str]) -> None:
        self.of_key: dict[str, int | None] = {}
        for n, option in enumerate(options):
            key = option_key(option)
            self.of_key[key] = None if key in self.of_key else n
        self.of_key.pop("", None)
        self._longest_first = sorted(self.of_key, key=len, reverse=True)
        self.has_numbers = any(key.isdigit() for key in self.of_key)

    def get(self, text: str) -> int | None:
        """Return the option whose text this is."""
        return self.of_key.get(option_key(text))

    def mentions(self, text: str) -> list[Mention]:
        """Return where the text of an option is; a longer option wins over one inside it."""
        # Both keep the length of the text, so that places remain places.
        flat = _lower(text).replace("\n", " ")
        found: list[Mention] = []
        for key in self._longest_first:
            at = flat.find(key)
            while at >= 0:
                end = at + len(key)
                if _is_whole(flat, at, end) and not any(
                    one.start < end and at < one.end for one in found[-MOST_MENTIONS:]
                ):
                    number = self.of_key[key]
                    # Of options that are alike, the place is taken all the same.
                    found.append(Mention(at, end, -1 if number is None else number, True))
                at = flat.find(key, end)
        return found


def _lower(text: str) -> str:
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def _is_whole(text: str, start: int, end: int) -> bool:
    """Return whether a part of a text is no part of a word or number."""
    first, last = text[start], text[end - 1]
    before, after = text[start - 1 : start], text[end : end + 2]
    if before and _is_word(first):
        if _touches(before, first) or (before in ".,-" and (first.isdigit() or start == 1)):
            return False
        if before in ".,-" and text[start - 2].isalnum():
            return False
    if not after or not _is_word(last):
        return True
    if _touches(after[0], last):
        return False
    return not (after[0] == "-" and after[1:].isalnum()) and not (
        after[0] == "." and after[1:].isdigit()
    )


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _touches(one: str, other: str) -> bool:
    # Scripts without spaces put words next to one another.
    return _is_word(one) and (one.isascii() or other.isascii() or one.isdigit())


def find_mentions(text: str, symbols: Symbols, texts: OptionTexts) -> list[Mention]:
    """Return the mentions of options in a text, in order."""
    by_text = texts.mentions(text)
    taken = bytearray(len(text))
    for one in by_text:
        taken[one.start : one.end] = b"\1" * (one.end - one.start)
    last = by_text
    if len(by_text) > MOST_MENTIONS:
        last = sorted(by_text, key=lambda one: one.start)[-MOST_MENTIONS:]
    found = [one for one in last if one.option >= 0]
    if texts.has_numbers:
        found = [one for one in found if not _is_other_number(text, one)]
        found = [one for one in found if not _is_label(text, one)]
    for one in found:
        one.loose = _GOES_ON.match(text, one.end) is not None
    has_slash = "/" in text
    for match in list(symbols.anywhere.finditer(text))[-_MOST_LETTERS:]:
        start, end = match.span()
        if (
            not taken[start]
            and _is_symbol(text, start, end, match[0])
            and not (has_slash and _in_abbreviation(text, start, end, symbols))
        ):
            found.append(Mention(start, end, symbols.option[match[0]], False))
    if not texts.has_numbers and may_number_options(text):
        for match in NUMBERED.finditer(text):
            number = numbered_option(match, len(symbols.symbols))
            if number is not None:
                found.append(Mention(match.start(), match.end(), number, False, numbered=True))
    found.sort(key=lambda one: one.start)
    return _with_own_text(text, found)[-MOST_MENTIONS:]


def _is_label(text: str, one: Mention) -> bool:
    """Return whether a number numbers something, such as a frame or the items of a list."""
    if not text[one.start : one.end].isdigit():
        return False
    before = text[max(0, one.start - _BEFORE) : one.start]
    if _LABELLED.search(before):
        return True
    begins = not before.rpartition("\n")[2].strip(" \t-") and _ITEM.match(text, one.end) is not None
    return begins and (one.start > 0 or _NEXT_ITEM.search(text) is not None)


def _in_abbreviation(text: str, start: int, end: int, symbols: Symbols) -> bool:
    """Return whether a slash joins a letter to one that names no option, as in "N/A"."""
    before, after = text[max(0, start - 2) : start], text[end : end + 2]
    joined = [part[0] for part in (before, after[::-1]) if len(part) == 2 and part[1] == "/"]
    return any(letter.isalpha() and letter not in symbols.option for letter in joined)


def _is_other_number(text: str, one: Mention) -> bool:
    """Return whether "option 2" can mean the second option or, of another place, the text "2"."""
    words = text[one.start : one.end]
    return (
        words.isascii()
        and words.isdigit()
        and len(words) < 4
        and _OPTION_NUMBER.search(text[max(0, one.start - _BEFORE) : one.start]) is not None
        and int(words) - 1 != one.option
    )


def _with_own_text(text: str, mentions: list[Mention]) -> list[Mention]:
    """Return the mentions, a symbol and its own text behind it as one."""
    result: list[Mention] = []
    for one in mentions:
        last = result[-1] if result else None
        if (
            last is not None
            and one.by_text
            and not last.by_text
            and last.option == one.option
            and beside(text, last, one)
        ):
            last.end = one.end
            continue
        result.append(one)
    return result


def beside(text: str, one: Mention, other: Mention) -> bool:
    """Return whether only marks are between two mentions."""
    between = text[one.end : other.start]
    return len(between) <= 4 and not between.strip(" ).:-–—\"',")


def _is_symbol(text: str, start: int, end: int, symbol: str) -> bool:
    """Return whether a letter is the symbol of an option, and not a word, a name or an initial."""
    before, after = text[max(0, start - _BEFORE) : start], text[end : end + _AFTER]
    if after.startswith(".") and TITLE.search(before):
        return False
    bare = before.rstrip(" ")
    if bare.endswith(("(", "[")) and after.lstrip(" ").startswith((")", "]", "\n")):
        return True
    if _NAMED_OPTION.search(before):
        return symbol.isupper() or FOLLOWS_SYMBOL.match(after) is not None
    if after.startswith(")") and not bare[-1:].isalnum():
        return True
    if symbol.isalpha() and symbol.islower():
        # An article, nearly always.
        return _ENDS.match(after) is not None and concludes(before)
    if not FOLLOWS_SYMBOL.match(after):
        return symbol not in "AI" and CUE_AFTER.match(after) is not None
    return leads_to_symbol(before)

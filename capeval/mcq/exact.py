"""Read which option a reply states, as a careful reader would; never guess.

Every mention of an option, by its symbol ("C", "(c)", "Option C") or by its text, is replaced by
one mark. The marked reply is split into sentences and clauses once, and each mention is judged
once. What is not clear is no answer.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple

from capeval.mcq import answer_phrases as phrases
from capeval.mcq.reply_text import answer_text
from capeval.schema.question import OPTION_LETTERS
from capeval.text import normal_form

VERSION = "1"
"""Of these rules, for signatures."""

LETTERS = tuple(OPTION_LETTERS)

# Marks are private characters, so that the phrases around them remain ordinary patterns.
_FIRST_MARK = 0xF0000
_MARK = "[\U000f0000-\U000ffffd]"
# The last so many mentions are read: the end of a longer reply states its answer.
_MOST_MARKS = 300
# Single letters that are looked at, most of which are words.
_MOST_LETTERS = 1_000
# Characters beside a mention that can state or deny it.
_BESIDE = 90

_SENTENCE_END = re.compile(
    r"[.!?;]+(?=\s|$)|\n+|(?<=[a-zA-Z)])\.(?=[A-Z][a-z])|\b(?=(?:because|since|whereas)\b)"
)
_CLAUSE_END = re.compile(r"[,;:](?=\s|[^\x00-\x7f])|\b(?:but|so)\b")
_GROUP = re.compile(f"{_MARK}(?:{phrases.JOINED}{_MARK})*")
# A symbol beside a text: "C. Berries", "berries (C)", "berries, which is option C".
_BESIDE_TEXT = re.compile(
    rf"""(?P<one>{_MARK})(?P<between>[\s().:\-–—"',]{{0,4}}|[\s"').]*
    (?:is\s+the\s+(?:correct|right)\s+(?:answer|option))?,?\s*(?:(?:which|that|this)\s+(?:is|was|
    matches|means|corresponds\s+to)\s+|i\.e\.,?\s*))(?P<other>{_MARK})""",
    re.IGNORECASE | re.VERBOSE,
)
_NAMES = (
    *("option", "options", "choice", "choices", "opción", "opção", "lettre"),
    *("选项", "選項", "選択肢", "보기"),
)
_TITLE = re.compile(r"\b(?:Dr|Mr|Mrs|Ms|Prof|St)\.?\s*$")
_ITEM = re.compile(r"[.)] +\w")
_LISTED = re.compile(r"[.):]\s*")
_ENDS = re.compile(r"\s*(?:$|[.,;!)\n])")
# What may follow an option that begins a reply: "C, because", "A) Apples are", "B\n\nThe video".
_BEGINS = re.compile(r"[)\]]?\s*(?:[,:(—–-]|\n|because|since|as\b|rather)")
_AROUND = " \t\n\"'()[]{}*>:.,!。"
_BULLETS = _AROUND + "-=→•【】"


class Reading(NamedTuple):
    """What a reply says: the number of its option from 0 or None, and the rule that decided.

    Rules with an option: `symbol`, `text`, `statement`, `mention`, `box`. Rules without: `empty`,
    `unfinished reasoning`, `no option`, `several options`, `denied`, `contradictory`, `abstains`.
    """

    option: int | None
    rule: str


_Kind = Literal["text", "symbol", "bare"]
_How = Literal["denied", "supposed", "concluded", "alone", "item", "mentioned"]


class _Mention(NamedTuple):
    """A place that mentions an option, or one of several that are alike; bare is a mere letter."""

    start: int
    end: int
    option: int | None
    kind: _Kind


class _Claim(NamedTuple):
    """Options that are named together, and what is said of them."""

    options: frozenset[int]
    how: _How
    kind: _Kind
    sentence: int
    start: int


@dataclass(frozen=True)
class _Asked:
    """The options of a question: by symbol, by text (None for texts that are alike)."""

    by_symbol: dict[str, int]
    by_text: dict[str, int | None]
    symbol: re.Pattern[str]


def read_answer(reply: str, options: Sequence[str], symbols: Sequence[str] = LETTERS) -> Reading:
    """Return the option that a reply states.

    Parameters
    ----------
    reply : as the model wrote it
    options : their texts, without symbols
    symbols : of the options in the prompt, at least as many

    >>> read_answer("Based on the video, the answer is C.", ["left", "right", "up"])
    Reading(option=2, rule='statement')
    >>> read_answer("A man walks.", ["left", "right"])
    Reading(option=None, rule='no option')
    """
    asked = _asked(tuple(options), tuple(symbols[: len(options)]))
    # Most replies are one letter.
    if (number := asked.by_symbol.get(reply.strip(_BULLETS))) is not None:
        return Reading(number, "symbol")
    cleaned = answer_text(reply)
    if cleaned is None:
        return Reading(None, "unfinished reasoning")
    text, boxes = cleaned
    if boxes:
        found = {_read(box, asked).option for box in boxes}
        if len(found) > 1:
            return Reading(None, "several options")
        if (only := found.pop()) is not None:
            return Reading(only, "box")
    return _read(text, asked)


@lru_cache(maxsize=10_000)
def _asked(options: tuple[str, ...], symbols: tuple[str, ...]) -> _Asked:
    keys = [_key(option) for option in options]
    texts = {key: n if keys.count(key) == 1 else None for n, key in enumerate(keys) if key}
    by_symbol = {one: n for n, symbol in enumerate(symbols) for one in (symbol.lower(), symbol)}
    longest_first = dict(sorted(texts.items(), key=lambda one: -len(one[0])))
    return _Asked(by_symbol, longest_first, _symbol_pattern(tuple(by_symbol)))


@lru_cache(maxsize=100)
def _symbol_pattern(symbols: tuple[str, ...]) -> re.Pattern[str]:
    one = "|".join(sorted(symbols, key=len, reverse=True))
    # A slash joins letters of another kind: "N/A", "an A/B test".
    after = r"(?![A-Za-z0-9_'])(?!-[A-Za-z])(?!\.[a-z0-9])(?!/\w)"
    return re.compile(rf"(?<![A-Za-z0-9'_.\\-])(?<![A-Za-z0-9]-)(?<!\w/)(?:{one}){after}")


def _key(text: str) -> str:
    text = text if text.isascii() else normal_form(text)
    return " ".join(text.casefold().split()).strip(_AROUND + "?;")


def _read(text: str, asked: _Asked) -> Reading:
    if not text:
        return Reading(None, "empty")
    if (number := asked.by_text.get(_key(text))) is not None:
        return Reading(number, "text")
    marked, mentions = _marked(text, asked)
    if not mentions:
        return Reading(None, "abstains" if phrases.ABSTAINS.search(text) else "no option")
    merged = _with_own_text(marked, mentions) if len(mentions) > 1 else marked
    if merged is None:
        return Reading(None, "contradictory")
    if len(merged.strip(_BULLETS)) == 1:
        return Reading(mentions[0].option, "symbol" if mentions[0].kind != "text" else "text")
    return _decided(merged, _claims(merged, mentions))


# ---- Where options are mentioned ---------------------------------------------------------------


def _marked(text: str, asked: _Asked) -> tuple[str, list[_Mention]]:
    """Return a text with a mark in place of each mention, and the mentions."""
    if not text.isascii():
        text = re.sub(_MARK, " ", text)
    found = _text_mentions(text, asked)
    taken = bytearray(len(text))
    for one in found:
        taken[one.start : one.end] = b"\1" * (one.end - one.start)
    for match in list(asked.symbol.finditer(text))[-_MOST_LETTERS:]:
        if not taken[match.start()]:
            item = _LISTED.match(text, match.end())
            is_listed = item is not None and any(taken[item.end() : item.end() + 1])
            found += _symbol_mention(text, match, asked.by_symbol[match[0]], is_listed)
    mentions = sorted(one for one in found if one.option is not None)[-_MOST_MARKS:]
    parts, at = [], 0
    for number, one in enumerate(mentions):
        parts += [text[at : max(at, one.start)], chr(_FIRST_MARK + number)]
        at = max(at, one.end)
    return "".join([*parts, text[at:]]), mentions


def _text_mentions(text: str, asked: _Asked) -> list[_Mention]:
    """Return where the texts of options are; a longer option wins over one inside it."""
    # Lower case must keep the length of the text, so that places remain places.
    flat = text.lower() if text.isascii() else "".join(c.lower()[:1] for c in text)
    flat = flat.replace("\n", " ")
    found: list[_Mention] = []
    for key, option in asked.by_text.items():
        at = flat.find(key)
        while at >= 0:
            end = at + len(key)
            is_free = not any(m.start < end and at < m.end for m in found[-_MOST_MARKS:])
            if (
                is_free
                and _is_whole(flat, at, end)
                and not (key.isdigit() and _is_label(text, at, end))
            ):
                found.append(_Mention(at, end, option, "text"))
            at = flat.find(key, end)
    return found


def _is_whole(text: str, start: int, end: int) -> bool:
    """Return whether a part of a text is no part of a word or number."""
    before, after = text[max(0, start - 2) : start], text[end : end + 2]
    first, last = text[start], text[end - 1]
    if first.isalnum() and before:
        is_number = before[-1] in ".,-" and (first.isdigit() or before[0].isalnum())
        if is_number or _touches(before[-1], first):
            return False
    if not (last.isalnum() and after):
        return True
    is_longer = re.fullmatch(r"-\w|\.\d", after) is not None
    return not (is_longer or _touches(after[0], last))


def _is_label(text: str, start: int, end: int) -> bool:
    """Return whether a number numbers something, such as a frame or the items of a list."""
    before = text[max(0, start - 40) : start]
    is_item = _ITEM.match(text, end) and not before.rpartition("\n")[2].strip(_BULLETS)
    return bool(phrases.LABELLED.search(before) or (is_item and "\n" in text))


def _touches(one: str, other: str) -> bool:
    # Scripts without spaces put words next to one another.
    return (one.isalnum() or one == "_") and (one.isascii() or other.isascii() or one.isdigit())


def _symbol_mention(
    text: str, match: re.Match[str], option: int, is_listed: bool
) -> list[_Mention]:
    """Return the mention with its brackets; none if a letter is a word, a name or an initial.

    `is_listed` says that the text of an option follows, as in "B. Candles".
    """
    symbol, (start, end) = match[0], match.span()
    before, after = text[max(0, start - 40) : start], text[end : end + 20]
    stem = before.rstrip(" \"'([")
    named = next((name for name in _NAMES if stem.lower().endswith(name)), "")
    left = len(before) - len(before.rstrip("\"'([{"))
    if named:
        left = len(before) - len(stem[: -len(named)].rstrip("("))
    right = len(after) - len(after.lstrip("\"')]}"))
    enclosed = right and (left or (after[0] == ")" and not before.rstrip()[-1:].isalnum()))
    if named or enclosed or is_listed:
        is_symbol = (
            not symbol.islower() or enclosed or is_listed or phrases.FOLLOWS_SYMBOL.match(after)
        )
    elif symbol.islower():  # an article, nearly always
        is_lead = not before.strip() or _concludes(before)
        is_symbol = is_lead and _ENDS.match(after)
    elif phrases.FOLLOWS_SYMBOL.match(after):
        is_symbol = phrases.LEADS_TO_SYMBOL.search(before[-16:]) and not _TITLE.search(before)
    else:
        is_symbol = symbol not in "AI" and phrases.CONCLUDES_AFTER.match(after)
    kind: _Kind = "symbol" if named or enclosed else "bare"
    return [_Mention(start - left, end + right, option, kind)] if is_symbol else []


def _with_own_text(marked: str, mentions: list[_Mention]) -> str | None:
    """Make a symbol and its own text beside it one mark; None if it is another option's text."""
    is_contradictory = False

    def merged(found: re.Match[str]) -> str:
        nonlocal is_contradictory
        one, other = (mentions[ord(found[name]) - _FIRST_MARK] for name in ("one", "other"))
        between, is_text = found["between"], one.kind == "text"
        is_apart = is_text and len(between) < 5 and between.strip(" (")
        if is_text == (other.kind == "text") or is_apart:
            return found[0]
        is_contradictory = is_contradictory or one.option != other.option
        mentions[ord(found["one"]) - _FIRST_MARK] = one._replace(kind="symbol")
        return found["one"]

    result = _BESIDE_TEXT.sub(merged, marked)
    return None if is_contradictory else result


# ---- What is said of them ----------------------------------------------------------------------


def _claims(marked: str, mentions: Sequence[_Mention]) -> list[_Claim]:
    """Judge the mentions; options that are named together are judged together."""
    claims = []
    for numbers, how, sentence, start in _judgments(marked):
        named = frozenset(option for n in numbers if (option := mentions[n].option) is not None)
        claims.append(_Claim(named, how, mentions[numbers[0]].kind, sentence, start))
    return claims


# Marks have no options, so that most replies of a model have one of a few marked forms.
@lru_cache(maxsize=4_096)
def _judgments(marked: str) -> list[tuple[list[int], _How, int, int]]:
    """Return the numbers of the marks that are named together, and what is said of them where."""
    ends = [found.end() for found in _SENTENCE_END.finditer(marked)] + [len(marked)]
    found: list[tuple[list[int], _How, int, int]] = []
    for group in _GROUP.finditer(marked):
        numbers = [ord(c) - _FIRST_MARK for c in group[0] if ord(c) >= _FIRST_MARK]
        at = bisect_right(ends, group.start())
        begin, end = ends[at - 1] if at else 0, ends[bisect_right(ends, group.end() - 1)]
        before, after = marked[begin : group.start()][-_BESIDE:], marked[group.end() : end]
        how = _judged(before, after, marked[: group.start()], marked[group.end() :][:_BESIDE])
        found.append((numbers, how, at, group.start()))
    return found


def _judged(before: str, after: str, earlier: str, later: str) -> _How:
    """Judge a mention: by its sentence before and after it, and by all that is before and after."""
    clause, rest = _CLAUSE_END.split(before)[-1], _CLAUSE_END.split(after)[0]
    if phrases.DENIES_BEFORE.search(clause) or phrases.DENIES_AFTER.match(later):
        return "denied"
    is_asked = after.rstrip().endswith("?") or phrases.POSSIBLE_BEFORE.search(clause)
    if is_asked or phrases.CONDITION.search(before.rpartition("but ")[2]):
        return "supposed"
    if _concludes(earlier[-60:]):
        return "concluded"
    if phrases.POSSIBLE_AFTER.match(later):
        return "supposed"
    if phrases.CONCLUDES_AFTER.match(later):
        return "concluded"
    is_first = not earlier.strip(_BULLETS) and _BEGINS.match(later)
    if is_first or not (clause + rest).strip(_BULLETS):
        return "alone"
    return "mentioned" if before.strip(_BULLETS) else "item"


@lru_cache(maxsize=4_096)
def _concludes(before: str) -> bool:
    return phrases.CONCLUDES_BEFORE.search(before) is not None


def _decided(marked: str, claims: Sequence[_Claim]) -> Reading:
    """Return what all claims state together."""
    several = Reading(None, "several options")
    positive = [one for one in claims if one.how != "denied"]
    if not positive:
        return Reading(None, "denied")
    alone = [one for one in positive if one.how == "alone"]
    is_list = _differ(alone)
    stated = [
        one for one in positive if one.how == "concluded" or (one.how == "alone" and not is_list)
    ]
    if stated:
        last = stated[-1]
        others = [one for one in positive if one.options != last.options]
        if last.how == "alone" and any(
            (one.how == "item" and one.kind != "text") or one.sentence == last.sentence
            for one in others
        ):
            return several
        settled = all(
            one.options == other.options or phrases.CORRECTS.search(marked, one.start, other.start)
            for one, other in pairwise(stated)
        )
        return (
            Reading(min(last.options), "statement") if settled and not _differ([last]) else several
        )
    if phrases.ABSTAINS.search(marked):
        return Reading(None, "abstains")
    if _differ(positive):
        return several
    if all(one.how == "supposed" or one.kind == "bare" for one in positive):
        return Reading(None, "no option")
    return Reading(min(positive[0].options), "mention")


def _differ(claims: Sequence[_Claim]) -> bool:
    return len({option for one in claims for option in one.options}) > 1

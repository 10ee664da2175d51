"""Read which option a reply states, as a careful reader would; never guess.

A reply states an option by its symbol ("C", "(c)", "Option C") or by its text. A statement counts
where it is alone or with words that conclude ("the answer is", "B is correct"), or where no other
option is mentioned. A denied option, two options without a conclusion, a symbol beside another
option's text and an abstention state nothing.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from capeval.mcq.answer_phrases import (
    ABSTAINS,
    ALL_EXCEPT,
    CLAUSE_END,
    CLAUSE_END_BEFORE_SYMBOL,
    COMPARED,
    CORRECTS,
    CUE_AFTER,
    DENIED_AFTER,
    DENIED_BEFORE,
    HYPOTHESIS,
    JOINED,
    SENTENCE_END,
    WRONG,
    concludes,
)
from capeval.mcq.mentions import (
    Mention,
    OptionTexts,
    Symbols,
    beside,
    find_mentions,
    symbols_of,
)
from capeval.mcq.reply_text import answer_text
from capeval.schema.question import OPTION_LETTERS

LETTERS = tuple(OPTION_LETTERS)

# Characters beside an option that can state or deny it: a clause.
_CLAUSE = 90
# The longest words that conclude: "the answer to this question is most likely option".
_CUE = 60
# A text that is longer than this is no option's symbol with its text.
_LONGEST_OPTION = 1_000


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reply says: the number of its option from 0 or None, and the rule that decided.

    Rules with an option: `symbol`, `text`, `statement`, `mention`, `box`. Rules without: `empty`,
    `unfinished reasoning`, `no option`, `several options`, `denied`, `contradictory`, `abstains`.
    """

    option: int | None
    rule: str


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
    known = symbols_of(tuple(symbols[: len(options)]))
    # Most replies are one letter.
    if (number := known.number.get(reply.strip())) is not None:
        return Reading(number, "symbol")
    cleaned = answer_text(reply)
    if cleaned is None:
        return Reading(None, "unfinished reasoning")
    text, boxes = cleaned
    texts = _texts_of(tuple(options))
    if boxes:
        found = {_read(box, known, texts).option for box in boxes}
        if len(found) > 1:
            return Reading(None, "several options")
        (only,) = found
        if only is not None:
            return Reading(only, "box")
    return _read(text, known, texts)


def last_mentioned(
    reply: str, options: Sequence[str], symbols: Sequence[str] = LETTERS
) -> int | None:
    """Return the option that a reply mentions last, whatever it says about it.

    >>> last_mentioned("It could be A or B.", ["left", "right"])
    1
    """
    cleaned = answer_text(reply)
    if cleaned is None:
        return None
    known = symbols_of(tuple(symbols[: len(options)]))
    mentions = find_mentions(cleaned[0], known, _texts_of(tuple(options)))
    return mentions[-1].option if mentions else None


@lru_cache(maxsize=10_000)
def _texts_of(options: tuple[str, ...]) -> OptionTexts:
    return OptionTexts(options)


def _read(text: str, symbols: Symbols, texts: OptionTexts) -> Reading:
    if not text:
        return Reading(None, "empty")
    if len(text) <= _LONGEST_OPTION:
        if found := symbols.alone.match(text):
            return Reading(symbols.option[found[1]], "symbol")
        number = texts.get(text)
        if number is not None:
            return Reading(number, "text")
        if found := symbols.with_text.match(text):
            other = texts.get(found[2])
            own = symbols.option[found[1]]
            if other is not None:
                same = other == own
                return Reading(own if same else None, "symbol" if same else "contradictory")
    mentions = find_mentions(text, symbols, texts)
    if not mentions:
        return Reading(None, "abstains" if ABSTAINS.search(text) else "no option")
    return _Prose(text, mentions, texts).decide()


def _may_except(text: str) -> bool:
    return (
        "except" in text or "but" in text or "besides" in text or " than" in text or "apart" in text
    )


class _Prose:
    """A reply in sentences, with the options that it mentions."""

    def __init__(self, text: str, mentions: list[Mention], texts: OptionTexts) -> None:
        self.text, self.mentions, self._texts = text, mentions, texts
        self._ends = [found.end() for found in SENTENCE_END.finditer(text)] + [len(text)]
        self._starts = [0, *self._ends]
        for one in mentions:
            one.sentence = bisect_right(self._ends, one.start)
            self._find_denial(one)
        self._spread_denials()
        self._find_list()
        for one in mentions:
            if not one.denied:
                self._find_statement(one)

    def decide(self) -> Reading:
        """Return what the sentences state together."""
        if any(self._contradicts(*pair) for pair in pairwise(self.mentions)):
            return Reading(None, "contradictory")
        found = self._decide()
        if found.option is not None and any(
            self._equates(*pair, found.option) for pair in pairwise(self.mentions)
        ):
            return Reading(None, "contradictory")
        return found

    def _decide(self) -> Reading:
        positive = [one for one in self.mentions if not one.denied]
        stated = [one for one in positive if one.stated]
        if stated:
            return self._decide_stated(stated, positive)
        if not positive:
            return Reading(None, "denied")
        if ABSTAINS.search(self._without_mentions()):
            return Reading(None, "abstains")
        if len({one.option for one in positive}) > 1:
            return Reading(None, "several options")
        if all(self._sentence(one).rstrip().endswith("?") or one.loose for one in positive):
            return Reading(None, "no option")
        return Reading(positive[0].option, "mention")

    def _decide_stated(self, stated: list[Mention], positive: list[Mention]) -> Reading:
        several = Reading(None, "several options")
        last = stated[-1]
        if any(
            one.option != last.option
            and one.sentence == last.sentence
            and (self._joined(one, last) if one.start < last.start else self._joined(last, one))
            for one in positive
        ):
            return several
        # "No, I am not sure": an option that abstains takes back what was stated before it.
        if any(
            one.option != last.option and one.by_text and self._abstains(one) for one in positive
        ):
            return several
        if all(one.option == last.option for one in stated):
            return Reading(last.option, "statement")
        before = self.text[: last.start]
        corrected = max((found.start() for found in CORRECTS.finditer(before)), default=-1)
        in_sentence = corrected >= self._starts[last.sentence]
        for one in stated:
            if one.option == last.option:
                continue
            if one.sentence == last.sentence and not in_sentence:
                return several
            if corrected < one.end and not self._begins_line(one):
                return several
        return Reading(last.option, "statement")

    # ---- what is said about one mention ------------------------------------------------------

    def _find_denial(self, one: Mention) -> None:
        start, end = self._starts[one.sentence], self._ends[one.sentence]
        before = self.text[max(start, one.start - _CLAUSE) : one.start]
        after = self.text[one.end : min(end, one.end + _CLAUSE)]
        if _may_except(before) and (found := ALL_EXCEPT.search(before)):
            # What is said of all others is not true of this one.
            says_wrong = WRONG.search(after) is not None
            all_others = found["subject"].lower() in ("all", "everything", "every", "each")
            one.denied, one.stated = says_wrong != all_others, says_wrong == all_others
            return
        ends = CLAUSE_END if one.by_text else CLAUSE_END_BEFORE_SYMBOL
        clause = ends.split(before)[-1]
        # "A. No.": the sentence of a list's item begins behind its symbol.
        if not one.by_text and after in (".", ""):
            after = self.text[one.end : one.end + _AFTER_ITEM]
        one.denied = bool(DENIED_BEFORE.search(clause) or DENIED_AFTER.match(after))
        if not one.by_text and "than" in before:
            one.denied = one.denied or COMPARED.search(before) is not None

    def _spread_denials(self) -> None:
        """Deny what is joined to a denied option: "not B or C", "A and B are wrong"."""
        pairs = list(pairwise(self.mentions))
        for one, other in pairs:
            if one.denied and not other.denied and self._joined(one, other):
                other.denied = True
        is_list = False
        for one, other in reversed(pairs):
            word = self._joined(one, other)
            # "A, B is wrong" may state A.
            is_list = bool(word) and (is_list or word != ",")
            if is_list and other.denied and not one.denied:
                one.denied = True

    def _find_list(self) -> None:
        """Mark the items of a list of options: to list them states none of them."""
        if len({one.option for one in self.mentions if not one.by_text}) < 2:
            return
        items = [
            one
            for one in self.mentions
            if not one.by_text
            and not one.denied
            and (self._begins_line(one) or one.end - one.start > 3)
            and not self._is_concluded(one)
        ]
        if len({one.option for one in items}) > 1:
            for one in items:
                one.listed = True

    def _find_statement(self, one: Mention) -> None:
        if one.stated or one.numbered:
            one.stated = True
            return
        start, end = self._starts[one.sentence], self._ends[one.sentence]
        before = self.text[max(start, one.start - _CLAUSE) : one.start]
        after = self.text[one.end : max(one.end, min(end, one.end + _CLAUSE))]
        if not one.by_text and after in (".", ""):
            after = self.text[one.end : one.end + _AFTER_ITEM]
        cue = self._is_concluded(one) or CUE_AFTER.match(after)
        if not cue and (one.listed or not self._is_alone(one, before, end)):
            return
        since_but = before[before.rfind("but ") + 1 :]
        if " if" in after and not self._is_concluded(one) and _WOULD_IF.match(after):
            one.loose = True
            return
        asks = self._sentence(one).rstrip().endswith("?")
        supposes = HYPOTHESIS.search(since_but) and HYPOTHESIS.search(
            _MUST_GUESS.sub("", since_but)
        )
        one.stated = not asks and not supposes

    def _is_concluded(self, one: Mention) -> bool:
        # The words that conclude can be in the line above: "Answer:".
        return concludes(self.text[max(0, one.start - _CUE) : one.start])

    def _is_alone(self, one: Mention, before: str, end: int) -> bool:
        """Return whether a sentence, or the beginning of the reply, is this option alone."""
        rest = self.text[one.end : min(max(end, one.end), one.end + _CLAUSE)]
        if not before.strip(" \t\"'([{*•->") and not rest.strip(" \t\"')]}.!*"):
            return True
        if one.loose or one.start > _AFTER_ITEM or self.text[: one.start].strip(" \t\"'([{*"):
            return False
        return _FIRST.match(self.text, one.end) is not None

    # ---- mentions together -------------------------------------------------------------------

    def _contradicts(self, one: Mention, other: Mention) -> bool:
        """Return whether a symbol is directly beside another option's text."""
        return (
            not one.by_text
            and other.by_text
            and one.option != other.option
            and beside(self.text, one, other)
        )

    def _equates(self, one: Mention, other: Mention, option: int | None) -> bool:
        """Return whether a text "corresponds to" the symbol of another option, and one is chosen.

        "The number is 3, which is B" has no answer where 3 is the text of C.
        """
        return (
            one.by_text
            and not other.by_text
            and one.option != other.option
            and option in (one.option, other.option)
            and not one.denied
            and not other.denied
            and other.start - one.end < _CLAUSE
            and _EQUALS.fullmatch(self.text, one.end, other.start) is not None
        )

    def _joined(self, one: Mention, other: Mention) -> str:
        """Return the conjunction or comma that joins two mentions; empty if nothing does."""
        between = self.text[one.end : other.start]
        found = JOINED.fullmatch(between) if len(between) < _CLAUSE else None
        if found is None:
            return ""
        if found["word"]:
            return found["word"].lower()
        marks = between.strip(" \n\t)]([\"'")
        return marks[:1] if marks[:1] in (",", "/", "&", "+") else ("" if marks else ",")

    def _abstains(self, one: Mention) -> bool:
        return ABSTAINS.search(self.text[one.start : one.end]) is not None

    def _begins_line(self, one: Mention) -> bool:
        line = self.text[max(0, one.start - _AFTER_ITEM) : one.start].rpartition("\n")
        if line[0] == "" and line[1] == "" and one.start > _AFTER_ITEM:
            return False
        is_item = one.end - one.start > 1 or self.text[one.end : one.end + 1] in (".", ")", ":")
        return is_item and not line[2].strip(" \t(-•*")

    def _sentence(self, one: Mention) -> str:
        return self.text[self._starts[one.sentence] : self._ends[one.sentence]]

    def _without_mentions(self) -> str:
        parts, at = [], 0
        for one in self.mentions:
            parts.append(self.text[at : one.start])
            at = max(at, one.end)
        return " … ".join([*parts, self.text[at:]])


_AFTER_ITEM = 30
# Between a text and its symbol: "3, which corresponds to option (B)".
_EQUALS = re.compile(
    r"[\s\"')\].]*(?:is\s+(?:the\s+)?(?:correct|right|best)(?:\s+(?:answer|option|choice))?)?,?\s*"
    r"(?:(?:which|that|this)\s+(?:is|was|matches|means|corresponds\s+to|would\s+be)\s+|i\.e\.,?\s*|\()"
    r"(?:the\s+)?(?:(?:option|choice|answer|letter)\s+)?[\"'(\[]*",
    re.IGNORECASE,
)
# "A would be correct if the car were red" supposes; "if I had to guess, A" does not.
_WOULD_IF = re.compile(r"\W*(?:would|might|could)\s+(?:\w+\s+){1,4}?if\b", re.IGNORECASE)
_MUST_GUESS = re.compile(
    r"\bif\s+(?:i\s+)?(?:had|have|am\s+forced|were\s+forced|forced|must)(?:\s+to)?\s+"
    r"(?:guess|choose|pick|answer|select)\b",
    re.IGNORECASE,
)
# What may follow an option that begins a reply: "C, because", "A) Apples are", "B\n\nThe video".
_FIRST = re.compile(r"[)\]]?\s*(?:[,:(—–-]|\n|because|since|as\b)")

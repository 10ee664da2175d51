"""Read which option a reply states, as a careful reader would; never guess.

A reply states an option by its symbol ("C", "(c)", "Option C") or by its text. A statement counts
where it stands alone or with words that conclude ("the answer is", "B is correct"), or where no
other option is mentioned. A denied option, two options without a conclusion, a symbol beside
another option's text and an abstention state nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from capeval.mcq.reply_text import answer_text
from capeval.text import normal_form

LETTERS = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reply says: the number of its option from 0 or None, and the rule that decided.

    Rules with an option: `symbol`, `text`, `statement`, `mention`, `box`. Rules without: `empty`,
    `unfinished reasoning`, `no option`, `several options`, `denied`, `contradictory`, `abstains`.
    """

    option: int | None
    rule: str


def read_answer(
    reply: str, options: Sequence[str], symbols: Sequence[str] = LETTERS
) -> Reading:
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
    reader = _reader(tuple(options), tuple(symbols[: len(options)]))
    bare = reply.strip()
    if (number := reader.number.get(bare)) is not None:
        return Reading(number, "symbol")
    cleaned = answer_text(reply)
    if cleaned is None:
        return Reading(None, "unfinished reasoning")
    text, boxes = cleaned
    if boxes:
        found = {reader.read(box).option for box in boxes}
        if len(found) > 1:
            return Reading(None, "several options")
        (only,) = found
        if only is not None:
            return Reading(only, "box")
    return reader.read(text)


@lru_cache(maxsize=10_000)
def _reader(options: tuple[str, ...], symbols: tuple[str, ...]) -> _Reader:
    return _Reader(options, symbols)


_CUE_BEFORE = re.compile(
    r"""(?:
    \b(?:answer|solution|conclusion|verdict)\b
        (?:\s+(?:here|choice|option|letter|to\ (?:this|the)\ question))?
        ["']?\s*(?:(?:is|was|must\ be|should\ be|would\ be|will\ be|has\ to\ be|remains|=|->|→)\b|:|-|–|\n)
  | \b(?:correct|right|best|likely|accurate|appropriate|suitable|selected|chosen|final)\s+
        (?:option|choice|answer|letter|one|selection|response|statement|description)\b\s*
        (?:(?:is|was|must\ be|should\ be|would\ be|seems\ to\ be|appears\ to\ be)\b|:|-)?
  | \b(?:choose|chose|choosing|select|selected|selecting|pick|picked|picking|opt\ for|go\ with|
        going\ with|went\ with|settle\ on|vote\ for|say|conclude|guess|conclusion\ is)\b
  | \b(?:i\ think|i\ believe|i'd\ say|must\ be|has\ to\ be|would\ be|should\ be)\b(?:\s+(?:it\ is|it's|that\ it\ is|that))?
  | \b(?:therefore|thus|hence|so)\b,?
  | (?:答案|正解|答え|回答|选择|選擇|选|選|정답|답)(?:应该|應該|应|應)?(?:是|为|為|は|은|는|:)*
  | \b(?:ответ|respuesta|réponse|reponse|antwort|lösung|resposta|risposta|cevap|odpowiedź|odpoved|svar|jawaban|đáp\ án)\b
        (?:\s+(?:correcta|correta|correcte|corretta|richtige|is|es|est|ist|lautet|é|è|la|adalah))*\s*:?
  | (?:الإجابة|الجواب|उत्तर|जवाब|คำตอบ)(?:\s+(?:هي|هو|है|คือ))?\s*:?
    )
    [\s"'(\[]*(?:(?:the|la|el|le|option|choice|letter|answer|number|is|be|that|it\ is|it's|opción|opção|l'option)\s+)*
    (?:option\s+)?[\s"'(\[:]*$""",
    re.IGNORECASE | re.VERBOSE,
)
_CUE_AFTER = re.compile(
    r"""[\s"')\].:]*(?:
    (?:is|was|seems|appears|looks|would\ be|must\ be|should\ be)\s+
        (?:(?:to\ be|like|clearly|definitely|likely|probably|obviously|indeed|therefore|thus|also)\s+)*
        (?:the\s+|most\s+|my\s+|a\s+)*
        (?:correct|right|best|true|accurate|answer|likely|choice|option|appropriate|one\b|final)
  | (?:fits|matches|describes|works|applies)\b
  | 是正确|是正確|是对的|正确|が正解|が正しい|입니다|이다
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_DENIED_BEFORE = re.compile(
    r"""(?:\b(?:not|isn't|wasn't|aren't|never|neither|nor|cannot\ be|can't\ be|couldn't\ be|don't\ think|
    doesn't|didn't|rather\ than|instead\ of|except|excluding|eliminate[sd]?|eliminating|exclude[sd]?|
    rule[sd]?\ out|ruling\ out|reject(?:s|ed)?|unlike|opposed\ to|without|no)\b|不是|不选|не\b)
    [\s"'(\[]*(?:(?:be|is|it|it's|that|the|a|an|to|option|choice|answer|letter|move|moves|moving|both|either|by|any)\s+|\w+\s+(?=\w*$)){0,4}
    ["'(\[\s]*$""",
    re.IGNORECASE | re.VERBOSE,
)
_DENIED_AFTER = re.compile(
    r"""[\s"')\].:,]*(?:(?:is|was|seems|are|can\ be|could\ be|would\ be|looks)\s+(?:\w+\s+)?
    (?:not|incorrect|wrong|false|unlikely|impossible|inaccurate|ruled\ out|eliminated|excluded|out\b)
  | isn't|wasn't|aren't|cannot|can't|couldn't|doesn't|does\ not|do\ not|don't|не\b|不对|不正确|错误)""",
    re.IGNORECASE | re.VERBOSE,
)
_CORRECTS = re.compile(
    r"\b(?:wait|actually|no,|but|however|sorry|correction|instead|on second thought|rather|oops|hmm|"
    r"let me (?:re|correct)\w*|re-?(?:check|consider|count|examin|evaluat)\w*|mis(?:counted|read|took)|"
    r"therefore|thus|so|hence|final(?:ly)?|overall|in conclusion|in summary)\b",
    re.IGNORECASE,
)
_HYPOTHESIS = re.compile(
    r"\b(?:if|unless|whether|suppose|assuming|could|might|may|at first|initially|tempting)\b",
    re.IGNORECASE,
)
_ABSTAINS = re.compile(
    r"""\b(?:(?:can(?:'t|not|\ not)|couldn't|could\ not|unable\ to|impossible\ to|not\ possible\ to|
    (?:hard|difficult)\ to|no\ way\ to|don't|do\ not|didn't|not\ able\ to)\s+(?:\w+\s+){0,2}?
    (?:determine|tell|answer|identify|say|see|view|watch|know|help|assist|provide|decide|choose|access|
    process|infer|conclude|be\ determined|confirm)\b
  | (?:unclear|unsure|not\ sure|uncertain|not\ enough|insufficient|no\ (?:video|image|frame)s?\b))""",
    re.IGNORECASE | re.VERBOSE,
)
_TITLE = re.compile(r"\b(?:Dr|Mr|Mrs|Ms|Prof|St)\.?\s*$")
_SENTENCE_END = re.compile(r"[.!?;](?=\s|$)|\n+|(?<=[a-zA-Z)])\.(?=[A-Z][a-z])")
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
# What leads to a letter without brackets that ends a clause.
_LED = re.compile(
    r"(?:^|[\n:;.!?,/&(\[\"'=>]|\b(?:is|be|it's|that's|say|think|choose|chose|like|with|pick|select|answer|option|"
    r"choice|letter|for|and|or|nor|either|neither|between|both|not|than|of|are|eliminate|out|la|el|es|est|ist|so|"
    r"therefore|thus|hence|but|then|number|step|instead|to|by|guess|on)|[^\x00-\x7f])\s*[\"'(\[]*\s*$",
    re.IGNORECASE,
)
_CLAUSE_AFTER = re.compile(
    r"[ \t]*(?:$|\n|/|[.,:;!?)\]\"'&%-](?![A-Za-z])|[(\[]|[^\x00-\x7f]|(?:because|since|as|and|or|but|is|was|for|due|"
    r"would|seems|rather|nor|not|matches|fits|describes|could|can|looks|appears|must|should|isn't|instead|to)\b)",
    re.IGNORECASE,
)


@dataclass(slots=True)
class _Mention:
    start: int
    end: int
    option: int
    by_text: bool
    sentence: int = 0
    denied: bool = False
    stated: bool = False


class _Reader:
    """Reads replies to one list of options; what depends on them alone is made once."""

    def __init__(self, options: tuple[str, ...], symbols: tuple[str, ...]) -> None:
        self.symbols = symbols
        self.number = {symbol: n for n, symbol in enumerate(symbols)}
        upper = {symbol.upper(): n for n, symbol in enumerate(symbols)}
        self._of_symbol = {**upper, **{s.lower(): n for s, n in upper.items()}, **self.number}
        self._texts: dict[str, int | None] = {}
        for n, option in enumerate(options):
            key = _key(option)
            # Of options that are alike, none can be meant by its text.
            self._texts[key] = None if key in self._texts else n
        self._texts.pop("", None)
        words = sorted(self._texts, key=len, reverse=True)
        pattern = "|".join(r"\s+".join(map(re.escape, text.split())) for text in words)
        self._mentioned = re.compile(rf"(?<![\w.,-](?=\w))(?<!\w)(?:{pattern})(?!\w)(?!-\w)(?!\.\d)", re.IGNORECASE) if words else None
        one = "|".join(sorted(map(re.escape, {*upper, *(s.lower() for s in upper)}), key=len, reverse=True))
        self._symbol = re.compile(rf"(?<![A-Za-z0-9'_.\\-])(?<![A-Za-z0-9]-)(?:{one})(?![A-Za-z0-9_'])(?!-[A-Za-z])(?!\.[a-z0-9])")
        self._whole = re.compile(
            rf"""\W*(?:(?:the|my)\s+)?(?:(?:final|best|correct|right)\s+)?(?:answer|option|choice|letter|assistant|response)?
            \s*(?:is\b|:|-)?\s*(?:option\b|choice\b|letter\b)?\s*[("'\[{{<*\s]*({one})[)"'\]}}>.,:;*\s]*\Z""",
            re.IGNORECASE | re.VERBOSE,
        )
        self._with_text = re.compile(rf"\W*(?:answer\s*:?\s*)?[(\[]?({one})(?:[)\].:,]+\s*|\s*[-–]\s*|\s+)(\S.*)\Z", re.IGNORECASE | re.DOTALL)
        self._has_numbers = any(text.isdigit() for text in self._texts)

    def read(self, text: str) -> Reading:
        if not text:
            return Reading(None, "empty")
        if found := self._whole.match(text):
            return Reading(self._of_symbol[found[1]], "symbol")
        key = _key(text)
        number = self._texts.get(key)
        if number is not None:
            return Reading(number, "text")
        if found := self._with_text.match(text):
            beside = self._texts.get(_key(found[2]))
            own = self._of_symbol[found[1]]
            if beside is not None:
                same = beside == own
                return Reading(own if same else None, "symbol" if same else "contradictory")
        return self._read_prose(text)

    def _read_prose(self, text: str) -> Reading:
        ends = [found.end() for found in _SENTENCE_END.finditer(text)] + [len(text)]
        mentions = self._mentions(text)
        if not mentions:
            return Reading(None, "abstains" if _ABSTAINS.search(text) else "no option")
        at = 0
        for mention in mentions:
            while ends[at] <= mention.start:
                at += 1
            mention.sentence = at
        starts = [0, *ends]
        lone_lines = 0
        for mention in mentions:
            self._weigh(text, starts[mention.sentence], ends[mention.sentence], mention)
        return self._decide(text, mentions, starts, ends)

    def _mentions(self, text: str) -> list[_Mention]:
        by_text = []
        if self._mentioned is not None:
            for found in self._mentioned.finditer(text):
                number = self._texts.get(_key(found[0]))
                if number is not None:
                    by_text.append(_Mention(found.start(), found.end(), number, True))
        covered = [(one.start, one.end) for one in by_text]
        result = list(by_text)
        for found in self._symbol.finditer(text):
            start, end = found.span()
            if any(a <= start < b for a, b in covered):
                continue
            if self._is_mention(text, start, end, found[0]):
                result.append(_Mention(start, end, self._of_symbol[found[0]], False))
        if not self._has_numbers and "option" in text.lower():
            for found in _NUMBERED.finditer(text):
                number = _position(found, len(self.symbols))
                if number is not None:
                    result.append(_Mention(found.start(), found.end(), number, False, stated=True))
        result.sort(key=lambda one: one.start)
        return result

    @staticmethod
    def _is_mention(text: str, start: int, end: int, symbol: str) -> bool:
        before, after = text[max(0, start - 40) : start], text[end : end + 20]
        if _TITLE.search(before) and after.startswith("."):
            return False
        if before.rstrip(" ").endswith(("(", "[")) and after.lstrip(" ").startswith((")", "]", "\n")):
            return True
        if re.search(r"\b(?:option|choice|letter)\s*[\"'(]?$", before, re.IGNORECASE):
            return symbol.isupper() or bool(_CLAUSE_AFTER.match(after))
        if after.startswith(")") and not before.rstrip(" ")[-1:].isalnum():
            return True
        if symbol.isalpha() and symbol.islower():
            cue = _CUE_BEFORE.search(before) is not None
            return cue and bool(re.match(r"\s*(?:$|[.,;!)\n])", after))
        if not _CLAUSE_AFTER.match(after):
            return bool(symbol not in "AI" and _CUE_AFTER.match(after))
        return _LED.search(before) is not None

    def _weigh(self, text: str, start: int, end: int, mention: _Mention) -> None:
        before, after = text[max(start, mention.start - 120) : mention.start], text[mention.end : end]
        clause = re.split(r"[,;:](?=\s)|\bbut\b|\bso\b", before)[-1] if not mention.by_text else re.split(r"[,;:](?=\s)|\bbut\b", before)[-1]
        mention.denied = bool(_DENIED_BEFORE.search(clause) or _DENIED_AFTER.match(after))
        if mention.denied:
            return
        whole_before = text[max(0, mention.start - 120) : mention.start]
        cue = _CUE_BEFORE.search(whole_before) or _CUE_AFTER.match(after)
        alone = not before.strip(" \t\"'([{*•->") and not after.strip(" \t\"')]}.!*") or (
            not text[: mention.start].strip(" \t\"'([{*") and re.match(r"[)\]]?\s*(?:[,:(-]|\n|because|since|as\b)", text[mention.end :])
        )
        sentence = text[start:end]
        since_but = before[before.rfind("but ") + 1 :]
        hypothetical = _HYPOTHESIS.search(since_but) is not None or sentence.rstrip().endswith("?")
        mention.stated = mention.stated or (bool(cue or alone) and not hypothetical)

    def _decide(
        self, text: str, mentions: list[_Mention], starts: list[int], ends: list[int]
    ) -> Reading:
        for one, other in zip(mentions, mentions[1:], strict=False):
            # A symbol directly beside another option's text.
            if not one.by_text and other.by_text and one.option != other.option:
                between = text[one.end : other.start]
                if len(between) <= 4 and not between.strip(" ).:-–\"',"):
                    return Reading(None, "contradictory")
        stated = [one for one in mentions if one.stated]
        positive = [one for one in mentions if not one.denied]
        if stated:
            last = stated[-1]
            together = {one.option for one in positive if one.sentence == last.sentence and self._joined(text, one, last)} | {last.option}
            same = {one.option for one in stated if one.sentence == last.sentence}
            if len(together | (same if not _CORRECTS.search(text[starts[last.sentence]:last.start]) else set())) > 1:
                return Reading(None, "several options")
            for one in stated:
                if one.option != last.option and not _CORRECTS.search(text[one.end : last.start]) and not self._lists(text, one):
                    return Reading(None, "several options")
            return Reading(last.option, "statement")
        if not positive:
            return Reading(None, "denied")
        asserted = [
            one for one in positive
            if not text[starts[one.sentence] : ends[one.sentence]].rstrip().endswith("?")
        ]
        rest = self._without(text, mentions)
        if _ABSTAINS.search(rest):
            return Reading(None, "abstains")
        options = {one.option for one in positive}
        if len(options) > 1:
            return Reading(None, "several options")
        return Reading(options.pop(), "mention") if asserted else Reading(None, "no option")

    @staticmethod
    def _joined(text: str, one: _Mention, last: _Mention) -> bool:
        """Whether only a conjunction is between two mentions."""
        a, b = (one, last) if one.start < last.start else (last, one)
        between = text[a.end : b.start]
        return re.fullmatch(r"[\s)\]\"']*(?:,|/|&|\+)?\s*(?:and|or|nor|and/or|both)?[\s(\[\"']*(?:option\s+)?[(\[]?", between, re.IGNORECASE) is not None

    @staticmethod
    def _lists(text: str, one: _Mention) -> bool:
        """Whether a mention begins a line of a list of options."""
        return text[: one.start].rpartition("\n")[2].strip(" \t(-•*") == "" and text[one.end : one.end + 1] in ".):"

    @staticmethod
    def _without(text: str, mentions: list[_Mention]) -> str:
        parts, at = [], 0
        for one in mentions:
            parts.append(text[at : one.start])
            at = max(at, one.end)
        return " … ".join([*parts, text[at:]])


_NUMBERED = re.compile(
    rf"\b(?:the\s+)?(?P<ordinal>{'|'.join(_ORDINALS)}|last)\s+(?:option|choice|answer)\b"
    r"|\b(?:option|choice)\s*#?\s*(?P<number>\d)\b",
    re.IGNORECASE,
)


def _position(found: re.Match[str], count: int) -> int | None:
    if found["number"]:
        number = int(found["number"]) - 1
    elif found["ordinal"].lower() == "last":
        number = count - 1
    else:
        number = _ORDINALS.index(found["ordinal"].lower())
    return number if 0 <= number < count else None


def _key(text: str) -> str:
    """Return a text for comparison: case, spacing and marks around it do not matter."""
    if not text.isascii():
        text = normal_form(text)
    return " ".join(text.casefold().split()).strip(" .!?,;:\"'()[]*。")

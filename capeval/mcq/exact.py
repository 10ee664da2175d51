"""Read which option a reply states; never guess.

Every mention of an option, by its symbol ("C", "(c)", "Option C") or by its text, is replaced by
one mark. The marked reply is split into sentences and clauses once, and each mention is judged
once. An unclear reply has no answer.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple

from capeval.language import after_thinking
from capeval.schema import OPTION_LETTERS
from capeval.text import normal_form

VERSION = "1"
"""Of these rules, for signatures."""

# Marks are private characters, so that the phrases around them remain ordinary patterns.
_FIRST_MARK = 0xF0000
_MARK = "[\U000f0000-\U000ffffd]"
# Only this many last mentions are read: the end of a longer reply states its answer.
_MOST_MARKS = 300
# Characters beside a mention that can state or deny it.
_BESIDE = 90


class Reading(NamedTuple):
    """What a reply says: the number of its option from 0 or None, and the rule that decided.

    Rules with an option: `symbol`, `text`, `statement`, `mention`, `box`. Rules without: `empty`,
    `unfinished reasoning`, `no option`, `several options`, `denied`, `contradictory`, `abstains`.
    """

    option: int | None
    rule: str


_Kind = Literal["text", "symbol", "bare"]
_How = Literal["denied", "supposed", "concluded", "alone", "item", "mentioned", "passing"]


class _Mention(NamedTuple):
    """A mention of an option, or of one of several alike; bare is a mere letter."""

    start: int
    end: int
    option: int | None
    kind: _Kind
    is_word: bool = False


class _Claim(NamedTuple):
    """Marks that are mentioned together, the judgment on them, and the number of the sentence."""

    marks: tuple[int, ...]
    how: _How
    sentence: int
    start: int


_Texts = dict[str, int | None]
"""The number of the option by its text; None for texts that are alike."""


def read_answer(reply: str, options: Sequence[str]) -> Reading:
    """Return the option that a reply states; `options` are their texts, without letters.

    >>> read_answer("Based on the video, the answer is C.", ["left", "right", "up"])
    Reading(option=2, rule='statement')
    >>> read_answer("A man walks.", ["left", "right"])
    Reading(option=None, rule='no option')
    """
    letters = OPTION_LETTERS[: len(options)]
    letter = reply.strip(_BULLETS).upper()
    if len(letter) == 1 and letter in letters:
        return Reading(letters.index(letter), "symbol")
    cleaned = _answer_text(reply)
    if cleaned is None:
        return Reading(None, "unfinished reasoning")
    text, boxes = cleaned
    texts = _texts(tuple(options))
    found = {_read(box, texts, letters).option for box in boxes}
    if len(found) > 1:
        return Reading(None, "several options")
    if found and (only := found.pop()) is not None:
        return Reading(only, "box")
    return _read(text, texts, letters)


# ---- The words that state the answer: no reasoning, markup or chat templates ---------------------

# Cyrillic and Greek letters that look like a Latin one, where they are alone.
_LOOKALIKE = str.maketrans("АВСЕНІЈКМОРТХΑΒΕΗΙΚΜΝΟΡΤΧ", "ABCEHIJKMOPTXABEHIKMNOPTX")
_ALONE = re.compile(r"(?<!\w)[АВСЕНІЈКМОРТХΑΒΕΗΙΚΜΝΟΡΤΧ](?!\w)")

_INLINE = re.compile(
    r"</?(?:s|b|i|u|em|strong|span|font|code|eos|end_of_turn)(?:\s[^<>]{0,200})?>"
    r"|<\|[^<>|]{1,40}\|>",
    re.IGNORECASE,
)
_BLOCK = re.compile(r"</?(?:p|br|div|h[1-6]|ul|ol|li|pre)(?:\s[^<>]{0,200})?/?>", re.IGNORECASE)
_COMMAND = re.compile(r"\\(?:text\w{0,2}|emph|underline|math\w{2,3})\s*\{([^{}]*)\}")
_BOXES = (
    ("\\", re.compile(r"\\(?:boxed|fbox)\s*\{(?P<value>[^{}]*)\}")),
    ("<", re.compile(r"<(\w{0,12}(?:answer|choice|option))>(?P<value>[^<]*)</\1>", re.IGNORECASE)),
    # A key of JSON, or of a printed dict, that names the answer.
    (
        "{",
        re.compile(
            r"""(["'])(?:[a-z]{1,9}[_ ])?(?:answer|choice|option)\1\s*:\s*
            (?P<quote>["']?)(?P<value>[^\\\n{}\[\]]{0,1000}?)(?P=quote)(?=\s*[,}\n])""",
            re.IGNORECASE | re.VERBOSE,
        ),
    ),
)
_MARKUP = re.compile(r"\$|\*+|_{2,}|`+|~{2,}|\\[()\[\],;! ]|^[ \t]*[#>]+[ \t]*", re.MULTILINE)
_OPPOSITE = re.compile(r"\b(counter|anti)[ -](?=clockwise)", re.IGNORECASE)
_BLANKS = re.compile(r"[^\S\n]+")
# Patterns try each mark of a run as a beginning: without long runs, that takes no time.
_LONG_RUN = re.compile(r"([^\w]{12})[^\w]{8,}([^\w]{12})")

_LONGEST = 20_000
"""Characters at the end that are read: any model states its answer in fewer."""


@lru_cache(maxsize=1_000)
def _answer_text(reply: str) -> tuple[str, list[str]] | None:
    r"""Return a reply without reasoning and markup, and the contents of its answer boxes.

    A box is LaTeX's `\boxed{...}`, `<answer>...</answer>` or `{"answer": "..."}`. None if the reply
    ends in the middle of its reasoning.

    >>> _answer_text("<think>A?</think>**The answer** is $\\boxed{\\text{C}}$.")
    ('The answer is C.', ['C'])
    """
    whole = after_thinking(reply)
    if whole is None:
        return None
    text = _BLANKS.sub(" ", whole[-_LONGEST:])
    if not text.isascii():
        text = normal_form(text)
        text = _ALONE.sub(lambda found: found[0].translate(_LOOKALIKE), text)
        text = text.replace("’", "'").replace("。", ". ").replace("、", ", ")
    if "<" in text:
        text = _BLOCK.sub("\n", _INLINE.sub("", text))
    if "\\" in text:
        text = _COMMAND.sub(r"\1", text)
    boxes: list[str] = []
    for opening, pattern in _BOXES:
        if opening in text and not boxes:
            boxes = [found["value"] for found in pattern.finditer(text)]
            text = pattern.sub(r"\g<value>", text)
    text = _OPPOSITE.sub(r"\1", text)
    return _plain(text), [_plain(box) for box in boxes]


def _plain(text: str) -> str:
    return _LONG_RUN.sub(r"\1\2", _MARKUP.sub("", text)).strip()


# ---- The phrases that state, deny, suppose or decline an answer ----------------------------------

# Each matches a few words beside the mark of an option. English has most of them,
# because replies to English questions are English.
_FLAGS = re.IGNORECASE | re.VERBOSE
_ADVERBS = r"(?:\w{3,}ly|also|thus|therefore|most|more|then|still|best|maybe|perhaps)"

# "the answer is", "I choose", "therefore".
_CONCLUDES_BEFORE = re.compile(
    rf"""(?:
    \b(?:answer|ans|choice|letter)\b\.?(?:\s+(?:here|option|to\ \w+\ question))?["']?\s*
        (?:(?:is|was|(?:must|should|would)\ be)\b|=|->|→|[:–\n-]|(?<=\.))
  | \b(?:correct|right|best|likely|only)\s+(?:option|choice|answer|one|statement)\b
        (?:\s+that\s+\w+(?:\s+\w+){{0,3}})?\s*(?:(?:is|was)\b|[:-])?
  | \b(?:choose|select|pick|i'd\ answer|go(?:ing)?\ with|say|guess|lean(?:ing)?\ towards?|matches|
        i\ (?:think|believe)|(?:must|would|should)\ be|leaves|leaving|total\ of|therefore|thus|
        hence|so|ultimately)\b,?(?:\s+(?:it\ is|it's|its|there\ (?:are|is)))?
  | (?:^|[.,;:!?\n])\s*(?:(?:it|that|this)(?:'?s|\ is|\ was)|es\ ist|而?是
        |(?:most\s+)?(?:likely|probably|definitely|clearly|perhaps|maybe))
  | ^\s*answer\s | \bsondern | \b(?:actually|wait|no|correction|rather|instead)\b[,:]
  | (?:答案|正解|答え|选择|选项|选|정답)(?:应该|应)?(?:是|为|は|은|:)*
  | \b(?:ответ|respuesta|réponse|antwort|resposta|risposta|الإجابة)\b
        (?:\s+(?:corr\w+|es|est|ist|é|è|la|هي))*\s*:?
    )
    [\s"'(\[]*(?:(?:the|la|answer|number|is|be|that|{_ADVERBS})\s+)*[\s"'(\[:]*$""",
    _FLAGS,
)
# "is correct", "fits", "Yes".
_CONCLUDES_AFTER = re.compile(
    rf"""[\s"')\].:]*(?:[-–—]\s)?(?:
    (?:is|was|seems|appears|(?:would|must)\ be)\s+(?:(?:to\ be|the|my|{_ADVERBS})\s+)*
        (?:correct|right|best|true|answer|likely|choice|option)
  | (?:fits|matches|describes)\b | it\ is\s*(?:[.!\n]|$) | (?:yes|correct|true)\b(?!\ +\w) | [✅✓✔]
  | (?:选项)?是?正确 | 选项\W*$ | が(?:正解|正しい) | だ | です | 입니다 | 번 | 가\s*맞)""",
    _FLAGS,
)
# "not", "rather than", "rule out", "better than".
_DENIES_BEFORE = re.compile(
    r"""(?:\b(?:not|\w+n't|never|neither|nor|cannot|rather\s+than|instead\ of|except|unlike|without|
        no|(?:eliminat|exclud|reject)(?:e|ed|ing)|rul(?:e|ed|ing)\ out|wrong|
        incorrect|worst|second-best|least\s+likely|anything\s+but|far\s+from|hardly|dismiss|discard|none|не|nicht|keine?|não|non|pas|
        ليس)\b|\b(?:better|more\s+\w+)\s+than\s*$|不[是选選]|排除|(?:没有?|未|不会|并非|错误)[^\W\d_]{0,4}|
        오답[은이]|틀린\s*것은|正しくないのは|falsche|mauvaise|неправильн\w*)
    [\s"'(\[]*(?:(?:think|be|is|it|it's|that|the|a|an|to|answer|choice|option|both|either|by|any|antwort|ist|réponse|est|ответ:)\s+|
        \w+\s+(?=\w*$)){0,4}["'(\[\s]*$""",
    _FLAGS,
)
# "is wrong", "cannot", "No.".
_DENIES_AFTER = re.compile(
    r"""[\s"')\].:,]*(?:[-–—]\s)?(?:
    (?:is|was|seems|are|were|(?:can|could|would)\ be|looks)\s+(?:\w+\s+)?(?:not|incorrect|wrong|
        false|(?:un|less\ )likely|impossible|ruled\ out|eliminated|excluded|worse|out\b)
  | (?:is|was|are|were|does|do|ca|could)n't | cannot | (?:does|do)\ not
  | (?:no|incorrect|wrong|false)\b(?!\ +\w) | [❌✗✘✖]
  | 都?(?:不[对正符]|错误) | では(?:な|あり) | じゃ | [가이은는]?\s*아[니닙]
  | [^\W\d_]{0,6}(?:ません|しくない|かない) | [^\W\d_]{0,3}\s*[^\W\d_]{0,4}지\s*않)""",
    _FLAGS,
)
# Makes the rest of a sentence hypothetical; "if I had to guess" does not.
_CONDITION = re.compile(
    r"\b(?:if\b(?!\s+(?:(?:i|we)\s+)?(?:had|have|must|forced)\b)|unless\b|whether\b|suppose\b|"
    r"assuming\b)|如果|もし|만약",
    re.IGNORECASE,
)
# Makes the rest of a clause a possibility or a comparison.
_POSSIBLE_BEFORE = re.compile(
    r"\b(?:could|might|may|at first|initially|tempting|than|doubt|unlikely|impossible|disagree|"
    r"evidence|suggests|convinced|hard to|refuse|mistake|wrong to|claim\w*|sample|format|example|"
    r"(?:would(?:n't| not)|can(?:not|'t| not)) (?:say|confirm))\b|可能|也许|难说|不能说|无法",
    re.IGNORECASE,
)
# "might be"; "would be, if"; "and then", after which more happens.
_POSSIBLE_AFTER = re.compile(
    r"[\s\"')\].:,]*(?:would\s+(?:\w+\s+){1,4}?(?:if|but)\b|(?:and\s+)?then\b|(?:might|could|may|"
    r"(?:is|are|seems?)\s+(?:both\s+|also\s+)?(?:possible|plausible))\b|かもしれ|일\s*수도)",
    re.IGNORECASE,
)
# Takes back or concludes an earlier statement.
_CORRECTS = re.compile(
    r"\b(?:wait|actually|no,|but|however|sorry|correction|instead|on second thought|rather|hmm|"
    r"re-?(?:check|consider|count|examin)\w*|therefore|thus|so|hence|final(?:ly)?|overall|"
    r"in conclusion|ultimately)\b|所以|最终|따라서",
    re.IGNORECASE,
)
_ABSTAINS = re.compile(
    r"""\b(?:(?:can(?:'t|not|\ not)|could(?:n't|\ not)|(?:unable|impossible|hard|difficult|no\ way|
        not\ (?:able|possible))\ to|do(?:n't|\ not)|didn't)\s+(?:\w+\s+){0,2}?(?:determine|tell|
        answer|identify|say|see|view|watch|know|help|assist|provide|access|infer|confirm)\b
  | unclear|unsure|not\ (?:sure|clear)|uncertain|(?:not|n't)\ enough|insufficient|
    no\ (?:video|image|frame)s?\b) | 无法|不能?确定|かりません|できません|[알할]\ 수\ 없""",
    _FLAGS,
)
# Between two options that are named together.
_JOINED = (
    r"[^\S\n]*(?:[,/&+、]|(?<=[\s,])(?:and/or|and|or|nor|vs\.?|y|o|et|ou|und|oder|и|или)(?=\s)|"
    r"[和与或]|还是|また?は|と|か|또는|혹은|이?나|[와과]|[^\S\n])*"
)
# What can follow a letter that is a symbol: "A man" and "A-frame" are words.
_FOLLOWS_SYMBOL = re.compile(
    r"[ \t]*(?:$|\n|[.,:;!?)\]\"'&%-](?![A-Za-z])|[(\[]|[^\x00-\x7f]|(?:because|since|as|and|or|"
    r"but|is|was|for|would|seems?|rather|nor|not|then|it is|matches|fits|could|can|are|to)\b)",
    re.IGNORECASE,
)
# What can lead to a letter without brackets, beside what concludes: "Vitamin C" is a name.
_LEADS_TO_SYMBOL = re.compile(
    r"""(?:^|\n|[:;.!?,&(["'=>]|[^\x00-\x7f]|\s-|\b(?:is|be|and|or|n?either|n?or|both|between|not|
    than|are|eliminate|out|so|but|to|except|by|la|est|ist))\s*$""",
    _FLAGS,
)
# Makes a number different from the option's: "frame 3", "more than 5".
_LABELLED = re.compile(
    r"(?:\b(?:(?:frame|scene|step|image|clip|part|player|minute|second)s?|"
    r"(?:more|less|fewer|greater|other) than|option|choice)\s*#?\(?|第)$",
    re.IGNORECASE,
)


# ---- The options ---------------------------------------------------------------------------------

_SENTENCE_END = re.compile(r"[.!?;]+(?=\s|$)|\n+")
_CLAUSE_END = re.compile(r"[,;:](?=\s|[^\x00-\x7f])|\b(?:(?<!anything )but|so)\b")
_GROUP = re.compile(f"{_MARK}(?:{_JOINED}{_MARK})*")
_BESIDE_TEXT = re.compile(r"""[\s().:\-–—"',]{0,4}""")
_NAMED = re.compile(
    r"(?:options?|choices?|opción|opção|lettre|选项|選項|選択肢|보기)$", re.IGNORECASE
)
_TITLE = re.compile(r"\b(?:Dr|Mr|Mrs|Ms|Prof|St)\.?\s*$")
# What makes a text part of a longer word or number; scripts without spaces join words.
_PART_BEFORE = re.compile(r"(?:[a-z0-9_]\w|\w[a-z0-9]|[.,-]\d|\w[.,-]\w)$")
_PART_AFTER = re.compile(r"\w[a-z0-9_]|[a-z0-9]\w|\w-\w|\w\.\d")
_LISTED = re.compile(r"[.):]\s*")
_ENDS = re.compile(r"\s*(?:$|[.,;!)\n])")
# What may follow an option that begins a reply: "C, because", "A) Apples are", "B\n\nThe video".
_BEGINS = re.compile(r"[)\]]?\s*(?:[,:(—–-]|\n|because|since|as\b|rather)")
_AROUND = " \t\n\"'()[]{}*>:.,!。"
_BULLETS = _AROUND + "-=→•【】"


@cache
def _symbols(letters: str) -> re.Pattern[str]:
    one = f"[{letters}{letters.lower()}]"
    # A slash joins letters of another kind: "N/A", "an A/B test".
    before = r"(?<![A-Za-z0-9'_.\\-])(?<![A-Za-z0-9]-)(?<!\w/)"
    after = r"(?![A-Za-z0-9_'])(?!-[A-Za-z])(?!\.[a-z0-9])(?!/\w)"
    return re.compile(f"{before}{one}{after}")


# The options of many questions are the same few; replies are not.
@lru_cache(maxsize=4_096)
def _texts(options: tuple[str, ...]) -> _Texts:
    """Return the options by their texts, the longest first: it wins over one inside it."""
    keys = [_key(option) for option in options]
    texts = {key: n if keys.count(key) == 1 else None for n, key in enumerate(keys) if key}
    return dict(sorted(texts.items(), key=lambda one: -len(one[0])))


def _key(text: str) -> str:
    text = (text if text.isascii() else normal_form(text)).replace("$", "")
    text = _OPPOSITE.sub(r"\1", text)
    return " ".join(text.casefold().split()).strip(_AROUND + "?;")


def _read(text: str, texts: _Texts, letters: str) -> Reading:
    if not text:
        return Reading(None, "empty")
    if (number := texts.get(_key(text))) is not None:
        return Reading(number, "text")
    found = _marked(text, texts, letters)
    if found is None:
        return Reading(None, "contradictory")
    marked, mentions = found
    if not mentions:
        return Reading(None, "abstains" if _ABSTAINS.search(text) else "no option")
    if len(marked.strip(_BULLETS)) == 1:
        return Reading(mentions[0].option, "symbol" if mentions[0].kind != "text" else "text")
    return _decided(marked, mentions)


# ---- Where options are mentioned ---------------------------------------------------------------


def _marked(text: str, texts: _Texts, letters: str) -> tuple[str, list[_Mention]] | None:
    """Return a text with a mark in place of each mention, and the mentions.

    A symbol with its own text beside it is one mention; None if the text is another option's.
    """
    text = text if text.isascii() else re.sub(_MARK, " ", text)
    # Lower case must keep the text's length, so that positions stay valid.
    flat = text.lower() if text.isascii() else "".join(c.lower()[:1] for c in text)
    flat = flat.replace("\n", " ")
    found: list[_Mention] = []
    taken = bytearray(len(text))
    for key, option in texts.items():
        end = 0
        while (at := flat.find(key, end)) >= 0:
            end = at + len(key)
            is_label = key.isdigit() and _LABELLED.search(text[max(0, at - 40) : at])
            is_part = _PART_BEFORE.search(flat[max(0, at - 2) : at + 1]) or _PART_AFTER.match(
                flat[end - 1 : end + 2]
            )
            if not (is_label or is_part or taken[at] or taken[end - 1]):
                found.append(_Mention(at, end, option, "text", key.isalnum()))
                taken[at:end] = b"\1" * len(key)
    for match in _symbols(letters).finditer(text):
        start, end = match.span()
        if not taken[start]:
            item = _LISTED.match(text, end)
            is_listed = item is not None and any(taken[item.end() : item.end() + 1])
            around = text[max(0, start - 40) : start], match[0], text[end : end + 20]
            if reach := _symbol_mention(*around, is_listed):
                left, right, kind = reach
                number = letters.index(match[0].upper())
                found.append(_Mention(start - left, end + right, number, kind))
    mentions: list[_Mention] = []
    for one in sorted(one for one in found if one.option is not None)[-_MOST_MARKS:]:
        before = mentions[-1] if mentions else one
        between = text[before.end : one.start]
        # "C. Berries", "berries (C)", but not "berries. C".
        if (
            (before.kind == "text") != (one.kind == "text")
            and _BESIDE_TEXT.fullmatch(between)
            and not (before.kind == "text" and between.strip(" ("))
        ):
            if before.option != one.option:
                return None
            mentions[-1] = before._replace(end=one.end, kind="symbol")
        else:
            mentions.append(one)
    parts, at = [], 0
    for number, one in enumerate(mentions):
        parts += [text[at : max(at, one.start)], chr(_FIRST_MARK + number)]
        at = max(at, one.end)
    return "".join([*parts, text[at:]]), mentions


@lru_cache(maxsize=4_096)
def _symbol_mention(
    before: str, symbol: str, after: str, is_listed: bool
) -> tuple[int, int, _Kind] | None:
    """Return how far brackets reach to the left and right of a symbol, and its kind.

    None if a letter is a word, a name or an initial. `is_listed` says that the text of an option
    follows, as in "B. Candles".
    """
    named = _NAMED.search(before.rstrip(" \"'(["))
    outside = before[: named.start()].rstrip("(") if named else before.rstrip("\"'([{")
    left = len(before) - len(outside)
    right = len(after) - len(after.lstrip("\"')]}"))
    enclosed = left and right
    follows = _FOLLOWS_SYMBOL.match(after)
    if named or enclosed or is_listed:
        is_symbol = not symbol.islower() or enclosed or is_listed or follows
    elif symbol.islower():  # an article, nearly always
        is_symbol = (not before.strip() or _concludes(before)) and _ENDS.match(after)
    else:
        leads = _LEADS_TO_SYMBOL.search(before[-16:]) or _concludes(before)
        is_symbol = leads and follows and not _TITLE.search(before)
    return (left, right, "symbol" if named or enclosed else "bare") if is_symbol else None


# ---- The judgment on a mention -------------------------------------------------------------------


# Marks have no options, so that most replies of a model have one of a few marked forms.
@lru_cache(maxsize=4_096)
def _claims(marked: str) -> list[_Claim]:
    ends = [found.end() for found in _SENTENCE_END.finditer(marked)] + [len(marked)]
    claims = []
    for group in _GROUP.finditer(marked):
        marks = tuple(ord(c) - _FIRST_MARK for c in group[0] if ord(c) >= _FIRST_MARK)
        at = bisect_right(ends, group.start())
        begin, end = ends[at - 1] if at else 0, ends[bisect_right(ends, group.end() - 1)]
        before, after = marked[begin : group.start()][-_BESIDE:], marked[group.end() : end]
        how = _judged(before, after, marked[: group.start()], marked[group.end() :][:_BESIDE])
        claims.append(_Claim(marks, how, at, group.start()))
    return claims


def _judged(before: str, after: str, earlier: str, later: str) -> _How:
    """Judge a mention by its sentence and by the whole text, before and after it."""
    clause, rest = _CLAUSE_END.split(before)[-1], _CLAUSE_END.split(after)[0]
    if _DENIES_BEFORE.search(clause) or _DENIES_AFTER.match(later):
        return "denied"
    is_asked = after.rstrip().endswith("?") or _POSSIBLE_BEFORE.search(clause)
    if is_asked or _CONDITION.search(before.rpartition("but ")[2]):
        return "supposed"
    if _concludes(earlier[-60:]):
        return "concluded"
    if _POSSIBLE_AFTER.match(later):
        return "supposed"
    if _CONCLUDES_AFTER.match(later):
        return "concluded"
    is_first = not earlier.strip(_BULLETS) and _BEGINS.match(later)
    if is_first or not (clause + rest).strip(_BULLETS):
        return "alone"
    if not before.strip(_BULLETS):
        return "item"
    return "passing" if rest.strip(_BULLETS) else "mentioned"


@lru_cache(maxsize=4_096)
def _concludes(before: str) -> bool:
    return _CONCLUDES_BEFORE.search(before) is not None


def _decided(marked: str, mentions: Sequence[_Mention]) -> Reading:
    several = Reading(None, "several options")
    options = [one.option for one in mentions]

    def named(claims: Sequence[_Claim]) -> set[int | None]:
        return {options[mark] for one in claims for mark in one.marks}

    positive = [one for one in _claims(marked) if one.how != "denied"]
    if not positive:
        return Reading(None, "denied")
    is_list = len(named([one for one in positive if one.how == "alone"])) > 1
    stated = [
        one for one in positive if one.how == "concluded" or (one.how == "alone" and not is_list)
    ]
    if stated:
        last = stated[-1]
        others = [one for one in positive if named([one]) != named([last])]
        is_unsettled = last.how == "alone" and any(
            (one.how == "item" and mentions[one.marks[0]].kind != "text")
            or one.sentence == last.sentence
            for one in others
        )
        is_changed = any(
            named([one]) != named([other]) and not _CORRECTS.search(marked, one.start, other.start)
            for one, other in pairwise(stated)
        )
        if is_unsettled or is_changed or len(named([last])) > 1:
            return several
        return Reading(options[last.marks[0]], "statement")
    if _ABSTAINS.search(marked):
        return Reading(None, "abstains")
    if len(named(positive)) > 1:
        return several
    # Inside a sentence, a word or a symbol may say anything: "picks up the cup", "option A lacks".
    first = [mentions[one.marks[0]] for one in positive]
    if all(
        claim.how == "supposed"
        or one.kind == "bare"
        or (claim.how != "mentioned" and (one.is_word or one.kind == "symbol"))
        for claim, one in zip(positive, first, strict=True)
    ):
        return Reading(None, "no option")
    return Reading(options[positive[0].marks[0]], "mention")

"""The phrases by which models state, deny, suppose or decline an answer.

Each pattern looks at a few words beside an option; none of them decides alone. English has most of
them, because replies to English questions are English; of other languages there is how an answer
is introduced.
"""

from __future__ import annotations

import re
from functools import lru_cache
from string import ascii_letters

_FLAGS = re.IGNORECASE | re.VERBOSE

_ADVERBS = (
    r"(?:likely|probably|definitely|clearly|certainly|obviously|indeed|simply|actually|therefore|"
    r"thus|also|most|more|then|still|best|maybe|perhaps|almost|only|ultimately)"
)

# "the answer is", "I choose", "therefore": what concludes, in front of an option.
CUE_BEFORE = re.compile(
    rf"""(?:
    \b(?:answer|solution|conclusion|verdict|ans)\b\.?
        (?:\s+(?:here|choice|option|letter|to\ (?:this|the)\ question))?
        ["']?\s*(?:(?:is|was|must\ be|should\ be|would\ be|will\ be|has\ to\ be|remains)\b
            |=|->|→|:|-|–|\n|(?<=\.))
  | \b(?:correct|right|best|likely|accurate|appropriate|suitable|selected|chosen|final|only)\s+
        (?:option|choice|answer|letter|one|selection|response|statement|description)\b
        (?:\s+that\s+\w+(?:\s+\w+){{0,3}})?\s*
        (?:(?:is|was|must\ be|should\ be|would\ be|seems\ to\ be|appears\ to\ be)\b|:|-)?
  | \b(?:choose|chose|choosing|select|selected|selecting|pick|picked|picking|opt\ for|go\ with|
        going\ with|went\ with|go\ for|settle\ on|vote\ for|say|conclude|guess|conclusion\ is|
        (?:lean|leaning|inclined)\ (?:towards?|to)|corresponds?\ to|matches)\b
  | \b(?:i\ think|i\ believe|i'd\ say|must\ be|has\ to\ be|would\ be|should\ be|making|leaves|
        leaving|total\ of)\b
        (?:\s+(?:it\ is|it's|its|that\ it\ is|that))?
  | \b(?:therefore|thus|hence|so|ultimately)\b,?(?:\s+there\s+(?:are|is))?
  | (?:^|[.,;:!?\n])\s*(?:(?:it|that|this)(?:'?s|\ is|\ was)
      | (?:most\s+)?(?:likely|probably|definitely|certainly|clearly|obviously|perhaps|maybe))
  | \b(?:on\ second\ thought|actually|wait|no|sorry|correction|rather|instead)\b[,:]
  | (?:答案|正解|答え|回答|选择|選擇|选项|选|選|정답|답|而是)
        (?:应该|應該|应|應)?(?:是|为|為|は|은|는|:)*
  | \b(?:ответ|respuesta|réponse|reponse|antwort|lösung|resposta|risposta|cevap|odpowiedź|odpoved|
        svar|jawaban|đáp\ án)\b
        (?:\s+(?:correcta|correta|correcte|corretta|richtige|is|es|est|ist|lautet|é|è|la|a|adalah))*\s*:?
  | (?:الإجابة|الجواب|उत्तर|जवाब|คำตอบ)(?:\s+(?:هي|هو|है|คือ))?\s*:?
    )
    [\s"'(\[]*
    (?:(?:the|la|el|le|option|choice|letter|answer|number|is|be|that|it\ is|it's|{_ADVERBS}|opción|
        opção|l'option)\s+)*
    (?:option\s+)?[\s"'(\[:]*$""",
    _FLAGS,
)

# "is correct", "fits", "Yes": what confirms, behind an option.
CUE_AFTER = re.compile(
    rf"""[\s"')\].:]*(?:[-–—]\s)?(?:
    (?:is|was|seems|appears|looks|would\ be|must\ be|should\ be)\s+
        (?:(?:to\ be|like|{_ADVERBS})\s+)*(?:the\s+|my\s+|a\s+|{_ADVERBS}\s+)*
        (?:correct|right|best|true|accurate|answer|likely|choice|option|appropriate|one\b|final)
  | (?:fits|matches|describes|works|applies)\b
  | it\ is\s*(?:[.!\n]|$)
  | (?:[-–—]\s*)?[✅✓✔]
  | (?:the\s+)?(?:correct|right)\s+(?:answer|option|choice)\b
  | (?:yes|correct|true)\b(?![^\S\n]+\w)
  | 是正确|是正確|是对的|正确|が正解|が正しい|입니다|이다
    )""",
    _FLAGS,
)

# "not", "rather than", "rule out": what denies, in front of an option.
DENIED_BEFORE = re.compile(
    r"""(?:\b(?:not|isn't|wasn't|aren't|never|neither|nor|cannot\ be|can't\ be|couldn't\ be|
        don't\ think|doesn't|didn't|rather\s+than|instead\ of|except|excluding|eliminate[sd]?|
        eliminating|exclude[sd]?|rule[sd]?\ out|ruling\ out|reject(?:s|ed)?|unlike|opposed\ to|
        without|no|не|nicht|keine?|não|non|pas|ليس|ليست)\b|不是|不选|不選|
    (?:没有|沒有|并非|並非)[^\W\d_]{0,4})
    [\s"'(\[]*
    (?:(?:be|is|it|it's|that|the|a|an|to|option|choice|answer|letter|move|moves|moving|both|either|
        by|any)\s+|\w+\s+(?=\w*$)){0,4}
    ["'(\[\s]*$""",
    _FLAGS,
)

# "is wrong", "cannot", "No.": what denies, behind an option.
DENIED_AFTER = re.compile(
    r"""[\s"')\].:,]*(?:[-–—]\s)?(?:
    (?:is|was|seems|are|were|can\ be|could\ be|would\ be|looks)\s+(?:(?:\w+|both)\s+)?
        (?:not|incorrect|wrong|false|unlikely|impossible|inaccurate|ruled\ out|eliminated|excluded|
        out\b)
  | isn't|wasn't|aren't|cannot|can't|couldn't|doesn't|does\ not|do\ not|don't
  | (?:no|incorrect|wrong|false)\b(?![^\S\n]+\w)
  | [❌✗✘✖]
  | 不对|不正确|错误|不正確|錯誤|では(?:な|あり)|じゃな|(?:가|이|은|는)?\s*아니)""",
    _FLAGS,
)

# "C is better than D": what is compared with is not meant.
COMPARED = re.compile(
    r"\b(?:better|more (?:likely|probable|plausible|accurate|suitable|appropriate|consistent|"
    r"correct)) than (?:(?:option|choice|answer) )?[\"'(\[]*$",
    re.IGNORECASE,
)

# "all options except B are wrong", "none but B fits": the option that is excepted is meant.
ALL_EXCEPT = re.compile(
    r"\b(?P<subject>all|everything|every|each|none|any|nothing)\b[^.\n]{0,40}?"
    r"\b(?:except|but|besides|other than|apart from)(?: for)? (?:option )?[\"'(]*$",
    re.IGNORECASE,
)
WRONG = re.compile(
    r"\b(?:wrong|incorrect|false|not|eliminated|excluded|ruled out|unlikely)\b", re.IGNORECASE
)

# What takes back or concludes an earlier statement.
CORRECTS = re.compile(
    r"\b(?:wait|actually|no,|but|however|sorry|correction|instead|on second thought|rather|oops|"
    r"hmm|let me (?:re|correct)\w*|re-?(?:check|consider|count|examin|evaluat)\w*|"
    r"mis(?:counted|read|took)|therefore|thus|so|hence|final(?:ly)?|overall|in conclusion|"
    r"in summary|ultimately)\b",
    re.IGNORECASE,
)

HYPOTHESIS = re.compile(
    r"\b(?:if|unless|whether|suppose|assuming|could|might|may|at first|initially|tempting)\b",
    re.IGNORECASE,
)

ABSTAINS = re.compile(
    r"""\b(?:(?:can(?:'t|not|\ not)|couldn't|could\ not|unable\ to|impossible\ to|not\ possible\ to|
    (?:hard|difficult)\ to|no\ way\ to|don't|do\ not|didn't|not\ able\ to)\s+(?:\w+\s+){0,2}?
    (?:determine|tell|answer|identify|say|see|view|watch|know|help|assist|provide|decide|choose|
    access|process|infer|conclude|be\ determined|confirm)\b
  | (?:unclear|unsure|not\ sure|uncertain|not\ enough|insufficient|
        no\ (?:video|image|frame)s?\b))""",
    _FLAGS,
)

# "Dr. B. Smith": a letter that abbreviates a name.
TITLE = re.compile(r"\b(?:Dr|Mr|Mrs|Ms|Prof|St)\.?\s*$")

SENTENCE_END = re.compile(r"[.!?;](?=\s|$)|\n+|(?<=[a-zA-Z)])\.(?=[A-Z][a-z])")

CLAUSE_END = re.compile(r"[,;:](?=\s)|\bbut\b")
CLAUSE_END_BEFORE_SYMBOL = re.compile(r"[,;:](?=\s)|\bbut\b|\bso\b")

# Words that can lead to a letter without brackets: "Vitamin C" and "plan B" are names.
_LEADING = frozenset(
    """is be it's that's say think choose chose like with pick select answer option choice letter
    for and or nor either neither between both not than of are eliminate out la el es est ist so
    therefore thus hence but then number step instead to toward towards making except by guess on
    ans likely probably definitely clearly certainly obviously indeed simply actually also most
    more still best maybe perhaps almost its leaves leaving matches opção opción resposta
    respuesta réponse lettre letra only ultimately sondern sino""".split()  # noqa: SIM905 - one to a line would be longer
)
_LEADING_MARKS = frozenset(":;.!?,/&([\"'=>")
_LAST_WORD = re.compile(r"[^\W\d_]*(?:'[^\W\d_]+)?\Z")

# Words that `CUE_BEFORE` can end with, in English; no search is needed behind another word.
_CONCLUDING = _LEADING | frozenset(
    """was remains one selection response statement description are choosing selected selecting
    picked picking conclude leaning matches believe that the le this's solution conclusion verdict
    it ist lautet adalah correcta correta correcte corretta richtige respuesta reponse antwort
    resposta risposta cevap odpoved svar jawaban wait no sorry correction rather thought""".split()  # noqa: SIM905
)


def leads_to_symbol(before: str) -> bool:
    """Return whether a letter behind this text can be the symbol of an option.

    >>> leads_to_symbol("The answer is "), leads_to_symbol("Vitamin ")
    (True, False)
    """
    text = before.rstrip()
    if not text or "\n" in before[len(text) :]:
        return True
    if text[-1] in _LEADING_MARKS or not text[-1].isascii() or text.endswith(" -"):
        return True
    return _last_word(text) in _LEADING


def _last_word(text: str) -> str:
    end = text[-_LAST:]
    if end.isascii():
        before = end.rstrip(ascii_letters)
        word = end[len(before) :]
        if word and before.endswith("'"):
            word = before[len(before[:-1].rstrip(ascii_letters)) :] + word
        return word.lower()
    found = _LAST_WORD.search(end)
    return found[0].lower() if found else ""


# The longest word that leads to a letter or concludes has 12 letters.
_LAST = 15

# Most words that conclude are short: the longer text is searched only if these are not there.
_NEAR = 30


# A model begins most of its answers with the same few words.
@lru_cache(maxsize=4_096)
def concludes(before: str) -> bool:
    """Return whether words that conclude end a text: "so the answer is".

    >>> concludes("so the answer is "), concludes("there are ")
    (True, False)
    """
    text = before.rstrip(" ")
    word = _last_word(text) if text[-1:].isalpha() else ""
    if word.isascii() and word and word not in _CONCLUDING:
        return False
    if len(before) > _NEAR and CUE_BEFORE.search(before[-_NEAR:]):
        return True
    return CUE_BEFORE.search(before) is not None


# What can follow such a letter: "A man" and "A-frame" are words.
FOLLOWS_SYMBOL = re.compile(
    r"[ \t]*(?:$|\n|/|[.,:;!?)\]\"'&%-](?![A-Za-z])|[(\[]|[^\x00-\x7f]|(?:because|since|as|and|or|"
    r"but|is|was|for|due|would|seems|rather|nor|not|then|it is|matches|fits|describes|could|"
    r"can|are|were|looks|"
    r"appears|must|should|isn't|instead|to|the correct|the right)\b)",
    re.IGNORECASE,
)

# Between two options that are named together.
JOINED = re.compile(
    r"[\s)\]\"']*(?:,|/|&|\+)?\s*(?P<word>and/or|and|or|nor|both|和|或|与|と|y|o|et|ou|und|oder)?\s*(?:options?\s+)?[\s(\[\"']*",
    re.IGNORECASE,
)

_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
NUMBERED = re.compile(
    rf"\b(?:the\s+)?(?P<ordinal>{'|'.join(_ORDINALS)}|last)\s+(?:option|choice|answer)\b"
    r"|\b(?:option|choice)\s*#?\s*(?P<number>\d)\b",
    re.IGNORECASE,
)


def may_number_options(text: str) -> bool:
    """Return whether `NUMBERED` can match in a text; most texts have none of its words."""
    lowered = text.lower()
    # In other scripts there are letters that match "i" and "s" and are written differently.
    return not text.isascii() or any(one in lowered for one in ("option", "choice", "answer"))


def numbered_option(found: re.Match[str], count: int) -> int | None:
    """Return the option that a match of `NUMBERED` means, of so many; None if there is none."""
    if found["number"]:
        number = int(found["number"]) - 1
    elif found["ordinal"].lower() == "last":
        number = count - 1
    else:
        number = _ORDINALS.index(found["ordinal"].lower())
    return number if 0 <= number < count else None

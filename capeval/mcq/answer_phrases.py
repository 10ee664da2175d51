"""The phrases by which models state, deny, suppose or decline an answer.

Each pattern looks at a few words beside an option, which `capeval.mcq.exact` has replaced by one
mark. English has most of them, because replies to English questions are English.
"""

from __future__ import annotations

import re

_FLAGS = re.IGNORECASE | re.VERBOSE
_ADVERBS = r"(?:\w{3,}ly|also|thus|therefore|most|more|then|still|best|maybe|perhaps)"

# "the answer is", "I choose", "therefore".
CONCLUDES_BEFORE = re.compile(
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
CONCLUDES_AFTER = re.compile(
    rf"""[\s"')\].:]*(?:[-–—]\s)?(?:
    (?:is|was|seems|appears|(?:would|must)\ be)\s+(?:(?:to\ be|the|my|{_ADVERBS})\s+)*
        (?:correct|right|best|true|answer|likely|choice|option)
  | (?:fits|matches|describes)\b | it\ is\s*(?:[.!\n]|$) | (?:yes|correct|true)\b(?!\ +\w) | [✅✓✔]
  | (?:选项)?是?正确 | 选项\W*$ | が(?:正解|正しい) | だ | です | 입니다 | 번 | 가\s*맞)""",
    _FLAGS,
)
# "not", "rather than", "rule out", "better than".
DENIES_BEFORE = re.compile(
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
DENIES_AFTER = re.compile(
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
CONDITION = re.compile(
    r"\b(?:if\b(?!\s+(?:(?:i|we)\s+)?(?:had|have|must|forced)\b)|unless\b|whether\b|suppose\b|"
    r"assuming\b)|如果|もし|만약",
    re.IGNORECASE,
)
# Makes the rest of a clause a possibility or a comparison.
POSSIBLE_BEFORE = re.compile(
    r"\b(?:could|might|may|at first|initially|tempting|than|doubt|unlikely|impossible|disagree|"
    r"evidence|suggests|convinced|hard to|refuse|mistake|wrong to|claim\w*|sample|format|example|"
    r"(?:would(?:n't| not)|can(?:not|'t| not)) (?:say|confirm))\b|可能|也许|难说|不能说|无法",
    re.IGNORECASE,
)
# "might be"; "would be, if"; "and then", after which more happens.
POSSIBLE_AFTER = re.compile(
    r"[\s\"')\].:,]*(?:would\s+(?:\w+\s+){1,4}?(?:if|but)\b|(?:and\s+)?then\b|(?:might|could|may|"
    r"(?:is|are|seems?)\s+(?:both\s+|also\s+)?(?:possible|plausible))\b|かもしれ|일\s*수도)",
    re.IGNORECASE,
)
# Takes back or concludes an earlier statement.
CORRECTS = re.compile(
    r"\b(?:wait|actually|no,|but|however|sorry|correction|instead|on second thought|rather|hmm|"
    r"re-?(?:check|consider|count|examin)\w*|therefore|thus|so|hence|final(?:ly)?|overall|"
    r"in conclusion|ultimately)\b|所以|最终|따라서",
    re.IGNORECASE,
)
ABSTAINS = re.compile(
    r"""\b(?:(?:can(?:'t|not|\ not)|could(?:n't|\ not)|(?:unable|impossible|hard|difficult|no\ way|
        not\ (?:able|possible))\ to|do(?:n't|\ not)|didn't)\s+(?:\w+\s+){0,2}?(?:determine|tell|
        answer|identify|say|see|view|watch|know|help|assist|provide|access|infer|confirm)\b
  | unclear|unsure|not\ (?:sure|clear)|uncertain|(?:not|n't)\ enough|insufficient|
    no\ (?:video|image|frame)s?\b) | 无法|不能?确定|かりません|できません|[알할]\ 수\ 없""",
    _FLAGS,
)
# Between two options that are named together.
JOINED = (
    r"[^\S\n]*(?:[,/&+、]|(?<=[\s,])(?:and/or|and|or|nor|vs\.?|y|o|et|ou|und|oder|и|или)(?=\s)|"
    r"[和与或]|还是|また?は|と|か|또는|혹은|이?나|[와과]|[^\S\n])*"
)
# What can follow a letter that is a symbol: "A man" and "A-frame" are words.
FOLLOWS_SYMBOL = re.compile(
    r"[ \t]*(?:$|\n|[.,:;!?)\]\"'&%-](?![A-Za-z])|[(\[]|[^\x00-\x7f]|(?:because|since|as|and|or|"
    r"but|is|was|for|would|seems?|rather|nor|not|then|it is|matches|fits|could|can|are|to)\b)",
    re.IGNORECASE,
)
# What can lead to a letter without brackets, beside what concludes: "Vitamin C" is a name.
LEADS_TO_SYMBOL = re.compile(
    r"""(?:^|\n|[:;.!?,&(["'=>]|[^\x00-\x7f]|\s-|\b(?:is|be|and|or|n?either|n?or|both|between|not|
    than|are|eliminate|out|so|but|to|except|by|la|est|ist))\s*$""",
    _FLAGS,
)
# Makes a number another one than the option's: "frame 3", "more than 5".
LABELLED = re.compile(
    r"(?:\b(?:(?:frame|scene|step|image|clip|part|player|minute|second)s?|"
    r"(?:more|less|fewer|greater|other) than|option|choice)\s*#?\(?|第)$",
    re.IGNORECASE,
)

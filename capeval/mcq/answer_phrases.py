"""The phrases by which models state, deny, suppose or decline an answer.

Each pattern looks at a few words beside an option, which `capeval.mcq.exact` has replaced by one
mark. English has most of them, because replies to English questions are English.
"""

from __future__ import annotations

import re

_FLAGS = re.IGNORECASE | re.VERBOSE
_ADVERBS = (
    r"(?:likely|probably|definitely|clearly|certainly|obviously|indeed|simply|actually|therefore|"
    r"thus|also|most|more|then|still|best|maybe|perhaps|almost|only|ultimately)"
)

# "the answer is", "I choose", "therefore".
CONCLUDES_BEFORE = re.compile(
    rf"""(?:
    \b(?:answer|solution|conclusion|verdict|ans)\b\.?
        (?:\s+(?:here|choice|option|letter|to\ (?:this|the)\ question))?
        ["']?\s*(?:(?:is|was|(?:must|should|would|will)\ be)\b|=|->|→|[:–\n-]|(?<=\.))
  | \b(?:correct|right|best|likely|accurate|suitable|selected|chosen|final|only)\s+
        (?:option|choice|answer|one|selection|response|statement|description)\b
        (?:\s+that\s+\w+(?:\s+\w+){{0,3}})?\s*(?:(?:is|was|(?:must|should|would)\ be)\b|[:-])?
  | \b(?:(?:choose|select|pick)(?:ed|ing)?|chose|opt\ for|(?:go|going)\ (?:with|for)|say|
        conclude|i'd\ answer|guess|lean(?:ing)?\ (?:towards?|to)|corresponds?\ to|matches|
        i\ think|i\ believe|(?:must|has\ to|would|should)\ be|making|leaves|leaving|total\ of|
        therefore|thus|hence|so|ultimately)\b,?(?:\s+(?:it\ is|it's|its|there\ are|there\ is))?
  | (?:^|[.,;:!?\n])\s*(?:(?:it|that|this)(?:'?s|\ is|\ was)|es\ ist|(?:而)?是
      |(?:most\s+)?(?:likely|probably|definitely|certainly|clearly|obviously|perhaps|maybe))
  | ^\s*answer\s | (?:choice|letter)\s+is\b | なく | 아니라 | \bsondern
  | \b(?:on\ second\ thought|actually|wait|no|correction|rather|instead)\b[,:]
  | (?:答案|正解|答え|回答|选择|選擇|选项|选|選|정답|답|而是)
        (?:应该|應該|应|應)?(?:是|为|為|は|은|는|:)*
  | \b(?:ответ|respuesta|réponse|antwort|resposta|risposta|cevap|jawaban|đáp\ án)\b
        (?:\s+(?:corr\w+|is|es|est|ist|é|è|la|a|adalah))*\s*:?
  | (?:الإجابة|الجواب|उत्तर|คำตอบ)(?:\s*(?:هي|هو|है|คือ))?\s*:?
    )
    [\s"'(\[]*(?:(?:the|la|le|answer|number|is|be|that|it\ is|it's|{_ADVERBS})\s+)*[\s"'(\[:]*$""",
    _FLAGS,
)
# "is correct", "fits", "Yes".
CONCLUDES_AFTER = re.compile(
    rf"""[\s"')\].:]*(?:[-–—]\s)?(?:
    (?:is|was|seems|appears|looks|(?:would|must|should)\ be)\s+
        (?:(?:to\ be|like|the|my|a|{_ADVERBS})\s+)*(?:correct|right|best|true|accurate|answer|
        likely|choice|option|appropriate|one\b|final)
  | (?:fits|matches|describes)\b | it\ is\s*(?:[.!\n]|$) | [✅✓✔]
  | (?:the\s+)?(?:correct|right)\s+(?:answer|option|choice)\b
  | (?:yes|correct|true)\b(?![^\S\n]+\w)
  | (?:选项|選項)?是?(?:正确|正確|对的)
  | が(?:正解|正しい) | だ | です | 选项\W*$ | 입니다 | 이다 | 번 | (?:가|이)\s*(?:맞|정답))""",
    _FLAGS,
)
# "not", "rather than", "rule out", "better than".
DENIES_BEFORE = re.compile(
    r"""(?:\b(?:not|isn't|wasn't|aren't|never|neither|nor|(?:cannot|can't|couldn't)\ be|
        don't\ think|doesn't|didn't|rather\s+than|instead\ of|except|unlike|without|no|
        (?:eliminat|exclud|reject)(?:e|ed|ing)|rul(?:e|ed|ing)\ out|не|nicht|keine?|não|non|pas|
        ليس|ليست)\b|\b(?:better|more\s+\w+)\s+than\s*$|不是|不选|不選|排除|(?:没有|沒有|并非|並非)[^\W\d_]{0,4})
    [\s"'(\[]*(?:(?:be|is|it|it's|that|the|a|an|to|answer|moves?|moving|both|either|by|any)\s+|
        \w+\s+(?=\w*$)){0,4}["'(\[\s]*$""",
    _FLAGS,
)
# "is wrong", "cannot", "No.".
DENIES_AFTER = re.compile(
    r"""[\s"')\].:,]*(?:[-–—]\s)?(?:
    (?:is|was|seems|are|were|(?:can|could|would)\ be|looks)\s+(?:(?:\w+|both)\s+)?(?:not|incorrect|
        wrong|false|(?:un|less\ )likely|impossible|ruled\ out|eliminated|excluded|worse|out\b)
  | (?:is|was|are|were|does|do|ca|could)n't | cannot | (?:does|do)\ not
  | (?:no|incorrect|wrong|false)\b(?![^\S\n]+\w) | [❌✗✘✖]
  | 都?(?:不对|不正确|错误|不正確|錯誤|不符) | では(?:な|あり) | じゃな
  | (?:가|이|은|는)?\s*아[니닙])""",
    _FLAGS,
)
# Makes the rest of a sentence hypothetical; "if I had to guess" does not.
CONDITION = re.compile(
    r"\b(?:if\b(?!\s+(?:(?:i|we)\s+)?(?:had|have|must|(?:am\s+|were\s+)?forced)\b)|unless\b|"
    r"whether\b|suppos(?:e|ing)\b|assuming\b)|如果|若是|もし|만약|인지",
    re.IGNORECASE,
)
# Makes the rest of a clause a possibility or a comparison.
POSSIBLE_BEFORE = re.compile(
    r"\b(?:could|might|may|at first|initially|tempting|than)\b|可能|也许|或许", re.IGNORECASE
)
# "might be"; "would be, if"; "and then", after which more happens.
POSSIBLE_AFTER = re.compile(
    r"[\s\"')\].:,]*(?:would\s+(?:\w+\s+){1,4}?(?:if|but)\b|(?:and\s+)?then\b|(?:might|could|may|"
    r"(?:is|are|seems?|looks?)\s+(?:both\s+|also\s+)?(?:possible|plausible))\b|かもしれ|일\s*수도|같지만)",
    re.IGNORECASE,
)
# Takes back or concludes an earlier statement.
CORRECTS = re.compile(
    r"\b(?:wait|actually|no,|but|however|sorry|correction|instead|on second thought|rather|hmm|"
    r"re-?(?:check|consider|count|examin|evaluat)\w*|mis(?:counted|read|took)|therefore|thus|so|"
    r"hence|final(?:ly)?|overall|in conclusion|in summary|ultimately)\b|"
    "因此|所以|最终|したがって|따라서",
    re.IGNORECASE,
)
ABSTAINS = re.compile(
    r"""\b(?:(?:can(?:'t|not|\ not)|could(?:n't|\ not)|(?:unable|impossible|hard|difficult|no\ way|
    not\ (?:able|possible))\ to|do(?:n't|\ not)|didn't)\s+(?:\w+\s+){0,2}?(?:determine|tell|answer|
    identify|say|see|view|watch|know|help|assist|provide|decide|choose|access|process|infer|
    conclude|be\ determined|confirm)\b
  | (?:unclear|unsure|not\ (?:sure|clear)|uncertain|(?:not|n't)\ enough|insufficient|
        no\ (?:video|image|frame)s?\b))
  | 无法|不能确定|不确定|分かりません|わかりません|できません|알\ 수\ 없|할\ 수\ 없""",
    _FLAGS,
)
# Between two options that are named together.
JOINED = (
    r"[^\S\n]*(?:[,/&+、]|(?<=[\s,])(?:and/or|and(?:\s+also)?|or|nor|vs\.?|y|o|et|ou|und|oder|и|или)"
    r"(?=\s)|和|与|與|或者?|还是|および|または|あるいは|と|か|や|또는|혹은|이나|와|과|나|및|[^\S\n])*"
)
# What can follow a letter that is a symbol: "A man" and "A-frame" are words.
FOLLOWS_SYMBOL = re.compile(
    r"[ \t]*(?:$|\n|[.,:;!?)\]\"'&%-](?![A-Za-z])|[(\[]|[^\x00-\x7f]|(?:because|since|as|and|or|"
    r"but|is|was|for|due|would|seems?|rather|nor|not|then|it is|matches|fits|describes|could|can|"
    r"are|were|looks?|appears?|must|should|isn't|instead|to|the correct|the right)\b)",
    re.IGNORECASE,
)
# What can lead to a letter without brackets: "Vitamin C" and "plan B" are names.
LEADS_TO_SYMBOL = re.compile(
    r"""(?:^|\n|[:;.!?,&(["'=>]|[^\x00-\x7f]|\s-|\b(?:is|be|it's|that's|say|think|choose|chose|like|
    with|pick|select|answer|for|and|or|nor|either|neither|both|between|not|than|are|eliminate|out|la|
    el|es|est|ist|so|hence|but|number|step|instead|to|towards?|making|except|by|guess|on|ans|its|
    leav(?:es|ing)|matches|é|opción|opção|resposta|respuesta|réponse|lettre|sondern|"""
    + _ADVERBS
    + r"))\s*$",
    _FLAGS,
)
# Makes a number another one than the option's: "frame 3", "more than 5".
LABELLED = re.compile(
    r"(?:\b(?:(?:frame|scene|step|image|figure|shot|clip|part|page|player|minute|second|point|stage)"
    r"s?|(?:more|less|fewer|greater|other|higher|lower) than|option|choice)\s*#?\(?|第)$",
    re.IGNORECASE,
)

"""Reduce a reply to the words that state its answer: no reasoning, markup or chat templates."""

from __future__ import annotations

import re

from capeval.llm.thinking import after_thinking
from capeval.text import normal_form

# Cyrillic and Greek letters that look like a Latin one, where they are alone.
_LOOKALIKE = str.maketrans("АВСЕНІЈКМОРТХΑΒΕΗΙΚΜΝΟΡΤΧ", "ABCEHIJKMOPTXABEHIKMNOPTX")
_ALONE = re.compile(r"(?<!\w)[АВСЕНІЈКМОРТХΑΒΕΗΙΚΜΝΟΡΤΧ](?!\w)")

_TEMPLATE = re.compile(r"</s>|<\|[^<>|]{1,40}\|>|<(?:end_of_turn|eos|pad|bos)>")
_INLINE = re.compile(
    r"</?(?:b|i|u|em|strong|span|font|code|mark)(?:\s[^<>]{0,200})?>", re.IGNORECASE
)
_BLOCK = re.compile(r"</?(?:p|br|div|h[1-6]|ul|ol|li|pre)(?:\s[^<>]{0,200})?/?>", re.IGNORECASE)
_COMMAND = re.compile(
    r"\\(?:text\w{0,2}|emph|underline|math\w{2,3}|(?:text)?color\s*\{\w*\})\s*\{([^{}]*)\}"
    r"|\{\s*\{([^{}]*)\}\s*\}"
)
_BOXED = re.compile(r"\\(?:boxed|fbox)\s*\{(?P<value>[^{}]*)\}")
_TAGGED = re.compile(
    r"<((?:\w{1,12}_)?(?:answer|choice|option))>(?P<value>[^<]*)</\1>", re.IGNORECASE
)
# A key of JSON, or of a printed dict, that says what its value is.
_KEYED = re.compile(
    r"""(["'])(?:(?:final|correct|best|selected|chosen|predicted|my)[_ ]?)?
    (?:answer|choice|option|prediction|letter)\1\s*:\s*
    (?P<quote>["']?)(?P<value>[^\\\n{}\[\]]{0,1000}?)(?P=quote)(?=\s*[,}\n])""",
    re.IGNORECASE | re.VERBOSE,
)
# Dollars around LaTeX or around one word; the others are amounts of money.
_DOLLARS = re.compile(r"\$([^$\n]{0,200}\\[^$\n]{0,200}|\s?\(?\w{1,20}\)?\s?)\$")
_MATH = re.compile(r"\\[()\[\],;! ]")
_EMPHASIS = re.compile(r"\*+|_{2,}|`+|~{2,}|^[ \t]*[#>]+[ \t]*", re.MULTILINE)
_MARKS = frozenset("*_`~#>")
_BLANKS = re.compile(r"[^\S\n]+")
# Patterns try each mark of a run as a beginning: without long runs, that takes no time.
_LONG_RUN = re.compile(r"([^\w]{12})[^\w]{8,}([^\w]{12})")

# In such a text, no run is long enough to take time.
_SHORT = 500

LONGEST = 20_000
"""Characters at the end that are read: a model that answers says so in fewer."""


def answer_text(reply: str) -> tuple[str, list[str]] | None:
    r"""Return a reply without reasoning and markup, and the contents of its answer boxes.

    A box is LaTeX's `\boxed{...}`, `<answer>...</answer>` or `{"answer": "..."}`. None if the reply
    ends in the middle of its reasoning.

    >>> answer_text("<think>A?</think>**The answer** is $\\boxed{\\text{C}}$.")
    ('The answer is C.', ['C'])
    >>> answer_text("It costs $5 or $10.")
    ('It costs $5 or $10.', [])
    """
    may_think = "<" in reply or "[" in reply or "◁" in reply or reply.startswith("analysis")
    whole = after_thinking(reply) if may_think else reply
    if whole is None:
        return None
    text = _BLANKS.sub(" ", whole[-LONGEST:])
    if not text.isascii():
        text = normal_form(text)
        text = _ALONE.sub(lambda found: found[0].translate(_LOOKALIKE), text)
        text = text.replace("’", "'").replace("。", ". ").replace("、", ", ")
    if "<" in text:
        text = _BLOCK.sub("\n", _INLINE.sub("", _TEMPLATE.sub(" ", text)))
    if "$" in text:
        text = _DOLLARS.sub(r"\1", text.replace("$$", "$"))
    if "\\" in text:
        for _ in range(3):  # commands within commands
            text = _COMMAND.sub(lambda found: found[1] or f"{{{found[2] or ''}}}", text)
    boxes: list[str] = []
    for opening, pattern in (("\\", _BOXED), ("<", _TAGGED), ("{", _KEYED)):
        if opening in text and not boxes:
            boxes = [found["value"] for found in pattern.finditer(text)]
            text = pattern.sub(r"\g<value>", text)
    return _plain(text), [_plain(box) for box in boxes]


def _plain(text: str) -> str:
    if "\\" in text:
        text = _MATH.sub("", text)
    if not _MARKS.isdisjoint(text):
        text = _EMPHASIS.sub("", text)
    return (_LONG_RUN.sub(r"\1\2", text) if len(text) > _SHORT else text).strip()

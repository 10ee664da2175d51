"""Reduce a reply to the words that state its answer: no reasoning, markup or chat templates."""

from __future__ import annotations

import re

from capeval.llm.thinking import after_thinking
from capeval.text import normal_form

# Cyrillic and Greek letters that look like a Latin one, where they are alone.
_LOOKALIKE = str.maketrans("АВСЕНІЈКМОРТХΑΒΕΗΙΚΜΝΟΡΤΧ", "ABCEHIJKMOPTXABEHIKMNOPTX")
_ALONE = re.compile(r"(?<!\w)[АВСЕНІЈКМОРТХΑΒΕΗΙΚΜΝΟΡΤΧ](?!\w)")

_TEMPLATE = re.compile(r"</s>|<\|[^<>|]{1,40}\|>|<(?:end_of_turn|eos|pad|bos)>")
_COMMAND = re.compile(
    r"\\(?:text|textbf|textit|textrm|textsf|texttt|emph|underline|mathrm|mathbf|mathsf|mathit|mathbb|"
    r"rm|bf|(?:text)?color\s*\{\w*\})\s*\{([^{}]*)\}"
)
_NESTED = re.compile(r"\{\s*\{([^{}]*)\}\s*\}")
_BOXED = re.compile(r"\\(?:boxed|fbox)\s*\{([^{}]*)\}")
_TAGGED = re.compile(
    r"<((?:\w{1,12}_)?(?:answer|choice|option)(?:_\w{1,12})?)>([^<]*)</\1>", re.IGNORECASE
)
_INLINE = re.compile(
    r"</?(?:b|i|u|em|strong|span|font|code|mark|small|sub|sup)(?:\s[^<>]{0,200})?>", re.IGNORECASE
)
_BLOCK = re.compile(
    r"</?(?:p|br|div|h[1-6]|ul|ol|li|pre|center|hr)(?:\s[^<>]{0,200})?/?>", re.IGNORECASE
)
# A key of JSON, or of a printed dict, that says what its value is.
_KEYED = re.compile(
    r"""(["'])(?:(?:final|correct|best|selected|chosen|predicted|my)[_ ]?)?
    (?:answer|choice|option|prediction|letter)\1\s*:\s*
    (?:"(?P<double>[^"\\\n]{0,1000})"|'(?P<single>[^'\\\n]{0,1000})'|(?P<bare>\w{1,20})(?=\s*[,}\n]))""",
    re.IGNORECASE | re.VERBOSE,
)
# Dollars around LaTeX or around one word; the others are amounts of money.
_DOLLARS = re.compile(r"\$([^$\n]{0,200}\\[^$\n]{0,200}|\s?\(?\w{1,20}\)?\s?)\$")
_MATH = re.compile(r"\\[()\[\],;! ]")
_EMPHASIS = re.compile(r"\*+|_{2,}|`+|~{2,}|^[ \t]*#+[ \t]*|^[ \t]*>[ \t]*", re.MULTILINE)
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
    text: str | None = reply
    if "<" in reply or "[" in reply or "◁" in reply or reply.startswith("analysis"):
        text = after_thinking(reply)
    if text is None:
        return None
    text = text[-LONGEST:]
    if "  " in text or not text.isprintable():
        text = _BLANKS.sub(" ", text)
    if not text.isascii():
        text = normal_form(text)
        text = _ALONE.sub(lambda found: found[0].translate(_LOOKALIKE), text)
        text = text.replace("’", "'").replace("。", ". ").replace("、", ", ")
    if "<" in text:
        text = _BLOCK.sub("\n", _INLINE.sub("", _TEMPLATE.sub(" ", text)))
    if "$" in text:
        text = _DOLLARS.sub(r"\1", text.replace("$$", "$"))
    boxes: list[str] = []
    if "\\" in text:
        for _ in range(3):  # commands within commands
            text = _NESTED.sub(r"{\1}", _COMMAND.sub(r"\1", text))
        boxes = [found[1] for found in _BOXED.finditer(text)]
        text = _MATH.sub("", _BOXED.sub(r"\1", text))
    if "<" in text and not boxes:
        boxes = [found[2] for found in _TAGGED.finditer(text)]
        text = _TAGGED.sub(r"\2", text)
    if "{" in text and not boxes:
        boxes = [
            found["double"] or found["single"] or found["bare"] or ""
            for found in _KEYED.finditer(text)
        ]
    return _plain(text), [_plain(_MATH.sub("", box)) for box in boxes]


def _plain(text: str) -> str:
    if not _MARKS.isdisjoint(text):
        text = _EMPHASIS.sub("", text)
    if len(text) > _SHORT:
        text = _LONG_RUN.sub(lambda found: found[1] + found[2], text)
    return text.strip()

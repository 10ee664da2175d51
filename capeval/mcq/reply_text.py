"""Reduce a reply to the words that state its answer: no reasoning, markup or chat templates."""

from __future__ import annotations

import re
from functools import lru_cache

from capeval.llm.thinking import after_thinking
from capeval.text import normal_form

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
    # A key of JSON, or of a printed dict, that says what its value is.
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

LONGEST = 20_000
"""Characters at the end that are read: a model that answers says so in fewer."""


@lru_cache(maxsize=1_000)
def answer_text(reply: str) -> tuple[str, list[str]] | None:
    r"""Return a reply without reasoning and markup, and the contents of its answer boxes.

    A box is LaTeX's `\boxed{...}`, `<answer>...</answer>` or `{"answer": "..."}`. None if the reply
    ends in the middle of its reasoning.

    >>> answer_text("<think>A?</think>**The answer** is $\\boxed{\\text{C}}$.")
    ('The answer is C.', ['C'])
    """
    whole = after_thinking(reply)
    if whole is None:
        return None
    text = _BLANKS.sub(" ", whole[-LONGEST:])
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
    text = one_word(text)
    return _plain(text), [_plain(box) for box in boxes]


def one_word(text: str) -> str:
    """Return a text with "counter-clockwise" and "anti clockwise" as one word each."""
    return _OPPOSITE.sub(r"\1", text)


def _plain(text: str) -> str:
    return _LONG_RUN.sub(r"\1\2", _MARKUP.sub("", text)).strip()

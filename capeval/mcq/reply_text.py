"""Reduce a reply to the words that state its answer: no reasoning, markup or chat templates."""

from __future__ import annotations

import re

from capeval.llm.thinking import after_thinking
from capeval.text import normal_form

# Letters of other scripts that look like a Latin one, where they stand alone.
_LOOKALIKE = str.maketrans("АВСЕНІЈКМОРТХΑΒΕΗΙΚΜΝΟΡΤΧ", "ABCEHIJKMOPTXABEHIKMNOPTX")
_ALONE = re.compile(r"(?<!\w)[АВСЕНІЈКМОРТХΑΒΕΗΙΚΜΝΟΡΤΧ](?!\w)")

_TEMPLATE = re.compile(r"</s>|<\|[^<>|]{1,40}\|>|<(?:end_of_turn|eos|pad|bos)>")
_COMMAND = re.compile(r"\\(?:text|textbf|textit|mathrm|mathbf|mathsf|texttt|rm|bf)\s*\{([^{}]*)\}")
_BOXED = re.compile(r"\\(?:boxed|fbox)\s*\{([^{}]*)\}")
_TAGGED = re.compile(r"<answer>(.*?)</answer>", re.DOTALL | re.IGNORECASE)
_MATH = re.compile(r"\$|\\[()\[\],;! ]")
_EMPHASIS = re.compile(r"\*+|_{2,}|`+|~{2,}|^\s*#+\s*|^\s*>\s*", re.MULTILINE)

# A model that has not answered in so many characters has not answered.
LONGEST = 20_000


def answer_text(reply: str) -> tuple[str, list[str]] | None:
    r"""Return a reply without reasoning and markup, and the contents of its answer boxes.

    A box is LaTeX's `\boxed{...}` or `<answer>...</answer>`. None if the reply ends in the middle
    of its reasoning.

    >>> answer_text("<think>A?</think>**The answer** is $\\boxed{\\text{C}}$.")
    ('The answer is C.', ['C'])
    """
    text: str | None = reply
    if "<" in reply or "[" in reply or "◁" in reply or reply.startswith("analysis"):
        text = after_thinking(reply)
    if text is None:
        return None
    text = text[-LONGEST:]
    if not text.isascii():
        text = normal_form(text)
        text = _ALONE.sub(lambda found: found[0].translate(_LOOKALIKE), text)
        text = text.replace("’", "'").replace("。", ". ").replace("、", ", ")
    if "<" in text:
        text = _TEMPLATE.sub(" ", text)
    boxes: list[str] = []
    if "\\" in text:
        for _ in range(3):
            text = _COMMAND.sub(r"\1", text)
        boxes = [found[1] for found in _BOXED.finditer(text)]
        text = _BOXED.sub(r"\1", text)
    if "<" in text and not boxes:
        boxes = [found[1] for found in _TAGGED.finditer(text)]
        text = _TAGGED.sub(r"\1", text)
    if "$" in text or "\\" in text:
        text = _MATH.sub("", text)
    text = _EMPHASIS.sub("", text)
    return text.strip(), [_EMPHASIS.sub("", _MATH.sub("", box)).strip() for box in boxes]

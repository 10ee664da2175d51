"""Clean and check the captions of every model."""

from __future__ import annotations

import re

import numpy as np

from capeval.errors import ReplyError
from capeval.llm.thinking import after_thinking

CUT_OFF = "cut off at {} tokens"
REASONING_REMOVED = "the model's reasoning in front of the caption was removed"

# GLM's models put their answer between these.
_ANSWER = re.compile(
    r"<answer>(?P<tag>.*?)(?:</answer>)?|<\|begin_of_box\|>(?P<box>.*?)(?:<\|end_of_box\|>)?",
    re.DOTALL,
)

# Markers of chat templates, such as <|im_end|>, are not words.
_MARKER = re.compile(r"<\|[^|<>]{1,40}\|>")


def is_empty(text: str) -> bool:
    """Return whether a text has no letter or digit of any script."""
    return not any(character.isalnum() for character in _MARKER.sub("", text))


def caption_in(text: str) -> str:
    """Return the caption in a reply, without the reasoning that some servers leave in front of it.

    Raises `ReplyError` if there is nothing else, or if it is not clear where the reasoning ends.

    >>> caption_in("<think>A dog?</think> A dog runs.")
    'A dog runs.'
    >>> caption_in("<think>A dog?</think><answer>A dog runs.</answer>")
    'A dog runs.'
    """
    caption = after_thinking(text)
    if caption is None:
        raise ReplyError("it is not clear where the reasoning ends and the caption begins")
    if text.strip() and not caption.strip():
        raise ReplyError("the reply has reasoning and no caption")
    caption = caption.strip()
    if answer := _ANSWER.fullmatch(caption):
        return str(answer["tag"] or answer["box"] or "").strip()
    return caption


def has_reasoning(text: str) -> bool:
    """Return whether `caption_in` removes reasoning, even if empty, from a reply."""
    return after_thinking(text) != text.lstrip()


# One ideograph or kana counts as a word; elsewhere words are runs of letters and digits.
_WORD = re.compile(r"[぀-ヿ㐀-鿿豈-﫿]|[^\W_]+")

# See `repetition_warning`: long enough for a paragraph that is written again and again.
_LONGEST_PERIOD = 120
_FEWEST_REPEATS = 4
_FEWEST_WORDS = 24


def repetition_warning(text: str) -> str | None:
    """Return a warning if a block of words is repeated too often in a row, else None.

    A block of 1 to 120 words counts if it occurs at least 4 times in a row and the repeats
    together are at least 24 words long; case and punctuation are ignored. An ordinary list
    ("a red car, a red bus, a red van") stays far below that.

    >>> repetition_warning("A dog runs. " + "It runs on and on. " * 9)
    'repetition loop: "it runs on and on" 9 times'
    >>> repetition_warning("A dog runs, then it sleeps.") is None
    True
    """
    words = _WORD.findall(text.lower())
    ids: dict[str, int] = {}
    numbers = np.array([ids.setdefault(word, len(ids)) for word in words])
    worst: tuple[int, int, int] | None = None
    for period in range(1, min(_LONGEST_PERIOD, len(words) // _FEWEST_REPEATS) + 1):
        differ = np.flatnonzero(numbers[period:] != numbers[:-period])
        edges = np.concatenate(([-1], differ, [len(words) - period]))
        runs = np.diff(edges) - 1
        longest = int(runs.argmax())
        length = int(runs[longest]) + period
        if (
            length > period
            and length >= max(_FEWEST_WORDS, _FEWEST_REPEATS * period)
            and (worst is None or length > worst[0])
        ):
            worst = (length, period, int(edges[longest]) + 1)
        if worst is not None and worst[1] == period and worst[0] >= len(words) - period:
            break
    if worst is None:
        return None
    length, period, start = worst
    block = " ".join(words[start : start + min(period, 12)]) + (" …" if period > 12 else "")
    return f'repetition loop: "{block}" {length // period} times'

"""Clean and check the captions of every model."""

from __future__ import annotations

import re

CUT_OFF = "cut off at {} tokens"

_THOUGHT = re.compile(r"^\s*<think(?:ing)?>", re.IGNORECASE)
_THOUGHT_END = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
# Markers of chat templates, such as <|im_end|>, are not words.
_MARKER = re.compile(r"<\|[^|<>]{1,40}\|>")


def is_empty(text: str) -> bool:
    """Return whether a text has no letter or digit of any script."""
    return not any(character.isalnum() for character in _MARKER.sub("", text))


def without_thinking(text: str) -> str:
    """Return a reply without the reasoning that some servers leave in front of it.

    Chat templates often open it themselves, so that only its end is in the reply. Reasoning that
    never ends leaves nothing.

    >>> without_thinking("<think>A dog?</think> A dog runs."), without_thinking("<think>A dog")
    ('A dog runs.', '')
    >>> without_thinking("A dog?</think> A dog runs."), without_thinking("A dog runs.")
    ('A dog runs.', 'A dog runs.')
    """
    answer = _THOUGHT_END.split(text)[-1]
    if _THOUGHT.match(answer):
        return ""
    return text if answer == text else answer.lstrip()


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
    worst: tuple[int, int, int] | None = None
    for period in range(1, min(_LONGEST_PERIOD, len(words) // _FEWEST_REPEATS) + 1):
        run = 0
        for position in range(period, len(words)):
            run = run + 1 if words[position] == words[position - period] else 0
            length = run + period
            if (
                run
                and length >= max(_FEWEST_WORDS, _FEWEST_REPEATS * period)
                and (worst is None or length > worst[0])
            ):
                worst = (length, period, position - length + 1)
        if worst is not None and worst[1] == period and worst[0] >= len(words) - period:
            break
    if worst is None:
        return None
    length, period, start = worst
    block = " ".join(words[start : start + min(period, 12)]) + (" …" if period > 12 else "")
    return f'repetition loop: "{block}" {length // period} times'

"""What is looked at in every caption, whichever model wrote it."""

from __future__ import annotations

import re

__all__ = ["CUT_OFF", "LOOP", "is_empty", "loops", "without_thinking"]

CUT_OFF = "cut off at {} tokens"
LOOP = "ends in a repetition loop"

_THINKING = re.compile(r"^\s*<think>.*?</think>\s*", re.DOTALL)
_MOST_WORDS, _LEAST_TIMES, _LEAST_WORDS = 60, 4, 24


def is_empty(text: str) -> bool:
    """Say whether a text has neither letter nor digit of any script."""
    return not any(character.isalnum() for character in text)


def loops(text: str) -> bool:
    """Say whether a text ends in the same words, four times over or more.

    >>> loops("A dog runs. " + "It barks at the red ball. " * 9)
    True
    >>> loops("A dog runs. It barks. It runs. It barks.")
    False
    """
    words = text.lower().split()
    for length in range(1, min(_MOST_WORDS, len(words) // _LEAST_TIMES) + 1):
        # The last turn may be cut off in its middle: what counts is that words recur.
        same = 0
        while same < len(words) - length and words[-1 - same] == words[-1 - same - length]:
            same += 1
        if same + length >= max(_LEAST_WORDS, _LEAST_TIMES * length):
            return True
    return False


def without_thinking(text: str) -> str:
    """Return a reply without the reasoning that some servers leave in front of it.

    Reasoning that never ends leaves nothing.

    >>> without_thinking("<think>A dog?</think> A dog runs."), without_thinking("<think>A dog")
    ('A dog runs.', '')
    """
    if not text.lstrip().startswith("<think>"):
        return text
    return _THINKING.sub("", text) if "</think>" in text else ""

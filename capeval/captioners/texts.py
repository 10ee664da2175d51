"""What is looked at in every caption, whichever model wrote it."""

from __future__ import annotations

import re

__all__ = ["CUT_OFF", "is_empty", "without_thinking"]

CUT_OFF = "cut off at {} tokens"

_THINKING = re.compile(r"^\s*<think>.*?</think>\s*", re.DOTALL)


def is_empty(text: str) -> bool:
    """Say whether a text has neither letter nor digit of any script."""
    return not any(character.isalnum() for character in text)


def without_thinking(text: str) -> str:
    """Return a reply without the reasoning that some servers leave in front of it.

    Reasoning that never ends leaves nothing.

    >>> without_thinking("<think>A dog?</think> A dog runs."), without_thinking("<think>A dog")
    ('A dog runs.', '')
    """
    if not text.lstrip().startswith("<think>"):
        return text
    return _THINKING.sub("", text) if "</think>" in text else ""

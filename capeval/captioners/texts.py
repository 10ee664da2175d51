"""What is looked at in every caption, whichever model wrote it."""

from __future__ import annotations

import re

__all__ = ["CUT_OFF", "is_empty", "without_thinking"]

CUT_OFF = "cut off at {} tokens"

_THOUGHT = re.compile(r"^\s*<think(?:ing)?>", re.IGNORECASE)
_THOUGHT_END = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
# Markers of chat templates, such as <|im_end|>, are no words.
_MARKER = re.compile(r"<\|[^|<>]{1,40}\|>")


def is_empty(text: str) -> bool:
    """Say whether a text has neither letter nor digit of any script."""
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

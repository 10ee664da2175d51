"""Clean and check the captions of every model."""

from __future__ import annotations

import re

import numpy as np

from capeval.text import words

CUT_OFF = "cut off at {} tokens"

# Markers of chat templates, such as <|im_end|>, are not words.
_MARKER = re.compile(r"<\|[^|<>]{1,40}\|>")


def is_empty(text: str) -> bool:
    """Return whether a text has no letter or digit of any script."""
    return not any(character.isalnum() for character in _MARKER.sub("", text))


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
    found = words(text)
    ids: dict[str, int] = {}
    numbers = np.array([ids.setdefault(word, len(ids)) for word in found])
    worst: tuple[int, int, int] | None = None
    for period in range(1, min(_LONGEST_PERIOD, len(found) // _FEWEST_REPEATS) + 1):
        differ = np.flatnonzero(numbers[period:] != numbers[:-period])
        edges = np.concatenate(([-1], differ, [len(found) - period]))
        runs = np.diff(edges) - 1
        longest = int(runs.argmax())
        length = int(runs[longest]) + period
        if (
            length > period
            and length >= max(_FEWEST_WORDS, _FEWEST_REPEATS * period)
            and (worst is None or length > worst[0])
        ):
            worst = (length, period, int(edges[longest]) + 1)
        if worst is not None and worst[1] == period and worst[0] >= len(found) - period:
            break
    if worst is None:
        return None
    length, period, start = worst
    block = " ".join(found[start : start + min(period, 12)]) + (" …" if period > 12 else "")
    return f'repetition loop: "{block}" {length // period} times'

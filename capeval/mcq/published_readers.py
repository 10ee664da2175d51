"""How published evaluation code reads replies, for comparison with `exact`.

These readers are wrong in known ways ("Based on …" is B): they exist so that published numbers
can be reproduced, and the difference counted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_FIRST = (
    "The best answer is",
    "The correct answer is",
    "The answer is",
    "The answer",
    # Commas are missing in the published lists: of these four prefixes, none is ever removed alone.
    "The best option isThe correct option is",
    "Best answer:Best option:",
)

PREFIXES: Mapping[str, tuple[str, ...]] = {
    "tuna": (*_FIRST, "Answer:", "Option:"),
    "video-mme": (*_FIRST, "Answer:", "Option:", "The correct answer", "The correct option"),
}
"""The versions of the list of prefixes: in VLMEvalKit and TUNA's repository, and in the script that
Video-MME's README links to."""

_CAPITAL = re.compile("[A-D]")


def first_capital(reply: str, version: str) -> int | None:
    """Return the option of the first capital A to D once fixed prefixes are removed.

    >>> first_capital("Answer: C", "tuna")
    2
    >>> first_capital("Based on the video, it is C", "video-mme")
    1
    """
    text = reply.strip()
    for prefix in PREFIXES[version]:
        text = text.replace(prefix, "")
    found = _CAPITAL.search(text)
    return None if found is None else "ABCD".index(found[0])


_TOMATO_SENTENCE = re.compile(r"Answer is:?\(?(?P<letter>[A-Fa-f])\)?")


def tomato_patterns(reply: str, options: Sequence[str]) -> int | None:
    """Return the option that TOMATO's three patterns find; the rest is left to a model.

    A letter alone, "LETTER: TEXT" where the text has no lower-case letters, and "Answer is" with a
    letter directly behind it.

    >>> tomato_patterns("b", ["1", "2"]), tomato_patterns("A: 1", ["1", "2"])
    (1, 0)
    >>> tomato_patterns("Answer is:B", ["1", "2"]), tomato_patterns("Answer is: B", ["1", "2"])
    (1, None)
    """
    text = reply.strip()
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: len(options)]
    if len(text) == 1:
        return letters.find(text.upper()) if text.upper() in letters else None
    for number, option in enumerate(options):
        if text.upper() == f"{letters[number]}: {option}":
            return number
    found = _TOMATO_SENTENCE.fullmatch(text)
    if found is None or found["letter"].upper() not in letters:
        return None
    return letters.index(found["letter"].upper())

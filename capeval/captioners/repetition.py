"""Finds the loops that greedy decoding falls into."""

from __future__ import annotations

import re

__all__ = ["repetition_warning"]

# One ideograph or kana is a word of its own; elsewhere words are runs of letters and digits.
_WORD = re.compile(r"[぀-ヿ㐀-鿿豈-﫿]|[^\W_]+")

_LONGEST_PERIOD = 120
_FEWEST_REPEATS = 4
_FEWEST_WORDS = 24


def repetition_warning(text: str) -> str | None:
    """Return a warning if a block of words follows itself too often, else None.

    A block of 1 to 120 words counts when it stands at least 4 times in a row and the repeats
    together are at least 24 words long; case and punctuation are ignored. A list that a careful
    writer makes ("a red car, a red bus, a red van") does not come near that.

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

"""The check that a split's events together are the caption, word by word."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from capeval.errors import ReplyError
from capeval.text import one_line

# In scripts without spaces each character counts as a word; elsewhere a word may have apostrophes.
_WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u0e00-\u0e7f]|[^\W_]+(?:['’][^\W_]+)*"
)

# A split may drop connecting words and resolve a pronoun, but may not rewrite the caption.
_MIN_COVERED = 0.90
_MAX_FOREIGN = 0.05
# Repeating a subject in each event makes the events a little longer than the caption.
_MAX_GROWTH = 1.2


def clean(text: str) -> str:
    """Return text that can be sent and stored as UTF-8: unpaired surrogates become U+FFFD.

    >>> clean("a\\ud800b")
    'a\ufffdb'
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def words(text: str) -> list[str]:
    """Return the words of a text in order, case-folded.

    >>> words("The man's red car -- stops.")
    ['the', "man's", 'red', 'car', 'stops']
    """
    folded = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    return _WORD.findall(folded)


def check_split(caption: str, events: Iterable[str]) -> None:
    """Check that the events together are the caption; raises `ReplyError`, listing the words."""
    caption_words = words(caption)
    distinct = set(caption_words)
    event_words = [word for event in events for word in words(event)]
    missing = distinct.difference(event_words)
    if len(missing) > (1 - _MIN_COVERED) * len(distinct) + 1e-9:
        some = ", ".join([word for word in dict.fromkeys(caption_words) if word in missing][:12])
        share = 100 * (1 - len(missing) / len(distinct))
        raise ReplyError(
            f"the events cover only {share:.0f}% of the caption's words; missing: {one_line(some)}"
        )
    if len(event_words) > _MAX_GROWTH * len(caption_words) + 10:
        raise ReplyError(
            f"the events have {len(event_words)} words, the caption {len(caption_words)}"
        )
    foreign = [word for word in event_words if word not in distinct]
    if len(foreign) > _MAX_FOREIGN * len(event_words) + 1e-9:
        some = ", ".join(list(dict.fromkeys(foreign))[:12])
        share = 100 * len(foreign) / len(event_words)
        raise ReplyError(
            f"{share:.0f}% of the events' words are not in the caption; foreign: {one_line(some)}"
        )


def repeats_note(repeated: int) -> str:
    """Return the note on a caption's events that were dropped because they repeat earlier ones.

    >>> repeats_note(1)
    'split: 1 caption event stood twice and was dropped'
    """
    if repeated == 1:
        return "split: 1 caption event stood twice and was dropped"
    return f"split: {repeated:,} caption events stood twice and were dropped"

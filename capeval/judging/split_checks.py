"""Words, as the checks on a split count them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from capeval.errors import ReplyError
from capeval.text import one_line

# Scripts without spaces count by character; elsewhere a word may hold an apostrophe or hyphen.
_WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u0e00-\u0e7f]|[^\W_]+(?:['’][^\W_]+)*"
)

_MIN_COVERED = 0.90
_MAX_FOREIGN = 0.05
_MAX_GROWTH = 1.2


def clean(text: str) -> str:
    """Return text that can be sent and stored as UTF-8: lone surrogates become U+FFFD.

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
    """Check that the events together are the caption.

    At least 90% of the caption's distinct words are covered, at most 5% of the events' words are
    foreign to it, and the events are not much longer than the caption.

    Raises
    ------
    ReplyError
        Says which words are missing or foreign.
    """
    said = words(caption)
    wanted = set(said)
    told = [word for event in events for word in words(event)]
    missing = wanted.difference(told)
    if len(missing) > (1 - _MIN_COVERED) * len(wanted) + 1e-9:
        some = ", ".join([word for word in dict.fromkeys(said) if word in missing][:12])
        share = 100 * (1 - len(missing) / len(wanted))
        raise ReplyError(
            f"the events cover only {share:.0f}% of the caption's words; missing: {one_line(some)}"
        )
    if len(told) > _MAX_GROWTH * len(said) + 10:
        raise ReplyError(f"the events have {len(told)} words, the caption {len(said)}")
    foreign = [word for word in told if word not in wanted]
    if len(foreign) > _MAX_FOREIGN * len(told) + 1e-9:
        some = ", ".join(list(dict.fromkeys(foreign))[:12])
        share = 100 * len(foreign) / len(told)
        raise ReplyError(
            f"{share:.0f}% of the events' words are not in the caption; foreign: {one_line(some)}"
        )


def repeats_note(repeated: int) -> str:
    """Return the note on events of a caption that were left out because they stood there before.

    >>> repeats_note(1)
    'split: 1 caption event stood twice and was dropped'
    """
    if repeated == 1:
        return "split: 1 caption event stood twice and was dropped"
    return f"split: {repeated:,} caption events stood twice and were dropped"

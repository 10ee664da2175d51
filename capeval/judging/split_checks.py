"""What the events of a split are in the caption itself.

A judge that writes the events out may reword them. So every event is found in the caption and
replaced by the caption's own text: what a judge says in other words never reaches the next stage.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from capeval.errors import ReplyError
from capeval.files.label_matching import normalised
from capeval.judging.alignment import align, flat
from capeval.text import normal_form, one_line, storable

# In scripts without spaces each character counts as a word; elsewhere a word may have apostrophes.
_WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u0e00-\u0e7f]|[^\W_]+(?:['’][^\W_]+)*"
)

# A split may drop connecting words and resolve a pronoun, but may not rewrite the caption.
_MIN_COVERED = 0.90
_MAX_FOREIGN = 0.05
# Repeating a subject in each event makes the events a little longer than the caption.
_MAX_GROWTH = 1.2
# Segments: with more, only exact repeats are looked for, which takes linear time.
_FEW = 300


def words(text: str) -> list[str]:
    """Return the words of a text in order, case-folded.

    >>> words("The man's red car -- stops.")
    ['the', "man's", 'red', 'car', 'stops']
    """
    folded = normal_form(text).casefold().replace("’", "'")
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


def repeating(texts: Sequence[str], marked: Collection[int]) -> set[int]:
    """Return which of the marked texts, numbered from 1, say only what one earlier text says.

    >>> sorted(repeating(["A dog runs fast.", "It rains.", "A dog runs.", "A cat runs."], [3, 4]))
    [3]
    """
    result: set[int] = set()
    earlier: set[tuple[str, ...]] = set()
    for number, text in enumerate(texts if marked else (), start=1):
        said = tuple(words(text))
        if number in marked and (
            said in earlier
            or (len(texts) <= _FEW and any(_is_within(said, other) for other in earlier))
        ):
            result.add(number)
        earlier.add(said)
    return result


def _is_within(words: Sequence[str], others: Sequence[str]) -> bool:
    rest = iter(others)
    return all(word in rest for word in words)


def own_events(caption: str, replied: Sequence[str], notes: list[str]) -> list[str]:
    """Return the caption's own text of each event that a judge wrote out, without exact repeats.

    An event that is in the caption word for word is returned as it was written. Raises `ReplyError`
    if the events cannot be aligned with the caption, or leave out a part of it.
    """
    written = [event for text in replied if (event := storable(text).strip())]
    distinct: dict[str, str] = {}
    for event in written:
        distinct.setdefault(normalised(event), event)
    if not distinct:
        raise ReplyError("the reply has no events, but the caption has words")
    events = list(distinct.values())
    repeated = len(written) - len(events)
    if not _is_divided_into(caption, written):
        check_split(caption, events)
        aligned = align(caption, events)
        repeated = max(repeated, aligned.repeated)
        changed = sum(own != event for own, event in zip(aligned.events, events, strict=True))
        if changed:
            notes.append(_changed_note(changed))
        events = [event for event in aligned.events if event]
    if repeated:
        notes.append(repeats_note(repeated))
    return events


def _changed_note(changed: int) -> str:
    if changed == 1:
        return "split: 1 event was not copied exactly; the caption's own text was used"
    return f"split: {changed:,} events were not copied exactly; the caption's own text was used"


def _is_divided_into(caption: str, pieces: Iterable[str]) -> bool:
    whole = flat(caption)
    at = 0
    for piece in map(flat, pieces):
        if not whole.startswith(piece, at):
            return False
        at += len(piece)
        at += whole.startswith(" ", at)
    return at == len(whole)

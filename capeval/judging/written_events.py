"""Find the events that a judge wrote out in the caption itself.

A judge that writes the events out may reword them. So every event is replaced by the caption's own
text: what a judge says in other words never reaches the next stage. The events are aligned with the
caption by the words that both have in the same order. What of the caption has no counterpart is a
gap. A short gap belongs to the event beside it, a passage that is in the caption elsewhere was
dropped as a repeat, and any other gap means that text was left out.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import Match, SequenceMatcher
from itertools import accumulate, chain, groupby, pairwise

from capeval.errors import ReplyError
from capeval.files.label_matching import normalised
from capeval.judging.segments import segments
from capeval.text import counted, normal_form, one_line, shown, storable

# In scripts without spaces each character counts as a word; elsewhere a word may have apostrophes
# and combining accents.
_WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u0e00-\u0e7f]"
    r"|(?:[^\W_][\u0300-\u036f]*+)++(?:['’](?:[^\W_][\u0300-\u036f]*+)++)*+"
)
_OPENING = "\"'“‘«‹([{*_「『（【《"

# A judge may resolve a pronoun, but not rewrite the caption: then the place of an event would be a
# guess.
_MAX_FOREIGN = 0.05
# Words that a judge may leave out beside an event: "In the video,". They are part of the event.
_MAX_GAP = 5
# Words that a resolved pronoun may add to a short event: "The man in red sits" for "He sits".
_MAX_ADDED = 3
# Pairs of equal words in the caption and the events: seconds at worst. Prose of 2,000 words has a
# tenth of this, and what is copied word for word is not counted.
_MAX_WORK = 500_000


def words(text: str) -> list[str]:
    """Return the words of a text in order, case-folded.

    >>> words("The man's red car -- stops.")
    ['the', "man's", 'red', 'car', 'stops']
    """
    return [_folded(word) for word in _WORD.findall(text)]


def _folded(word: str) -> str:
    if word.isascii():
        return word.lower()
    return normal_form(word).casefold().replace("’", "'")


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
        aligned, dropped = _aligned(caption, events)
        repeated = max(repeated, dropped)
        changed = sum(own != event for own, event in zip(aligned, events, strict=True))
        if changed:
            were = "1 event was" if changed == 1 else f"{changed:,} events were"
            notes.append(f"split: {were} not copied exactly; the caption's own text was used")
        events = [event for event in aligned if event]
    if repeated:
        notes.append(repeats_note(repeated))
    return events


def repeats_note(repeated: int) -> str:
    """Return the note on a caption's events that were dropped because they repeat earlier ones.

    >>> repeats_note(1)
    'split: 1 caption event was a duplicate and was dropped'
    """
    were = "was a duplicate and was" if repeated == 1 else "were duplicates and were"
    return f"split: {counted(repeated, 'caption event')} {were} dropped"


def _is_divided_into(caption: str, pieces: Iterable[str]) -> bool:
    whole = _flat(caption)
    at = 0
    for piece in map(_flat, pieces):
        if not whole.startswith(piece, at):
            return False
        at += len(piece)
        at += whole.startswith(" ", at)
    return at == len(whole)


def _flat(text: str) -> str:
    return " ".join(text.split())


def _aligned(caption: str, events: Sequence[str]) -> tuple[list[str], int]:
    """Return the caption's own text of each event, and how many repeats were dropped.

    The text is "" for an event without words. A place is the number of a word in the caption.
    """
    found = list(_WORD.finditer(caption))
    if not found:
        return [caption.strip(), *[""] * (len(events) - 1)], 0
    own = [_folded(word[0]) for word in found]
    written = [words(event) for event in events]
    offsets = accumulate(map(len, segments(caption)), initial=0)
    # The offset of each segment by the place of its first word, and the end.
    starts = [word.start() for word in found]
    edges = {bisect_left(starts, offset): offset for offset in offsets} | {0: 0}
    owners, repeats = _owners(own, written, events, sorted(edges))

    def offset_of(place: int) -> int:
        """Return where the text of a word begins: with its segment, or the marks that open it."""
        before = found[place - 1].end() if place else 0
        if place in edges:
            return max(before, edges[place])
        return before + len(caption[before : starts[place]].rstrip(_OPENING))

    texts, own_words = [""] * len(events), [list[str]() for _ in events]
    for owner, run in groupby(range(len(own)), key=owners.__getitem__):
        if owner is not None:
            places = list(run)
            end = places[-1] + 1
            part = caption[offset_of(places[0]) : offset_of(end)].strip()
            texts[owner] = f"{texts[owner]} {part}".strip()
            own_words[owner] += own[places[0] : end]
    for number, event in enumerate(events):
        # Copied but for marks at its ends: it stays as it was written.
        if own_words[number] == written[number] and _flat(event) in _flat(texts[number]):
            texts[number] = event
    return texts, repeats


def _owners(
    own: Sequence[str], written: Sequence[Sequence[str]], events: Sequence[str], cuts: Sequence[int]
) -> tuple[list[int | None], int]:
    """Return the event of each word of the caption, None for repeats, and how many these are.

    `cuts` are the places at which segments begin, and the end. Raises `ReplyError`.
    """
    event_of = [number for number, each in enumerate(written) for _ in each]
    blocks = _matching(own, [*chain(*written)])
    owners: list[int | None] = [None] * len(own)
    for at, to, size in blocks:
        owners[at : at + size] = event_of[to : to + size]
    _check_events(own, written, events, owners)
    repeats: list[tuple[int, int]] = []
    for one, other in pairwise((Match(0, 0, 0), *blocks)):
        start, end = one.a + one.size, other.a
        if start == end:
            continue
        added = event_of[one.b + one.size : other.b]
        inner = cuts[bisect_left(cuts, start) : bisect_right(cuts, end)]
        has_segment = len(inner) > 1
        if 2 * len(added) < end - start and (has_segment or end - start - len(added) > _MAX_GAP):
            repeats.append((start, end))
            continue
        before = owners[start - 1] if start else owners[end]
        after = owners[end] if end < len(own) else before
        # A gap belongs to the event that was reworded there, or else follows the segments.
        border = inner[0] if inner else start
        if (before in added) != (after in added):
            border = end if before in added else start
        owners[start:end] = [before] * (border - start) + [after] * (end - border)
    kept = _spaced(
        [word if owner is not None else "\0" for word, owner in zip(own, owners, strict=True)]
    )
    for start, end in repeats:
        inner = cuts[bisect_right(cuts, start) : bisect_left(cuts, end)]
        for first, following in pairwise((start, *inner, end)):
            passage = _spaced(own[first:following])
            # What is earlier was kept, or was found to repeat what was kept.
            if passage not in kept and passage not in _spaced(own[: following - 1]):
                lost = shown(" ".join(own[first:following]))
                if passage in _spaced([*chain(*written)]):
                    raise ReplyError(f"the caption has {lost} elsewhere; keep its order")
                raise ReplyError(f"no event has {lost}; leave nothing out")
    return owners, len(repeats)


def _check_events(
    own: Sequence[str],
    written: Sequence[Sequence[str]],
    events: Sequence[str],
    owners: Sequence[int | None],
) -> None:
    """Check that each event is where the caption has it; raises `ReplyError`."""
    places = [place for place, owner in enumerate(owners) if owner is not None]
    placed = [owner for owner in owners if owner is not None]
    for number, each in enumerate(written):
        first, end = bisect_left(placed, number), bisect_right(placed, number)
        matched = end - first
        before = places[first - 1] if first else -1
        room = (places[end] if end < len(places) else len(own)) - before - 1
        fits = 0 < room <= 2 * matched and len(each) <= room + _MAX_ADDED
        if 2 * matched < len(each) and not fits:
            event = shown(events[number])
            if _spaced(each) in _spaced(own):
                raise ReplyError(f"the caption has {event} elsewhere; keep its order")
            raise ReplyError(f"{event} is not in the caption; copy its words in their order")


def _spaced(words: Sequence[str]) -> str:
    return f" {' '.join(words)} "


def _matching(own: Sequence[str], written: Sequence[str]) -> list[Match]:
    """Return the blocks of equal words, the last of them empty; raises `ReplyError`."""
    known = set(own)
    foreign = list(dict.fromkeys(word for word in written if word not in known))
    if sum(word not in known for word in written) > _MAX_FOREIGN * len(written) + 1e-9:
        raise ReplyError(
            f"words of the events are not in the caption: {one_line(', '.join(foreign[:12]))}"
        )
    counts = Counter(written)
    if sum(counts[word] for word in own) > _MAX_WORK:
        raise ReplyError("the events are not copied word for word; copy the words of the caption")
    return SequenceMatcher(None, own, written, autojunk=False).get_matching_blocks()

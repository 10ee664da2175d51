"""Find the events that a judge wrote out in the caption itself.

A judge that writes the events out may reword them. So every event is replaced by the caption's own
text: what a judge says in other words never reaches the next stage. The events are laid along the
caption by the words that both have in the same order. What of the caption has no counterpart is a
gap. A short gap belongs to the event beside it, a passage that is in the caption elsewhere was
dropped as a repeat, and any other gap means that text was left out.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import accumulate, chain, pairwise

from capeval.errors import ReplyError
from capeval.files.label_matching import normalised
from capeval.judging.segments import segments
from capeval.text import normal_form, one_line, shown, storable

# In scripts without spaces each character counts as a word; elsewhere a word may have apostrophes
# and combining accents.
_WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u0e00-\u0e7f]"
    r"|(?:[^\W_][\u0300-\u036f]*+)++(?:['’](?:[^\W_][\u0300-\u036f]*+)++)*+"
)
_OPENING = "\"'“‘«‹([{*_「『（【《"

# A split may drop connecting words and resolve a pronoun, but may not rewrite the caption.
_MIN_COVERED = 0.90
_MAX_FOREIGN = 0.05
# Repeating a subject in each event makes the events a little longer than the caption.
_MAX_GROWTH = 1.2
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
        _check_words(caption, events)
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
    'split: 1 caption event stood twice and was dropped'
    """
    if repeated == 1:
        return "split: 1 caption event stood twice and was dropped"
    return f"split: {repeated:,} caption events stood twice and were dropped"


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


def _check_words(caption: str, events: Iterable[str]) -> None:
    """Check that the events have the caption's words and few others; raises `ReplyError`."""
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


def _aligned(caption: str, events: Sequence[str]) -> tuple[list[str], int]:
    """Return the caption's own text of each event, and how many repeats it lacks.

    The text is "" for an event without words. Raises `ReplyError` if an event cannot be found.
    """
    alignment = _Alignment(caption, events)
    if not alignment.words:
        return [caption.strip(), *[""] * (len(events) - 1)], 0
    alignment.check_events()
    dropped = alignment.dropped_repeats()
    return alignment.texts(dropped), len(dropped)


class _Alignment:
    """A place is the number of a word in the caption, from 0; `len(words)` is its end.

    `partner` has for each place the number of the event word that stands there, or -1. They
    increase. `bounds` has the number of each event's first word, and the end.
    """

    def __init__(self, caption: str, events: Sequence[str]) -> None:
        found = list(_WORD.finditer(caption))
        self.caption, self.events = caption, events
        self.words = [_folded(one[0]) for one in found]
        self.starts, self.ends = [one.start() for one in found], [one.end() for one in found]
        self.event_words = [[_folded(word) for word in _WORD.findall(event)] for event in events]
        self.bounds = [0, *accumulate(map(len, self.event_words))]
        self.partner = _partners(self.words, [*chain(*self.event_words)])
        offsets = accumulate(map(len, segments(caption)), initial=0)
        # The offset of each segment by the place of its first word, and the end.
        self.segments = {bisect_left(self.starts, offset): offset for offset in offsets} | {0: 0}
        self.cuts = sorted(self.segments)
        for gap in list(self._gaps()):
            self._slide(*gap)
        self.first, self.last = [-1] * len(events), [-1] * len(events)
        self.matched = [0] * len(events)
        event = 0
        for place, partner in enumerate(self.partner):
            if partner >= 0:
                while partner >= self.bounds[event + 1]:
                    event += 1
                if not self.matched[event]:
                    self.first[event] = place
                self.last[event] = place
                self.matched[event] += 1

    def _gaps(self) -> Iterator[tuple[int, int]]:
        """Yield the first place of each gap, and the place after it."""
        start = -1
        for place, partner in enumerate([*self.partner, 0]):
            if partner < 0 and start < 0:
                start = place
            elif partner >= 0 and start >= 0:
                yield start, place
                start = -1

    def _slide(self, start: int, end: int) -> None:
        """Move a gap to where whole segments are left out, if words on both sides are the same.

        In "A man sits. A dog runs. A man sits. A bird sings.", "man sits. A" may be the gap too.
        """
        words, partner = self.words, self.partner
        shift, best = 0, self._cuts_at(start, end)
        for step in (-1, 1):
            by = 0
            while abs(by) < end - start:
                # The word that the gap leaves behind, and the one that it takes in.
                one, other = (start + by - 1, end + by - 1) if step < 0 else (end + by, start + by)
                if not 0 <= one < len(words) or partner[one] < 0 or words[one] != words[other]:
                    break
                by += step
                if self._cuts_at(start + by, end + by) > best:
                    shift, best = by, self._cuts_at(start + by, end + by)
        if shift < 0:
            partner[end + shift : end] = partner[start + shift : start]
            partner[start + shift : start] = [-1] * -shift
        elif shift > 0:
            partner[start : start + shift] = partner[end : end + shift]
            partner[end : end + shift] = [-1] * shift

    def _cuts_at(self, start: int, end: int) -> int:
        return (start in self.segments) + (end in self.segments)

    def check_events(self) -> None:
        """Check that each event is where the caption has it; raises `ReplyError`."""
        after = len(self.words)
        ends = []
        for first in reversed(self.first):
            ends.append(after)
            after = after if first < 0 else first
        before = -1
        for number, (words, end) in enumerate(zip(self.event_words, reversed(ends), strict=True)):
            matched, room = self.matched[number], end - before - 1
            fits = 0 < room <= 2 * matched and len(words) <= room + _MAX_ADDED
            if 2 * matched < len(words) and not fits:
                event = shown(self.events[number])
                if _spaced(words) in _spaced(self.words):
                    raise ReplyError(f"the caption has {event} elsewhere; keep its order")
                raise ReplyError(f"{event} is not in the caption; copy its words in their order")
            before = max(before, self.last[number])

    def dropped_repeats(self) -> list[tuple[int, int]]:
        """Return the gaps that repeat what an event has; raises `ReplyError` for lost text."""
        dropped = [gap for gap in self._gaps() if not self._is_of_an_event(*gap)]
        if not dropped:
            return []
        text = _spaced(self.words)
        pairs = zip(self.words, self.partner, strict=True)
        kept = _spaced([word if partner >= 0 else "\0" for word, partner in pairs])
        offsets = list(accumulate((len(word) + 1 for word in self.words), initial=0))
        for start, end in dropped:
            inner = self.cuts[bisect_right(self.cuts, start) : bisect_left(self.cuts, end)]
            for one, other in pairwise((start, *inner, end)):
                passage = _spaced(self.words[one:other])
                # What is earlier was kept, or was found to repeat what was kept.
                if text.find(passage) == offsets[one] and passage not in kept:
                    lost = shown(_flat(self.caption[self.starts[one] : self.ends[other - 1]]))
                    if passage in _spaced([*chain(*self.event_words)]):
                        raise ReplyError(f"the caption has {lost} elsewhere; keep its order")
                    raise ReplyError(f"no event has {lost}; leave nothing out")
        return dropped

    def _is_of_an_event(self, start: int, end: int) -> bool:
        """Return whether a gap is only reworded, or a few words beside an event."""
        before = self.partner[start - 1] if start else -1
        after = self.partner[end] if end < len(self.words) else self.bounds[-1]
        added = after - before - 1
        if 2 * added >= end - start:
            return True
        segment = bisect_left(self.cuts, start)
        has_segment = segment + 1 < len(self.cuts) and self.cuts[segment + 1] <= end
        return not has_segment and end - start - added <= _MAX_GAP

    def texts(self, dropped: Sequence[tuple[int, int]]) -> list[str]:
        """Return the caption's own text of each event, without what was dropped."""
        texts = [""] * len(self.events)
        placed = [number for number, matched in enumerate(self.matched) if matched]
        borders = [self._border(one, other) for one, other in pairwise(placed)]
        ends = pairwise((0, *borders, len(self.words)))
        holes = iter((*dropped, (len(self.words), len(self.words))))
        hole = next(holes)
        for number, (start, end) in zip(placed, ends, strict=True):
            edges = [start]
            while hole[0] < end:
                edges += hole
                hole = next(holes)
            ranges = zip(edges[::2], [*edges[1::2], end], strict=True)
            texts[number] = self._text(
                number, [(one, other) for one, other in ranges if one < other]
            )
        return texts

    def _border(self, number: int, following: int) -> int:
        """Return where the second of two events begins, in or beside the gap between them."""
        start, end = self.last[number] + 1, self.first[following]
        if start == end:
            return start
        # A gap belongs to the event that was reworded there, or else follows the segments.
        added = self.bounds[number + 1] - self.partner[start - 1] - 1
        added_after = self.partner[end] - self.bounds[following]
        if bool(added) != bool(added_after):
            return end if added else start
        cut = self.cuts[bisect_left(self.cuts, start)]
        return cut if cut <= end else start

    def _text(self, number: int, ranges: Sequence[tuple[int, int]]) -> str:
        parts = (self.caption[self._offset(one) : self._offset(other)] for one, other in ranges)
        own = " ".join(part.strip() for part in parts)
        words = [word for one, other in ranges for word in self.words[one:other]]
        event = self.events[number]
        # Copied but for marks at its ends: what was classified before stays as it was.
        return event if words == self.event_words[number] and _flat(event) in _flat(own) else own

    def _offset(self, place: int) -> int:
        """Return where the text of a word begins: with its segment, or the marks that open it."""
        before = self.ends[place - 1] if place else 0
        if place in self.segments:
            return max(before, self.segments[place])
        offset = self.starts[place]
        while offset > before and self.caption[offset - 1] in _OPENING:
            offset -= 1
        return offset


def _spaced(words: Sequence[str]) -> str:
    return f" {' '.join(words)} "


def _partners(one: Sequence[str], other: Sequence[str]) -> list[int]:
    """Return for each word of `one` the place of its partner in `other`, or -1."""
    counts = Counter(other)
    if sum(counts[word] for word in one) > _MAX_WORK:
        raise ReplyError("the events are not copied word for word; copy the words of the caption")
    partner = [-1] * len(one)
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    for at, to, size in matcher.get_matching_blocks():
        partner[at : at + size] = range(to, to + size)
    return partner

"""Align the events that a judge wrote out with the words of the caption.

The events are laid along the caption by the longest common subsequence of their words. What of the
caption has no counterpart is a gap. A short gap belongs to the event beside it, a passage that is
in the caption elsewhere was dropped as a repeat, and any other gap means that text was left out.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise

from capeval.errors import ReplyError
from capeval.judging.segments import segments
from capeval.text import normal_form, shown

# As `split_checks.words`, but with the place of each word, and with combining accents.
_WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u0e00-\u0e7f]"
    r"|(?:[^\W_][\u0300-\u036f]*+)++(?:['’](?:[^\W_][\u0300-\u036f]*+)++)*+"
)
_OPENING = "\"'“‘«‹([{*_「『（【《"
# Words that a judge may leave out beside an event: "In the video,". They are part of the event.
_MAX_GAP = 5
# Words that a resolved pronoun may add to a short event: "The man in red sits" for "He sits".
_MAX_ADDED = 3
# Words of the caption times words of the events: 0.1 s and 13 MB. A caption of 10,000 words reaches
# it, unless its events are copied word for word.
_MAX_WORK = 100_000_000


@dataclass(frozen=True)
class Aligned:
    """The caption's own text of each event, "" for one without words; how many repeats it lacks."""

    events: list[str]
    repeated: int


def flat(text: str) -> str:
    """Return a text with every white space as one space."""
    return " ".join(text.split())


def align(caption: str, events: Sequence[str]) -> Aligned:
    """Return the caption's own text of each event; raises `ReplyError` if it cannot be found.

    >>> align("A dog runs. Then he sits down.", ["A dog runs.", "The dog sits down."]).events
    ['A dog runs.', 'Then he sits down.']
    """
    alignment = _Alignment(caption, events)
    if not alignment.words:
        return Aligned([caption.strip(), *[""] * (len(events) - 1)], 0)
    alignment.check_events()
    dropped = alignment.dropped_repeats()
    return Aligned(alignment.texts(dropped), len(dropped))


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
        self.partner = common_subsequence(self.words, [*chain(*self.event_words)])
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
                    lost = shown(flat(self.caption[self.starts[one] : self.ends[other - 1]]))
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
        return event if words == self.event_words[number] and flat(event) in flat(own) else own

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


def _folded(word: str) -> str:
    if word.isascii():
        return word.lower()
    return normal_form(word).casefold().replace("’", "'")


def common_subsequence(one: Sequence[str], other: Sequence[str]) -> list[int]:
    """Return for each word of `one` the place of its partner in `other`, or -1.

    The partners are a longest common subsequence, found with one row of bits for each word of
    `other` (Hyyrö 2004). Raises `ReplyError` where that would take too long.

    >>> common_subsequence("the cat sat".split(), "a cat has sat".split())
    [-1, 1, 3]
    """
    head = 0
    while head < min(len(one), len(other)) and one[head] == other[head]:
        head += 1
    tail = 0
    while tail < min(len(one), len(other)) - head and one[-1 - tail] == other[-1 - tail]:
        tail += 1
    partner = [*range(head), *[-1] * (len(one) - head)]
    for back in range(1, tail + 1):
        partner[-back] = len(other) - back
    middle, others = one[head : len(one) - tail], other[head : len(other) - tail]
    if len(middle) * len(others) > _MAX_WORK:
        raise ReplyError("the events are not copied word for word; copy the words of the caption")
    masks = _masks(middle, set(others))
    every = (1 << len(middle)) - 1
    state = every
    rows = []
    for word in others:
        shared = state & masks.get(word, 0)
        # A zero bit: here the subsequence becomes longer by one.
        state = ((state + shared) | (state - shared)) & every
        rows.append(state.to_bytes(len(middle) // 8 + 1, "little"))
    row, place = len(rows), len(middle)
    while row and place:
        at, bit = (place - 1) // 8, 1 << (place - 1) % 8
        if rows[row - 1][at] & bit:
            place -= 1
            continue
        row -= 1
        if not row or rows[row - 1][at] & bit:
            place -= 1
            partner[head + place] = head + row
    return partner


def _masks(words: Sequence[str], wanted: set[str]) -> dict[str, int]:
    """Return for each wanted word the bits of its places."""
    places: dict[str, list[int]] = {}
    for place, word in enumerate(words):
        if word in wanted:
            places.setdefault(word, []).append(place)
    masks = {}
    for word, found in places.items():
        bits = bytearray(len(words) // 8 + 1)
        for place in found:
            bits[place // 8] |= 1 << place % 8
        masks[word] = int.from_bytes(bits, "little")
    return masks

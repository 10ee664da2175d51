"""The reply contract: what is shown to a chat model, and how its replies are read.

What is shown is numbered and answered in these numbers: the segments of the caption at which events
start, pairs of events, pairs of an element and a label. So events are spans of the caption. Every
id is present once and in range, and every label is from the closed set; anything else is a
`ReplyError`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any, TypeVar

from capeval.errors import ReplyError
from capeval.files.judgments import match_labels, read_relation
from capeval.judging.prompts import PromptSet, Stage
from capeval.judging.segments import repeats_note, segments
from capeval.llm.replies import (
    COUNT,
    TEXT,
    Number,
    ReplyForm,
    Words,
    array_of,
    each_once,
    in_form,
    object_of,
    pair_of,
)
from capeval.llm.types import ReplySchema
from capeval.schema import RELATIONS, Relation
from capeval.text import listed, normalised, one_line, shown, storable, words

T = TypeVar("T")

Labels = list[tuple[Relation, ...]]
Reasons = list[tuple[str, ...]]
Match = tuple[Number, Number | None]


@dataclass(frozen=True)
class EventToClassify:
    """One reference event to classify: its number (from 1), the caption's words, its elements."""

    event: int
    text: str
    elements: tuple[str, ...]


_LABEL = {"type": "string", "enum": list(RELATIONS)}
_PAIR = pair_of({"type": ["integer", "null"]})


class _Starts(ReplyForm):
    starts: list[Number]
    repeats: list[Number]


class _Matches(ReplyForm):
    matches: list[Match]


class _Relations(ReplyForm):
    relations: list[tuple[Number, str]]


class _Reasoned(ReplyForm):
    id: Number
    reason: Words
    relation: str


class _ReasonedRelations(ReplyForm):
    relations: list[_Reasoned]


class Contract:
    """Segments, events and elements are numbered from 1, and shown one per line.

    With `explain`, each label has a line of reasoning before it. `schemas` are the JSON schemas
    that an endpoint may enforce. What a reader of replies repairs is added to `notes`.
    """

    prints_python = False
    """Whether a reply may be a list as Python prints it, instead of JSON."""

    def __init__(self, *, explain: bool = False) -> None:
        self._explain = explain
        item = (
            object_of(id=COUNT, reason=TEXT, relation=_LABEL)
            if explain
            else pair_of({"anyOf": [COUNT, _LABEL]})
        )
        split = object_of(starts=array_of(COUNT), repeats=array_of(COUNT))
        self.schemas: Mapping[Stage, ReplySchema] = {
            "split": ReplySchema("starts", split),
            "match": ReplySchema("matches", object_of(matches=array_of(_PAIR))),
            "classify": ReplySchema("relations", object_of(relations=array_of(item))),
        }

    def undivided(self, caption: str) -> list[str] | None:
        """Return the event of a caption that cannot be divided, so that nothing need be asked."""
        return [caption.strip()] if len(segments(caption)) == 1 else None

    def max_tokens(self, stage: Stage, items: int) -> int:
        """Return the longest reply, in tokens, that is worth paying for.

        `items` counts the segments, events or elements.
        """
        reasons = 80 * items if self._explain and stage == "classify" else 0
        # Four times what is expected: some models write JSON on many lines.
        return 128 + {"split": 8, "match": 16, "classify": 28}[stage] * items + reasons

    def reply_tokens(self, stage: Stage, items: int) -> int:
        """Return the tokens that a reply is expected to have; see docs/prompts.md.

        `items` counts the events or elements that it lists.
        """
        reasons = 22 * items if self._explain and stage == "classify" else 0
        return 8 + {"split": 2, "match": 4, "classify": 7}[stage] * items + reasons

    def show_caption(self, caption: str) -> str:
        """Return the caption for the split prompt."""
        return _numbered(segments(caption))

    def show_events(self, events: Sequence[str]) -> str:
        """Return numbered events for the match prompt."""
        return _numbered(events)

    def show_parts(self, parts: Sequence[EventToClassify]) -> str:
        """Return each event's part of the caption and its elements for the classify prompt."""
        blocks = []
        number = 1
        for part in parts:
            blocks.append(f"Passage: {_line(part.text)}\n{_numbered(part.elements, number)}")
            number += len(part.elements)
        return "\n\n".join(blocks)

    def read_split(self, value: Any, caption: str, notes: list[str]) -> list[str]:
        """Return the candidate events: spans of the caption, without exact repeats."""
        found = segments(caption)
        given = in_form(_Starts, value)
        check_starts(given.starts, len(found), given.repeats)
        numbered = reversed([*enumerate(map(normalised, found), start=1)])
        first = set({text: number for number, text in numbered}.values())
        marked, events = set(given.repeats), []
        for start, end in pairwise([*given.starts, len(found) + 1]):
            numbers = set(range(start, end))
            new = numbers & first
            if new and numbers <= marked:
                notes.append(
                    f"split: segment {min(new)} repeats no earlier one; its event was kept"
                )
            if new or not numbers <= marked:
                events.append("".join(found[start - 1 : end - 1]).strip())
        if dropped := len(given.starts) - len(events):
            notes.append(repeats_note(dropped))
        return events

    def read_matches(self, value: Any, candidates: int, references: int) -> list[int | None]:
        """Return the reference number or None of each candidate event."""
        return matched(in_form(_Matches, value).matches, candidates, references)

    def read_relations(
        self, value: Any, parts: Sequence[EventToClassify], notes: list[str]
    ) -> tuple[Labels, Reasons]:
        """Return the relations of each part's elements, and the reasons, "" where none is asked."""
        if self._explain:
            given = in_form(_ReasonedRelations, value).relations
            answers = [(one.id, (one.relation, one.reason)) for one in given]
        else:
            answers = [(n, (label, "")) for n, label in in_form(_Relations, value).relations]
        names = [f"{part.event}.{n}" for part in parts for n in range(1, len(part.elements) + 1)]
        labels, reasons = [], []
        for number, (label, reason) in enumerate(each_once(answers, len(names), "element"), 1):
            relation = read_relation(label, f"element {number}")
            if label != relation:
                name = f"element {names[number - 1]}"
                notes.append(f"classify: {name}: the label {shown(label)} was read as {relation}")
            labels.append(relation)
            reasons.append(one_line(reason, _LONGEST_REASON))
        return _by_part(labels, parts), _by_part(reasons, parts)


def check_starts(starts: Sequence[int], count: int, others: Sequence[int] = ()) -> None:
    """Raise `ReplyError` unless events start at the first segment and at later ones, in order.

    Parameters
    ----------
    count : the number of segments
    others : further numbers that must be those of segments
    """
    for number in (*starts, *others):
        if not 1 <= number <= count:
            raise ReplyError(f"there is no segment {shown(number)}; ids go from 1 to {count}")
    if starts[:1] != [1]:
        raise ReplyError("starts must begin with 1: the first event starts at segment 1")
    for before, after in pairwise(starts):
        if after <= before:
            raise ReplyError(f"starts must be in ascending order, but {after} follows {before}")


def matched(pairs: Sequence[Match], candidates: int, references: int) -> list[int | None]:
    """Return the reference of each candidate event; all numbers must exist, each candidate once."""
    for _, reference in pairs:
        if reference is not None and not 1 <= reference <= references:
            raise ReplyError(
                f"there is no reference event {shown(reference)}; ids go from 1 to {references}"
            )
    return each_once(pairs, candidates, "candidate event")


# A line of reasoning is shown beside its element; a longer one is cut.
_LONGEST_REASON = 300
_UNPRINTED = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")


def _line(text: str) -> str:
    # On one line and without < and >, nothing can begin a line or close the tags of a template.
    flat = _UNPRINTED.sub(" ", text).strip()
    return flat.replace("<", "&lt;").replace(">", "&gt;")


def _numbered(texts: Sequence[str], first: int = 1) -> str:
    return "\n".join(f"{number}: {_line(text)}" for number, text in enumerate(texts, first))


def _by_part(values: Sequence[T], parts: Sequence[EventToClassify]) -> list[tuple[T, ...]]:
    rest = iter(values)
    return [tuple(islice(rest, len(part.elements))) for part in parts]


# A judge may resolve a pronoun in an event, and drop a phrase such as "In the video,".
_MOST_ADDED, _MOST_LOST = 0.2, 0.05


class _Element(ReplyForm):
    content: str
    relationship: str


class _Event(ReplyForm):
    candidate_event: str = ""
    visual_elements: list[_Element]


class PublishedContract(Contract):
    """Events by their position, elements by their repeated content."""

    prints_python = True

    def __init__(self) -> None:
        super().__init__()
        self.schemas: Mapping[Stage, ReplySchema] = {}  # an endpoint's schema is of an object

    def max_tokens(self, stage: Stage, items: int) -> int:
        """Return the longest reply that is worth paying for; events and elements are copied."""
        return 512 + {"split": 80, "match": 16, "classify": 96}[stage] * items

    def reply_tokens(self, stage: Stage, items: int) -> int:
        """Return the expected tokens: a caption's event has 40, an element with its label 36."""
        return 8 + {"split": 40, "match": 6, "classify": 36}[stage] * items

    def show_caption(self, caption: str) -> str:
        """Return the caption as it is."""
        return caption

    def show_events(self, events: Sequence[str]) -> str:
        """Return numbered events as Python prints them."""
        return repr([{"id": n, "event": event} for n, event in enumerate(events, start=1)])

    def show_parts(self, parts: Sequence[EventToClassify]) -> str:
        """Return each event's part of the caption and its elements as Python prints them."""
        return repr([{"candidate_event": p.text, "visual_elements": [*p.elements]} for p in parts])

    def read_split(self, value: Any, caption: str, notes: list[str]) -> list[str]:
        """Return the events without exact repeats; they must be the caption's words in its order.

        Words are counted, which takes no time even for a caption in a loop; events that are copied
        exactly must follow one another.
        """
        written = [event for one in in_form(list[str], value) if (event := storable(one).strip())]
        events = [*{normalised(event): event for event in reversed(written)}.values()][::-1]
        if not events:
            raise ReplyError("the reply has no events, but the caption has words")
        left = Counter(words(caption))
        for event in events:
            added = Counter(words(event)) - left
            left -= Counter(words(event))
            if added.total() > max(1, _MOST_ADDED * len(words(event))):
                what = f"{shown(event)} has words that the caption has not"
                raise ReplyError(f"{what} ({listed(added, 10)}); copy the caption's words")
        distinct = {normalised(part): words(part) for part in segments(caption)}
        unique = Counter(word for part in distinct.values() for word in part)
        lost = unique - Counter(word for event in events for word in words(event))
        if lost.total() > _MOST_LOST * unique.total() + 1:
            raise ReplyError(f"the events leave out {listed(lost, 10)}")
        whole, at = normalised(caption), 0
        for event in map(normalised, events):
            if event in whole and (at := whole.find(event, at)) < 0:
                raise ReplyError(f"the caption has {shown(event)} earlier; keep its order")
        if len(written) > len(events):
            notes.append(repeats_note(len(written) - len(events)))
        return events

    def read_matches(self, value: Any, candidates: int, references: int) -> list[int | None]:
        """Return the reference number or None of each candidate event."""
        return matched(in_form(list[Match], value), candidates, references)

    def read_relations(
        self, value: Any, parts: Sequence[EventToClassify], notes: list[str]
    ) -> tuple[Labels, Reasons]:
        """Return the relations of each part's elements; no reasons are asked for."""
        # A model that was given one event often answers with the object alone.
        events = in_form(list[_Event], [value] if isinstance(value, dict) else value)
        if len(events) != len(parts):
            raise ReplyError(f"the reply has {len(events)} event(s); {len(parts)} were given")
        found: Labels = []
        for part, event in zip(parts, events, strict=True):
            name = f"event {part.event}"
            labels: list[tuple[str, Relation]] = [
                (one.content, read_relation(one.relationship, f"{name}, {shown(one.content)}"))
                for one in event.visual_elements
            ]
            found.append(match_labels(part.elements, labels, name, notes))
        return found, [("",) * len(part.elements) for part in parts]


def contract_of(prompts: PromptSet) -> Contract:
    """Return the contract of a prompt set."""
    return PublishedContract() if prompts.published else Contract(explain=prompts.explain)

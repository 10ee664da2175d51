"""The reply contracts by name: what each shows a chat model, and how its replies are read.

The contract `spans` (of `tuna-cap-v1`) numbers what it shows and is answered in these numbers: the
segments of the caption at which events start, pairs of events, pairs of an element and a label.
The contract `tuna` is that of the TUNA benchmark's published prompts (figures 20-22): they show
lists as Python writes them, and ask for a list of strings, a list of (candidate, reference or None)
tuples, and JSON that echoes the elements. With both, events are spans of the caption, every id is
present once and in range, and every label is from the closed set; anything else is a `ReplyError`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any, Final, TypeAlias, TypeVar

from capeval.errors import ReplyError
from capeval.files.label_matching import match_labels, normalised, read_relation
from capeval.judging.prompts import PromptSet, Stage
from capeval.judging.segments import segments
from capeval.judging.written_events import own_events, repeats_note
from capeval.llm.replies import (
    COUNT,
    TEXT,
    Number,
    ReplyForm,
    array_of,
    each_once,
    in_form,
    object_of,
)
from capeval.llm.types import ReplySchema
from capeval.schema import RELATIONS, Relation
from capeval.text import one_line, shown, storable

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
_PAIR = array_of({"type": ["integer", "null"]})


class _Starts(ReplyForm):
    starts: list[Number]
    repeats: list[Number]


class _Matches(ReplyForm):
    matches: list[Match]


class _Relations(ReplyForm):
    relations: list[tuple[Number, str]]


class _Reasoned(ReplyForm):
    id: Number
    reason: str
    relation: str


class _ReasonedRelations(ReplyForm):
    relations: list[_Reasoned]


class _SpansContract:
    """Segments, events and elements are numbered from 1, and shown one per line.

    With `explain`, each label has a line of reasoning before it. `schemas` are the JSON schemas
    that an endpoint may enforce, and `literals` says whether a reply may be a list as Python prints
    it. What a reader of replies repairs is added to `notes`.
    """

    literals = False

    def __init__(self, *, explain: bool = False) -> None:
        self._explain = explain
        item = (
            object_of(id=COUNT, reason=TEXT, relation=_LABEL)
            if explain
            else array_of({"anyOf": [COUNT, _LABEL]})
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

    def max_tokens(self, stage: Stage, items: int, text: str) -> int:
        """Return the longest reply, in tokens, that is worth paying for.

        `items` counts the events or elements; `text` is what a reply may copy.
        """
        if stage == "split":
            items = len(segments(text))
        reasons = 80 * items if self._explain and stage == "classify" else 0
        # Four times what is expected: some models write JSON on many lines.
        return 128 + {"split": 8, "match": 16, "classify": 28}[stage] * items + reasons

    def reply_tokens(self, stage: Stage, items: int, copied: int) -> int:
        """Return the tokens that a reply is expected to have; see docs/prompts.md.

        `items` counts the events or elements that it lists; `copied` are the tokens of the caption,
        or of what is classified.
        """
        del copied
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
        for number in (*given.starts, *given.repeats):
            if not 1 <= number <= len(found):
                raise ReplyError(
                    f"there is no segment {shown(number)}; ids go from 1 to {len(found)}"
                )
        if given.starts[:1] != [1]:
            raise ReplyError("starts must begin with 1: the first event starts at segment 1")
        for before, after in pairwise(given.starts):
            if after <= before:
                raise ReplyError(f"starts must be in ascending order, but {after} follows {before}")
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
        return _matched(in_form(_Matches, value).matches, candidates, references)

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
            _note_spelling(f"element {names[number - 1]}", label, relation, notes)
            labels.append(relation)
            reasons.append(one_line(storable(reason), _LONGEST_REASON))
        return _by_part(labels, parts), _by_part(reasons, parts)


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


def _matched(pairs: Sequence[Match], candidates: int, references: int) -> list[int | None]:
    for _, reference in pairs:
        if reference is not None and not 1 <= reference <= references:
            raise ReplyError(
                f"there is no reference event {shown(reference)}; ids go from 1 to {references}"
            )
    return each_once(pairs, candidates, "candidate event")


def _note_spelling(of: str, label: str, relation: Relation, notes: list[str]) -> None:
    if label != relation:
        notes.append(f"classify: {of}: the label {shown(label)} was read as {relation}")


class _Element(ReplyForm):
    content: str
    relationship: str


class _Event(ReplyForm):
    candidate_event: str = ""
    visual_elements: list[_Element]


class _TunaContract:
    """Events by position, elements by their echoed content."""

    schemas: Mapping[Stage, ReplySchema] = {}  # of an object, which a list is not
    literals = True

    def undivided(self, caption: str) -> None:
        del caption

    def max_tokens(self, stage: Stage, items: int, text: str) -> int:
        copied = 0 if stage == "match" else round(len(text) / _CHARACTERS)
        return 256 + 32 * items + 2 * copied

    def reply_tokens(self, stage: Stage, items: int, copied: int) -> int:
        return copied + {"split": 3, "match": 6, "classify": 10}[stage] * items

    def show_caption(self, caption: str) -> str:
        return caption

    def show_events(self, events: Sequence[str]) -> str:
        return repr([{"id": n, "event": event} for n, event in enumerate(events, start=1)])

    def show_parts(self, parts: Sequence[EventToClassify]) -> str:
        return repr(
            [{"candidate_event": p.text, "visual_elements": list(p.elements)} for p in parts]
        )

    def read_split(self, value: Any, caption: str, notes: list[str]) -> list[str]:
        return own_events(caption, in_form(list[str], value), notes)

    def read_matches(self, value: Any, candidates: int, references: int) -> list[int | None]:
        return _matched(in_form(list[Match], value), candidates, references)

    def read_relations(
        self, value: Any, parts: Sequence[EventToClassify], notes: list[str]
    ) -> tuple[Labels, Reasons]:
        # A model that was given one event often answers with the object alone.
        events = in_form(list[_Event], [value] if isinstance(value, dict) else value)
        if len(events) != len(parts):
            raise ReplyError(f"the reply has {len(events)} event(s); {len(parts)} were given")
        result = []
        for part, event in zip(parts, events, strict=True):
            name = f"event {part.event}"
            _check_event(event.candidate_event, part, parts)
            labels: list[tuple[str, Relation]] = []
            for element in event.visual_elements:
                of = f"{name}, {shown(element.content)}"
                relation = read_relation(element.relationship, of)
                _note_spelling(of, element.relationship, relation, notes)
                labels.append((element.content, relation))
            result.append(match_labels(part.elements, labels, name, notes))
        return result, [("",) * len(part.elements) for part in parts]


# Characters per token of English prose, an underestimate: it sets limits that must not cut replies.
_CHARACTERS = 3.0


def _check_event(echo: str, part: EventToClassify, parts: Sequence[EventToClassify]) -> None:
    # A long event is often echoed in short, but never in the words of another one.
    others = {normalised(other.text) for other in parts if other is not part}
    if normalised(echo) in others - {normalised(part.text)}:
        raise ReplyError(f"event {part.event}: {shown(echo)} is another event; keep their order")


Contract: TypeAlias = _SpansContract | _TunaContract

CONTRACTS: Final[Mapping[str, Contract]] = {"spans": _SpansContract(), "tuna": _TunaContract()}
"""The contracts by the name that a prompt set's `set.toml` gives them."""

_EXPLAINED = _SpansContract(explain=True)


def contract_of(prompts: PromptSet) -> Contract:
    """Return the contract of a prompt set."""
    return _EXPLAINED if prompts.explain else CONTRACTS[prompts.contract]

"""The reply contract of the prompts that the TUNA benchmark publishes (its figures 20 to 22).

They show lists as Python prints them, and ask for the events as a list of texts, for a list of
tuples (candidate, reference or None), and for JSON that repeats each element with its label.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from capeval.errors import ReplyError
from capeval.files.label_matching import match_labels, normalised, read_relation
from capeval.judging.contracts import Contract, EventToClassify, Labels, Match, Reasons, matched
from capeval.judging.prompts import PromptSet, Stage
from capeval.judging.segments import repeats_note, segments
from capeval.llm.replies import ReplyForm, in_form
from capeval.llm.types import ReplySchema
from capeval.schema import Relation
from capeval.text import listed, shown, storable, words

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

"""What every reply contract has: what it shows and reads, and the checks that contracts share.

The message of a `ReplyError` is sent to the model with the next request, and so is part of that
request's cache key: rewording one means paying again for replies that are in users' caches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from capeval.errors import ReplyError
from capeval.files.label_matching import read_relation
from capeval.judging.prompts import Stage
from capeval.judging.split_checks import own_events
from capeval.llm.reply_parts import as_list, read_number
from capeval.llm.types import ReplySchema
from capeval.schema import RELATIONS, Relation
from capeval.text import shown

# Characters per token of English prose, an underestimate: it sets limits that must not cut replies.
_CHARACTERS = 3.0


@dataclass(frozen=True)
class EventToClassify:
    """One reference event to classify: its number (from 1), the caption's words, its elements."""

    event: int
    text: str
    elements: tuple[str, ...]


class Contract(ABC):
    """Shows data to the judge and reads a reply's JSON; `notes` collects what was repaired."""

    schemas: Mapping[Stage, ReplySchema] = {}
    """The JSON schema per stage, for endpoints that enforce one; it must be an object."""

    def undivided(self, caption: str) -> list[str] | None:  # noqa: ARG002 - for one contract
        """Return the event of a caption that cannot be divided, so that nothing need be asked."""
        return None

    def max_tokens(self, stage: Stage, items: int, text: str) -> int:
        """Return the longest reply, in tokens, that is worth paying for.

        `items` counts the events or elements; `text` is what a reply may copy.
        """
        copied = 0 if stage == "match" else round(len(text) / _CHARACTERS)
        return 256 + 32 * items + 2 * copied

    @abstractmethod
    def reply_tokens(self, stage: Stage, items: int, copied: int) -> int:
        """Return the tokens that a reply is expected to have.

        `items` counts the events or elements that it lists; `copied` are the tokens of the caption,
        or of what is classified. See docs/prompts.md for how replies were measured.
        """

    @abstractmethod
    def show_caption(self, caption: str) -> str:
        """Return the caption for the split prompt."""

    @abstractmethod
    def show_events(self, events: Sequence[str]) -> str:
        """Return numbered events for the match prompt."""

    @abstractmethod
    def show_parts(self, parts: Sequence[EventToClassify]) -> str:
        """Return each event's part of the caption and its elements for the classify prompt."""

    def read_split(self, value: Any, caption: str, notes: list[str]) -> list[str]:
        """Return the candidate events: spans of the caption, without exact repeats."""
        events = as_list(value, "events")
        for item in events:
            if not isinstance(item, str):
                raise ReplyError(f"every event must be a string, not {shown(item)}")
        return own_events(caption, events, notes)

    def read_matches(
        self, value: Any, candidates: int, references: int, notes: list[str]
    ) -> list[int | None]:
        """Return the reference number or None of each candidate event."""
        pairs = [self._read_match(item) for item in as_list(value, "matches")]
        found: dict[int, int | None] = {}
        order: list[int] = []
        for candidate, reference in pairs:
            number = read_number(candidate, "candidate event", candidates)
            match: int | None = None
            if str(reference).strip().lower() not in _NO_MATCH:
                match = read_number(reference, "reference event", references)
            if type(candidate) is not int or (reference is not None and type(reference) is not int):
                notes.append(f"match: candidate event {number} was answered with text for a number")
            if number in found and found[number] != match:
                raise ReplyError(f"candidate event {number} is answered twice, differently")
            if number in found:
                notes.append(f"match: candidate event {number} was answered twice, alike")
            found[number] = match
            order.append(number)
        missing = [str(number) for number in range(1, candidates + 1) if number not in found]
        if missing:
            raise ReplyError(f"candidate event(s) {', '.join(missing[:20])} are not answered")
        if order != sorted(order):
            notes.append("match: the answers were not in the candidates' order")
        return [found[number] for number in range(1, candidates + 1)]

    @abstractmethod
    def _read_match(self, item: Any) -> tuple[Any, Any]:
        """Return the candidate and the reference of one match."""

    @abstractmethod
    def read_relations(
        self, value: Any, parts: Sequence[EventToClassify], notes: list[str]
    ) -> list[tuple[Relation, ...]]:
        """Return the relations of each part's elements."""

    def read_reasons(self, value: Any, parts: Sequence[EventToClassify]) -> list[tuple[str, ...]]:
        """Return the reason for each relation, in a reply that `read_relations` has accepted.

        Only the contract that asks for reasons has any.
        """
        del value
        return [("",) * len(part.elements) for part in parts]


def read_label(value: Any, of: str, notes: list[str]) -> Relation:
    """Return a label of the closed set; another spelling of it is noted."""
    relation = read_relation(value, of)
    if value != relation:
        notes.append(respelt(of, value, relation))
    return relation


def respelt(of: str, label: Any, relation: Relation) -> str:
    """Return the note on a label in another spelling."""
    return f"classify: {of}: the label {shown(label)} was read as {relation}"


_NO_MATCH = {"none", "null", ""}


LABEL = {"type": "string", "enum": list(RELATIONS)}


def element_ids(part: EventToClassify) -> list[str]:
    """Return the ids of an event's elements, `EVENT.ELEMENT`."""
    return [f"{part.event}.{number}" for number in range(1, len(part.elements) + 1)]

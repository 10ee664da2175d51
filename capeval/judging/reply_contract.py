"""What every reply contract has: what it shows and reads, and the checks that contracts share.

The message of a `ReplyError` is sent to the model with the next request, and so is part of that
request's cache key: rewording one means paying again for replies that are in users' caches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from capeval.errors import ReplyError
from capeval.files.label_matching import read_relation
from capeval.judging.prompts import Stage
from capeval.judging.split_checks import own_events
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


REMARKS: Final = ("reason", "explanation", "evidence", "confidence")
"""Keys by which a model may explain an item of its answer; their values are ignored."""


def exact_keys(
    value: Mapping[str, Any], of: str, required: Sequence[str], optional: Sequence[str] = ()
) -> None:
    """Check that an object has the requested keys and no others; raises `ReplyError`.

    A key that was not requested can take the answer back ("error") or hold another one.
    """
    for key in (*required, *value):
        if key not in value:
            fault = f"has no key {shown(key)}"
        elif key not in required and key not in optional:
            fault = f"has the key {shown(key)}"
        elif key in REMARKS and key not in required and not _is_remark(value[key]):
            raise ReplyError(f"{of}: {key} must be text or a number, not {shown(value[key])}")
        else:
            continue
        raise ReplyError(f"{of} {fault}; its keys are {', '.join([*required, *optional])}")


def _is_remark(value: Any) -> bool:
    items = value if isinstance(value, list) else [value]
    return all(item is None or isinstance(item, str | int | float) for item in items)


def as_list(value: Any, key: str) -> list[Any]:
    """Return the list of a reply, bare or as the only value of an object, under its key."""
    if isinstance(value, dict) and isinstance(value.get(key), list):
        exact_keys(value, "the reply", [key])
        value = value[key]
    if not isinstance(value, list):
        raise ReplyError(f"the reply must hold a list of {key}, not {shown(value)}")
    return value


def read_label(value: Any, of: str, notes: list[str]) -> Relation:
    """Return a label of the closed set; another spelling of it is noted."""
    relation = read_relation(value, of)
    if value != relation:
        notes.append(respelt(of, value, relation))
    return relation


def respelt(of: str, label: Any, relation: Relation) -> str:
    """Return the note on a label in another spelling."""
    return f"classify: {of}: the label {shown(label)} was read as {relation}"


def read_number(value: Any, what: str, top: int) -> int:
    """Return an id from 1 to `top`, given as a number or as its digits."""
    if isinstance(value, str) and value.isascii() and value.strip().isdigit() and len(value) < 9:
        value = int(value)
    if type(value) is not int:
        raise ReplyError(f"{what} must be a number from 1 to {top}, not {shown(value)}")
    if not 1 <= value <= top:
        raise ReplyError(f"there is no {what} {shown(value)}; ids go from 1 to {top}")
    return value


_NO_MATCH = {"none", "null", ""}


def object_of(**properties: Any) -> dict[str, Any]:
    """Return the JSON schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def array_of(items: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of a list."""
    return {"type": "array", "items": items}


LABEL = {"type": "string", "enum": list(RELATIONS)}
COUNT = {"type": "integer"}


def element_ids(part: EventToClassify) -> list[str]:
    """Return the ids of an event's elements, `EVENT.ELEMENT`."""
    return [f"{part.event}.{number}" for number in range(1, len(part.elements) + 1)]


def first_of(names: Sequence[str]) -> str:
    """Return names for a complaint, at most 40."""
    return ", ".join(names[:40]) + (", …" if len(names) > 40 else "")

"""Reply contracts: how data is shown to a chat model, and how its replies are read and checked.

The contract `spans` (of `tuna-cap-v2`) numbers what it shows and is answered in these numbers: the
segments of the caption at which events start, pairs of events, pairs of an element and a label.
The contract `ids` (of `tuna-cap-v1`) is JSON in which events and elements carry ids. The contract
`tuna` is that of the TUNA benchmark's published prompts (figures 20-22): they show lists as Python
writes them, and ask for a list of strings, a list of (candidate, reference or None) tuples, and
JSON that echoes the elements. The checks are the same for all: events are spans of the caption,
every id is present once and in range, and every label is from the closed set. What can be read in
only one way is repaired and noted; anything else is a `ReplyError`.

The message of a `ReplyError` is sent to the model with the next request, and so is part of that
request's cache key: rewording one means paying again for replies that are in users' caches.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any, Final, TypeVar

from capeval.errors import ReplyError
from capeval.files.label_matching import match_labels, normalised, read_relation
from capeval.judging.prompts import PromptSet, Stage
from capeval.judging.segments import segments
from capeval.judging.split_checks import own_events, repeating, repeats_note
from capeval.llm.types import ReplySchema
from capeval.schema import RELATIONS, Relation
from capeval.text import one_line, shown, storable

T = TypeVar("T")

# Characters per token of English prose, an underestimate: it sets limits that must not cut replies.
_CHARACTERS = 3.0
# A line of reasoning is shown beside its element; a longer one is cut.
_LONGEST_REASON = 300


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
        events = _as_list(value, "events")
        for item in events:
            if not isinstance(item, str):
                raise ReplyError(f"every event must be a string, not {shown(item)}")
        return own_events(caption, events, notes)

    def read_matches(
        self, value: Any, candidates: int, references: int, notes: list[str]
    ) -> list[int | None]:
        """Return the reference number or None of each candidate event."""
        pairs = [self._read_match(item) for item in _as_list(value, "matches")]
        found: dict[int, int | None] = {}
        order: list[int] = []
        for candidate, reference in pairs:
            number = _read_number(candidate, "candidate event", candidates)
            match: int | None = None
            if str(reference).strip().lower() not in _NO_MATCH:
                match = _read_number(reference, "reference event", references)
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


def _as_list(value: Any, key: str) -> list[Any]:
    """Return the list of a reply, bare or as the only value of an object, under its key."""
    if isinstance(value, dict) and isinstance(value.get(key), list):
        exact_keys(value, "the reply", [key])
        value = value[key]
    if not isinstance(value, list):
        raise ReplyError(f"the reply must hold a list of {key}, not {shown(value)}")
    return value


def _read_label(value: Any, of: str, notes: list[str]) -> Relation:
    """Return a label of the closed set; another spelling of it is noted."""
    relation = read_relation(value, of)
    if value != relation:
        notes.append(_respelt(of, value, relation))
    return relation


def _respelt(of: str, label: Any, relation: Relation) -> str:
    return f"classify: {of}: the label {shown(label)} was read as {relation}"


def _read_number(value: Any, what: str, top: int) -> int:
    """Return an id from 1 to `top`, given as a number or as its digits."""
    if isinstance(value, str) and value.isascii() and value.strip().isdigit() and len(value) < 9:
        value = int(value)
    if type(value) is not int:
        raise ReplyError(f"{what} must be a number from 1 to {top}, not {shown(value)}")
    if not 1 <= value <= top:
        raise ReplyError(f"there is no {what} {shown(value)}; ids go from 1 to {top}")
    return value


_NO_MATCH = {"none", "null", ""}


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _array(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


_MATCH = _object(candidate={"type": "integer"}, reference={"type": ["integer", "null"]})
_LABEL = {"type": "string", "enum": list(RELATIONS)}
_RELATION = _object(id={"type": "string"}, relation=_LABEL)


_COUNT = {"type": "integer"}
_PAIR = _array({"type": ["integer", "null"]})
_NUMBERED_LABEL = _array({"anyOf": [_COUNT, _LABEL]})
_REASONED = _object(id=_COUNT, reason={"type": "string"}, relation=_LABEL)


class _SpansContract(Contract):
    """Segments, events and elements are numbered from 1, and shown one per line."""

    schemas: Mapping[Stage, ReplySchema] = {
        "split": ReplySchema("starts", _object(starts=_array(_COUNT), repeats=_array(_COUNT))),
        "match": ReplySchema("matches", _object(matches=_array(_PAIR))),
        "classify": ReplySchema("relations", _object(relations=_array(_NUMBERED_LABEL))),
    }

    def undivided(self, caption: str) -> list[str] | None:
        return [caption.strip()] if len(segments(caption)) == 1 else None

    def max_tokens(self, stage: Stage, items: int, text: str) -> int:
        if stage == "split":
            items = len(segments(text))
        # Four times what is expected: some models write JSON on many lines.
        return 128 + {"split": 8, "match": 16, "classify": 28}[stage] * items

    def reply_tokens(self, stage: Stage, items: int, copied: int) -> int:
        del copied
        return 8 + {"split": 2, "match": 4, "classify": 7}[stage] * items

    def show_caption(self, caption: str) -> str:
        return _numbered(segments(caption))

    def show_events(self, events: Sequence[str]) -> str:
        return _numbered(events)

    def show_parts(self, parts: Sequence[EventToClassify]) -> str:
        blocks = []
        number = 1
        for part in parts:
            blocks.append(f"Passage: {_line(part.text)}\n{_numbered(part.elements, number)}")
            number += len(part.elements)
        return "\n\n".join(blocks)

    def read_split(self, value: Any, caption: str, notes: list[str]) -> list[str]:
        found = segments(caption)
        if not isinstance(value, dict):
            raise ReplyError(
                f'the reply must be {{"starts":[..],"repeats":[..]}}, not {shown(value)}'
            )
        exact_keys(value, "the reply", ("starts", "repeats"))
        given = {key: _as_list(value[key], key) for key in ("starts", "repeats")}
        starts, repeats = (
            [_read_number(item, "segment", len(found)) for item in items]
            for items in given.values()
        )
        if starts[:1] != [1]:
            raise ReplyError("starts must begin with 1: the first event starts at segment 1")
        for before, after in pairwise(starts):
            if after <= before:
                raise ReplyError(f"starts must be in ascending order, but {after} follows {before}")
        if 1 in repeats:
            raise ReplyError("segment 1 cannot repeat an earlier one")
        if len(set(repeats)) < len(repeats):
            raise ReplyError("repeats lists a segment twice")
        if any(isinstance(item, str) for items in given.values() for item in items):
            notes.append("split: a segment was answered with text for a number")
        marked, real = set(repeats), repeating(found, repeats)
        events = []
        for start, end in pairwise([*starts, len(found) + 1]):
            numbers = set(range(start, end))
            if numbers <= marked and not numbers <= real:
                new = min(numbers - real)
                notes.append(f"split: segment {new} repeats no earlier one; its event was kept")
            if not numbers <= real:
                events.append("".join(found[start - 1 : end - 1]).strip())
        if dropped := len(starts) - len(events):
            notes.append(repeats_note(dropped))
        return events

    def _read_match(self, item: Any) -> tuple[Any, Any]:
        if not isinstance(item, list) or len(item) != 2:
            raise ReplyError(f"every match must be [candidate, reference], not {shown(item)}")
        return item[0], item[1]

    def _read_answer(self, item: Any) -> tuple[Any, Any]:
        """Return the number and the label of one element."""
        if not isinstance(item, list) or len(item) != 2:
            raise ReplyError(f"every answer must be [element, relation], not {shown(item)}")
        return item[0], item[1]

    def read_relations(
        self, value: Any, parts: Sequence[EventToClassify], notes: list[str]
    ) -> list[tuple[Relation, ...]]:
        ids = [name for part in parts for name in _element_ids(part)]
        found: dict[int, Relation] = {}
        for item in _as_list(value, "relations"):
            given, label = self._read_answer(item)
            number = _read_number(given, "element", len(ids))
            relation = read_relation(label, f"element {number}")
            name = f"element {ids[number - 1]}"
            if isinstance(given, str):
                notes.append(f"classify: {name} was answered with text for a number")
            if label != relation:
                notes.append(_respelt(name, label, relation))
            if number in found and found[number] != relation:
                raise ReplyError(f"element {number} is answered twice, differently")
            if number in found:
                notes.append(f"classify: {name} was answered twice, alike")
            found[number] = relation
        missing = [str(number) for number in range(1, len(ids) + 1) if number not in found]
        if missing:
            raise ReplyError(f"element(s) {_listed(missing)} are not answered")
        return _by_part([found[number] for number in range(1, len(ids) + 1)], parts)


class _ReasonedSpansContract(_SpansContract):
    """The same with a line of reasoning before each label."""

    schemas: Mapping[Stage, ReplySchema] = {
        **_SpansContract.schemas,
        "classify": ReplySchema("relations", _object(relations=_array(_REASONED))),
    }

    def max_tokens(self, stage: Stage, items: int, text: str) -> int:
        return super().max_tokens(stage, items, text) + (80 * items if stage == "classify" else 0)

    def reply_tokens(self, stage: Stage, items: int, copied: int) -> int:
        reasons = 22 * items if stage == "classify" else 0
        return super().reply_tokens(stage, items, copied) + reasons

    def _read_answer(self, item: Any) -> tuple[Any, Any]:
        if not isinstance(item, dict) or not {"id", "relation"} <= item.keys():
            raise ReplyError(
                f'every answer must be {{"id": .., "reason": "..", "relation": ".."}}, '
                f"not {shown(item)}"
            )
        exact_keys(item, "an answer", ("id", "relation"), REMARKS)
        return item["id"], item["relation"]

    def read_reasons(self, value: Any, parts: Sequence[EventToClassify]) -> list[tuple[str, ...]]:
        reasons = [""] * sum(len(part.elements) for part in parts)
        for item in _as_list(value, "relations"):
            number = _read_number(item["id"], "element", len(reasons))
            reason = item.get("reason")
            if isinstance(reason, str):
                reasons[number - 1] = one_line(storable(reason), _LONGEST_REASON)
        return _by_part(reasons, parts)


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


class _IdsContract(Contract):
    """Events are numbered from 1; elements are `EVENT.ELEMENT`, both from 1."""

    schemas: Mapping[Stage, ReplySchema] = {
        "split": ReplySchema("events", _object(events=_array({"type": "string"}))),
        "match": ReplySchema("matches", _object(matches=_array(_MATCH))),
        "classify": ReplySchema("relations", _object(relations=_array(_RELATION))),
    }

    def reply_tokens(self, stage: Stage, items: int, copied: int) -> int:
        if stage == "split":
            return copied + 3 * items + 8
        return {"match": 12, "classify": 15}[stage] * items + 8

    def show_caption(self, caption: str) -> str:
        return _tag_free_json(caption)

    def show_events(self, events: Sequence[str]) -> str:
        return "\n".join(
            _tag_free_json({"id": number, "event": event})
            for number, event in enumerate(events, start=1)
        )

    def show_parts(self, parts: Sequence[EventToClassify]) -> str:
        return "\n".join(
            _tag_free_json(
                {
                    "caption_part": part.text,
                    "elements": dict(zip(_element_ids(part), part.elements, strict=True)),
                }
            )
            for part in parts
        )

    def _read_match(self, item: Any) -> tuple[Any, Any]:
        if not isinstance(item, dict) or not {"candidate", "reference"} <= item.keys():
            raise ReplyError(
                f'every match must be {{"candidate": .., "reference": ..}}, not {shown(item)}'
            )
        exact_keys(item, "a match", ["candidate", "reference"], REMARKS)
        return item["candidate"], item["reference"]

    def read_relations(
        self, value: Any, parts: Sequence[EventToClassify], notes: list[str]
    ) -> list[tuple[Relation, ...]]:
        requested = dict.fromkeys(name for part in parts for name in _element_ids(part))
        found: dict[str, Relation] = {}
        for item in _as_list(value, "relations"):
            if not isinstance(item, dict) or not isinstance(item.get("id"), str):
                raise ReplyError(
                    f'every answer must be {{"id": "..", "relation": ".."}}, not {shown(item)}'
                )
            name = item["id"].strip()
            if name not in requested:
                ids = _listed([*requested])
                raise ReplyError(f"there is no element {shown(name)}; the ids are {ids}")
            relation = _read_label(item.get("relation"), f"element {name}", notes)
            exact_keys(item, f"element {name}", ["id", "relation"], REMARKS)
            if name in found and found[name] != relation:
                raise ReplyError(f"element {name} is answered twice, differently")
            if name in found:
                notes.append(f"classify: element {name} was answered twice, alike")
            found[name] = relation
        missing = [name for name in requested if name not in found]
        if missing:
            raise ReplyError(f"element(s) {_listed(missing)} are not answered")
        return [tuple(found[name] for name in _element_ids(part)) for part in parts]


def _tag_free_json(value: Any) -> str:
    # Without < and > nothing inside can close the tags around it in the templates.
    text = json.dumps(value, ensure_ascii=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e")


def _element_ids(part: EventToClassify) -> list[str]:
    return [f"{part.event}.{number}" for number in range(1, len(part.elements) + 1)]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:40]) + (", …" if len(names) > 40 else "")


class _TunaContract(Contract):
    """Events by position, elements by their echoed content."""

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

    def _read_match(self, item: Any) -> tuple[Any, Any]:
        if not isinstance(item, list) or len(item) != 2:
            raise ReplyError(f"every match must be (candidate_id, reference_id), not {shown(item)}")
        return item[0], item[1]

    def read_relations(
        self, value: Any, parts: Sequence[EventToClassify], notes: list[str]
    ) -> list[tuple[Relation, ...]]:
        # A model that was given one event often answers with the object alone.
        alone = isinstance(value, dict) and "visual_elements" in value
        items = [value] if alone else _as_list(value, "events")
        if len(items) != len(parts):
            raise ReplyError(f"the reply has {len(items)} event(s); {len(parts)} were given")
        result = []
        for part, item in zip(parts, items, strict=True):
            name = f"event {part.event}"
            echoed = item.get("visual_elements") if isinstance(item, dict) else None
            if not isinstance(echoed, list):
                raise ReplyError(f'{name} must be an object with a list "visual_elements"')
            exact_keys(item, name, ["visual_elements"], ["candidate_event", *REMARKS])
            _check_event(item.get("candidate_event"), part, parts)
            labels: list[tuple[str, Relation]] = []
            for element in echoed:
                if not isinstance(element, dict) or not isinstance(element.get("content"), str):
                    raise ReplyError(f'{name}: every element must echo its "content"')
                content = element["content"]
                of = f"{name}, {shown(content)}"
                labels.append((content, _read_label(element.get("relationship"), of, notes)))
                exact_keys(element, of, ["content", "relationship"], REMARKS)
            result.append(match_labels(part.elements, labels, name, notes))
        return result


def _check_event(echo: Any, part: EventToClassify, parts: Sequence[EventToClassify]) -> None:
    # A long event is often echoed in short, but never in the words of another one.
    others = {normalised(other.text) for other in parts if other is not part}
    if isinstance(echo, str) and normalised(echo) in others - {normalised(part.text)}:
        raise ReplyError(f"event {part.event}: {shown(echo)} is another event; keep their order")


CONTRACTS: Final[Mapping[str, Contract]] = {
    "spans": _SpansContract(),
    "ids": _IdsContract(),
    "tuna": _TunaContract(),
}
"""The contracts by the name that a prompt set's `set.toml` gives them."""

_REASONED_SPANS = _ReasonedSpansContract()


def contract_of(prompts: PromptSet) -> Contract:
    """Return the contract of a prompt set."""
    return _REASONED_SPANS if prompts.explain else CONTRACTS[prompts.contract]

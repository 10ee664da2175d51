"""Reply contracts: how data is shown to a chat model, and how its replies are read and checked.

The contract `ids` (of capeval's own prompts) is JSON in which events and elements carry ids. The
contract `tuna` is that of the TUNA benchmark's published prompts (figures 20-22): they show lists
as Python writes them, and ask for a list of strings, a list of (candidate, reference or None)
tuples, and JSON that echoes the elements. The checks are the same for both: every id is present
once and in range, and every label is from the closed set. What can be read in only one way is
repaired and noted; anything else is a `ReplyError`.

The message of a `ReplyError` is sent to the model with the next request, and so is part of that
request's cache key: rewording one means paying again for replies that are in users' caches.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from capeval.errors import ReplyError
from capeval.files.label_matching import match_labels, normalised, read_relation
from capeval.judging.prompts import Stage
from capeval.judging.split_checks import check_split, clean, repeats_note
from capeval.llm import ReplySchema
from capeval.schema import RELATIONS, Relation
from capeval.text import shown


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
        """Return the candidate events: strings, without exact repeats, together the caption."""
        events: dict[str, str] = {}
        repeated = 0
        for item in _as_list(value, "events"):
            if not isinstance(item, str):
                raise ReplyError(f"every event must be a string, not {shown(item)}")
            event = clean(item).strip()
            if event and events.setdefault(normalised(event), event) is not event:
                repeated += 1
        if not events:
            raise ReplyError("the reply has no events, but the caption has words")
        check_split(caption, events.values())
        if repeated:
            notes.append(repeats_note(repeated))
        return list(events.values())

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
        notes.append(f"classify: {of}: the label {shown(value)} was read as {relation}")
    return relation


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
_RELATION = _object(id={"type": "string"}, relation={"type": "string", "enum": list(RELATIONS)})


class _IdsContract(Contract):
    """Events are numbered from 1; elements are `EVENT.ELEMENT`, both from 1."""

    schemas: Mapping[Stage, ReplySchema] = {
        "split": ReplySchema("events", _object(events=_array({"type": "string"}))),
        "match": ReplySchema("matches", _object(matches=_array(_MATCH))),
        "classify": ReplySchema("relations", _object(relations=_array(_RELATION))),
    }

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


CONTRACTS: Final[Mapping[str, Contract]] = {"ids": _IdsContract(), "tuna": _TunaContract()}
"""The contracts by the name that a prompt set's `set.toml` gives them."""

"""The reply contracts by name: what each shows a chat model, and how its replies are read.

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

from collections.abc import Mapping, Sequence
from typing import Any, Final

from capeval.errors import ReplyError
from capeval.files.label_matching import match_labels, normalised
from capeval.files.prompts import tag_free_json
from capeval.judging.prompts import PromptSet, Stage
from capeval.judging.reply_contract import LABEL, Contract, EventToClassify, element_ids, read_label
from capeval.judging.spans_contract import REASONED_SPANS, SPANS
from capeval.llm.reply_parts import REMARKS, array_of, as_list, exact_keys, first_of, object_of
from capeval.llm.types import ReplySchema
from capeval.schema import Relation
from capeval.text import shown

_MATCH = object_of(candidate={"type": "integer"}, reference={"type": ["integer", "null"]})
_RELATION = object_of(id={"type": "string"}, relation=LABEL)


class _IdsContract(Contract):
    """Events are numbered from 1; elements are `EVENT.ELEMENT`, both from 1."""

    schemas: Mapping[Stage, ReplySchema] = {
        "split": ReplySchema("events", object_of(events=array_of({"type": "string"}))),
        "match": ReplySchema("matches", object_of(matches=array_of(_MATCH))),
        "classify": ReplySchema("relations", object_of(relations=array_of(_RELATION))),
    }

    def reply_tokens(self, stage: Stage, items: int, copied: int) -> int:
        if stage == "split":
            return copied + 3 * items + 8
        return {"match": 12, "classify": 15}[stage] * items + 8

    def show_caption(self, caption: str) -> str:
        return tag_free_json(caption)

    def show_events(self, events: Sequence[str]) -> str:
        return "\n".join(
            tag_free_json({"id": number, "event": event})
            for number, event in enumerate(events, start=1)
        )

    def show_parts(self, parts: Sequence[EventToClassify]) -> str:
        return "\n".join(
            tag_free_json(
                {
                    "caption_part": part.text,
                    "elements": dict(zip(element_ids(part), part.elements, strict=True)),
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
        requested = dict.fromkeys(name for part in parts for name in element_ids(part))
        found: dict[str, Relation] = {}
        for item in as_list(value, "relations"):
            if not isinstance(item, dict) or not isinstance(item.get("id"), str):
                raise ReplyError(
                    f'every answer must be {{"id": "..", "relation": ".."}}, not {shown(item)}'
                )
            name = item["id"].strip()
            if name not in requested:
                ids = first_of([*requested])
                raise ReplyError(f"there is no element {shown(name)}; the ids are {ids}")
            relation = read_label(item.get("relation"), f"element {name}", notes)
            exact_keys(item, f"element {name}", ["id", "relation"], REMARKS)
            if name in found and found[name] != relation:
                raise ReplyError(f"element {name} is answered twice, differently")
            if name in found:
                notes.append(f"classify: element {name} was answered twice, alike")
            found[name] = relation
        missing = [name for name in requested if name not in found]
        if missing:
            raise ReplyError(f"element(s) {first_of(missing)} are not answered")
        return [tuple(found[name] for name in element_ids(part)) for part in parts]


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
        items = [value] if alone else as_list(value, "events")
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
                labels.append((content, read_label(element.get("relationship"), of, notes)))
                exact_keys(element, of, ["content", "relationship"], REMARKS)
            result.append(match_labels(part.elements, labels, name, notes))
        return result


def _check_event(echo: Any, part: EventToClassify, parts: Sequence[EventToClassify]) -> None:
    # A long event is often echoed in short, but never in the words of another one.
    others = {normalised(other.text) for other in parts if other is not part}
    if isinstance(echo, str) and normalised(echo) in others - {normalised(part.text)}:
        raise ReplyError(f"event {part.event}: {shown(echo)} is another event; keep their order")


CONTRACTS: Final[Mapping[str, Contract]] = {
    "spans": SPANS,
    "ids": _IdsContract(),
    "tuna": _TunaContract(),
}
"""The contracts by the name that a prompt set's `set.toml` gives them."""


def contract_of(prompts: PromptSet) -> Contract:
    """Return the contract of a prompt set."""
    return REASONED_SPANS if prompts.explain else CONTRACTS[prompts.contract]

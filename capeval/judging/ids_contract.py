"""The contract of our own prompts: everything carries an id and is checked by id."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from capeval.errors import ReplyError
from capeval.judging.contract import Part, as_list, collect_matches, read_events, read_label
from capeval.judging.prompts import Stage
from capeval.llm import ReplySchema
from capeval.schema import RELATIONS, Relation
from capeval.text import shown


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _array(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


_SCHEMAS: dict[Stage, ReplySchema] = {
    "split": ReplySchema("events", _object(events=_array({"type": "string"}))),
    "match": ReplySchema(
        "matches",
        _object(
            matches=_array(
                _object(
                    candidate={"type": "integer"},
                    reference={"type": ["integer", "null"]},
                )
            )
        ),
    ),
    "classify": ReplySchema(
        "relations",
        _object(
            relations=_array(
                _object(
                    id={"type": "string"},
                    relation={"type": "string", "enum": list(RELATIONS)},
                )
            )
        ),
    ),
}


def _shown_json(value: Any) -> str:
    # Without < and > nothing inside can close the tags that stand around it in the templates.
    text = json.dumps(value, ensure_ascii=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e")


class IdsContract:
    """Events are numbered from 1; elements are `EVENT.ELEMENT`, both from 1."""

    @property
    def schemas(self) -> Mapping[Stage, ReplySchema]:
        """The JSON schema per stage."""
        return _SCHEMAS

    def show_caption(self, caption: str) -> str:
        """Return the caption as one JSON string."""
        return _shown_json(caption)

    def show_events(self, events: Sequence[str]) -> str:
        """Return events as JSON lines with their ids."""
        return "\n".join(
            _shown_json({"id": number, "event": event})
            for number, event in enumerate(events, start=1)
        )

    def show_parts(self, parts: Sequence[Part]) -> str:
        """Return the parts as JSON lines, elements with their ids."""
        return "\n".join(
            _shown_json(
                {
                    "caption_part": part.text,
                    "elements": {f"{part.event}.{n}": e for n, e in enumerate(part.elements, 1)},
                }
            )
            for part in parts
        )

    def read_split(self, value: Any, caption: str, notes: list[str]) -> list[str]:
        """Return the candidate events; raises `ReplyError`."""
        return read_events(as_list(value, "events"), caption, notes)

    def read_matches(
        self, value: Any, candidates: int, references: int, notes: list[str]
    ) -> list[int | None]:
        """Return the reference number or None of each candidate event; raises `ReplyError`."""
        pairs = []
        for item in as_list(value, "matches"):
            if not isinstance(item, dict) or not {"candidate", "reference"} <= item.keys():
                raise ReplyError(
                    f'every match must be {{"candidate": .., "reference": ..}}, not {shown(item)}'
                )
            pairs.append((item["candidate"], item["reference"]))
        return collect_matches(pairs, candidates, references, notes)

    def read_relations(
        self, value: Any, parts: Sequence[Part], notes: list[str]
    ) -> list[tuple[Relation, ...]]:
        """Return the relations of each part's elements; raises `ReplyError`."""
        asked = [f"{part.event}.{n}" for part in parts for n in range(1, len(part.elements) + 1)]
        found: dict[str, Relation] = {}
        for item in as_list(value, "relations"):
            if not isinstance(item, dict) or not isinstance(item.get("id"), str):
                raise ReplyError(
                    f'every answer must be {{"id": "..", "relation": ".."}}, not {shown(item)}'
                )
            name = item["id"].strip()
            if name not in asked:
                raise ReplyError(f"there is no element {shown(name)}; the ids are {_ids(asked)}")
            relation = read_label(item.get("relation"), f"element {name}", notes)
            if name in found and found[name] != relation:
                raise ReplyError(f"element {name} is answered twice, differently")
            if name in found:
                notes.append(f"classify: element {name} was answered twice, alike")
            found[name] = relation
        missing = [name for name in asked if name not in found]
        if missing:
            raise ReplyError(f"element(s) {_ids(missing)} are not answered")
        return [
            tuple(found[f"{part.event}.{n}"] for n in range(1, len(part.elements) + 1))
            for part in parts
        ]


def _ids(names: Sequence[str]) -> str:
    return ", ".join(names[:40]) + (", …" if len(names) > 40 else "")

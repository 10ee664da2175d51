"""The contract `spans`: what is shown is numbered, and the reply is made of these numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice, pairwise
from typing import Any, Final, TypeVar

from capeval.errors import ReplyError
from capeval.files.label_matching import read_relation
from capeval.judging.prompts import Stage
from capeval.judging.reply_contract import LABEL, Contract, EventToClassify, element_ids, respelt
from capeval.judging.segments import segments
from capeval.judging.split_checks import repeating, repeats_note
from capeval.llm.reply_parts import (
    COUNT,
    REMARKS,
    array_of,
    as_list,
    exact_keys,
    first_of,
    object_of,
    read_number,
)
from capeval.llm.types import ReplySchema
from capeval.schema import Relation
from capeval.text import one_line, shown, storable

T = TypeVar("T")

# A line of reasoning is shown beside its element; a longer one is cut.
_LONGEST_REASON = 300
_PAIR = array_of({"type": ["integer", "null"]})
_NUMBERED_LABEL = array_of({"anyOf": [COUNT, LABEL]})
_REASONED = object_of(id=COUNT, reason={"type": "string"}, relation=LABEL)


class _SpansContract(Contract):
    """Segments, events and elements are numbered from 1, and shown one per line."""

    schemas: Mapping[Stage, ReplySchema] = {
        "split": ReplySchema(
            "starts",
            object_of(starts=array_of(COUNT), repeats=array_of(COUNT)),
        ),
        "match": ReplySchema("matches", object_of(matches=array_of(_PAIR))),
        "classify": ReplySchema("relations", object_of(relations=array_of(_NUMBERED_LABEL))),
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
        given = {key: as_list(value[key], key) for key in ("starts", "repeats")}
        starts, repeats = (
            [read_number(item, "segment", len(found)) for item in items] for items in given.values()
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
        ids = [name for part in parts for name in element_ids(part)]
        found: dict[int, Relation] = {}
        for item in as_list(value, "relations"):
            given, label = self._read_answer(item)
            number = read_number(given, "element", len(ids))
            relation = read_relation(label, f"element {number}")
            name = f"element {ids[number - 1]}"
            if isinstance(given, str):
                notes.append(f"classify: {name} was answered with text for a number")
            if label != relation:
                notes.append(respelt(name, label, relation))
            if number in found and found[number] != relation:
                raise ReplyError(f"element {number} is answered twice, differently")
            if number in found:
                notes.append(f"classify: {name} was answered twice, alike")
            found[number] = relation
        missing = [str(number) for number in range(1, len(ids) + 1) if number not in found]
        if missing:
            raise ReplyError(f"element(s) {first_of(missing)} are not answered")
        return _by_part([found[number] for number in range(1, len(ids) + 1)], parts)


class _ReasonedSpansContract(_SpansContract):
    """The same with a line of reasoning before each label."""

    schemas: Mapping[Stage, ReplySchema] = {
        **_SpansContract.schemas,
        "classify": ReplySchema("relations", object_of(relations=array_of(_REASONED))),
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
        for item in as_list(value, "relations"):
            number = read_number(item["id"], "element", len(reasons))
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


SPANS: Final[Contract] = _SpansContract()
"""Answers are numbers and pairs of numbers and labels."""

REASONED_SPANS: Final[Contract] = _ReasonedSpansContract()
"""The same with a line of reasoning before each label."""

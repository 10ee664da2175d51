"""The contract of the TUNA benchmark's published prompts (figures 20-22).

Its templates show lists as Python writes them and ask for lists, tuples and echoes in return.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from capeval.errors import ReplyError
from capeval.files.label_matching import match_labels, normalised
from capeval.judging.contract import Part, as_list, collect_matches, read_events, read_label
from capeval.judging.prompts import Stage
from capeval.llm import ReplySchema
from capeval.schema import Relation
from capeval.text import shown


class TunaContract:
    """Events by position, elements by their echoed content."""

    @property
    def schemas(self) -> Mapping[Stage, ReplySchema]:
        """None: a strict schema must be an object, and these prompts ask for bare lists."""
        return {}

    def show_caption(self, caption: str) -> str:
        """Return the caption as it is."""
        return caption

    def show_events(self, events: Sequence[str]) -> str:
        """Return a Python list of `{'id', 'event'}`."""
        return repr([{"id": n, "event": event} for n, event in enumerate(events, start=1)])

    def show_parts(self, parts: Sequence[Part]) -> str:
        """Return a Python list of `{'candidate_event', 'visual_elements'}`."""
        return repr(
            [{"candidate_event": p.text, "visual_elements": list(p.elements)} for p in parts]
        )

    def read_split(self, value: Any, caption: str, notes: list[str]) -> list[str]:
        """Return the candidate events; raises `ReplyError`."""
        return read_events(as_list(value, "events"), caption, notes)

    def read_matches(
        self, value: Any, candidates: int, references: int, notes: list[str]
    ) -> list[int | None]:
        """Return the reference number or None of each candidate event; raises `ReplyError`."""
        items = as_list(value, "matches")
        for item in items:
            if not isinstance(item, list) or len(item) != 2:
                raise ReplyError(
                    f"every match must be (candidate_id, reference_id), not {shown(item)}"
                )
        return collect_matches([(a, b) for a, b in items], candidates, references, notes)

    def read_relations(
        self, value: Any, parts: Sequence[Part], notes: list[str]
    ) -> list[tuple[Relation, ...]]:
        """Return the relations of each part's elements; raises `ReplyError`."""
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
            _check_event(item.get("candidate_event"), part, parts)
            labels: list[tuple[str, Relation]] = []
            for element in echoed:
                if not isinstance(element, dict) or not isinstance(element.get("content"), str):
                    raise ReplyError(f'{name}: every element must echo its "content"')
                relation = read_label(
                    element.get("relationship"), f"{name}, {shown(element['content'])}", notes
                )
                labels.append((element["content"], relation))
            result.append(match_labels(part.elements, labels, name, notes))
        return result


def _check_event(echo: Any, part: Part, parts: Sequence[Part]) -> None:
    # A long event is often echoed in short, but never in the words of another one.
    others = {normalised(other.text) for other in parts if other is not part}
    if isinstance(echo, str) and normalised(echo) in others - {normalised(part.text)}:
        raise ReplyError(f"event {part.event}: {shown(echo)} is another event; keep their order")

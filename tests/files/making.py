"""Small annotations for tests."""

from __future__ import annotations

from typing import Any

from capeval.schema import Annotation

__all__ = ["annotated", "annotation_of", "record"]


def record(index: str = "v", **fields: Any) -> dict[str, Any]:
    """One annotated video, as its file has it."""
    element = {"content": "A dog runs.", "type": "action", "weight": 3}
    events = [{"event": "A dog runs.", "visual_elements": [element]}]
    return {"index": index, "events": events} | fields


def annotated(*indexes: str) -> tuple[Annotation, ...]:
    """Annotated videos of these indexes."""
    return tuple(Annotation.model_validate(record(index)) for index in indexes)


def annotation_of(*events: tuple[str, ...], index: str = "V1", **fields: Any) -> Annotation:
    """Make an annotation; each event is its sentence and its elements, all actions of weight 1."""
    parts = [
        {
            "event": event,
            "visual_elements": [{"content": c, "type": "action", "weight": 1} for c in contents],
        }
        for event, *contents in events
    ]
    return Annotation.model_validate(record(index, events=parts, **fields))

"""Small annotations for tests."""

from __future__ import annotations

from typing import Any

from capeval.schema import Annotation

__all__ = ["annotated", "record"]


def record(index: str = "v", **fields: Any) -> dict[str, Any]:
    """One annotated video, as its file has it."""
    element = {"content": "A dog runs.", "type": "action", "weight": 3}
    events = [{"event": "A dog runs.", "visual_elements": [element]}]
    return {"index": index, "events": events} | fields


def annotated(*indexes: str) -> tuple[Annotation, ...]:
    """Annotated videos of these indexes."""
    return tuple(Annotation.model_validate(record(index)) for index in indexes)

"""DREAM-1K's references as the Tarsier repository publishes them: one conversation per video.

The record has the reference caption in the assistant's message, the events in `extra_info`, the
subset in `dataset` and the video's number in `idx`.
"""

from __future__ import annotations

from typing import Any


def is_dream(record: Any) -> bool:
    """Return whether a record has this layout."""
    return isinstance(record, dict) and {"messages", "dataset", "idx"} <= record.keys()


def as_reference(record: dict[str, Any]) -> dict[str, Any]:
    """Return the record's index, reference, events and group, as far as it has them.

    An empty list of events is one: the video has none.
    """
    index, extra = record["idx"], record.get("extra_info")
    found: dict[str, Any] = {
        "index": str(index) if type(index) is int else index,
        "references": [text for text in _references(record["messages"]) if text is not None],
        "group": record["dataset"],
    }
    if isinstance(extra, dict) and extra.get("events") is not None:
        found["events"] = extra["events"]
    return found


def _references(messages: Any) -> list[Any]:
    """Return what the assistant's messages have as reference; what has another form has none."""
    parts = [
        part
        for message in (messages if isinstance(messages, list) else [])
        if isinstance(message, dict) and message.get("role") == "assistant"
        for part in (message["content"] if isinstance(message.get("content"), list) else [])
    ]
    return [part.get("reference") for part in parts if isinstance(part, dict)]

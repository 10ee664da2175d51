"""Plays the chat model of CLAIR and AutoDQ by comparing words, always alike.

For `tests/server.py`: `--responder tests.metrics.chat_responder:answer`.
"""

from __future__ import annotations

import json
import re
from typing import Any

from tests.server import completion

__all__ = ["answer", "data_of", "reply_to"]

_WORD = re.compile(r"\w+")
_CAMERA = re.compile(r"\b(?:camera|cut)\b")


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Answer a request, or the call that tests the endpoint."""
    prompt = request["messages"][0]["content"]
    text = reply_to(prompt)
    return completion(text, prompt_tokens=len(prompt) // 4, completion_tokens=len(text) // 4)


def reply_to(prompt: str) -> str:
    """Return the reply to a prompt of any of the metrics."""
    if prompt.startswith("Below, as JSON, are two sets"):
        (captions,) = data_of(prompt)
        return json.dumps(rating(captions["candidate"][0], captions["reference"]))
    if prompt.startswith("List the events"):
        (description,) = data_of(prompt)
        return json.dumps({"events": events_of(description)})
    if prompt.startswith("Check which events"):
        description, *events = data_of(prompt)
        return json.dumps({"events": [relation(description, one) for one in events]})
    return '{"ok": true}'


def data_of(prompt: str) -> list[Any]:
    """Return the JSON values that have a line to themselves in a prompt."""
    lines = [line for line in prompt.split("\n") if line[:1] in ('"', "{") and "…" not in line]
    return [json.loads(line) for line in lines]


def words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower()))


def rating(candidate: str, references: list[str]) -> dict[str, Any]:
    best = max(
        len(words(candidate) & words(one)) / len(words(candidate) | words(one))
        for one in references
    )
    return {"score": round(100 * best), "reason": f"They share {best:.0%} of their words."}


def events_of(description: str) -> list[str]:
    sentences = (one.strip() for one in re.split(r"[.\n]", description))
    return [one for one in sentences if one and not _CAMERA.search(one)]


def relation(description: str, event: dict[str, Any]) -> dict[str, Any]:
    entailed = words(event["event"]) <= words(description)
    return {"id": event["id"], "relation": "entailment" if entailed else "neutral"}

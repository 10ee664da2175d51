"""What a request is to the cache: its key, and how it differs from one that is stored."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from capeval.llm.types import ChatRequest, ReplySchema


def request_differences(asked: RequestIdentity, stored_url: object, text: object) -> list[str]:
    """Return how a stored request differs from the one asked; none if it cannot be read."""
    try:
        stored = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        stored = None
    if not isinstance(stored, dict):
        return []
    wanted = json.loads(asked.text)
    found = [f"base URL {stored_url}"] if stored_url != asked.base_url else []
    found += [
        f"{name} {stored.get(name)}"
        for name in ("model", "reasoning", "temperature", "repeat", "max_tokens")
        if stored.get(name) != wanted.get(name)
    ]
    if stored.get("schema") != wanted["schema"]:
        found.append("another reply schema")
    return found


# Shorter ones cost nothing to store.
LONG_DATA_URL = 1000
# What a key is made of: a change to one character would make all stored replies unusable.
_encoded = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode
# What most requests of a run share is encoded once. 1 and 1.0 are different keys.
encoded_once = lru_cache(256, typed=True)(_encoded)


@lru_cache(64)
def _schema(schema: ReplySchema | None) -> str:
    return _encoded(schema and {"name": schema.name, "schema": dict(schema.schema)})


@dataclass(frozen=True, slots=True)
class RequestIdentity:
    """A request to one endpoint as the cache knows it; long data URLs are replaced by a hash.

    `text` is the canonical JSON of the request, `messages` the hash of its messages and `key` the
    hash of everything: SHA-256, in hexadecimal.
    """

    key: str
    model: str
    base_url: str
    messages: str
    text: str


def identify(request: ChatRequest, base_url: str) -> RequestIdentity:
    """Return the identity of a whole request to one endpoint, given by its public URL."""
    messages = _encoded([shown(message) for message in request.messages])
    temperature = None if request.temperature is None else float(request.temperature)
    # Requests without an effort have the keys that they had before there was one.
    effort = f'"reasoning":{encoded_once(request.reasoning)},' if request.reasoning else ""
    # The canonical JSON of an object with these keys; the messages are encoded once.
    text = (
        f'{{"max_tokens":{encoded_once(request.max_tokens)},"messages":{messages},'
        f'"model":{encoded_once(request.model)},{effort}"repeat":{encoded_once(request.repeat)},'
        f'"schema":{_schema(request.schema)},"temperature":{encoded_once(temperature)}}}'
    )
    key = _sha256(f'{{"base_url":{encoded_once(base_url)},"request":{text}}}')
    return RequestIdentity(key, request.model, base_url, _sha256(messages), text)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def shown(value: object) -> object:
    """Return JSON values with long data URLs replaced by their hash."""
    if isinstance(value, str):
        if len(value) <= LONG_DATA_URL or not value.startswith("data:"):
            return value
        head = value[:60].partition(",")[0]
        return f"{head},[{len(value)} characters, sha256 {_sha256(value)}]"
    if isinstance(value, Mapping):
        return {key: shown(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [shown(item) for item in value]
    return value

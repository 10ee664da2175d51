"""What makes two requests the same one."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from capeval.llm.types import ChatRequest

__all__ = ["digest", "plain", "request_key", "shown"]

LONG_DATA_URL = 1000


def plain(request: ChatRequest) -> dict[str, Any]:
    """Return a request as JSON values; long data URLs give way to their hash.

    Thirty-two frames are megabytes: they are hashed once, and neither stored nor put into JSON.
    """
    schema = request.schema
    return {
        "model": request.model,
        "messages": [shown(dict(message)) for message in request.messages],
        "max_tokens": request.max_tokens,
        "temperature": None if request.temperature is None else float(request.temperature),
        "repeat": request.repeat,
        "schema": schema and {"name": schema.name, "schema": dict(schema.schema)},
    }


def digest(value: object) -> str:
    """Return the SHA-256 of the canonical JSON of `value`, in hexadecimal."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def request_key(request: ChatRequest, base_url: str) -> str:
    """Return the cache key of a whole request as it is meant for one endpoint."""
    return digest({"base_url": base_url, "request": plain(request)})


def shown(value: object) -> object:
    """Return JSON values for people to read: long data URLs give way to their hash."""
    if isinstance(value, str) and len(value) > LONG_DATA_URL and value.startswith("data:"):
        head = value[:60].partition(",")[0]
        name = hashlib.sha256(value.encode("utf-8", "replace")).hexdigest()
        return f"{head},[{len(value)} characters, sha256 {name}]"
    if isinstance(value, dict):
        return {key: shown(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [shown(item) for item in value]
    return value

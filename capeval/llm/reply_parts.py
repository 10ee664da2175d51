"""What the checks of replies share: the keys, lists and numbers of a reply's JSON, and its schema.

The message of a `ReplyError` is sent to the model with the next request, and so is part of that
request's cache key: rewording one means paying again for replies that are in users' caches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from capeval.errors import ReplyError
from capeval.text import shown

COUNT = {"type": "integer"}
TEXT = {"type": "string"}


def object_of(**properties: Any) -> dict[str, Any]:
    """Return the JSON schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def array_of(items: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of a list."""
    return {"type": "array", "items": items}


REMARKS: Final = ("reason", "explanation", "evidence", "confidence")
"""Keys by which a model may explain an item of its answer; their values are ignored."""


def exact_keys(
    value: Mapping[str, Any], of: str, required: Sequence[str], optional: Sequence[str] = ()
) -> None:
    """Check that an object has the requested keys and no others; raises `ReplyError`.

    A key that was not requested can take the answer back ("error") or hold another one.
    """
    for key in (*required, *value):
        if key not in value:
            fault = f"has no key {shown(key)}"
        elif key not in required and key not in optional:
            fault = f"has the key {shown(key)}"
        elif key in REMARKS and key not in required and not _is_remark(value[key]):
            raise ReplyError(f"{of}: {key} must be text or a number, not {shown(value[key])}")
        else:
            continue
        raise ReplyError(f"{of} {fault}; its keys are {', '.join([*required, *optional])}")


def _is_remark(value: Any) -> bool:
    items = value if isinstance(value, list) else [value]
    return all(item is None or isinstance(item, str | int | float) for item in items)


def as_list(value: Any, key: str) -> list[Any]:
    """Return the list of a reply, bare or as the only value of an object, under its key."""
    if isinstance(value, dict) and isinstance(value.get(key), list):
        exact_keys(value, "the reply", [key])
        value = value[key]
    if not isinstance(value, list):
        raise ReplyError(f"the reply must hold a list of {key}, not {shown(value)}")
    return value


def read_number(value: Any, what: str, top: int) -> int:
    """Return an id from 1 to `top`, given as a number or as its digits."""
    if isinstance(value, str) and value.isascii() and value.strip().isdigit() and len(value) < 9:
        value = int(value)
    if type(value) is not int:
        raise ReplyError(f"{what} must be a number from 1 to {top}, not {shown(value)}")
    if not 1 <= value <= top:
        raise ReplyError(f"there is no {what} {shown(value)}; ids go from 1 to {top}")
    return value


def first_of(names: Sequence[str]) -> str:
    """Return names for a complaint, at most 40."""
    return ", ".join(names[:40]) + (", …" if len(names) > 40 else "")

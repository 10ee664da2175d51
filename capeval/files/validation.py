"""Turns pydantic's complaints about a user's file into one line with the nearest valid name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from capeval.errors import InputError

__all__ = ["complaint", "cut", "nearest", "shown", "validated"]

M = TypeVar("M", bound=BaseModel)


def shown(value: Any) -> str:
    """Return a short JSON-like rendering of a value from a file."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = type(value).__name__
    return cut(text)


def cut(text: str, limit: int = 60) -> str:
    """Return text that leaves room for what is said about it.

    >>> cut("abcdef", 4)
    'abc…'
    """
    return text if len(text) <= limit else text[: limit - 1] + "…"


def nearest(value: Any, valid: Sequence[str]) -> str:
    """Return `; did you mean X?` when one of `valid` is near, else an empty string.

    >>> nearest("cammera", ["camera", "scene"])
    '; did you mean "camera"?'
    """
    if not isinstance(value, str):
        return ""
    # Comparing is quadratic in length, and no valid name is that long.
    near = get_close_matches(value[:100].lower(), [name.lower() for name in valid], n=1, cutoff=0.5)
    original = {name.lower(): name for name in valid}
    return f'; did you mean "{original[near[0]]}"?' if near else ""


def validated(model: type[M], value: Any, *, file: Path, where: str) -> M:
    """Validate one record of a file.

    Raises
    ------
    InputError
        For the first fault, with file, place and dotted field (list positions from 1).
    """
    if not isinstance(value, dict):
        raise InputError(f"must be a JSON object, not {shown(value)}", file=file, where=where)
    try:
        return model.model_validate(value)
    except ValidationError as faults:
        field, message = complaint(faults)
    raise InputError(message, file=file, where=where, field=field) from None


def complaint(faults: ValidationError) -> tuple[str, str]:
    """Return the dotted field (list positions from 1) of the first fault, and what it is."""
    fault = faults.errors(include_url=False)[0]
    field = ".".join(str(p + 1) if isinstance(p, int) else str(p) for p in fault["loc"])
    return field, _message(fault)


def _message(fault: Any) -> str:
    kind, value, context = fault["type"], fault.get("input"), fault.get("ctx", {})
    if kind == "missing":
        near = nearest(fault["loc"][-1], list(value) if isinstance(value, dict) else [])
        return "is missing" + near
    if kind == "literal_error":
        valid = [part.strip().strip("'") for part in context["expected"].split(",")]
        valid = [name for part in valid for name in part.replace("' or '", "|").split("|")]
        return f"{shown(value)} is unknown; one of {', '.join(valid)}{nearest(value, valid)}"
    if kind == "value_error":
        return f"{context['error']}, not {shown(value)}"
    if kind == "string_unicode":
        return f"has half a character (a lone surrogate): {shown(value)}"
    if kind == "tuple_type":
        return f"must be a list, not {shown(value)}"
    if kind == "model_type":
        return f"must be a JSON object, not {shown(value)}"
    if kind == "too_short":
        return "must have at least one entry"
    if kind in ("dict_type", "model_attributes_type"):
        return f"must be a JSON object, not {shown(value)}"
    if kind in ("int_type", "int_from_float", "int_parsing"):
        return f"must be a whole number, not {shown(value)}"
    if kind == "greater_than_equal":
        return f"must be at least {context['ge']}, not {shown(value)}"
    if kind == "none_required":
        return f"must be null, not {shown(value)}"
    if kind == "extra_forbidden":
        return "is not a known key; remove it"
    if kind == "union_tag_invalid":
        valid = context["expected_tags"].replace("'", "")
        key = context["discriminator"].strip("'")
        return f"the {key} {shown(context['tag'])} is unknown; one of {valid}"
    if kind in ("string_pattern_mismatch", "string_too_short"):
        return "must not be empty"
    if kind == "string_type":
        return f"must be a string, not {shown(value)}"
    return f"{fault['msg']}, not {shown(value)}"

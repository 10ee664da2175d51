"""Turn pydantic's complaint about a user's file into one line that suggests a valid name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from capeval.errors import InputError
from capeval.schema import Annotation, Caption
from capeval.text import nearest, shown

M = TypeVar("M", bound=BaseModel)
R = TypeVar("R", Annotation, Caption)


def validated(model: type[M], value: Any, *, file: Path, where: str) -> M:
    """Validate one record of a file; the first mistake is raised with its dotted field."""
    if not isinstance(value, dict):
        raise InputError(f"must be a JSON object, not {shown(value)}", file=file, where=where)
    try:
        return model.model_validate(value)
    except ValidationError as faults:
        field, message = complaint(faults)
    raise InputError(message, file=file, where=where, field=field) from None


def validated_records(
    model: type[R], records: Iterable[tuple[str, Any]], *, file: Path
) -> tuple[R, ...]:
    """Validate all records of a file, given with their places; every index must be unique."""
    seen: dict[str, str] = {}
    result: list[R] = []
    for place, value in records:
        index = value.get("index") if isinstance(value, dict) else None
        where = f"index {shown(index)}" if isinstance(index, str) else place
        one = validated(model, value, file=file, where=where)
        if one.index in seen:
            raise InputError(
                f"is duplicated ({seen[one.index]} and {place})",
                file=file,
                where=where,
                field="index",
            )
        seen[one.index] = place
        result.append(one)
    return tuple(result)


def complaint(faults: ValidationError) -> tuple[str, str]:
    """Return the dotted field (list positions from 1) and the message of the first error."""
    fault = faults.errors(include_url=False)[0]
    field = ".".join(str(p + 1) if isinstance(p, int) else str(p) for p in fault["loc"])
    return field, _message(fault)


_EXPECTED = {
    "bool_type": "true or false",
    "dict_type": "a JSON object",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "model_attributes_type": "a JSON object",
    "model_type": "a JSON object",
    "none_required": "null",
    "string_type": "a string",
    "tuple_type": "a list",
}
_OF_EVERY_VALUE = {
    "extra_forbidden": "is not a known key; remove it",
    "string_pattern_mismatch": "must not be empty",
    "string_too_short": "must not be empty",
    "too_short": "must have at least one entry",
}


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
        return f"has an unpaired surrogate: {shown(value)}"
    if kind == "greater_than_equal":
        return f"must be at least {context['ge']}, not {shown(value)}"
    if kind == "union_tag_invalid":
        valid = context["expected_tags"].replace("'", "")
        key = context["discriminator"].strip("'")
        return f"the {key} {shown(context['tag'])} is unknown; one of {valid}"
    if kind in _OF_EVERY_VALUE:
        return _OF_EVERY_VALUE[kind]
    if kind in _EXPECTED:
        return f"must be {_EXPECTED[kind]}, not {shown(value)}"
    return f"{fault['msg']}, not {shown(value)}"

"""Validate the records of users' files: a mistake is one line with its place and field."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from capeval.errors import InputError
from capeval.schema import Annotation, Caption, Reference, Video
from capeval.text import complaint, shown

M = TypeVar("M", bound=BaseModel)
R = TypeVar("R", bound=Annotation | Caption | Reference | Video)


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
    """Validate all records of a file, given with their places; every index must be unique.

    InputError if there is no record.
    """
    seen: dict[str, str] = {}
    result: list[R] = []
    for place, value in records:
        if isinstance(value, model):
            one = value
        else:
            index = value.get("index") if isinstance(value, dict) else None
            where = f"{place}: index {shown(index)}" if isinstance(index, str) else place
            one = validated(model, value, file=file, where=where)
        if one.index in seen:
            where = f"{place}: index {shown(one.index)}"
            message = f"is duplicated (see {seen[one.index]})"
            raise InputError(message, file=file, where=where, field="index")
        seen[one.index] = place
        result.append(one)
    if not result:
        raise InputError("has no records", file=file)
    return tuple(result)

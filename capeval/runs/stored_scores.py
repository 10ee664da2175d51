"""Reading a `scores.json` that somebody else may have written: strictly, by one set of rules."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from capeval.errors import InputError
from capeval.files.reading import parse_json, read_text
from capeval.scoring import GROUPS, MEASURES, Bucket, Estimate, Scores
from capeval.text import complaint, shown

TOLERANCE = 1e-9
"""The most that floating-point sums in another order, or of another platform, may differ by."""

LARGEST = 2**53
"""JSON numbers beyond this are no longer exact integers, and no count of ours is that large."""

_FEWEST_EVER = 5
"""The fewest videos with an interval in any version: the limit of earlier ones."""

_DEEPEST = 20
"""More levels than any `scores.json` has, and few enough to recurse into."""

_PLAIN = re.compile(r"[^\s.\"]+")


def read_scores(file: Path) -> dict[str, Any]:
    """Return the content of a file of scores as JSON values, even if they cannot be right."""
    value = _json_object(read_text(file), file)
    _check_numbers("", value, file)
    return value


def load_scores(file: Path) -> Scores:
    """Return the scores in a file, if they are plausible.

    Raises
    ------
    InputError
        The file is not strict JSON or no `scores.json`; a key is missing or unknown; a value has
        the wrong type; counts do not add up; a mean is no fraction, or lies outside its interval.
    """
    text = read_text(file)
    _json_object(text, file)
    try:
        scores = Scores.model_validate_json(text, strict=True)
    except ValidationError as faults:
        field, message = complaint(faults)
        raise InputError(message, file=file, field=field[:200]) from None
    counts = scores.counts
    if (
        not 0 <= counts.scored <= counts.captioned <= counts.annotated
        or counts.scored + counts.unscored != counts.captioned
    ):
        raise InputError("contradict each other", file=file, field="counts")
    for place, bucket in _buckets(scores):
        for group in GROUPS:
            of = getattr(bucket, group)
            for measure in MEASURES:
                if flaw := _flaw(getattr(of, measure), of.n):
                    raise InputError(flaw, file=file, field=f"{place}.{group}.{measure}"[:200])
    return scores


def json_path(path: str, key: str) -> str:
    """Return the path of a key under `path`; the key is quoted unless it is a plain word."""
    name = key if _PLAIN.fullmatch(key) else json.dumps(key, ensure_ascii=False)
    return f"{path}.{name}" if path else name


def _json_object(text: str, file: Path) -> dict[str, Any]:
    value = parse_json(text, file=file)
    if not isinstance(value, dict):
        raise InputError(f"must be a JSON object, not {shown(value)}", file=file)
    if not value.keys() & {"overall", "by", "videos"}:
        known = ", ".join(Scores.model_fields)
        raise InputError(f"is no scores.json: it has none of the keys {known}", file=file)
    return value


def _check_numbers(
    path: str, value: dict[str, Any] | list[Any], file: Path, depth: int = 1
) -> None:
    if depth > _DEEPEST:
        raise InputError("is nested too deeply", file=file, field=path[:200])
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value, start=1):
        if isinstance(inner, dict | list):
            _check_numbers(json_path(path, str(key)), inner, file, depth + 1)
        elif isinstance(inner, int | float) and not -LARGEST <= inner <= LARGEST:
            place = json_path(path, str(key))[:200]
            raise InputError("is larger than any number of a scores.json", file=file, field=place)


def _buckets(scores: Scores) -> Iterator[tuple[str, Bucket]]:
    yield "overall", scores.overall
    for way in type(scores.by).model_fields:
        for name, bucket in getattr(scores.by, way).items():
            yield json_path(f"by.{way}", name), bucket


def _flaw(estimate: Estimate, n: int) -> str | None:
    value, low, high = estimate.value, estimate.low, estimate.high
    if n < 0 or (value is None) != (n == 0):
        return f"is {shown(value)} of {n} videos"
    if value is not None and not 0 <= value <= 1:
        return f"must be a fraction from 0 to 1, not {shown(value)}"
    if (low is None) != (high is None):
        return "has an interval of one end"
    if low is None or high is None:
        return None
    if n < _FEWEST_EVER:
        return f"has an interval of {n} videos, and fewer than {_FEWEST_EVER} never had one"
    if value is None or not 0 <= low <= high <= 1:
        return "has no interval of fractions"
    if not low - TOLERANCE <= value <= high + TOLERANCE:
        return f"lies outside its interval: {value} of [{low}, {high}]"
    return None

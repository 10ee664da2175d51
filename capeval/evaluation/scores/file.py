"""Reading a `scores.json` that others may have written: strictly, and alike for all who do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from capeval.errors import InputError
from capeval.files.text import parse_json, read_text
from capeval.files.validation import complaint, shown
from capeval.scoring import GROUPS, MEASURES, Bucket, Estimate, Scores

__all__ = ["LARGEST", "TOLERANCE", "joined", "load_scores", "read_scores", "signature_parts"]

TOLERANCE = 1e-9
"""What sums in another order may differ by; any other difference is a difference."""

LARGEST = 2**53
"""Beyond it, JSON's numbers are not exact integers any more, and no count of ours gets there."""

_DEEPEST = 20

_PLAIN = re.compile(r"[^\s.\"]+")


def read_scores(file: Path) -> dict[str, Any]:
    """Return what a file of scores holds, as JSON values, whatever it says.

    Raises
    ------
    InputError
        It is no strict JSON, no `scores.json`, or holds a number that none can.
    """
    return _checked(read_text(file), file)


def load_scores(file: Path) -> Scores:
    """Return the scores that a file holds, where they can be right.

    Raises
    ------
    InputError
        As `read_scores`; or a key is missing or unknown, a value is of another type, counts do
        not add up, a mean is no fraction, or lies outside its interval.
    """
    text = read_text(file)
    _checked(text, file)
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
        raise InputError("do not fit one another", file=file, field="counts")
    for place, bucket in _buckets(scores):
        for group in GROUPS:
            of = getattr(bucket, group)
            for measure in MEASURES:
                if flaw := _flaw(getattr(of, measure), of.n):
                    raise InputError(flaw, file=file, field=f"{place}.{group}.{measure}"[:200])
    return scores


def signature_parts(signature: str) -> dict[str, str]:
    """Return the parts of a signature by name.

    >>> signature_parts("judge:a|repeats:1")
    {'judge': 'a', 'repeats': '1'}
    """
    found: dict[str, str] = {}
    for part in signature.split("|"):
        key, mark, value = part.partition(":")
        # A part that stands twice stays visible as one that nothing of ours has.
        found[key if mark and key not in found else part] = value
    return found


def joined(path: str, key: str) -> str:
    """Return the path of a key in what `path` leads to; quoted where it is no plain word."""
    name = key if _PLAIN.fullmatch(key) else json.dumps(key, ensure_ascii=False)
    return f"{path}.{name}" if path else name


def _checked(text: str, file: Path) -> dict[str, Any]:
    value = parse_json(text, file=file)
    if not isinstance(value, dict):
        raise InputError(f"must be a JSON object, not {shown(value)}", file=file)
    if not value.keys() & {"overall", "by", "videos"}:
        known = ", ".join(Scores.model_fields)
        raise InputError(f"is no scores.json: it has none of the keys {known}", file=file)
    _check_numbers("", value, file)
    return value


def _check_numbers(
    path: str, value: dict[str, Any] | list[Any], file: Path, depth: int = 1
) -> None:
    if depth > _DEEPEST:
        raise InputError("is nested too deeply", file=file, field=path[:200])
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value, start=1):
        if isinstance(inner, dict | list):
            _check_numbers(joined(path, str(key)), inner, file, depth + 1)
        elif isinstance(inner, int | float) and not -LARGEST <= inner <= LARGEST:
            place = joined(path, str(key))[:200]
            raise InputError("is larger than any number of a scores.json", file=file, field=place)


def _buckets(scores: Scores) -> Iterator[tuple[str, Bucket]]:
    yield "overall", scores.overall
    for way in type(scores.by).model_fields:
        for name, bucket in getattr(scores.by, way).items():
            yield joined(f"by.{way}", name), bucket


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
    if value is None or not 0 <= low <= high <= 1:
        return "has no interval of fractions"
    if not low - TOLERANCE <= value <= high + TOLERANCE:
        return f"lies outside its interval: {value} of [{low}, {high}]"
    return None

"""Reading a `scores.json` that others may have written: strictly, and alike for all who do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from capeval.errors import InputError
from capeval.files.annotations import annotations_hash
from capeval.files.reading import parse_json, read_text
from capeval.files.validation import complaint
from capeval.runs.rescoring import settings_of, signature_of
from capeval.schema import ELEMENT_TYPES, Annotation, Judgment, Scored
from capeval.scoring import FEWEST, GROUPS, MEASURES, Bucket, Estimate, Scores, measures
from capeval.scoring.aggregate import ELEMENT_BUCKETS, EVENT_BUCKETS, bucket_name
from capeval.scoring.counts import COUNTS
from capeval.text import cut, shown

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


_CODES = {"entailment": 0, "contradiction": 1, "lack": 2}

BucketKey = tuple[str, str]


class Reference:
    """An annotation set as arrays: the types and weights of all elements, the buckets of videos."""

    def __init__(self, annotations: Sequence[Annotation]) -> None:
        self.annotations = tuple(annotations)
        self.sha256 = annotations_hash(annotations)
        self.rows = {annotation.index: row for row, annotation in enumerate(annotations)}
        elements = [
            [
                (ELEMENT_TYPES.index(element.type) + 1, element.weight)
                for event in annotation.events
                for element in event.visual_elements
            ]
            for annotation in annotations
        ]
        self.types = [np.array([t for t, _ in video]) for video in elements]
        self.weights = [np.array([w for _, w in video]) for video in elements]
        self.members = _members(annotations)

    def counts(self, scored: Sequence[Scored]) -> tuple[NDArray[np.int64], list[int]]:
        """Return the (videos, 5 groups, 3 counts) weights of verdicts that fit the annotations, and
        the videos' rows.
        """
        rows = [self.rows[judgment.index] for judgment in scored]
        told = [judgment.relations for judgment in scored]
        codes = np.array(
            [_CODES[label] for events in told for event in events for label in event],
            dtype=np.int64,
        )
        counts = np.zeros((len(rows), len(GROUPS), 3), dtype=np.int64)
        if rows:
            sizes = [len(self.types[row]) for row in rows]
            place = np.repeat(np.arange(len(rows)) * len(GROUPS), sizes)
            place += np.concatenate([self.types[row] for row in rows])
            weight = np.concatenate([self.weights[row] for row in rows])
            for at, meant in enumerate((codes == 0, codes == 1, codes >= 0)):
                summed = np.bincount(place, weights=weight * meant, minlength=counts[..., 0].size)
                counts[..., at] = summed.reshape(len(rows), len(GROUPS))
            counts[:, 0] = counts[:, 1:].sum(axis=1)
        return counts, rows


def _members(annotations: Sequence[Annotation]) -> dict[BucketKey, NDArray[np.bool_]]:
    """Return which videos are in every bucket."""
    keys: list[set[BucketKey]] = [
        {("visual_characteristic", name) for name in annotation.visual_characteristic}
        | ({("domain", annotation.domain)} if annotation.domain else set())
        | {("events", bucket_name(len(annotation.events), EVENT_BUCKETS))}
        | {("elements", bucket_name(annotation.element_count, ELEMENT_BUCKETS))}
        for annotation in annotations
    ]
    known = sorted(set().union(*keys))
    return {key: np.array([key in of_one for of_one in keys], dtype=bool) for key in known}


def why_stale(
    scores: Scores, judgments: Sequence[Judgment], captioned: int | None, reference: Reference
) -> str | None:
    """Return why scores are not those of the verdicts and annotations beside them, or None.

    Parameters
    ----------
    judgments : as `capeval.runs.rescoring.stored_judgments` has checked them
    captioned : the number of captions, where that is known
    """
    scored = [judgment for judgment in judgments if isinstance(judgment, Scored)]
    if len(scored) != scores.counts.scored or scores.counts.annotated != len(reference.rows):
        return f"{len(scored)} videos have verdicts, and {scores.counts.scored} are scored"
    if captioned not in (None, scores.counts.captioned):
        return f"{captioned} videos have captions, and not {scores.counts.captioned}"
    for key, value in settings_of(judgments).items():
        named = scores.settings.get(key)
        # True is not 1 here.
        if type(named) is not type(value) or named != value:
            return f"settings.{key} says {shown(named)}, the verdicts {shown(value)}"
    theirs = signature_parts(scores.signature)
    ours = signature_parts(signature_of(reference.annotations, judgments, data=reference.sha256))
    for part in {**ours, **theirs}:
        # Versions change nothing that is measured; where they did, the numbers show it.
        if part != "v" and theirs.get(part) != ours.get(part):
            named = shown(theirs.get(part))
            return (
                f"the signature's {cut(part)} is {named}, by the verdicts {shown(ours.get(part))}"
            )
    counts, rows = reference.counts(scored)
    values = measures(counts)
    return _differing(scores, values, rows, reference) or _unlike_video(
        scores, [judgment.index for judgment in scored], counts, values
    )


def _unlike_video(
    scores: Scores,
    indexes: Sequence[str],
    counts: NDArray[np.int64],
    values: NDArray[np.float64],
) -> str | None:
    if scores.videos.keys() != set(indexes):
        return "its videos are not those of the verdicts"
    ours = np.concatenate([counts.astype(np.float64), values], axis=-1)
    absent = [np.nan] * (len(COUNTS) + len(MEASURES))
    ours[counts[..., -1] == 0] = np.nan
    theirs = np.array(
        [
            [
                absent if one is None else [getattr(one, name) for name in (*COUNTS, *MEASURES)]
                for one in map(scores.videos[index].get, GROUPS)
            ]
            for index in indexes
        ],
        dtype=np.float64,
    ).reshape(ours.shape)
    same = np.isclose(theirs, ours, rtol=0, atol=TOLERANCE, equal_nan=True).all(axis=(1, 2))
    known = [not scores.videos[index].keys() - set(GROUPS) for index in indexes]
    for index, alike in zip(indexes, same & known, strict=True):
        if not alike:
            return f"the scores of the video {shown(index)} are not those of its verdicts"
    return None


def _differing(
    scores: Scores, values: NDArray[np.float64], rows: Sequence[int], reference: Reference
) -> str | None:
    stored: dict[BucketKey, Bucket] = {("overall", ""): scores.overall}
    for way in type(scores.by).model_fields:
        stored |= {(way, name): bucket for name, bucket in getattr(scores.by, way).items()}
    members = {key: mask[rows] for key, mask in reference.members.items()}
    members = {("overall", ""): np.ones(len(rows), dtype=bool)} | {
        key: mask for key, mask in members.items() if mask.any()
    }
    if stored.keys() != members.keys():
        return "its buckets are not those of the verdicts"
    flat = values.reshape(len(rows), -1)
    present = ~np.isnan(flat)
    masks = np.array(list(members.values())).astype(np.float64)
    n = masks @ present
    sums = masks @ np.where(present, flat, 0.0)
    means = np.divide(sums, n, out=np.full(sums.shape, np.nan), where=n > 0)
    for at, key in enumerate(members):
        for g, group in enumerate(GROUPS):
            of = getattr(stored[key], group)
            for m, measure in enumerate(MEASURES):
                column = g * len(MEASURES) + m
                theirs, ours = getattr(of, measure).value, means[at, column]
                same = np.isnan(ours) if theirs is None else bool(abs(theirs - ours) <= TOLERANCE)
                path = ".".join(part for part in (*key, group, measure) if part)
                if not same or of.n != n[at, column]:
                    return f"{path} is not that of the verdicts"
                if of.n < FEWEST and getattr(of, measure).low is not None:
                    return f"{path} has an interval of {of.n} videos, and fewer than {FEWEST} none"
    return None

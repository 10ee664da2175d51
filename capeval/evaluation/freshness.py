"""Do stored scores still belong to the verdicts beside them? Found without any bootstrap.

Every mean and every number of videos that `scores.json` holds, overall and in every bucket, is
computed from the verdicts a second time, for all videos at once; only intervals are taken as they
stand. `capeval score --check` recomputes those too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json

from capeval.errors import InputError
from capeval.files.annotations import annotations_hash
from capeval.files.text import read_text
from capeval.schema import ELEMENT_TYPES, Annotation
from capeval.scoring import GROUPS, MEASURES, Bucket, Scores, measures
from capeval.scoring.aggregate import ELEMENT_BUCKETS, EVENT_BUCKETS, bucket_name

__all__ = ["TOLERANCE", "Reference", "why_stale"]

TOLERANCE = 1e-9
"""What sums in another order may differ by; any other difference is a difference."""

_CODES = {"entailment": 0, "contradiction": 1, "lack": 2}

BucketKey = tuple[str, str]


class Reference:
    """An annotation set as arrays: the types and weights of all elements, the buckets of videos."""

    def __init__(self, annotations: Sequence[Annotation]) -> None:
        self.sha256 = annotations_hash(annotations)
        self.rows = {annotation.index: row for row, annotation in enumerate(annotations)}
        self.shapes = [
            [len(event.visual_elements) for event in annotation.events]
            for annotation in annotations
        ]
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

    def counts(
        self, relations: Mapping[str, Sequence[Sequence[str]]]
    ) -> tuple[NDArray[np.int64], list[int]]:
        """Return the (videos, 5 groups, 3 counts) weights of some verdicts, and the videos' rows.

        Raises
        ------
        KeyError, ValueError
            A video or a label is unknown, or verdicts do not fit their annotation.
        """
        rows = [self.rows[index] for index in relations]
        for row, events in zip(rows, relations.values(), strict=True):
            if [len(event) for event in events] != self.shapes[row]:
                raise ValueError("verdicts do not fit the annotations")
        codes = np.array(
            [_CODES[label] for events in relations.values() for event in events for label in event],
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


def why_stale(scores: Scores, judgments: Path, reference: Reference) -> str | None:
    """Return why scores are not those of the verdicts and annotations beside them, or None.

    Raises
    ------
    InputError
        The file of judgments is damaged.
    """
    if scores.settings.get("data") != reference.sha256:
        return "the annotations have changed since"
    verdicts = _verdicts(judgments)
    told = [scores.settings.get(key) for key in ("judge", "prompts", "base_url", "repeats")]
    try:
        scored = {i: line for i, line in verdicts.items() if line["status"] == "scored"}
        if any(_maker(line) != told for line in scored.values()):
            return "the verdicts are of another judge, or of several"
        if len(scored) != scores.counts.scored or scores.counts.annotated != len(reference.rows):
            return f"{len(scored)} videos have verdicts, and {scores.counts.scored} are scored"
        counts, rows = reference.counts({i: line["relations"] for i, line in scored.items()})
    except (AttributeError, KeyError, TypeError, ValueError):
        return "there are verdicts that do not fit the annotations"
    return _differing(scores, measures(counts), rows, reference)


def _maker(line: Mapping[str, Any]) -> list[Any]:
    made = line.get("provenance", {})
    named = [made.get("judge", "unknown"), made.get("prompts", "unknown"), made.get("base_url")]
    return [*named, max(1, len(line.get("repeats", ())))]


def _verdicts(path: Path) -> dict[str, dict[str, Any]]:
    """Return the lines by index, the last of each; a torn last line is passed over."""
    lines = read_text(path).split("\n")
    found: dict[str, dict[str, Any]] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            value = from_json(line)
            found[value["index"]] = value
        except (ValueError, TypeError, KeyError):
            if number == len(lines):
                break
            raise InputError(
                "is damaged; `capeval score` says how", file=path, where=f"line {number}"
            ) from None
    return found


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
                if not same or of.n != n[at, column]:
                    path = ".".join(part for part in (*key, group, measure) if part)
                    return f"{path} is not that of the verdicts"
    return None

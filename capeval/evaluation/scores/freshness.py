"""Do stored scores still belong to the verdicts beside them? Found without any bootstrap.

Who judged, every mean and every number of videos that `scores.json` holds, overall, in every bucket
and for every video, is found from the verdicts a second time, for all videos at once; intervals are
taken as they stand. `capeval score --check` recomputes those too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from capeval.evaluation.scores.file import TOLERANCE, signature_parts
from capeval.evaluation.scores.summary import settings_of, signature_of
from capeval.files.annotations import annotations_hash
from capeval.files.validation import cut, shown
from capeval.schema import ELEMENT_TYPES, Annotation, Judgment, Scored
from capeval.scoring import FEWEST, GROUPS, MEASURES, Bucket, Scores, measures
from capeval.scoring.aggregate import ELEMENT_BUCKETS, EVENT_BUCKETS, bucket_name
from capeval.scoring.counts import COUNTS

__all__ = ["Reference", "why_stale"]

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
    judgments : as `capeval.evaluation.scores.rescoring.stored_judgments` has checked them
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

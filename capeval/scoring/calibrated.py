"""Scores of a judge, or the difference of two runs, calibrated with labels of some videos.

The unit is the video, so types of elements and buckets of videos are columns of one estimate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from capeval.schema import RunLabels
from capeval.scoring.buckets import Membership, by_way
from capeval.scoring.comparison_result import CalibratedDifferences
from capeval.scoring.counts import GROUPS, MEASURES, AnnotationArrays, measures
from capeval.scoring.result import (
    Calibrated,
    CalibratedBreakdown,
    CalibratedBucket,
    CalibratedEstimate,
    CalibratedTypeScores,
    Ends,
    Estimate,
    UsedLabels,
)
from capeval.scoring.signature import Signature
from capeval.stats.calibration import FEW_LABELLED, FEWEST_LABELLED, Calibration, calibrate
from capeval.stats.values import Floats
from capeval.text import counted

NOT_SCORED = "not scored by the judge"
"""Why a labelled video is left out that has no verdicts, or none that could be read."""

_BINARY = "binary labels give recall only"
_RECALL = MEASURES.index("recall")


def label_values(reference: AnnotationArrays, labels: RunLabels) -> Floats:
    """Return the measures of labelled videos by the judge's formulas, as means over raters.

    They are (annotations, 5 groups, 3 measures): NaN where a video is not labelled or has no
    element of a type, or the labels do not give a measure.

    Raises
    ------
    ValueError
        The labels of a video do not fit its annotation.
    """
    values = np.full((len(reference.rows), len(GROUPS), len(MEASURES)), np.nan)
    videos = [index for index in reference.rows if index in labels.videos]
    raters = [len(labels.videos[index].relations) for index in videos]
    rows = np.repeat([reference.rows[index] for index in videos], raters).astype(np.int64)
    relations = [each for index in videos for each in labels.videos[index].relations]
    of_raters = measures(reference.counts(rows.tolist(), relations))
    values[rows] = 0.0
    np.add.at(values, rows, of_raters / np.repeat(raters, raters).reshape(-1, 1, 1))
    if labels.scale == "binary":
        values[..., [m for m in range(len(MEASURES)) if m != _RECALL]] = np.nan
    return values


def calibrated_scores(
    reference: AnnotationArrays,
    indexes: Sequence[str],
    values: Floats,
    members: Sequence[Membership],
    labels: RunLabels,
    *,
    signature: str,
) -> Calibrated:
    """Return a judge's scores calibrated with labels.

    Parameters
    ----------
    reference : the annotations
    indexes : of the scored videos
    values : (videos, 5 groups, 3 measures) of the judge
    members : the buckets of these videos
    labels : of the captions that were judged
    signature : of the judge's own scores
    """
    scored = set(indexes)
    labels = labels.without({index: NOT_SCORED for index in labels.videos if index not in scored})
    given = label_values(reference, labels)[[reference.rows[index] for index in indexes]]
    overall, by = _tables(values, given, members, labels.scale, bounds=(0.0, 1.0))
    labelled = len(labels.videos)
    return Calibrated(
        signature=str(Signature.parse(signature).calibrated(labels.origin, labels.hash, labelled)),
        labels=UsedLabels(
            hash=labels.hash,
            origin=labels.origin,
            scale=labels.scale,
            raters=labels.raters,
            labelled=labelled,
            left_out=dict(labels.left_out),
        ),
        overall=overall,
        by=by,
        warnings=tuple(_warnings(labelled, labels.left_out)),
    )


def calibrated_differences(
    reference: tuple[AnnotationArrays, AnnotationArrays],
    indexes: Sequence[str],
    gaps: Floats,
    members: Sequence[Membership],
    labels: tuple[RunLabels, RunLabels],
) -> CalibratedDifferences | None:
    """Return differences, second − first, calibrated with the labels of both runs.

    None where no video is labelled in both, or where the labels are on two scales or of two
    origins.

    Parameters
    ----------
    reference : the annotations of each run
    indexes : of the paired videos
    gaps : (videos, 5 groups, 3 measures), the judge's differences
    members : the buckets of these videos
    labels : of each run's captions
    """
    first, second = labels
    labelled = sum(index in first.videos and index in second.videos for index in indexes)
    if (first.scale, first.origin) != (second.scale, second.origin) or not labelled:
        return None
    one, other = (
        label_values(arrays, of)[[arrays.rows[index] for index in indexes]]
        for arrays, of in zip(reference, labels, strict=True)
    )
    overall, by = _tables(gaps, other - one, members, first.scale, bounds=(-1.0, 1.0))
    return CalibratedDifferences(
        first=first.hash,
        second=second.hash,
        origin=first.origin,
        scale=first.scale,
        labelled=labelled,
        overall=overall,
        by=by,
        warnings=tuple(_warnings(labelled, {})),
    )


def _warnings(labelled: int, left_out: Mapping[str, int]) -> list[str]:
    """Return what a reader of calibrated numbers must know about the labels behind them."""
    found, videos = [], counted(labelled, "labelled video")
    if labelled < FEWEST_LABELLED:
        found.append(f"only {videos}; intervals need {FEWEST_LABELLED}")
    elif labelled < FEW_LABELLED:
        found.append(
            f"only {videos}; with fewer than {FEW_LABELLED}, intervals are too narrow where a few "
            "captions fail altogether"
        )
    if left_out:
        reasons = "; ".join(f"{count:,} {reason}" for reason, count in left_out.items())
        found.append(f"{counted(sum(left_out.values()), 'labelled caption')} left out: {reasons}")
    return found


def _tables(
    judge: Floats,
    labels: Floats,
    members: Sequence[Membership],
    scale: str,
    *,
    bounds: tuple[float, float],
) -> tuple[CalibratedBucket, CalibratedBreakdown]:
    """Return calibrated means over all videos and in every bucket.

    `judge` and `labels` are (videos, 5 groups, 3 measures) of the same videos.
    """

    def bucket(judge: Floats, labels: Floats) -> CalibratedBucket:
        return CalibratedBucket(
            **{group: scores(judge[:, g], labels[:, g]) for g, group in enumerate(GROUPS)}
        )

    def scores(judge: Floats, labels: Floats) -> CalibratedTypeScores:
        found = {
            measure: calibrate(judge[:, m], labels[:, m], bounds=bounds)
            for m, measure in enumerate(MEASURES)
        }
        missing = {} if scale != "binary" else {"precision": _BINARY, "f1": _BINARY}
        recall = found["recall"]
        return CalibratedTypeScores(
            **{name: _estimate(one, missing.get(name)) for name, one in found.items()},
            n=recall.videos,
            labelled=recall.labelled,
        )

    of_members = [bucket(judge[of.inside], labels[of.inside]) for of in members]
    return bucket(judge, labels), CalibratedBreakdown(**by_way(members, of_members))


def _estimate(found: Calibration, missing: str | None) -> CalibratedEstimate:
    low, high = found.interval or (None, None)
    same_low, same_high = found.same_videos or (None, None)
    alone_low, alone_high = found.alone_interval or (None, None)
    return CalibratedEstimate(
        value=found.value,
        low=low,
        high=high,
        same_videos=Ends(low=same_low, high=same_high),
        labels_alone=Estimate(value=found.alone, low=alone_low, high=alone_high),
        slope=found.slope,
        r2=found.r2,
        reason=missing or found.reason,
    )

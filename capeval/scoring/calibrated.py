"""Scores of a judge, or the difference of two runs, calibrated with human labels of some videos.

The unit is the video, so types of elements and buckets of videos are columns of one estimate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

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
    HumanLabels,
    Sampling,
)
from capeval.scoring.signature import Signature
from capeval.stats.calibration import FEW_LABELLED, Calibration, calibrate
from capeval.stats.values import Floats, Ints
from capeval.text import counted

NOT_SCORED = "not scored by the judge"
"""Why a labelled video is left out that has no verdicts, or none that could be read."""

_BINARY = "binary labels give recall only"
_RECALL = MEASURES.index("recall")


@dataclass(frozen=True)
class HumanScores:
    """Measures of labelled videos, the mean over raters.

    `videos` are their indexes, `values` (n, 5 groups, 3 measures), NaN where a video has no element
    of a type or the labels do not give a measure; `strata` (n,) has positions in `sizes`.
    """

    videos: tuple[str, ...]
    values: Floats
    strata: Ints
    sizes: tuple[int, ...]
    sampling: Sampling
    missing: int
    """Sampled captions without labels."""

    def rows_in(self, places: Mapping[str, int]) -> tuple[Ints, list[int]]:
        """Return the places of these videos among others, and the rows of those that are there."""
        rows = [row for row, index in enumerate(self.videos) if index in places]
        return np.array([places[self.videos[row]] for row in rows], dtype=np.int64), rows


def human_scores(reference: AnnotationArrays, labels: RunLabels) -> HumanScores:
    """Return the measures of labelled videos by the judge's formulas.

    Raises
    ------
    ValueError
        The labels of a video do not fit its annotation.
    """
    videos = [index for index in reference.rows if index in labels.videos]
    raters = [len(labels.videos[index].relations) for index in videos]
    rows = np.repeat([reference.rows[index] for index in videos], raters).astype(np.int64)
    relations = [each for index in videos for each in labels.videos[index].relations]
    each = measures(reference.counts(rows.tolist(), relations))
    values = np.zeros((len(videos), len(GROUPS), len(MEASURES)))
    np.add.at(values, np.repeat(np.arange(len(videos)), raters), each)
    values /= np.array(raters).reshape(-1, 1, 1)
    if labels.scale == "binary":
        values[..., [m for m in range(len(MEASURES)) if m != _RECALL]] = np.nan
    names = list(labels.strata)
    strata = [names.index(labels.videos[index].stratum or "") if names else 0 for index in videos]
    sampled = sum(stratum.sampled for stratum in labels.strata.values())
    return HumanScores(
        videos=tuple(videos),
        values=values,
        strata=np.array(strata, dtype=np.int64),
        sizes=tuple(stratum.videos for stratum in labels.strata.values()),
        sampling="unknown" if not names else "random" if len(names) == 1 else "stratified",
        missing=max(0, sampled - len(labels.videos)) if names else 0,
    )


def calibrated_scores(
    reference: AnnotationArrays,
    indexes: Sequence[str],
    values: Floats,
    members: Sequence[Membership],
    labels: RunLabels,
    *,
    signature: str,
) -> Calibrated:
    """Return a judge's scores calibrated with human labels.

    Parameters
    ----------
    reference : the annotations
    indexes : of the scored videos
    values : (videos, 5 groups, 3 measures) of the judge
    members : the buckets of these videos
    labels : of the captions that were judged
    signature : of the judge's own scores
    """
    human = human_scores(reference, labels)
    places = {index: place for place, index in enumerate(indexes)}
    labels = labels.without({i: NOT_SCORED for i in labels.videos if i not in places})
    rows, kept = human.rows_in(places)
    reason = _BINARY if labels.scale == "binary" else None
    overall, by = calibrated_tables(
        values, human.values[kept], rows, members, human, kept, bounds=(0.0, 1.0), missing=reason
    )
    return Calibrated(
        signature=str(Signature.parse(signature).calibrated(labels.hash, len(kept))),
        labels=HumanLabels(
            hash=labels.hash,
            scale=labels.scale,
            raters=labels.raters,
            sampling=human.sampling,
            labelled=len(kept),
            left_out=dict(labels.left_out),
        ),
        overall=overall,
        by=by,
        warnings=tuple(warnings_of(human, len(kept), len(values), labels.left_out)),
    )


def calibrated_differences(
    reference: tuple[AnnotationArrays, AnnotationArrays],
    indexes: Sequence[str],
    gaps: Floats,
    members: Sequence[Membership],
    labels: tuple[RunLabels, RunLabels],
) -> CalibratedDifferences | None:
    """Return differences, second − first, calibrated with the labels of both runs.

    None where no video is labelled in both, or on two scales.

    Parameters
    ----------
    reference : the annotations of each run
    indexes : of the paired videos
    gaps : (videos, 5 groups, 3 measures), the judge's differences
    members : the buckets of these videos
    labels : of each run's captions
    """
    first, second = labels
    if first.scale != second.scale:
        return None
    one, other = map(human_scores, reference, labels)
    places = {index: place for place, index in enumerate(indexes)}
    both = {i: place for i, place in places.items() if i in one.videos and i in other.videos}
    rows, kept = one.rows_in(both)
    if not kept:
        return None
    _, kept_other = other.rows_in(both)
    order = [other.videos[row] for row in kept_other]
    matching = [kept_other[order.index(one.videos[row])] for row in kept]
    used = [one.videos[row] for row in kept]
    alike = one.sizes == other.sizes and all(
        first.videos[index].stratum == second.videos[index].stratum for index in used
    )
    sample = one if alike else replace(one, sizes=(), sampling="unknown")
    overall, by = calibrated_tables(
        gaps,
        other.values[matching] - one.values[kept],
        rows,
        members,
        sample,
        kept,
        bounds=(-1.0, 1.0),
        missing=_BINARY if first.scale == "binary" else None,
    )
    return CalibratedDifferences(
        first=first.hash,
        second=second.hash,
        scale=first.scale,
        sampling=sample.sampling,
        labelled=len(kept),
        overall=overall,
        by=by,
        warnings=tuple(warnings_of(sample, len(kept), len(gaps), {})),
    )


def warnings_of(
    human: HumanScores, labelled: int, videos: int, left_out: Mapping[str, int]
) -> list[str]:
    """Return what a reader of calibrated numbers must know about the labels behind them."""
    found = []
    if labelled < FEW_LABELLED:
        found.append(
            f"only {counted(labelled, 'video')} with human labels: below {FEW_LABELLED}, intervals "
            "may be too narrow"
        )
    if human.sampling == "unknown" and labelled < videos:
        found.append(
            "nothing says that the labelled videos were sampled at random; if they were chosen, "
            "calibrated scores are biased"
        )
    outside = videos - sum(human.sizes)
    if human.sizes and outside > 0:
        found.append(
            f"the strata of the labels have {counted(sum(human.sizes), 'video')}, but "
            f"{videos:,} are scored; calibrated scores assume that the other {outside:,} are like "
            "them"
        )
    if left_out:
        reasons = "; ".join(f"{count:,} {reason}" for reason, count in left_out.items())
        found.append(f"{counted(sum(left_out.values()), 'labelled caption')} left out: {reasons}")
    if human.missing:
        found.append(
            f"{counted(human.missing, 'sampled caption')} without complete labels; calibrated "
            "scores assume that they are like the others of their stratum"
        )
    return found


def calibrated_tables(
    judge: Floats,
    human: Floats,
    rows: Ints,
    members: Sequence[Membership],
    sample: HumanScores,
    kept: Sequence[int],
    *,
    bounds: tuple[float, float],
    missing: str | None = None,
) -> tuple[CalibratedBucket, CalibratedBreakdown]:
    """Return calibrated means over all videos and in every bucket.

    Parameters
    ----------
    judge : (videos, 5 groups, 3 measures), NaN where a video has no element of a type
    human : (labelled, 5, 3), of the videos at `rows`, which are the rows `kept` of the sample
    members : buckets of the videos
    bounds : ends of the scale
    missing : why there is no human precision and F1, if there is none
    """
    inside = np.array([np.ones(len(judge), dtype=bool), *(of.inside for of in members)]).T

    def spread(values: Floats, mask: np.ndarray[tuple[int, int], np.dtype[np.bool_]]) -> Floats:
        wide = np.where(mask[:, :, None, None], values[:, None], np.nan)
        # Not -1: without any labelled video, it could be any number.
        return np.asarray(wide.reshape(len(values), mask.shape[1] * len(GROUPS) * len(MEASURES)))

    found = calibrate(
        spread(judge, inside),
        spread(human, inside[rows]),
        rows,
        strata=sample.strata[kept] if len(sample.sizes) > 1 else None,
        sizes=sample.sizes if len(sample.sizes) > 1 else None,
        bounds=bounds,
    )
    buckets = [_bucket(found, b, missing) for b in range(inside.shape[1])]
    return buckets[0], CalibratedBreakdown(**by_way(members, buckets[1:]))


def _bucket(found: Calibration, bucket: int, missing: str | None) -> CalibratedBucket:
    def scores(group: int) -> CalibratedTypeScores:
        columns = [(bucket * len(GROUPS) + group) * len(MEASURES) + m for m in range(len(MEASURES))]
        return CalibratedTypeScores(
            **{
                measure: _estimate(found, column, None if measure == "recall" else missing)
                for measure, column in zip(MEASURES, columns, strict=True)
            },
            n=int(found.videos[columns[_RECALL]]),
            labelled=int(found.labelled[columns[_RECALL]]),
        )

    return CalibratedBucket(**{group: scores(g) for g, group in enumerate(GROUPS)})


def _estimate(found: Calibration, column: int, missing: str | None) -> CalibratedEstimate:
    def of(name: str) -> float | None:
        value = getattr(found, name)[column]
        return None if np.isnan(value) else float(value)

    return CalibratedEstimate(
        value=of("value"),
        low=of("low"),
        high=of("high"),
        same_videos=Ends(low=of("same_low"), high=of("same_high")),
        human=Estimate(value=of("human"), low=of("human_low"), high=of("human_high")),
        slope=of("slope"),
        r2=of("r2"),
        worth=of("worth"),
        reason=missing or found.reasons[column],
    )

"""A judge's scores corrected with labels of some videos: the contents of `calibrated.json`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from capeval.runs.judged_run import JudgedRun
from capeval.schema import LabelScale
from capeval.scoring import GROUPS, MEASURES, AnnotationArrays, Estimate, measures
from capeval.scoring.result import ByType, ResultModel
from capeval.stats.calibration import FEW_LABELLED, FEWEST_LABELLED, Calibration, calibrate
from capeval.stats.values import Floats
from capeval.text import counted
from capeval.trust.labels import CaptionLabels, LabelSource


class Ends(ResultModel):
    """The ends of a 95% interval; None if there is none."""

    low: float | None
    high: float | None


class CalibratedEstimate(Estimate):
    """The mean of a judge's scores, corrected with labels of some of the videos.

    `low` and `high` are for new videos like these. There is no interval if `reason` is not None,
    and no value either where fewer than three videos are labelled.
    """

    judge: float | None
    """The judge's own mean, as in `scores.json`."""
    same_videos: Ends
    """The interval of the mean label of these same videos."""
    labels_alone: Estimate
    """The labelled videos alone, without the judge."""
    slope: float | None
    """How much of a difference between the judge's scores is applied: from 0 to 1."""
    r2: float | None
    """Share of the variance of labels that the judge explains with this slope."""
    reason: str | None


class CalibratedScores(ResultModel):
    """The measures of one type: `labelled` of the `n` judged videos have labels."""

    precision: CalibratedEstimate
    recall: CalibratedEstimate
    f1: CalibratedEstimate
    n: int
    labelled: int


class Calibrated(ResultModel):
    """The scores of one run, calibrated with labels; `signature` is of the judge's own scores."""

    run: str
    signature: str
    labels: LabelSource
    overall: ByType[CalibratedScores]
    warnings: tuple[str, ...]


def calibrated_scores(judged: JudgedRun, labels: CaptionLabels) -> Calibrated:
    """Return a run's scores, calibrated with labels of its captions."""
    reference = AnnotationArrays(judged.annotations)
    videos = [index for index in reference.rows if index in judged.scored]
    rows = [reference.rows[index] for index in videos]
    values = measures(reference.counts(rows, [judged.scored[index].relations for index in videos]))
    given = np.full_like(values, np.nan)
    for place, (row, index) in enumerate(zip(rows, videos, strict=True)):
        if of_raters := labels.videos.get(index):
            counts = reference.counts([row] * len(of_raters), of_raters)
            given[place] = measures(counts).mean(axis=0)
    overall = judged.scores.overall
    return Calibrated(
        run=judged.name,
        signature=judged.signature,
        labels=labels.source,
        overall=ByType[CalibratedScores](
            **{
                group: _scores(
                    {m: getattr(getattr(overall, group), m).value for m in MEASURES},
                    values[:, place],
                    given[:, place],
                    labels.source.scale,
                )
                for place, group in enumerate(GROUPS)
            }
        ),
        warnings=tuple(_warnings(labels.source)),
    )


def _scores(
    judge: Mapping[str, float | None], values: Floats, given: Floats, scale: LabelScale
) -> CalibratedScores:
    """Return the calibrated measures of one type; `values` and `given` are (videos, 3)."""
    found: dict[str, CalibratedEstimate] = {}
    for place, measure in enumerate(MEASURES):
        is_missing = scale == "binary" and measure != "recall"
        labels = np.full(len(given), np.nan) if is_missing else given[:, place]
        one = calibrate(values[:, place], labels)
        reason = "binary labels give recall only" if is_missing else one.reason
        found[measure] = _estimate(judge[measure], one, reason)
    recall = calibrate(values[:, 1], given[:, 1])
    return CalibratedScores(**found, n=recall.videos, labelled=recall.labelled)


def _estimate(judge: float | None, found: Calibration, reason: str | None) -> CalibratedEstimate:
    low, high = found.interval or (None, None)
    same_low, same_high = found.same_videos or (None, None)
    alone_low, alone_high = found.alone_interval or (None, None)
    return CalibratedEstimate(
        judge=judge,
        value=found.value,
        low=low,
        high=high,
        same_videos=Ends(low=same_low, high=same_high),
        labels_alone=Estimate(value=found.alone, low=alone_low, high=alone_high),
        slope=found.slope,
        r2=found.r2,
        reason=reason,
    )


def _warnings(labels: LabelSource) -> list[str]:
    """Return what a reader of calibrated numbers must know about the labels behind them."""
    found, videos = [], counted(labels.labelled, "labelled video")
    if labels.labelled < FEWEST_LABELLED:
        found.append(f"only {videos}; intervals need {FEWEST_LABELLED}")
    elif labels.labelled < FEW_LABELLED:
        found.append(
            f"only {videos}; with fewer than {FEW_LABELLED}, intervals are too narrow where a few "
            "captions fail altogether"
        )
    if labels.left_out:
        reasons = "; ".join(f"{count:,} {reason}" for reason, count in labels.left_out.items())
        left = counted(sum(labels.left_out.values()), "labelled caption")
        found.append(f"{left} left out: {reasons}")
    return found

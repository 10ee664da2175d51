"""A judge's scores corrected with labels of some videos: the contents of `calibrated.json`."""

from __future__ import annotations

import numpy as np

from capeval.scoring import GROUPS, MEASURES, AnnotationArrays, Estimate, measures
from capeval.scoring.judged_run import JudgedRun
from capeval.scoring.result import ByType, ResultModel
from capeval.stats.calibration import FEW_LABELLED, FEWEST_LABELLED, Ends, calibrate
from capeval.stats.values import Floats
from capeval.text import counted
from capeval.trust.labels import CaptionLabels, LabelSource


class CalibratedEstimate(Estimate):
    """The mean of a judge's scores, corrected with labels of `labelled` of the `n` videos.

    `low` and `high` are for new videos like these. There is no interval if `reason` is not None,
    and no value either where fewer than three videos are labelled.
    """

    judge: float | None
    """The judge's own mean, as in `scores.json`."""
    same_videos: Estimate
    """The same value, with the interval of the mean label of these same videos."""
    labels_alone: Estimate
    """The labelled videos alone, without the judge."""
    slope: float | None
    """How much of a difference between the judge's scores is applied: from 0 to 1."""
    r2: float | None
    """Share of the variance of labels that the judge explains with this slope."""
    n: int
    labelled: int
    reason: str | None


class CalibratedScores(ResultModel):
    """The measures of one type of element."""

    precision: CalibratedEstimate
    recall: CalibratedEstimate
    f1: CalibratedEstimate


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
    is_binary = labels.source.scale == "binary"
    overall = {
        group: CalibratedScores(
            **{
                measure: _estimate(
                    getattr(getattr(judged.scores.overall, group), measure).value,
                    values[:, g, m],
                    given[:, g, m],
                    is_missing=is_binary and measure != "recall",
                )
                for m, measure in enumerate(MEASURES)
            }
        )
        for g, group in enumerate(GROUPS)
    }
    return Calibrated(
        run=judged.name,
        signature=judged.signature,
        labels=labels.source,
        overall=ByType[CalibratedScores](**overall),
        warnings=tuple(_warnings(labels.source)),
    )


def _estimate(
    judge: float | None, values: Floats, given: Floats, *, is_missing: bool
) -> CalibratedEstimate:
    """Return one calibrated mean; it is missing where the labels do not give the measure."""
    found = calibrate(values, np.full_like(given, np.nan) if is_missing else given)
    return CalibratedEstimate(
        **_with_ends(found.value, found.interval),
        judge=judge,
        same_videos=Estimate(**_with_ends(found.value, found.same_videos)),
        labels_alone=Estimate(**_with_ends(found.alone, found.alone_interval)),
        slope=found.slope,
        r2=found.r2,
        n=found.videos,
        labelled=found.labelled,
        reason="binary labels give recall only" if is_missing else found.reason,
    )


def _with_ends(value: float | None, ends: Ends) -> dict[str, float | None]:
    low, high = ends or (None, None)
    return {"value": value, "low": low, "high": high}


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

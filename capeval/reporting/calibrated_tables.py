"""Scores and differences calibrated with labels, beside those of the judge alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from capeval.reporting.numbers import (
    NOTHING,
    interval,
    percent,
    share,
)
from capeval.reporting.table import (
    INTERVAL,
    PERCENT,
    POINTS,
    POINTS_INTERVAL,
    SHARE,
    Kind,
    Page,
    Table,
    columns,
)
from capeval.schema import LabelOrigin
from capeval.scoring import GROUPS, MEASURES, Bucket, Scores
from capeval.scoring.comparison_result import BucketDifference, CalibratedDifferences
from capeval.scoring.result import Calibrated, CalibratedBucket, CalibratedEstimate
from capeval.text import one_line

_NOTE = (
    "Labels alone: the labelled videos without the judge. The labelled videos must be a random "
    "sample of those judged."
)
_FULL_NOTE = (
    f"{_NOTE} these videos: the interval for the mean label of these same videos; r²: the share of "
    "the variance of labels that the judge explains, %."
)

_ENDS = Kind(
    lambda ends: NOTHING if ends.low is None else f"[{percent(ends.low)}, {percent(ends.high)}]",
    parts=lambda ends: {"_low": ends.low, "_high": ends.high},
)


def labels_by(origin: LabelOrigin) -> str:
    """Return what labels of some origin are called."""
    return "human labels" if origin == "human" else f"labels by {one_line(origin.judge)}"


def measure_of(scale: str) -> str:
    """Return the measure that is shown first: F1, or recall where labels give nothing else."""
    return "recall" if scale == "binary" else "f1"


def main_estimate(calibrated: Calibrated) -> CalibratedEstimate:
    """Return the estimate of that measure over all videos and elements."""
    found: CalibratedEstimate = getattr(calibrated.overall.all, measure_of(calibrated.labels.scale))
    return found


def calibrated_sentence(calibrated: Calibrated) -> str:
    """Return the calibrated score in a sentence.

    It names the number of labels, since that decides how far it can be trusted.
    """
    name = _name(measure_of(calibrated.labels.scale))
    of = calibrated.overall.all
    return (
        f"Calibrated with {labels_by(calibrated.labels.origin)} of {share(of.labelled, of.n)} "
        f"videos: {name} {interval(main_estimate(calibrated))}."
    )


def calibrated_tables(results: Mapping[str, Scores], *, full: bool = False) -> list[Table]:
    """Return a table for each run with labels.

    Parameters
    ----------
    full : also precision and recall, and the interval for these same videos
    """
    return [
        _table(one_line(name), scores.overall, scores.calibrated, full=full)
        for name, scores in results.items()
        if scores.calibrated is not None
    ]


def with_calibrated(page: Page, results: Mapping[str, Calibrated]) -> Page:
    """Return a page with the warnings and signatures of calibrated scores, by the runs' names."""
    warnings = [
        line for name, of in results.items() for line in calibrated_warnings(name, of.warnings)
    ]
    if len({of.labels.origin for of in results.values()}) > 1:
        each = (f"{one_line(name)} ({labels_by(of.labels.origin)})" for name, of in results.items())
        warnings.append(f"calibrated scores are on different scales: {', '.join(each)}")
    signatures = [one_line(of.signature, 600) for of in results.values()]
    return replace(
        page,
        warnings=[*page.warnings, *warnings],
        signatures=[*page.signatures, *signatures],
    )


def calibrated_warnings(name: str, warnings: Sequence[str]) -> list[str]:
    """Return the warnings about the labels of a run or of a pair of runs."""
    return [f"{one_line(name)}, calibrated: {one_line(line)}" for line in warnings]


def _table(name: str, plain: Bucket, calibrated: Calibrated, *, full: bool) -> Table:
    measures = MEASURES if full else (measure_of(calibrated.labels.scale),)
    table = Table(
        f"{name}, calibrated with {labels_by(calibrated.labels.origin)}, %",
        columns(
            *("Elements", "Measure", ("Labelled", SHARE), ("Judge", PERCENT)),
            *(("Calibrated [95%]", INTERVAL), ("Labels alone [95%]", INTERVAL)),
            *((("these videos", _ENDS), ("r²", PERCENT)) if full else ()),
            words=2,
        ),
    )
    for group in GROUPS:
        of = getattr(calibrated.overall, group)
        for measure in measures:
            one: CalibratedEstimate = getattr(of, measure)
            judge = getattr(getattr(plain, group), measure).value
            row = [group, _name(measure), (of.labelled, of.n), judge, one, one.labels_alone]
            table.rows.append([*row, one.same_videos, one.r2] if full else row)
    table.note = _reasons(calibrated.overall, measures) + (_FULL_NOTE if full else _NOTE)
    return table


def calibrated_differences(
    plain: BucketDifference, calibrated: CalibratedDifferences, *, full: bool = False
) -> Table:
    """Return the differences between two runs, calibrated with the labels of both."""
    first, groups = measure_of(calibrated.scale), GROUPS if full else ("all",)
    table = Table(
        f"Calibrated with {labels_by(calibrated.origin)} of both: B − A, in points, {_name(first)}",
        columns(
            *("Elements", ("Labelled", SHARE), ("Judge", POINTS)),
            *(("Calibrated [95%]", POINTS_INTERVAL), ("Labels alone [95%]", POINTS_INTERVAL)),
        ),
    )
    for group in groups:
        of = getattr(calibrated.overall, group)
        one: CalibratedEstimate = getattr(of, first)
        judge = getattr(getattr(plain, group), first).value
        table.rows.append([group, (of.labelled, of.n), judge, one, one.labels_alone])
    table.note = _reasons(calibrated.overall, (first,), groups)
    return table


def _reasons(
    bucket: CalibratedBucket, measures: Sequence[str], groups: Sequence[str] = GROUPS
) -> str:
    """Return why estimates have no interval, each reason once."""
    found = dict.fromkeys(
        estimate.reason
        for group in groups
        for measure in measures
        if (estimate := getattr(getattr(bucket, group), measure)).reason
    )
    return f"[{NOTHING}]: no interval, as {'; '.join(map(str, found))}. " if found else ""


def _name(measure: str) -> str:
    return "F1" if measure == "f1" else measure

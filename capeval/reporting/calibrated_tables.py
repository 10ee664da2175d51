"""Scores and differences calibrated with human labels, beside those of the judge alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from capeval.reporting.numbers import (
    NOTHING,
    interval,
    interval_ends,
    percent,
    points,
    points_interval,
    share,
    thousands,
)
from capeval.reporting.table import Page, Table, columns
from capeval.scoring import GROUPS, MEASURES, Bucket, Scores
from capeval.scoring.comparison_result import BucketDifference, CalibratedDifferences
from capeval.scoring.result import Calibrated, CalibratedBucket, CalibratedEstimate
from capeval.text import one_line

_NOTE = (
    "Human alone: the labelled videos without the judge; worth: how many labelled videos would be "
    "as precise without it."
)
_FULL_NOTE = (
    f"{_NOTE} these videos: the interval for the mean human score of these same videos; r²: the "
    "share of the variance of human scores that the judge explains, %."
)


def measure_of(calibrated: Calibrated) -> str:
    """Return the measure that is shown first: F1, or recall where labels give nothing else."""
    return "recall" if calibrated.labels.scale == "binary" else "f1"


def main_estimate(calibrated: Calibrated) -> CalibratedEstimate:
    """Return the estimate of that measure over all videos and elements."""
    found: CalibratedEstimate = getattr(calibrated.overall.all, measure_of(calibrated))
    return found


def calibrated_sentence(calibrated: Calibrated) -> str:
    """Return the calibrated score in a sentence.

    It names the number of labels, since that decides how far it can be trusted.
    """
    name = _name(measure_of(calibrated))
    of = calibrated.overall.all
    return (
        f"Calibrated with human labels of {share(of.labelled, of.n)} videos: "
        f"{name} {interval(main_estimate(calibrated))}."
    )


def calibrated_tables(results: Mapping[str, Scores], *, full: bool = False) -> list[Table]:
    """Return a table for each run with human labels.

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
    first = measure_of(calibrated)
    title = f"{name}, calibrated with human labels{'' if full else ': ' + _name(first)}, %"
    headings = ["Elements", "Judge", "Calibrated [95%]", "Human alone [95%]", "Labelled", "worth"]
    table = Table(title, columns(*headings))
    if full:
        table.columns = columns(
            *("Elements", "Measure", "n", "Judge", "Calibrated [95%]", "these videos"),
            *("Human alone [95%]", "r²", "worth"),
            words=2,
        )
    for group in GROUPS:
        of = getattr(calibrated.overall, group)
        for measure in MEASURES if full else (first,):
            one: CalibratedEstimate = getattr(of, measure)
            judge = percent(getattr(getattr(plain, group), measure).value)
            labelled = share(of.labelled, of.n)
            worth = NOTHING if one.worth is None else thousands(one.worth)
            both = interval(one), interval(one.human)
            table.rows.append(
                [
                    *(group, _name(measure), labelled, judge, both[0]),
                    *(interval_ends(one.same_videos), both[1], percent(one.r2), worth),
                ]
                if full
                else [group, judge, *both, labelled, worth]
            )
    reasons = _reasons(calibrated.overall, MEASURES if full else (first,))
    table.note = f"{reasons}{_FULL_NOTE if full else _NOTE}"
    return table


def calibrated_differences(
    plain: BucketDifference, calibrated: CalibratedDifferences, *, full: bool = False
) -> Table:
    """Return the differences between two runs, calibrated with the human labels of both."""
    first = "f1" if calibrated.scale == "three-way" else "recall"
    table = Table(
        f"Calibrated with human labels of both: B − A, in points, {_name(first)}",
        columns("Elements", "Judge", "Calibrated [95%]", "Human alone [95%]", "Labelled", "worth"),
    )
    for group in GROUPS if full else ("all",):
        of = getattr(calibrated.overall, group)
        one: CalibratedEstimate = getattr(of, first)
        table.rows.append(
            [
                group,
                points(getattr(getattr(plain, group), first).value),
                points_interval(one),
                points_interval(one.human),
                share(of.labelled, of.n),
                NOTHING if one.worth is None else thousands(one.worth),
            ]
        )
    table.note = _reasons(calibrated.overall, (first,), GROUPS if full else ("all",))
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

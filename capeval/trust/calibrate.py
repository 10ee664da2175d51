"""`capeval calibrate`: a judge's scores corrected with labels of some captions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from capeval.files.outputs import check_json, check_output
from capeval.options import (
    OUTPUT,
    FilePath,
    Notices,
    annotations_option,
    command,
    declares,
    human_columns,
    judge_option,
    on_notice_option,
    option,
    required,
    runs_option,
    takes,
)
from capeval.runs.folder import JudgeFolder
from capeval.runs.resolve import find_metric
from capeval.scoring import GROUPS, MEASURES, AnnotationArrays, Estimate, Signature, measures
from capeval.scoring.judged_run import JudgedRun, files_behind, load_judged
from capeval.scoring.scores import ByType, ResultModel
from capeval.show.numbers import NOTHING, interval, percent, share
from capeval.show.result import Result, write
from capeval.show.table import INTERVAL, PERCENT, SHARE, Page, Table, columns
from capeval.stats.calibration import FEW_LABELLED, FEWEST_LABELLED, Ends
from capeval.stats.calibration import calibrate as calibrated_mean
from capeval.stats.values import Floats
from capeval.text import counted, one_line
from capeval.trust.labels import CaptionLabels, LabelSource, read_labels

if TYPE_CHECKING:
    from capeval.schema import Annotation

_NAMES = {measure: "F1" if measure == "f1" else measure for measure in MEASURES}


@declares
class CalibrateOptions:
    """The arguments of `capeval.calibrate`.

    Parameters
    ----------
    run : A judged run, a judge's folder, a judgments.jsonl, or a TUNA result file.
    labels : Labels of some captions: a file of human labels, or another judge's verdicts (a judged
        run, a judge's folder or a judgments.jsonl).
    out : Write the result to this file. By default calibrated.json beside the run's scores.json.
    """

    run: FilePath = required(positional=True, metavar="RUN")
    _: KW_ONLY
    labels: FilePath = required(metavar="FILE")
    columns: Mapping[str, str] | None = human_columns()
    judge: str | None = judge_option()
    annotations: str | Path | Sequence[Annotation | Mapping[str, Any]] | None = annotations_option(
        note="Or `Annotation`s, or dicts."
    )
    out: FilePath | None = option(None, panel=OUTPUT, metavar="FILE")
    runs: FilePath = runs_option()
    on_notice: Notices = on_notice_option()


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


class Calibrated(Result, ResultModel):
    """The scores of one run, calibrated with labels; `signature` is of the judge's own scores."""

    run: str
    signature: str
    labels: LabelSource
    overall: ByType[CalibratedScores]
    warnings: tuple[str, ...]

    def headline(self) -> str:
        # Recall where labels give nothing else.
        measure = "recall" if self.labels.scale == "binary" else "f1"
        one: CalibratedEstimate = getattr(self.overall.all, measure)
        judge = one_line(Signature.parse(self.signature).get("judge") or "an unknown judge")
        return (
            f"{one_line(self.run)}: {_NAMES[measure]} {interval(one)} calibrated with "
            f"{self._labels} of {share(one.labelled, one.n)} videos; {percent(one.judge)} by "
            f"{judge} alone."
        )

    def pages(self, *, full: bool = False) -> list[Page]:
        table = Table(
            f"{one_line(self.run)}, calibrated with {self._labels}, %",
            columns(
                *("Elements", "Measure", ("Labelled", SHARE), ("Judge", PERCENT)),
                *(("Calibrated [95%]", INTERVAL), ("Labels alone [95%]", INTERVAL)),
                words=2,
            ),
        )
        reasons: dict[str, None] = {}
        for group in GROUPS:
            for measure, name in _NAMES.items():
                one: CalibratedEstimate = getattr(getattr(self.overall, group), measure)
                row = [group, name, (one.labelled, one.n), one.judge, one, one.labels_alone]
                table.rows.append(row)
                reasons |= {one.reason: None} if one.reason else {}
        why = f"[{NOTHING}]: no interval, as {'; '.join(reasons)}. " if reasons else ""
        table.note = (
            f"{why}Labels alone: the labelled videos without the judge. The labelled videos must "
            "be a random sample of those judged."
        )
        warnings = [one_line(line) for line in self.warnings]
        return [Page([table], warnings=warnings, signatures=[one_line(self.signature, 600)])]

    @property
    def _labels(self) -> str:
        origin = self.labels.origin
        return "human labels" if origin == "human" else f"labels by {one_line(origin.judge)}"


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
    found = calibrated_mean(values, np.full_like(given, np.nan) if is_missing else given)
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


@command("calibrate", "as_json", "form")
@takes(CalibrateOptions)
def calibrate(o: CalibrateOptions) -> Calibrated:
    """Correct a judge's scores with labels of some captions: what would the raters give?

    The labels are of human raters, or the verdicts of another judge. The labelled videos must be a
    random sample of those judged.

    Raises
    ------
    InputError, UsageError
        There are no labels of the run's captions, or `out` cannot be written.

    Returns
    -------
    The contents of `calibrated.json`.
    """
    runs = Path(o.runs)
    judged = load_judged(o.run, runs=runs, judge=o.judge, annotations=o.annotations)
    folder = JudgeFolder(judged.file.parent)
    out = None if o.out is None else Path(o.out)
    if out is None and judged.run:
        out = folder.calibrated
    if out is not None:
        inputs = [*files_behind([judged]), find_metric(o.labels, runs)]
        check_output(out, inputs, own=folder.calibrated.name)
        check_json(out)
    labels = read_labels(judged, o.labels, runs=runs, columns=o.columns, on_notice=o.on_notice)
    found = calibrated_scores(judged, labels)
    if out is not None:
        write(found, out)
        if o.out is None:
            o.on_notice(f"{out}: written")
    return found

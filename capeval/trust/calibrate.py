"""`capeval calibrate`: a judge's scores corrected with labels of some captions."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np

from capeval.errors import InputError
from capeval.files.annotations import annotations_hash
from capeval.files.jsonl import write_atomic
from capeval.files.judgments import caption_hashes
from capeval.files.ratings import LabelTable, RatingTable, differ, load_human
from capeval.options import (
    FilePath,
    Notices,
    annotations_option,
    command,
    declares,
    human_columns,
    judge_option,
    on_notice_option,
    required,
    runs_option,
    takes,
)
from capeval.rating.human_scores import relations_of
from capeval.runs.folder import JudgeFolder, RunFolder
from capeval.runs.resolve import find_judgments
from capeval.schema import RELATIONS, Annotation, Frozen, LabelScale, Relations
from capeval.scoring.counts import GROUPS, MEASURES, AnnotationArrays, measures
from capeval.scoring.judged_run import JudgedRun, load_judged
from capeval.scoring.known_agreement import Agreement, store_agreement
from capeval.scoring.scores import ByMeasure, ByType, Estimate
from capeval.scoring.verdicts import JudgeIdentity, signature_parts
from capeval.show.numbers import NOTHING, interval, percent, share
from capeval.show.result import Result
from capeval.show.table import INTERVAL, PERCENT, SHARE, Page, Table, columns
from capeval.stats.agreement import cohen_kappa, confusion_by_video
from capeval.stats.calibration import FEW_LABELLED, FEWEST_LABELLED, Ends
from capeval.stats.calibration import calibrate as calibrated_mean
from capeval.stats.values import Floats
from capeval.text import counted, listed, one_line, shown

_NAMES = {measure: "F1" if measure == "f1" else measure for measure in MEASURES}


@declares
class CalibrateOptions:
    """The arguments of `capeval.calibrate`.

    Parameters
    ----------
    run : A judged run, a judge's folder, a judgments.jsonl, or a TUNA result file.
    labels : Labels of some captions: a file of human labels, or another judge's verdicts (a judged
        run, a judge's folder or a judgments.jsonl).
    """

    run: FilePath = required(positional=True, metavar="RUN")
    _: KW_ONLY
    labels: FilePath = required(metavar="FILE")
    columns: Mapping[str, str] | None = human_columns()
    judge: str | None = judge_option()
    annotations: str | Path | Sequence[Annotation | Mapping[str, Any]] | None = annotations_option(
        note="Or `Annotation`s, or dicts."
    )
    runs: FilePath = runs_option()
    on_notice: Notices = on_notice_option()


# ---- The labels ----------------------------------------------------------------------------------


class LabelSource(Frozen):
    """Where labels come from, and how many captions are labelled.

    `origin` is "human" or the judge that gave them. `left_out` counts labelled captions that are
    not used, by reason. Binary labels are entailment (covered) or lack (not covered).
    """

    origin: Literal["human"] | JudgeIdentity
    file: str
    sha256: str
    scale: LabelScale
    raters: int
    labelled: int
    left_out: dict[str, int]


@dataclass(frozen=True)
class _Labels:
    """Labels of one run's captions: the relations of each rater by video.

    `captions` has the hash of each labelled caption, where it is known. `left_out` says by video
    why its labels are not used.
    """

    file: Path
    relations: Mapping[str, tuple[Relations, ...]]
    captions: dict[str, str]
    left_out: dict[str, str]
    origin: Literal["human"] | JudgeIdentity = "human"
    scale: LabelScale = "three-way"
    raters: int = 1


def _read_labels(judged: JudgedRun, o: CalibrateOptions) -> _Labels:
    path = find_judgments(o.labels, Path(o.runs))
    if path.name == "judgments.jsonl":
        return _by_judge(path, judged, o.on_notice)
    table = load_human(path, columns=o.columns, missing="drop")
    if isinstance(table, RatingTable):
        raise InputError(
            "has ratings of captions; calibrated scores need labels of elements "
            "(columns video_id, element_id, label), as `capeval rate` collects them",
            file=path,
        )
    for line in (*table.notices, *table.warnings):
        o.on_notice(line)
    return _by_raters(table, judged)


def _by_judge(path: Path, judged: JudgedRun, on_notice: Notices) -> _Labels:
    other = load_judged(path, annotations=judged.annotations, ignore_unknown=True)
    if replace(other.identity, repeats=judged.identity.repeats) == judged.identity:
        raise InputError(
            f"has verdicts of the same judge as {judged.name} ({other.identity}); name another "
            "judge's verdicts",
            file=other.file,
        )
    for line in other.notices:
        on_notice(line)
    relations = {index: (one.relations,) for index, one in other.scored.items()}
    left_out = dict.fromkeys(other.unscored, "not scored by the judge of the labels")
    texts = caption_hashes((), other.judgments.values())
    return _Labels(other.file, relations, texts, left_out, other.identity)


def _by_raters(table: LabelTable, judged: JudgedRun) -> _Labels:
    """Return the human labels of one run's captions; labels of other systems are ignored.

    Only raters who labelled every element of a caption count.
    """
    ours = _rows_of(table, judged)
    strangers = {table.keys[row][0] for row in ours} - judged.annotated.keys()
    rows = [row for row in ours if table.keys[row][0] not in strangers]
    relations: dict[str, tuple[Relations, ...]] = {}
    raters: set[int] = set()
    given = relations_of(table.take(rows), judged.annotated)
    for (key, rater), of_rater in sorted(given.items(), key=lambda one: one[0][1]):
        if of_rater is not None:
            raters.add(rater)
            relations[key[0]] = (*relations.get(key[0], ()), of_rater)
    partial = {key[0] for key, _ in given} - relations.keys()
    left_out = dict.fromkeys(strangers, "of a video without an annotation")
    left_out |= dict.fromkeys(partial, "not fully labelled by any rater")
    texts = {key[0]: table.hashes[key] for key, _ in given if key in table.hashes}
    return _Labels(table.file, relations, texts, left_out, scale=table.scale, raters=len(raters))


def _of_own_captions(labels: _Labels, judged: JudgedRun) -> _Labels:
    own = caption_hashes(judged.captions.values(), judged.judgments.values())
    others = {i for i in labels.relations if differ(labels.captions.get(i), own.get(i))}
    return replace(
        labels,
        relations={index: of for index, of in labels.relations.items() if index not in others},
        left_out=labels.left_out | dict.fromkeys(others, "whose labels are of another caption"),
    )


def _rows_of(table: LabelTable, judged: JudgedRun) -> list[int]:
    """Return the rows under the name of the run, or else of its model."""
    systems = [system for _, system in table.keys]
    if systems[0] is None:
        return list(range(len(table.places)))
    name = next((one for one in (judged.name, judged.model) if one in set(systems)), None)
    problem = ""
    if name is None:
        there = listed(map(shown, dict.fromkeys(systems)))
        problem = f"has no labels of {judged.name}; its systems are {there}"
    elif name != judged.name and judged.run:
        runs = (run for run in RunFolder.all(judged.run.path.parent) if run != judged.run)
        of_model = (r.name for r in runs if any(c.model == name for c in r.read_captions()))
        if others := [*of_model]:
            problem = (
                f"has labels of {shown(name)}, the model of {judged.name}, which is also that of "
                f"{listed(others)}; put the names of the runs into the column"
            )
    if problem:
        raise InputError(problem, file=table.file, field="system")
    return [row for row, system in enumerate(systems) if system == name]


def _used(
    labels: _Labels, judged: JudgedRun
) -> tuple[LabelSource, dict[str, tuple[Relations, ...]]]:
    left_out = dict(labels.left_out)
    for index in labels.relations.keys() - judged.scored.keys():
        is_missing = judged.run and index not in judged.captions
        left_out[index] = (
            "of a video without a caption" if is_missing else "not scored by the judge"
        )
    videos = {i: labels.relations[i] for i in judged.scored if i in labels.relations}
    counts = Counter(left_out[index] for index in sorted(left_out))
    if not videos:
        why = "; ".join(f"{n:,} {reason}" for reason, n in counts.items())
        raise InputError(f"has no complete labels of {judged.name}: {why}", file=labels.file)
    source = LabelSource(
        origin=labels.origin,
        file=str(labels.file),
        sha256=hashlib.sha256(labels.file.read_bytes()).hexdigest(),
        scale=labels.scale,
        raters=labels.raters,
        labelled=len(videos),
        left_out=dict(counts),
    )
    return source, videos


# ---- The calibrated scores -----------------------------------------------------------------------


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


CalibratedScores = ByMeasure[CalibratedEstimate]


class Calibrated(Result, Frozen):
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
        judge = one_line(signature_parts(self.signature)["judge"])
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
            "be a random sample of the judged videos."
        )
        warnings = [one_line(line) for line in self.warnings]
        return [Page([table], warnings=warnings, signatures=[one_line(self.signature, 600)])]

    @property
    def _labels(self) -> str:
        origin = self.labels.origin
        return "human labels" if origin == "human" else f"labels by {one_line(origin.judge)}"


def calibrated_scores(judged: JudgedRun, labels: _Labels) -> Calibrated:
    source, labelled = _used(labels, judged)
    reference = AnnotationArrays(judged.annotations)
    videos = [index for index in reference.rows if index in judged.scored]
    rows = [reference.rows[index] for index in videos]
    values = measures(reference.counts(rows, [judged.scored[index].relations for index in videos]))
    given = np.full_like(values, np.nan)
    for place, (row, index) in enumerate(zip(rows, videos, strict=True)):
        if of_raters := labelled.get(index):
            counts = reference.counts([row] * len(of_raters), of_raters)
            given[place] = measures(counts).mean(axis=0)
    overall: dict[str, CalibratedScores] = {}
    for g, group in enumerate(GROUPS):
        own = getattr(judged.scores.overall, group)
        found = {
            measure: _estimate(
                getattr(own, measure).value,
                values[:, g, m],
                given[:, g, m],
                is_missing=source.scale == "binary" and measure != "recall",
            )
            for m, measure in enumerate(MEASURES)
        }
        overall[group] = CalibratedScores(**found)
    return Calibrated(
        run=judged.name,
        signature=judged.signature,
        labels=source,
        overall=ByType[CalibratedScores](**overall),
        warnings=tuple(_warnings(source)),
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


def _agreement(judged: JudgedRun, labels: _Labels, source: LabelSource) -> Agreement | None:
    """Return the kappa of the verdicts with the labels; None if these are not human."""
    if labels.origin != "human":
        return None
    videos = [index for index in judged.scored if index in labels.relations]
    pairs = [
        (place, label, "lack" if labels.scale == "binary" and own == "contradiction" else own)
        for place, index in enumerate(videos)
        for of_rater in labels.relations[index]
        for label, own in zip(chain(*of_rater), chain(*judged.scored[index].relations), strict=True)
    ]
    places, given, own = zip(*pairs, strict=True)
    kappa = cohen_kappa(confusion_by_video(given, own, RELATIONS, np.array(places)))
    if kappa.value is None:
        return None
    return Agreement(
        statistic="kappa",
        human="labels",
        **{end: getattr(kappa, end) for end in ("value", "low", "high")},
        videos=len(videos),
        raters=source.raters,
        file=source.file,
        sha256=source.sha256,
        annotations=annotations_hash(judged.annotations),
    )


def _warnings(labels: LabelSource) -> list[str]:
    found, videos = [], counted(labels.labelled, "labelled video")
    if labels.labelled < FEWEST_LABELLED:
        found.append(f"only {videos}; intervals need {FEWEST_LABELLED}")
    elif labels.labelled < FEW_LABELLED:
        too_narrow = "intervals are too narrow where a few captions fail altogether"
        found.append(f"only {videos}; with fewer than {FEW_LABELLED}, {too_narrow}")
    if labels.left_out:
        reasons = "; ".join(f"{count:,} {reason}" for reason, count in labels.left_out.items())
        left = counted(sum(labels.left_out.values()), "labelled caption")
        found.append(f"{left} left out: {reasons}")
    return found


@command("calibrate", "as_json")
@takes(CalibrateOptions)
def calibrate(o: CalibrateOptions) -> Calibrated:
    """Correct a judge's scores with labels of some captions.

    The labels are by human raters, or the verdicts of another judge. The labelled videos must be a
    random sample of the judged videos. The result of a run is written to calibrated.json, beside
    its scores.json, and the kappa of the judge's verdicts with human labels to agreement.json.

    Raises
    ------
    InputError, UsageError
        There are no labels of the run's captions.

    Returns
    -------
    The contents of `calibrated.json`.
    """
    judged = load_judged(o.run, runs=Path(o.runs), judge=o.judge, annotations=o.annotations)
    labels = _of_own_captions(_read_labels(judged, o), judged)
    found = calibrated_scores(judged, labels)
    if judged.run:
        folder = JudgeFolder(judged.file.parent)
        write_atomic(folder.calibrated, found.rendered("json") + "\n")
        o.on_notice(f"Written: {folder.calibrated}")
        if agreement := _agreement(judged, labels, found.labels):
            store_agreement([folder.path], agreement, o.on_notice)
    return found

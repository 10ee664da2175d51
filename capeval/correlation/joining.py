"""Metrics from judged runs, judgments and files of scores, joined with human scores."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from pathlib import Path

import numpy as np

from capeval.correlation.fields import Notice
from capeval.errors import InputError, UsageError
from capeval.files.annotations import hint_of, look_alike
from capeval.files.judgments import caption_hashes
from capeval.files.ratings import (
    IfMissing,
    Key,
    LabelTable,
    MetricScores,
    RatingTable,
    caption_name,
    load_metrics,
)
from capeval.runs.folder import JudgeFolder, RunFolder
from capeval.runs.resolve import attempt
from capeval.runs.sources import annotations_named_by, annotations_of, is_bundled, run_around
from capeval.schema import Annotation, Caption, Judgment, Scored, element_ids
from capeval.scoring.counts import MEASURES, AnnotationArrays, measures
from capeval.scoring.judged_run import signature_of
from capeval.scoring.verdicts import judged_by, snapshots_notice, stored_judgments
from capeval.stats.correlation import Design
from capeval.stats.values import Floats
from capeval.text import counted, cut, listed, one_line, shown

METRICS = "metrics.jsonl"
"""The file of a run that `capeval metrics` writes."""
JUDGMENTS = "judgments.jsonl"
"""The file of a judge's folder that has its verdicts; any other file has scores."""

ElementKey = tuple[Key, str]
ElementLabels = dict[ElementKey, str]
"""A label by caption and element."""

Systems = Collection[str | None]
"""The systems that the human file names; None if it names none."""


@dataclass
class Sources:
    """Metrics by name, and the verdicts of the judges among them on each element.

    By the resolved path of a file of scores, `headers` are its columns, and `read` the columns that
    are used.
    """

    metrics: dict[str, MetricScores] = field(default_factory=dict)
    headers: dict[Path, tuple[str, ...]] = field(default_factory=dict)
    read: dict[Path, set[str]] = field(default_factory=dict)
    judges: dict[str, ElementLabels] = field(default_factory=dict)

    def add(self, metric: MetricScores) -> None:
        """Add a metric, or more captions of it.

        Raises `UsageError` if two sources have scores of one caption.
        """
        known = self.metrics.setdefault(metric.name, metric)
        if known is metric:
            return
        if common := known.keys & metric.keys:
            sources = " and in ".join([*known.sources, *metric.sources])
            raise UsageError(
                f"{cut(metric.name)} has two scores of {caption_name(min(common, key=str))}, in "
                f"{sources}; leave one out or give them two names, or for two runs put their names "
                "into the column `system` of the human file"
            )
        known.scores.update(metric.scores)
        known.missing.update(metric.missing)
        known.captions.update(metric.captions)
        known.sources.extend(metric.sources)
        known.signatures.extend(s for s in metric.signatures if s not in known.signatures)

    def leave_out_others(self, human: RatingTable | LabelTable) -> None:
        """Treat scores and verdicts of other captions than the rated ones as missing."""
        self.metrics = {name: _with_systems_of(human, one) for name, one in self.metrics.items()}
        for metric in self.metrics.values():
            metric.leave_out_others(human.hashes, "another caption of this video was rated")
        for name, verdicts in self.judges.items():
            missing = self.metrics[f"{name}:f1"].missing
            self.judges[name] = {at: one for at, one in verdicts.items() if at[0] not in missing}


@dataclass(frozen=True)
class NamedMetric:
    """A metric that the user names: a file or folder, and which metric of a metrics.jsonl.

    `is_column` is whether it is the column of its name in the human file.
    """

    name: str
    path: Path
    own: str | None = None
    is_column: bool = False


@dataclass(frozen=True)
class MeasuredRun:
    """A run with its judges, its captions, its possible names in a human file, and its annotations.

    Captions are read if it is judged or measured: `measured` is whether `capeval metrics` has
    computed metrics for it.
    """

    run: RunFolder
    judges: Sequence[JudgeFolder]
    captions: Sequence[Caption]
    names: Sequence[str]
    annotations: str | None
    measured: bool


def _measured_run(run: RunFolder, *, annotated: bool, judge: str | None) -> MeasuredRun:
    judges, measured = run.judges(judge), (run.path / METRICS).is_file()
    named = annotations_named_by(run.path) if judges and annotated else None
    if named is not None:
        annotations_of(named)
    captions = run.read_captions() if judges or measured else ()
    return MeasuredRun(run, judges, captions, _names(run, captions), named, measured)


def _names(run: RunFolder, captions: Sequence[Caption]) -> list[str]:
    models = {one.model for one in captions if one.model}
    return [run.name, *(models if len(models) == 1 else [])]


def _system_of(names: Sequence[str], systems: Systems) -> str | None:
    """Return the name of a run in the human file: its own, else its captions' model."""
    if None in systems:
        return None
    return next((name for name in names if name in systems), names[0])


def judged_runs(
    runs: Path,
    systems: Systems,
    on_notice: Callable[[str], None],
    *,
    annotated: bool = True,
    judge: str | None = None,
) -> list[MeasuredRun]:
    """Return the judged or measured runs of the rated systems; if there are none, the sample's.

    If the human file names no systems, return all of the user's runs. A run that cannot be read, or
    whose annotations are needed (`annotated`) but unreadable, is left out with a notice. `judge`
    selects one of a run's several judges.

    Raises `InputError` if no run is judged (by `judge`), or none is of these systems.
    """
    read = partial(_measured_run, annotated=annotated, judge=judge)
    every = [*attempt(read, RunFolder.all(runs), on_notice)]
    if judge is not None and not any(one.judges for one in every):
        raise InputError(f"contains no run that was judged by {cut(judge)}", file=runs)
    judged = [one for one in every if one.judges or one.measured]
    if not judged:
        raise InputError(
            "contains no judged run; run `capeval judge` first (without a name it judges the "
            "bundled sample), or name metrics with --metric",
            file=runs,
        )
    rated = [one for one in judged if _system_of(one.names, systems) in systems]
    found = [one for one in rated if not is_bundled(one.run.name)] or rated
    if not found:
        names = [name for one in judged for name in one.names]
        wanted = sorted(map(str, systems))
        raise InputError(
            f"its judged runs are {listed(dict.fromkeys(names), 3)}, but human raters rated "
            f"{listed(wanted, 3)}{hint_of(look_alike(wanted, names))}; `system` in the human file "
            "must be the name of a run or the model of its captions",
            file=runs,
        )
    if None in systems and len(found) > 1:
        raise InputError(
            f"contains {counted(len(found), 'judged run')} "
            f"({listed([one.run.name for one in found])}), but the human file has no column "
            "`system`: add it, or name one run with --metric",
            file=runs,
        )
    aside = [one.run.name for one in judged if one not in found]
    if aside and None not in systems:
        on_notice(f"runs without rated captions are left out: {listed(aside)}")
    return found


def gather(
    named: Sequence[NamedMetric],
    runs: Sequence[MeasuredRun],
    annotations: Sequence[Annotation] | None,
    systems: Systems,
    on_notice: Callable[[str], None],
    columns: Mapping[str, str],
) -> Sources:
    """Read all metrics: the named ones, and every judge of some runs.

    Verdicts of these runs that cannot be read, or without a single score, are left out with a
    notice. `columns` are the columns of files of scores by capeval's names.

    Raises `InputError` or `UsageError` if a source is invalid, or judgments lack annotations.
    """
    sources = Sources()
    of_judge = {judge: one for one in runs for judge in one.judges}
    read = attempt(
        lambda judge: (judge, _scored(judge, annotations, of_judge[judge].captions)),
        of_judge,
        on_notice,
    )
    for judge, judgments in read:
        name, system = judge.path.name, _system_of(of_judge[judge].names, systems)
        file, texts = judge.judgments, of_judge[judge].captions
        _judged(sources, name, file, judgments, annotations or (), system, texts, found=True)
        if notice := snapshots_notice(judge.path.parent.name, judged_by(judgments)[1]):
            on_notice(notice)
    for one in runs:
        for metric in _measured(one) if one.measured else ():
            sources.add(metric.of_system(_system_of(one.names, systems)))
    for each in named:
        if each.path.name == JUDGMENTS:
            around = run_around(each.path)
            captions = around.read_captions() if around else None
            judgments = _judgments(each.path, annotations, captions)
            system = next(iter(systems)) if len(systems) == 1 else None
            if around and captions is not None:
                system = _system_of(_names(around, captions), systems)
            _judged(sources, each.name, each.path, judgments, annotations or (), system, captions)
        else:
            _read_file(sources, each, columns)
    return sources


def _measured(one: MeasuredRun) -> list[MetricScores]:
    found = load_metrics(one.run.path / METRICS, METRICS).metrics
    _leave_out_changed(found, one.run, one.captions)
    for metric in found:
        metric.name = metric.own or metric.name
        metric.found = True
    return found


def _leave_out_changed(
    metrics: Sequence[MetricScores], run: RunFolder, captions: Sequence[Caption]
) -> None:
    now: dict[Key, str] = {(i, run.name): text for i, text in caption_hashes(captions).items()}
    reason = "another caption of this video was measured; run `capeval metrics` again"
    for metric in metrics:
        metric.leave_out_others(now, reason)


def _read_file(sources: Sources, named: NamedMetric, columns: Mapping[str, str]) -> None:
    path = named.path
    file = load_metrics(path, named.name, columns)
    if any(metric.captions for metric in file.metrics) and (run := run_around(path)):
        _leave_out_changed(file.metrics, run, run.read_captions())
    sources.headers[path] = file.header
    sources.read.setdefault(path.resolve(), set()).update(file.read)
    for metric in file.metrics:
        if named.own is None:
            sources.add(metric)
        elif metric.own == named.own:
            metric.name = named.name
            sources.add(metric)
            return
    if named.own is not None:
        own = [metric.own for metric in file.metrics if metric.own is not None]
        has = f"it has {listed(own)}" if own else "it has one metric without a name; omit the name"
        raise InputError(f"has no metric {cut(named.own)}; {has}", file=path)


def _judgments(
    path: Path, annotations: Sequence[Annotation] | None, captions: Sequence[Caption] | None
) -> Sequence[Judgment]:
    if annotations is None:
        raise UsageError(
            f"{path}: no run names the annotations of these judgments; name them with --annotations"
        )
    return stored_judgments(path, annotations, captions)


def _scored(
    judge: JudgeFolder,
    annotations: Sequence[Annotation] | None,
    captions: Sequence[Caption],
) -> Sequence[Judgment]:
    judgments = _judgments(judge.judgments, annotations, captions)
    reasons = [one.reason for one in judgments if not isinstance(one, Scored)]
    if len(reasons) == len(judgments):
        raise InputError(f"no caption is scored ({reasons[0]})", file=judge.path)
    return judgments


def _judged(
    sources: Sources,
    name: str,
    path: Path,
    judgments: Sequence[Judgment],
    annotations: Sequence[Annotation],
    system: str | None,
    captions: Sequence[Caption] | None,
    *,
    found: bool = False,
) -> None:
    reference = AnnotationArrays(annotations)
    scored = {one.index: one for one in judgments if isinstance(one, Scored)}
    rows = [reference.rows[index] for index in scored]
    values = measures(reference.counts(rows, [one.relations for one in scored.values()]))[:, 0]
    missing = {
        (one.index, system): f"unscored: {one.reason}"
        for one in judgments
        if not isinstance(one, Scored)
    }
    texts = caption_hashes(captions or (), judgments)
    keys: list[Key] = [(index, system) for index in scored]
    for measure, column in zip(MEASURES, values.T.tolist(), strict=True):
        metric = MetricScores(
            f"{name}:{measure}",
            scores=dict(zip(keys, column, strict=True)),
            missing=dict(missing),
            sources=[str(path)],
            signatures=[signature_of(annotations, judgments)],
            measure=measure,
            found=found,
            captions={(index, system): text for index, text in texts.items()},
        )
        sources.add(metric)
    verdicts = sources.judges.setdefault(name, {})
    for key, judgment in zip(keys, scored.values(), strict=True):
        ids = element_ids(map(len, judgment.relations))
        labels = zip(ids, chain(*judgment.relations), strict=True)
        verdicts |= {(key, element): label for element, label in labels}


# ---- Joined with human scores -------------------------------------------------------------------

# Captions that are named in one message.
_NAMED = 5


@dataclass(frozen=True)
class Joined:
    """Captions that have a human score and a score of every metric.

    `ratings` is (raters, captions), each of `metrics` (captions,).
    """

    human: str
    keys: Sequence[Key]
    raters: tuple[str, ...]
    ratings: Floats
    metrics: dict[str, Floats]
    warnings: tuple[Notice, ...] = ()

    @cached_property
    def design(self) -> Design:
        """The number of each caption's video and system, in the order of their names."""
        video, system = (
            np.unique(np.array([key[at] or "" for key in self.keys], object), return_inverse=True)[
                1
            ]
            for at in (0, 1)
        )
        return Design(video, system)


def unmatched(
    name: str,
    total: int,
    lacking: Sequence[Key],
    reasons: Mapping[Key, str],
    file: Path,
    missing: IfMissing,
    alike: tuple[str, str] | None = None,
) -> Notice:
    """Return a notice of rated captions without a score or verdict of `name`.

    Raises `InputError` if `missing` is "error".
    """
    names = [
        caption_name(key) + (f" ({reasons[key]})" if key in reasons else "")
        for key in lacking[:_NAMED]
    ]
    values = {"matched": total - len(lacking), "total": total, "missing": names, "alike": alike}
    notice = Notice(kind="unmatched", metric=name, values=values)
    if missing == "error":
        raise InputError(f"{notice}; leave such captions out with --missing drop", file=file)
    return notice


def _scores_on(human: RatingTable, metric: MetricScores) -> tuple[Floats, Mapping[Key, str]]:
    """Return a metric's score of each rated caption, NaN if it has none, and the reasons."""
    if metric.name in human.metrics:
        return human.metrics[metric.name], {}
    get, nan = metric.scores.get, float("nan")
    return np.array([get(key, nan) for key in human.keys]), metric.missing


def _with_systems_of(human: RatingTable | LabelTable, metric: MetricScores) -> MetricScores:
    """Return a metric under the human file's systems, where one side names none.

    The other side must then have only one.
    """
    theirs, ours = ({system for _, system in of} for of in (metric.keys, human.keys))
    if theirs and (None in theirs) != (None in ours):
        if len(theirs) > 1 or len(ours) > 1:
            several = sorted(str(name) for name in (theirs if len(theirs) > 1 else ours))
            where = "it has no column `system`" if None in ours else f"{metric.name} has no systems"
            raise InputError(
                f"{where}, but the captions are of {len(several)} systems ({listed(several)}); "
                "name the system of every caption",
                file=human.file,
            )
        return metric.of_system(next(iter(ours)))
    return metric


def without_incomplete(
    metrics: Sequence[MetricScores],
    human: Sequence[RatingTable],
    on_notice: Callable[[str], None],
    missing: IfMissing,
) -> list[MetricScores]:
    """Leave out metrics that the user did not name and that lack captions which others have.

    If captions without a score are dropped (`missing`), only whole systems count: a judge that has
    not judged one of two runs would cost every metric this run's captions.
    """
    lacking = {metric.name: _lacking(metric, human) for metric in metrics}
    costs = {
        name: len(keys) if missing == "error" else len(_systems_without(keys, human))
        for name, keys in lacking.items()
    }
    fewest = min(costs.values(), default=0)
    gone = [metric for metric in metrics if metric.found and costs[metric.name] > fewest]
    total = max((len(table.keys) for table in human), default=0)
    advice = "complete it with `capeval judge` or `capeval metrics`"
    if missing == "error":
        advice += ", or compare only the captions that have every value with --missing drop"
    for name, metric in {metric.source_name: metric for metric in gone}.items():
        reason = "".join(f" ({one_line(why)})" for why in [*metric.missing.values()][:1])
        scored = total - len(lacking[metric.name])
        all_rated = counted(total, "rated caption")
        on_notice(f"left out: {name}: {scored:,} of {all_rated} have a value{reason}; {advice}")
    left_out = {metric.name for metric in gone}
    return [metric for metric in metrics if metric.name not in left_out]


def _lacking(metric: MetricScores, human: Sequence[RatingTable]) -> set[Key]:
    pairs = (zip(one.keys, _scores_on(one, metric)[0], strict=True) for one in human)
    return {key for pair in pairs for key, score in pair if np.isnan(score)}


def _systems_without(lacking: set[Key], human: Sequence[RatingTable]) -> set[str | None]:
    """Return the systems whose rated captions are all lacking."""
    rated = {key for table in human for key in table.keys}
    return {system for _, system in rated} - {system for _, system in rated - lacking}


def join(
    human: RatingTable, metrics: Sequence[MetricScores], missing: IfMissing = "error"
) -> Joined:
    """Join on video and system; every metric is compared on the same captions.

    Unrated captions are ignored. A rated caption without a score of a metric is an error, or with
    "drop" it is left out with a notice. Captions are sorted by the names of video and system.
    """
    total = len(human.keys)
    kept = np.ones(total, dtype=bool)
    columns: dict[str, Floats] = {}
    notices: list[Notice] = []
    for metric in metrics:
        values, reasons = _scores_on(human, metric)
        there = ~np.isnan(values)
        if not there.any():
            raise InputError(_no_overlap(human, metric), file=human.file)
        if not there.all():
            lacking = [human.keys[int(row)] for row in np.flatnonzero(~there)]
            alike = _alike(lacking, metric)
            notices.append(
                unmatched(metric.name, total, lacking, reasons, human.file, missing, alike)
            )
            kept &= there
        columns[metric.name] = values
    if not kept.any():
        raise InputError(
            "no caption has a score of every metric; choose one of several judges with --judge, or "
            "name the metrics with --metric",
            file=human.file,
        )
    # By name, so that the order of the files' rows changes no number.
    rows = sorted(np.flatnonzero(kept).tolist(), key=lambda row: tuple(map(str, human.keys[row])))
    return Joined(
        human.name,
        [human.keys[row] for row in rows],
        human.raters,
        human.ratings[:, rows],
        {name: values[rows] for name, values in columns.items()},
        tuple(notices),
    )


def _no_overlap(human: RatingTable, metric: MetricScores) -> str:
    example = next(iter(metric.scores), None)
    reasons = [metric.missing[key] for key in human.keys if key in metric.missing]
    if example is None or reasons:
        reason = next(iter(reasons or metric.missing.values()), "it has no captions")
        return f"{metric.name} has no score of any rated caption ({reason})"
    return (
        f"none of {counted(len(human.keys), 'caption')} has a score of {metric.name} "
        f"(rated: {shown(caption_name(human.keys[0]))}…; scored: {shown(caption_name(example))}…)"
        f"{hint_of(_alike(list(human.keys), metric))}"
    )


def _alike(lacking: Sequence[Key], metric: MetricScores) -> tuple[str, str] | None:
    """Return a rated id without a score and one that has a score under a similar name."""
    scored = metric.keys
    videos, systems = {video for video, _ in scored}, {system or "" for _, system in scored}
    return look_alike((v for v, _ in lacking if v not in videos), videos) or look_alike(
        (system for _, system in lacking if system and system not in systems), systems
    )

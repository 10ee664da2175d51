"""Where metrics come from: judged runs, judgments, or files of scores made elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self

from capeval.correlation.element_level import ElementLabels, verdicts_on
from capeval.errors import InputError, UsageError
from capeval.files.judgments import caption_hash
from capeval.files.label_matching import hint_of, look_alike
from capeval.files.metrics import MetricFile, MetricScores, load_metrics
from capeval.files.ratings import Key, caption_name
from capeval.runs.folder import JudgeFolder, RunFolder
from capeval.runs.resolve import attempt
from capeval.runs.sources import annotations_named_by, annotations_of, is_bundled, run_around
from capeval.schema import Annotation, Judgment, Scored
from capeval.scoring import MEASURES, AnnotationArrays, measures
from capeval.scoring.judged_run import signature_of
from capeval.scoring.verdicts import judged_by, snapshots_notice, stored_judgments
from capeval.text import counted, cut, listed

METRICS = "metrics.jsonl"
"""The file of a run that `capeval metrics` writes."""
JUDGMENTS = "judgments.jsonl"
"""The file of a judge's folder that has its verdicts; any other file has scores."""


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

        Raises
        ------
        UsageError
            Two sources have scores of one caption.
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
        known.sources.extend(metric.sources)
        known.signatures.extend(s for s in metric.signatures if s not in known.signatures)


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
    """A measured run: its judges, the names that it may have in a human file, its annotations.

    `metrics` is the file that `capeval metrics` has written in it.
    """

    run: RunFolder
    judges: Sequence[JudgeFolder]
    names: Sequence[str]
    annotations: str | None
    metrics: Path | None = None

    @classmethod
    def read(cls, run: RunFolder, *, annotated: bool, judge: str | None) -> Self:
        """Read what is needed to choose a run, and its annotations if they are to be used.

        Raises
        ------
        InputError, UsageError
            They cannot be read.
        """
        judges = run.judges(judge)
        named = annotations_named_by(run.path) if judges and annotated else None
        if named is not None:
            annotations_of(named)
        metrics = run.path / METRICS if (run.path / METRICS).is_file() else None
        return cls(run, judges, _names(run) if judges or metrics else (), named, metrics)


def judged_runs(
    runs: Path,
    systems: Collection[str | None],
    on_notice: Callable[[str], None],
    *,
    annotated: bool = True,
    judge: str | None = None,
) -> list[MeasuredRun]:
    """Return the judged or measured runs of the rated systems; if none is yours, the sample's.

    If the human file names no systems, return all runs of the user's own. A run that cannot be
    read, or whose annotations cannot if they are to be used (`annotated`), is left out with a
    notice. `judge` is the only one of several judges of a run that counts.

    Raises
    ------
    InputError
        No run is judged (by `judge`), or none is of these systems.
    """
    read = partial(MeasuredRun.read, annotated=annotated, judge=judge)
    every = [*attempt(read, RunFolder.all(runs), on_notice)]
    if judge is not None and not any(one.judges for one in every):
        raise InputError(f"contains no run that was judged by {cut(judge)}", file=runs)
    judged = [one for one in every if one.judges or one.metrics]
    if not judged:
        raise InputError(
            "contains no judged run; run `capeval judge` first (without a name it judges the "
            "bundled sample), or name metrics with --metric",
            file=runs,
        )
    if None in systems:
        meant = _own(judged)
        if len(meant) > 1:
            raise InputError(
                f"contains {counted(len(meant), 'judged run')} "
                f"({listed([one.run.name for one in meant])}), but the human file has no column "
                "`system`: add it, or name one run with --metric",
                file=runs,
            )
        return meant
    found = _own([one for one in judged if _system_of(one.names, systems) in systems])
    if found:
        if aside := [one.run.name for one in judged if one not in found]:
            on_notice(f"runs whose captions nobody rated are left out: {listed(aside)}")
        return found
    names = [name for one in judged for name in one.names]
    rated = sorted(str(name) for name in systems)
    raise InputError(
        f"its judged runs are {listed(dict.fromkeys(names), 3)}, but human raters rated "
        f"{listed(rated, 3)}{hint_of(look_alike(rated, names))}; `system` in the human file must "
        "be the name of a run or the model of its captions",
        file=runs,
    )


def _own(runs: list[MeasuredRun]) -> list[MeasuredRun]:
    """Return the user's own runs; if there are none, those of the sample."""
    return [one for one in runs if not is_bundled(one.run.name)] or runs


def _names(run: RunFolder) -> list[str]:
    if not run.exists():
        return [run.name]
    models = {caption.model for caption in run.read_captions() if caption.model}
    return [run.name, *(models if len(models) == 1 else [])]


def _captions_of(run: RunFolder) -> dict[Key, str]:
    """Return the hashes of a run's captions, as `capeval metrics` names them."""
    return {(one.index, run.name): caption_hash(one) for one in run.read_captions()}


def _system_of(names: Sequence[str], systems: Collection[str | None]) -> str:
    """Return the name of a run in the human file: its own, else its captions' model."""
    return next((name for name in names if name in systems), names[0])


def gather(
    named: Sequence[NamedMetric],
    runs: Sequence[MeasuredRun],
    annotations: Sequence[Annotation] | None,
    systems: Collection[str | None],
    on_notice: Callable[[str], None],
    columns: Mapping[str, str],
) -> Sources:
    """Read all metrics: those named, and every judge of some runs.

    Verdicts of these runs that cannot be read, or of which none is scored, are left out with a
    notice. `columns` are those of files of scores by capeval's names.

    Raises
    ------
    InputError, UsageError
        A source is invalid, or judgments lack annotations.
    """
    sources = Sources()
    folders = [judge for one in runs for judge in one.judges]
    read = attempt(lambda judge: (judge, _scored(judge, annotations)), folders, on_notice)
    for judge, judgments in read:
        name, path = judge.path.name, judge.judgments
        _judged(sources, name, path, judgments, annotations or (), systems, found=True)
        if notice := snapshots_notice(judge.path.parent.name, judged_by(judgments)[1]):
            on_notice(notice)
    for metric in [metric for run in runs for metric in _measured(run, systems)]:
        sources.add(metric)
    for one in named:
        path = one.path
        if path.is_dir() or path.name == JUDGMENTS:
            judgments = _judgments(path, annotations)
            _judged(sources, one.name, path, judgments, annotations or (), systems)
            continue
        file = load_metrics(path, one.name, columns)
        if any(metric.captions for metric in file.metrics) and (run := run_around(path)):
            for metric in file.metrics:
                metric.leave_out_changed(_captions_of(run))
        sources.headers[path] = file.header
        sources.read.setdefault(path.resolve(), set()).update(file.read)
        for metric in _chosen(file, one):
            sources.add(metric)
    return sources


def _measured(run: MeasuredRun, systems: Collection[str | None]) -> list[MetricScores]:
    """Return the metrics that `capeval metrics` has computed for a run, by their own names."""
    if run.metrics is None:
        return []
    system = None if None in systems else _system_of(run.names, systems)
    found = load_metrics(run.metrics, METRICS).metrics
    for metric in found:
        metric.leave_out_changed(_captions_of(run.run))
        metric.name = metric.own or metric.name
        metric.found = True
    return [metric.of_system(system) for metric in found]


def _chosen(file: MetricFile, named: NamedMetric) -> Sequence[MetricScores]:
    """Return the metrics that are meant of a file that is named."""
    if named.own is None:
        return file.metrics
    found = [metric for metric in file.metrics if metric.own == named.own]
    if not found:
        own = [metric.own for metric in file.metrics if metric.own is not None]
        has = f"it has {listed(own)}" if own else "it has one metric without a name; omit the name"
        raise InputError(f"has no metric {cut(named.own)}; {has}", file=named.path)
    found[0].name = named.name
    return found


def _judgments(path: Path, annotations: Sequence[Annotation] | None) -> Sequence[Judgment]:
    if annotations is None:
        raise UsageError(
            f"{path}: these are judgments without a run that names their annotations; name them "
            "with --annotations"
        )
    return stored_judgments(path, annotations)[0]


def _scored(judge: JudgeFolder, annotations: Sequence[Annotation] | None) -> Sequence[Judgment]:
    judgments = _judgments(judge.judgments, annotations)
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
    systems: Collection[str | None],
    *,
    found: bool = False,
) -> None:
    """Add the three measures of a judge, and its verdicts on elements."""
    reference = AnnotationArrays(annotations)
    run = run_around(path)
    system = _system_of(_names(run), systems) if run and None not in systems else None
    if run is None and None not in systems and len(systems) == 1:
        system = next(iter(systems))
    scored = [judgment for judgment in judgments if isinstance(judgment, Scored)]
    rows = [reference.rows[judgment.index] for judgment in scored]
    values = measures(reference.counts(rows, [judgment.relations for judgment in scored]))[:, 0]
    keys = [(judgment.index, system) for judgment in scored]
    missing = {
        (one.index, system): f"unscored: {one.reason}"
        for one in judgments
        if not isinstance(one, Scored)
    }
    signature = signature_of(annotations, judgments)
    for measure, column in zip(MEASURES, values.T.tolist(), strict=True):
        metric = MetricScores(
            f"{name}:{measure}",
            scores=dict(zip(keys, column, strict=True)),
            missing=dict(missing),
            sources=[str(path)],
            signatures=[signature],
            measure=measure,
            found=found,
        )
        sources.add(metric)
    verdicts = sources.judges.setdefault(name, {})
    for key, judgment in zip(keys, scored, strict=True):
        verdicts |= verdicts_on(key, judgment.relations)

"""Read a human file and metrics, and correlate them."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from capeval.correlation.element_level import element_tables, human_labels, unjudged
from capeval.correlation.human_ceiling import agreement_of
from capeval.correlation.joining import Joined, join, without_incomplete
from capeval.correlation.metric_sources import Judged, Sources, gather, judged_runs
from capeval.correlation.notices import Notice
from capeval.correlation.protocols import TUNA
from capeval.correlation.result import PUBLISHED, Correlations, Elements
from capeval.correlation.video_level import Settings, analyse, steps_of
from capeval.errors import InputError, UsageError
from capeval.files.annotations import annotations_hash
from capeval.files.id_hints import hint_of, look_alike
from capeval.files.metrics import MetricScores
from capeval.files.ratings import (
    IfMissing,
    Key,
    LabelTable,
    RatingTable,
    check_all_found,
    load_human,
)
from capeval.files.tables import ignored_columns
from capeval.rating.human_scores import annotated, check_rated, from_labels, is_comparable
from capeval.runs.engine import Labels, Progress, Status
from capeval.runs.sources import SAMPLE, annotations_named_by, annotations_of
from capeval.schema import Annotation
from capeval.scoring import Signature
from capeval.stats.values import CONFIDENCE
from capeval.text import shown
from capeval.version import __version__

# Work that takes no longer shows no progress.
_SECONDS = 3.0


@dataclass(frozen=True)
class CorrelateRequest:
    """Which metrics to compare with which human file.

    Attributes
    ----------
    auto : (name, path) pairs of metrics; without them and without `metric_columns`, every judged
        run under `runs`, or the judged sample
    metric_columns : columns of the human file that have scores of metrics
    judge : which of several judges of a run; by default all
    published : whether to add the TUNA paper's rows for reference
    columns : the files' columns by capeval's names; each must be in one of the files
    on_notice : called with a line for each run that cannot be read and is left out, and for each
        file of which columns are ignored
    """

    human: Path
    auto: tuple[tuple[str, Path], ...] = ()
    only: Mapping[tuple[str, Path], str] = field(default_factory=dict)
    metric_columns: tuple[str, ...] = ()
    annotations: str | tuple[Annotation, ...] | None = None
    runs: Path = Path("runs")
    judge: str | None = None
    missing: IfMissing = "error"
    published: bool = False
    columns: Mapping[str, str] = field(default_factory=dict)
    on_notice: Callable[[str], None] = lambda _: None


@dataclass(frozen=True)
class CorrelationInputs:
    """A human file and metrics, not yet joined; `scores` has the human scores by kind."""

    table: RatingTable | LabelTable
    annotations: tuple[Annotation, ...] | None
    sources: Sources
    scores: Sequence[RatingTable]
    warnings: Sequence[Notice]


def read_inputs(request: CorrelateRequest, *, binary: bool = False) -> CorrelationInputs:
    """Read the human file and every metric; `binary` reduces labels to covered or not."""
    table = load_human(
        request.human,
        request.metric_columns,
        columns=request.columns,
        missing=request.missing,
        others=bool(request.auto),
    )
    systems: set[str | None] = {None} if table.keys.systems is None else set(table.keys.systems)
    runs: list[Judged] = []
    if not request.auto and not request.metric_columns:
        own = request.annotations is None
        runs = judged_runs(
            request.runs, systems, request.on_notice, annotated=own, judge=request.judge
        )
    annotations = _annotations(request, runs)
    # A column of the human file that other files have too is that of human scores.
    columns = {
        role: name
        for role, name in request.columns.items()
        if role in ("video_id", "system") or role not in table.columns
    }
    sources = gather(
        request.auto,
        runs,
        annotations,
        systems,
        request.on_notice,
        columns=columns,
        only=request.only,
    )
    check_all_found(request.columns, {request.human: table.header, **sources.headers})
    sources.read.setdefault(request.human.resolve(), set()).update(
        table.columns.values(), request.metric_columns
    )
    for path, header in {request.human: table.header, **sources.headers}.items():
        for line in ignored_columns(path, header, sources.read[path.resolve()]):
            request.on_notice(line)
    for name in request.metric_columns:
        if name in sources.metrics:
            raise UsageError(f"{name} is both a column and a name of --metric; rename one")
        sources.metrics[name] = MetricScores(name, sources=[str(request.human)])
    notices = [Notice(kind="message", values={"text": line}) for line in table.warnings]
    if isinstance(table, RatingTable):
        return CorrelationInputs(table, annotations, sources, [check_rated(table)], notices)
    annotations = annotations or annotations_of(SAMPLE)
    by_index = {annotation.index: annotation for annotation in annotations}
    if request.missing == "drop":
        strangers = [video for video in table.keys.videos if video not in by_index]
        if strangers:
            values = {"labels": len(strangers), "videos": sorted(set(strangers))}
            notices.append(Notice(kind="unannotated", values=values))
            table = annotated(table, by_index)
    else:
        _check_annotated(table, by_index)
    if binary:
        table = table.binary()
    scores, partial = from_labels(table, by_index)
    if partial:
        notices.append(Notice(kind="partly_labelled", values={"captions": partial}))
    return CorrelationInputs(table, annotations, sources, scores, notices)


def _check_annotated(table: LabelTable, annotations: Collection[str]) -> None:
    """Refuse labels of a video that is annotated under another form of its name."""
    unknown = [video for video in table.keys.videos if video not in annotations]
    if pair := look_alike(unknown, annotations):
        row = list(table.keys.videos).index(pair[0])
        raise InputError(
            f"{shown(pair[0])} has no annotation{hint_of(pair)}",
            file=table.file,
            where=table.places[row],
            field=table.columns["video_id"],
        )


def correlate_files(
    request: CorrelateRequest, settings: Settings, progress: Progress | None = None
) -> Correlations:
    """Compare metrics with human ratings, and show progress if it takes long."""
    read = read_inputs(request, binary=settings.protocol.binary)
    table, annotations, sources = read.table, read.annotations, read.sources
    scores, warnings = read.scores, list(read.warnings)
    known = without_incomplete(
        [*sources.metrics.values()], scores, request.on_notice, request.missing
    )
    sources.metrics = {metric.name: metric for metric in known}
    judges = {metric.source_name for metric in known}
    sources.judges = {name: of for name, of in sources.judges.items() if name in judges}
    elements = Elements()
    joined: list[Joined] = []
    for human in scores:
        metrics = [m for m in sources.metrics.values() if is_comparable(human.name, m.measure)]
        if metrics:
            joined.append(join(human, metrics, request.missing))
    if isinstance(table, LabelTable) and annotations is not None:
        elements, more = _elements(table, sources, annotations, request, settings)
        warnings += more
    if joined and settings.protocol.name == TUNA.name:
        design = joined[0].design
        if design.repeats or design.systems > 1:
            sizes = {n: getattr(design, n) for n in ("rows", "videos", "systems")}
            warnings.append(Notice(kind="not_tunas_design", values=sizes))
    steps = _Steps(sum(steps_of(both, settings) for both in joined), progress)
    found = [analyse(both, settings, steps) for both in joined]
    warnings += [one for _, _, more in found for one in more]
    digest = hashlib.sha256(request.human.read_bytes()).hexdigest()
    renamed = {role: name for role, name in table.columns.items() if role != name}
    inputs: dict[str, Any] = {
        "human": {
            "path": str(request.human),
            "sha256": digest,
            "captions": len(scores[0].keys) if scores else 0,
            "matched": {both.human: len(both.keys) for both in joined},
            **({"columns": renamed} if renamed else {}),
        },
        "metrics": {
            metric.name: {"sources": metric.sources, "signatures": metric.signatures}
            for metric in sources.metrics.values()
        },
        "annotations": None
        if annotations is None
        else {"sha256": annotations_hash(annotations), "count": len(annotations)},
        "settings": {
            "protocol": settings.protocol.name,
            "protocol_source": settings.protocol.source or None,
            "missing": request.missing,
            "level": CONFIDENCE,
            "seed": settings.seed,
            "raters": settings.raters,
        },
    }
    return Correlations(
        results=tuple(one for results, _, _ in found for one in results),
        comparisons=tuple(one for _, comparisons, _ in found for one in comparisons),
        elements=elements,
        raters=agreement_of(table, joined, settings),
        warnings=tuple(warnings),
        inputs=inputs,
        published=PUBLISHED if request.published else (),
        signature=_signature(digest, inputs, sources, settings),
    )


class _Steps:
    """Counts steps, and shows them once the work has taken three seconds."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self._total, self._progress = total, progress
        self._began, self._done, self._shown = time.monotonic(), 0, False

    def __call__(self) -> None:
        self._done += 1
        seconds = time.monotonic() - self._began
        if self._progress is not None and seconds >= _SECONDS:
            if not self._shown:
                self._progress.update(self._status(0, 0.0))
            self._shown = True
            self._progress.update(self._status(self._done, seconds))

    def _status(self, done: int, seconds: float) -> Status:
        labels = Labels(doing="computing", item="statistic", done="computed", failed="missing")
        return Status("correlate", labels, 0, self._total, done=done, seconds=seconds)


def _annotations(
    request: CorrelateRequest, runs: Sequence[Judged]
) -> tuple[Annotation, ...] | None:
    if isinstance(request.annotations, tuple):
        return request.annotations
    if request.annotations is not None:
        return annotations_of(request.annotations)
    places = {one.run.path: one.annotations for one in runs}
    places |= {path: annotations_named_by(path) for _, path in request.auto}
    named = {path: where for where, path in places.items() if path is not None}
    if len(named) > 1:
        listed = ", ".join(f"{where}: {path}" for path, where in named.items())
        raise UsageError(
            f"the runs have different annotations ({listed}); choose one with --annotations"
        )
    return annotations_of(next(iter(named))) if named else None


def _elements(
    table: LabelTable,
    sources: Sources,
    annotations: Sequence[Annotation],
    request: CorrelateRequest,
    settings: Settings,
) -> tuple[Elements, list[Notice]]:
    judges = sources.judges
    reasons: dict[str, dict[Key, str]] = {name: {} for name in judges}
    for metric in sources.metrics.values():
        reasons.get(metric.name.rpartition(":")[0], {}).update(metric.missing)
    lost, warnings = unjudged(table, judges, reasons, request.missing)
    human, tied = human_labels(table, each=settings.raters == "each", without=lost)
    if tied:
        warnings.append(Notice(kind="evenly_divided", values={"elements": len(tied)}))
    tables = element_tables(
        human,
        tied,
        judges,
        {annotation.index: annotation.elements for annotation in annotations},
        table.scale,
    )
    return Elements(
        scale=table.scale,
        labels=len(table.labels),
        tied=len(tied),
        unjudged=sum(lost.values()),
        tables=tuple(tables),
    ), warnings


def _signature(digest: str, inputs: dict[str, Any], sources: Sources, settings: Settings) -> str:
    fields = {
        "capeval": "correlate",
        "protocol": settings.protocol.name,
        "metrics": "+".join(sources.metrics),
        "human": f"{digest[:6]}@{inputs['human']['captions']}",
        "raters": settings.raters,
        "missing": inputs["settings"]["missing"],
        "seed": str(settings.seed),
        "v": __version__,
    }
    return str(Signature.of(fields))

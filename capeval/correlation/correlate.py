"""`capeval correlate`: read metrics and human ratings, join and correlate them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from capeval.correlation.correlations import Correlations
from capeval.correlation.element_level import compared_elements
from capeval.correlation.fields import PUBLISHED, Elements, Notice
from capeval.correlation.joining import (
    METRICS,
    Joined,
    MeasuredRun,
    NamedMetric,
    Sources,
    gather,
    join,
    judged_runs,
    without_incomplete,
)
from capeval.correlation.video_level import TUNA, Analysis, agreement_of, analyse, protocol
from capeval.errors import InputError, UsageError
from capeval.files.annotations import annotations_hash, hint_of, look_alike
from capeval.files.ratings import Key, LabelTable, MetricScores, RatingTable, load_human
from capeval.files.tables import check_all_found, ignored_columns
from capeval.options import (
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
    seed_option,
    takes,
)
from capeval.rating.human_scores import annotated, from_labels, is_comparable
from capeval.runs.resolve import find_judgments
from capeval.runs.sources import SAMPLE, annotations_named_by, annotations_of
from capeval.scoring.known_agreement import Agreement, store_agreement
from capeval.scoring.verdicts import signature_text
from capeval.stats.values import CONFIDENCE
from capeval.text import shown
from capeval.version import __version__

if TYPE_CHECKING:
    from capeval.schema import Annotation


def _metrics(texts: Sequence[str] | None) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for text in texts or ():
        name, mark, path = text.partition("=")
        if not mark or not name.strip() or not path.strip():
            raise UsageError(f"--metric: {text!r} must be NAME=PATH")
        if not name.isprintable():
            raise UsageError(f"--metric: the name {name!r} has control characters; choose another")
        found.setdefault(name.strip(), []).append(path.strip())
    return found


@declares
class CorrelateOptions:
    """The arguments of `capeval.correlate`.

    Parameters
    ----------
    human : Human ratings or labels.
    metric : A judged run, a judgments.jsonl, a metrics.jsonl, one metric of it (PATH:METRIC), or a
        CSV or XLSX table with video_id, system (optional) and a column score or NAME, which may be
        the human file. One NAME may have several files.
    missing : If a row has no rating, or its caption no score: stop (error) or drop the caption.
    raters : Aggregate raters by mean or median, or report each.
    protocol : Only the statistics of a published protocol: tuna.
    statistic : Any of kendall_b, spearman, pearson.
    grouping : Any of pooled (all captions), item (by video), within_system, system (means).
    published : Add the correlations of the TUNA paper's table 3.
    """

    human: FilePath = required(metavar="FILE")
    metric: Mapping[str, FilePath | Sequence[FilePath]] | None = option(
        None,
        note="In Python a dict of the files by name.",
        kind=list[str] | None,
        metavar="NAME=PATH",
        parse=_metrics,
    )
    _: KW_ONLY
    judge: str | None = judge_option()
    columns: Mapping[str, str] | None = human_columns()
    annotations: str | Path | Sequence[Annotation | Mapping[str, Any]] | None = annotations_option(
        note="Or `Annotation`s, or dicts."
    )
    missing: Literal["error", "drop"] = option("error", metavar="ACTION")
    raters: Literal["mean", "median", "each"] = option("mean", metavar="MODE")
    seed: int = seed_option()
    protocol: str | None = option(None, metavar="NAME")
    statistic: Sequence[str] = option((), metavar="NAME", commas=True)
    grouping: Sequence[str] = option((), metavar="NAME", commas=True)
    published: bool = False
    runs: FilePath = runs_option()
    on_notice: Notices = on_notice_option()


@command("correlate", "as_json", "form", "full")
@takes(CorrelateOptions)
def correlate(o: CorrelateOptions) -> Correlations:
    """Correlate metrics with human ratings: does the judge rank captions as humans do?

    The human file is CSV, XLSX or JSON lines of `video_id, system?, rater?` with `score`, or with
    `element_id, label`; or wide, with `human, human_2, ...`. Columns marked `?` are optional.

    By default the metrics are all judged runs under runs/ and their metrics.jsonl; if there are no
    runs, the sample. What is found about a judge is added to the
    agreement.json in its folders.

    Raises
    ------
    InputError, UsageError
        A file or a name is wrong, or metrics and ratings have no caption in common.

    Returns
    -------
    A metric that is constant, missing or failed has the value None and a reason.
    """
    settings = Analysis(protocol(o.protocol, o.statistic, o.grouping), o.seed, o.raters)
    named = _named(o)
    return _correlated(o, read_inputs(o, named, binary=settings.protocol.binary), settings)


# ---- The inputs --------------------------------------------------------------------------------


def _named(o: CorrelateOptions) -> list[NamedMetric]:
    """Return the metrics that the user names; for the human file, its column of that name."""
    runs, human = Path(o.runs), os.path.realpath(o.human)
    named: dict[tuple[str, str], NamedMetric] = {}
    for name, paths in (o.metric or {}).items():
        for typed in [paths] if isinstance(paths, str | Path) else paths:
            path, own = _split(typed, runs)
            path = find_judgments(path, runs, o.judge) if own is None else Path(path)
            real = os.path.realpath(path)
            if (name, real) in named:
                raise UsageError(f"--metric: {name}={path} is named twice")
            named[name, real] = NamedMetric(name, path, own, is_column=real == human)
    return [*named.values()]


def _split(typed: str | Path, runs: Path) -> tuple[str | Path, str | None]:
    """Return the path and the metric of `PATH:METRIC`, for a metrics.jsonl or a run with one."""
    head, _, metric = str(typed).rpartition(":")
    if any(os.path.lexists(place) for place in (Path(typed), runs / typed)):
        return typed, None
    for place in (Path(head), runs / head) if head and metric else ():
        file = place / METRICS if place.is_dir() else place
        if file.is_file():
            return file, metric
    return typed, None


@dataclass(frozen=True)
class CorrelationInputs:
    """A human file and metrics, not yet joined; `scores` has the human scores by kind."""

    table: RatingTable | LabelTable
    annotations: Sequence[Annotation] | None
    sources: Sources
    scores: Sequence[RatingTable]
    warnings: Sequence[Notice]


def read_inputs(
    o: CorrelateOptions, named: Sequence[NamedMetric] | None = None, *, binary: bool = False
) -> CorrelationInputs:
    """Read the human file and every metric; `binary` reduces labels to covered or not."""
    named = _named(o) if named is None else named
    human, given = Path(o.human), o.columns or {}
    in_human = [one.name for one in named if one.is_column]
    named = [one for one in named if not one.is_column]
    table = load_human(human, in_human, columns=given, missing=o.missing, others=bool(named))
    systems = {system for _, system in table.keys}
    runs: list[MeasuredRun] = []
    if not named and not in_human:
        own = o.annotations is None
        runs = judged_runs(Path(o.runs), systems, o.on_notice, annotated=own, judge=o.judge)
    annotations = _annotations(o, runs, named)
    # A column that the human file shares with others has the human scores.
    columns = {
        role: name
        for role, name in given.items()
        if role in ("video_id", "system") or role not in table.columns
    }
    sources = gather(named, runs, annotations, systems, o.on_notice, columns)
    headers = {human: table.header, **sources.headers}
    check_all_found(given, headers)
    read = sources.read.setdefault(human.resolve(), set())
    read.update(table.columns.values(), in_human)
    for path, header in headers.items():
        for line in ignored_columns(path, header, sources.read[path.resolve()]):
            o.on_notice(line)
    for name in in_human:
        if name in sources.metrics:
            raise UsageError(f"{name} is both a column and a name of --metric; rename one")
        sources.metrics[name] = MetricScores(name, sources=[str(human)])
    sources.leave_out_others(table)
    notices = [Notice(kind="message", values={"text": line}) for line in table.warnings]
    if isinstance(table, RatingTable):
        return CorrelationInputs(table, annotations, sources, [table], notices)
    annotations = annotations or annotations_of(SAMPLE)
    by_index = {annotation.index: annotation for annotation in annotations}
    strangers = [video for video, _ in table.keys if video not in by_index]
    if strangers and o.missing == "drop":
        values = {"labels": len(strangers), "videos": sorted(set(strangers))}
        notices.append(Notice(kind="unannotated", values=values))
        table = annotated(table, by_index)
    elif pair := look_alike(strangers, by_index):
        raise InputError(
            f"{shown(pair[0])} has no annotation{hint_of(pair)}",
            file=table.file,
            where=table.places[[video for video, _ in table.keys].index(pair[0])],
            field=table.columns["video_id"],
        )
    table = table.binary() if binary else table
    scores, partial = from_labels(table, by_index)
    if partial:
        notices.append(Notice(kind="partly_labelled", values={"captions": partial}))
    return CorrelationInputs(table, annotations, sources, scores, notices)


def _annotations(
    o: CorrelateOptions, runs: Sequence[MeasuredRun], named: Sequence[NamedMetric]
) -> Sequence[Annotation] | None:
    """Return the annotations that were chosen, else the annotations that the runs name."""
    if o.annotations is not None:
        return annotations_of(o.annotations)
    places = {one.run.path: one.annotations for one in runs}
    places |= {one.path: annotations_named_by(one.path) for one in named}
    found = {path: where for where, path in places.items() if path is not None}
    if len(found) > 1:
        each = ", ".join(f"{where}: {path}" for path, where in found.items())
        raise UsageError(
            f"the runs have different annotations ({each}); choose one with --annotations"
        )
    return annotations_of(next(iter(found))) if found else None


# ---- The result --------------------------------------------------------------------------------


def _correlated(o: CorrelateOptions, read: CorrelationInputs, settings: Analysis) -> Correlations:
    table, sources, scores = read.table, read.sources, read.scores
    warnings = list(read.warnings)
    known = without_incomplete([*sources.metrics.values()], scores, o.on_notice, o.missing)
    sources.metrics = {metric.name: metric for metric in known}
    judges = {metric.source_name for metric in known}
    sources.judges = {name: of for name, of in sources.judges.items() if name in judges}
    pairs = ((one, [m for m in known if is_comparable(one.name, m.measure)]) for one in scores)
    joined = [join(human, metrics, o.missing) for human, metrics in pairs if metrics]
    elements = Elements()
    if isinstance(table, LabelTable) and read.annotations is not None:
        reasons: dict[str, dict[Key, str]] = {name: {} for name in sources.judges}
        for metric in known:
            reasons.get(metric.source_name, {}).update(metric.missing)
        elements, more = compared_elements(
            table,
            sources.judges,
            reasons,
            read.annotations,
            each=o.raters == "each",
            missing=o.missing,
        )
        warnings += more
    if joined and settings.protocol.name == TUNA.name:
        design = joined[0].design
        if design.repeats or design.systems > 1:
            sizes = {n: getattr(design, n) for n in ("rows", "videos", "systems")}
            warnings.append(Notice(kind="not_tunas_design", values=sizes))
    found = [analyse(both, settings) for both in joined]
    inputs = _inputs(o, read, joined, settings)
    human, captions = inputs["human"]["sha256"], inputs["human"]["captions"]
    signature = {
        "capeval": "correlate",
        "protocol": settings.protocol.name,
        "metrics": "+".join(sources.metrics),
        "human": f"{human[:6]}@{captions}",
        "raters": o.raters,
        "missing": o.missing,
        "seed": str(o.seed),
        "v": __version__,
    }
    correlations = Correlations(
        results=tuple(one for results, _, _ in found for one in results),
        comparisons=tuple(one for _, comparisons, _ in found for one in comparisons),
        elements=elements,
        raters=agreement_of(table, joined, settings),
        warnings=(*warnings, *(one for _, _, more in found for one in more)),
        inputs=inputs,
        published=PUBLISHED if o.published else (),
        signature=signature_text(signature),
    )
    videos = {both.human: both.design.videos for both in joined}
    for judge in sources.judges:
        _store(correlations, sources.metrics[f"{judge}:f1"], videos, o.on_notice)
    return correlations


def _store(
    found: Correlations, f1: MetricScores, videos: Mapping[str, int], on_notice: Notices
) -> None:
    """Store the correlation of a judge's F1, by the statistic of the headline, in its folders."""
    best, inputs = found.best(f1.name), found.inputs
    # With `--raters each`, the order of the rows would choose the rater.
    if best is None or best.value is None or best.rater is not None:
        return
    agreement = Agreement(
        **best.model_dump(include={"statistic", "grouping", "human", "value", "low", "high"}),
        videos=videos[best.human],
        raters=len(found.raters.names),
        file=inputs["human"]["path"],
        sha256=inputs["human"]["sha256"],
        annotations=inputs["annotations"]["sha256"],
    )
    store_agreement(f1.sources, agreement, on_notice)


def _inputs(
    o: CorrelateOptions,
    read: CorrelationInputs,
    joined: Sequence[Joined],
    settings: Analysis,
) -> dict[str, Any]:
    renamed = {role: name for role, name in read.table.columns.items() if role != name}
    of = read.annotations
    return {
        "human": {
            "path": str(o.human),
            "sha256": hashlib.sha256(Path(o.human).read_bytes()).hexdigest(),
            "captions": len(read.scores[0].keys) if read.scores else 0,
            "matched": {both.human: len(both.keys) for both in joined},
            **({"columns": renamed} if renamed else {}),
        },
        "metrics": {
            metric.name: {"sources": metric.sources, "signatures": metric.signatures}
            for metric in read.sources.metrics.values()
        },
        "annotations": of and {"sha256": annotations_hash(of), "count": len(of)},
        "settings": {
            "protocol": settings.protocol.name,
            "protocol_source": settings.protocol.source or None,
            "missing": o.missing,
            "level": CONFIDENCE,
            "seed": o.seed,
            "raters": o.raters,
        },
    }

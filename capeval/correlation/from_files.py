"""From a human file and metrics to `Correlations`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capeval.correlation.element_level import element_tables, people, unjudged
from capeval.correlation.human_ceiling import agreement_of
from capeval.correlation.joining import Joined, Missing, join
from capeval.correlation.metric_sources import Sources, gather, judged_runs
from capeval.correlation.protocols import unlike
from capeval.correlation.result import (
    PUBLISHED,
    ComparisonResult,
    Correlation,
    Correlations,
    Elements,
)
from capeval.correlation.video_level import Settings, analyse
from capeval.errors import UsageError
from capeval.files.annotations import annotations_hash
from capeval.files.metrics import MetricScores
from capeval.files.ratings import LabelTable, RatingTable, load_human
from capeval.rating.human_scores import (
    HumanScores,
    annotated,
    elements_of,
    from_labels,
    from_ratings,
    meets,
)
from capeval.runs.folder import RunFolder
from capeval.runs.resolve import RUNS
from capeval.runs.sources import SAMPLE, annotations_named_by, annotations_of
from capeval.schema import Annotation, LabelScale
from capeval.scoring import Signature
from capeval.version import __version__


@dataclass(frozen=True)
class Question:
    """What is to be held against what.

    `auto` are (name, path) pairs; without them and without `metric_columns`, every judged run
    under `runs`, or the judged sample. `published` adds the paper's rows for reference.
    """

    human: Path
    auto: tuple[tuple[str, Path], ...] = ()
    metric_columns: tuple[str, ...] = ()
    annotations: str | tuple[Annotation, ...] | None = None
    runs: Path = RUNS
    missing: Missing = "error"
    published: bool = False


@dataclass(frozen=True)
class Sides:
    """People and metrics as read, not yet joined; `scores` are of captions, by kind."""

    table: RatingTable | LabelTable
    annotations: tuple[Annotation, ...] | None
    sources: Sources
    scores: Sequence[HumanScores]
    warnings: Sequence[str]


def both_sides(question: Question, *, binary: bool = False) -> Sides:
    """Read what people said and every metric.

    Parameters
    ----------
    binary : three-way labels are taken as covered (entailed) or not

    Raises
    ------
    InputError, UsageError
        A file is not right.
    """
    table = load_human(question.human, question.metric_columns)
    systems: set[str | None] = {None} if table.keys.systems is None else set(table.keys.systems)
    runs: list[RunFolder] = []
    if not question.auto and not question.metric_columns:
        runs = judged_runs(question.runs, systems)
    annotations = _annotations(question, runs)
    sources = gather(question.auto, runs, annotations, systems)
    for name in question.metric_columns:
        if name in sources.metrics:
            raise UsageError(f"{name} is both a column and a name of --auto; rename one")
        sources.metrics[name] = MetricScores(name, sources=[str(question.human)])
    if isinstance(table, RatingTable):
        return Sides(table, annotations, sources, [from_ratings(table)], table.warnings)
    annotations = annotations or annotations_of(SAMPLE)
    by_index = {annotation.index: annotation for annotation in annotations}
    left: list[str] = []
    if question.missing == "drop":
        table, left = annotated(table, by_index)
    scores, warnings = from_labels(table, by_index, binary=binary)
    return Sides(table, annotations, sources, scores, [*left, *warnings])


def correlate_files(question: Question, settings: Settings) -> Correlations:
    """Hold metrics against people.

    Raises
    ------
    InputError, UsageError
        A file is not right, or the two sides do not meet.
    """
    sides = both_sides(question, binary=settings.protocol.binary)
    table, annotations, sources = sides.table, sides.annotations, sides.sources
    scores, warnings = sides.scores, list(sides.warnings)
    elements = Elements()
    joined: list[Joined] = []
    for human in scores:
        metrics = [m for m in sources.metrics.values() if meets(human.name, m.measure)]
        if metrics:
            joined.append(join(human, metrics, question.missing))
    if isinstance(table, LabelTable) and annotations is not None:
        elements, lost = _elements(table, sources, annotations, question, settings)
        warnings += lost
    if joined and (told := unlike(settings.protocol, joined[0].design)):
        warnings.append(told)
    results: list[Correlation] = []
    comparisons: list[ComparisonResult] = []
    matched: dict[str, int] = {}
    for both in joined:
        matched[both.human] = len(both.keys)
        found = analyse(both, settings)
        results += found[0]
        comparisons += found[1]
        warnings += found[2]
    if settings.raters == "each":
        warnings = gathered(
            warnings, table.raters if isinstance(table, RatingTable) else table.names
        )
    digest = hashlib.sha256(question.human.read_bytes()).hexdigest()
    inputs: dict[str, Any] = {
        "human": {
            "path": str(question.human),
            "sha256": digest,
            "captions": len(scores[0].keys) if scores else 0,
            "matched": matched,
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
            "missing": question.missing,
            "ci": settings.ci or "default",
            "level": 0.95,
            "draws": settings.draws,
            "seed": settings.seed,
            "raters": settings.raters,
        },
    }
    return Correlations(
        results=tuple(results),
        comparisons=tuple(comparisons),
        elements=elements,
        raters=agreement_of(table, joined, settings),
        warnings=tuple(merged(warnings)),
        inputs=inputs,
        published=PUBLISHED if question.published else (),
        signature=_signature(digest, inputs, sources, settings),
    )


def _annotations(question: Question, runs: Sequence[RunFolder]) -> tuple[Annotation, ...] | None:
    if isinstance(question.annotations, tuple):
        return question.annotations
    if question.annotations is not None:
        return annotations_of(question.annotations)
    named = {
        path: str(where)
        for path, where in [
            *((annotations_named_by(run.path), run.path) for run in runs),
            *((annotations_named_by(path), path) for _, path in question.auto),
        ]
        if path is not None
    }
    if len(named) > 1:
        told = ", ".join(f"{where}: {path}" for path, where in named.items())
        raise UsageError(
            f"the runs are of different annotations ({told}); name them with --annotations"
        )
    return annotations_of(next(iter(named))) if named else None


def _elements(
    table: LabelTable,
    sources: Sources,
    annotations: Sequence[Annotation],
    question: Question,
    settings: Settings,
) -> tuple[Elements, list[str]]:
    judges = list(sources.judges.values())
    reasons = {
        judge.name: {
            key: reason
            for metric in sources.metrics.values()
            if metric.name.rpartition(":")[0] == judge.name
            for key, reason in metric.missing.items()
        }
        for judge in judges
    }
    lost, warnings = unjudged(table, judges, reasons, question.missing)
    told = people(table, each=settings.raters == "each").without(lost)
    if told.tied:
        warnings.append(
            f"raters are evenly divided on {len(told.tied)} elements, which are left out; "
            "that flatters a judge: see --raters each"
        )
    scale: LabelScale = "binary" if settings.protocol.binary else table.scale
    tables = element_tables(
        told,
        judges,
        {annotation.index: elements_of(annotation) for annotation in annotations},
        scale,
        ci=settings.ci,
        draws=settings.draws,
        seed=settings.seed,
    )
    return Elements(
        scale=scale,
        labels=len(table.labels),
        tied=len(told.tied),
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
        "ci": settings.ci or "default",
        "draws": "default" if settings.draws is None else str(settings.draws),
        "seed": str(settings.seed),
        "v": __version__,
    }
    return str(Signature.of(fields))


_OF = "people's "
_ENDS = (":", " ties ", " is ")


def gathered(warnings: Sequence[str], raters: Collection[str]) -> list[str]:
    """Return warnings in which those that differ by rater and numbers alone are one line.

    The first stands for all, with the count of the others.

    >>> gathered(["people's f1 of Ann: 9 are few", "people's f1 of Bo: 8 are few"], ["Ann", "Bo"])
    ["people's f1 of Ann: 9 are few (and so of 1 other rater)"]
    """
    names = frozenset(raters)
    first: dict[str, str] = {}
    whose: dict[str, set[str]] = {}
    for line in dict.fromkeys(warnings):
        rater, kind = _kind(line, names)
        first.setdefault(kind, line)
        whose.setdefault(kind, set()).update([rater] if rater else [])
    result = []
    for kind, line in first.items():
        others = len(whose[kind]) - 1
        plural = "" if others == 1 else "s"
        result.append(f"{line} (and so of {others:,} other rater{plural})" if others > 0 else line)
    return result


def merged(warnings: Sequence[str]) -> list[str]:
    """Return warnings in which those that say the same of several scores are one line.

    >>> merged(["people's f1: 9 are few", "m is constant", "people's recall: 9 are few"])
    ["people's f1, recall: 9 are few", 'm is constant']
    """
    scores: dict[str, dict[str, None]] = {}
    for line in warnings:
        score, mark, told = line.partition(": ")
        scores.setdefault(told if mark else line, {}).update({score: None} if mark else {})
    lines = []
    for told, of in scores.items():
        names = list(of)
        if all(name.startswith(_OF) for name in names):
            names[1:] = [name.removeprefix(_OF) for name in names[1:]]
        lines.append(f"{', '.join(names)}: {told}" if names else told)
    return lines


def _kind(line: str, raters: frozenset[str]) -> tuple[str | None, str]:
    """Return the rater that a warning is of, and what it says without name and numbers."""
    for mark in re.finditer(" of ", line):
        rest = line[mark.end() :]
        for name in (rest, *(rest.partition(end)[0] for end in _ENDS)):
            if name in raters:
                left = line[: mark.end()] + rest[len(name) :]
                return name, re.sub(r"\d+(\.\d+)?", "#", left)
    return None, line

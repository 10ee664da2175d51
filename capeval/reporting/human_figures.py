"""What the figures of judges against people show: a scatter of captions, a confusion of labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from capeval.correlation.element_level import element_tables, human_labels
from capeval.correlation.from_files import Inputs
from capeval.correlation.joining import join
from capeval.correlation.protocols import protocol
from capeval.correlation.video_level import Settings, analyse
from capeval.files.metrics import MetricScores
from capeval.files.ratings import LabelTable, RatingTable
from capeval.rating.human_scores import is_comparable
from capeval.reporting.figures import Confusion, Scatter
from capeval.schema import Annotation
from capeval.stats.raters import combine

# What a judge's F1 is held against: what people said as they said it, or F1 of their labels.
_MEASURES = {"score": "f1", "f1": "f1", "covered": "recall"}
_HUMAN = {
    "score": "Human rating",
    "f1": "F1 by people's labels",
    "covered": "Covered by people's labels",
}


def scatters_of(
    sides: Inputs, *, order: Sequence[str] = (), seed: int = 0
) -> tuple[list[Scatter], list[str]]:
    """Return a scatter for each judge, its captions against people's score, and warnings.

    Points are in the units that their axes name: percent, or people's own scale. Several raters'
    scores of a caption are their mean. Captions that a judge has no score of are
    left out with a warning, those of systems that it did not judge with a count alone.

    Parameters
    ----------
    order : systems that come first, so that they look as they do in figures of the same runs

    Raises
    ------
    InputError
        A judge scored none of the captions that people rated.
    """
    found: list[Scatter] = []
    warnings = list(sides.warnings)
    for human in sides.scores:
        if human.name not in _MEASURES:
            continue
        for judge in sides.sources.judges:
            metric = sides.sources.metrics[f"{judge}:{_MEASURES[human.name]}"]
            if is_comparable(human.name, metric.measure):
                scatter, told = _scatter(sides, human, judge, order, seed)
                found.append(scatter)
                warnings += told
    return found, list(dict.fromkeys(warnings))


def _scatter(
    sides: Inputs, human: RatingTable, judge: str, order: Sequence[str], seed: int
) -> tuple[Scatter, Sequence[str]]:
    measure = _MEASURES[human.name]
    name = f"{judge}:{measure}"
    metric = sides.sources.metrics[name]
    mine, others = _of_these_systems(human, metric)
    joined = join(mine, [metric], "drop")
    warnings = [*joined.warnings]
    if others:
        warnings.append(
            f"{human.file}: {others:,} of {len(human.keys):,} rated captions are of other systems, "
            "and left out"
        )
    # By the very statistic that `capeval correlate` gives; its p and interval are left to it.
    settings = Settings(
        protocol=protocol(None, ["kendall_b"], ["pooled"]), ci="none", resamples=99, seed=seed
    )
    (result, *_), _, _ = analyse(joined, settings)
    scale = 1 if human.name == "score" else 100
    rated = combine(joined.ratings, "mean")
    points: dict[str, list[tuple[float, float]]] = {}
    for (_, system), x, y in zip(joined.keys, joined.metrics[name], rated, strict=True):
        if not math.isnan(y):
            points.setdefault(system or "captions", []).append((100 * float(x), scale * float(y)))
    first = [system for system in order if system in points]
    count = sum(map(len, points.values()))
    tau = "none" if result.value is None else f"{result.value:.2f}"
    return (
        Scatter(
            name="scatter" if len(sides.sources.judges) == 1 else f"scatter-{judge}",
            title=f"{judge} against people",
            x=f"{measure.title() if measure != 'f1' else 'F1'} by {judge} (%)",
            y=_HUMAN[human.name] + ("" if human.name == "score" else " (%)"),
            points={system: tuple(points[system]) for system in [*first, *points]},
            note=f"Kendall τ-b {tau}, n = {count}",
        ),
        warnings,
    )


def _of_these_systems(human: RatingTable, metric: MetricScores) -> tuple[RatingTable, int]:
    """Return people's scores of the systems that a metric is of, and how many are of others."""
    systems = {system for _, system in (*metric.scores, *metric.missing)}
    kept = [place for place, (_, system) in enumerate(human.keys) if system in systems]
    if None in systems or not kept:
        # One side names no systems, or nothing fits: joining them knows what to say.
        return human, 0
    return (
        replace(
            human,
            keys=human.keys.take(kept),
            ratings=human.ratings[:, kept],
            metrics={name: values[kept] for name, values in human.metrics.items()},
        ),
        len(human.keys) - len(kept),
    )


def confusions_of(sides: Inputs) -> list[Confusion]:
    """Return for each judge how often it gave each label where people gave each.

    People's labels are those of the majority; of ratings there are none.
    """
    if not isinstance(sides.table, LabelTable):
        return []
    annotations: Sequence[Annotation] = sides.annotations or ()
    labels = human_labels(sides.table)
    tables = [
        table
        for table in element_tables(
            labels,
            list(sides.sources.judges.values()),
            {annotation.index: annotation.elements for annotation in annotations},
            sides.table.scale,
            Settings(protocol=protocol(None), ci="none"),
        )
        if table.truth in labels.truths and table.by == "all" and not table.weighted
    ]
    return [
        Confusion(
            name="confusion" if len(tables) == 1 else f"confusion-{table.given}",
            title=f"{table.given} against people",
            rows="People",
            columns=table.given,
            labels=table.labels,
            counts=tuple(tuple(map(round, row)) for row in table.confusion),
        )
        for table in tables
    ]

"""The data of figures that compare judges with human raters."""

from __future__ import annotations

import math
from collections.abc import Sequence

from capeval.correlation.correlate import CorrelationInputs
from capeval.correlation.fields import notice_lines
from capeval.correlation.joining import join
from capeval.correlation.protocols import protocol
from capeval.correlation.video_level import Analysis, analyse
from capeval.files.metrics import MetricScores
from capeval.files.ratings import RatingTable
from capeval.rating.human_scores import is_comparable
from capeval.reporting.figures import Scatter
from capeval.show.numbers import coefficient, thousands
from capeval.stats.raters import combine

# The judge's measure that each human score is compared with.
_MEASURES = {"score": "f1", "f1": "f1", "covered": "recall"}
_HUMAN = {
    "score": "Human rating",
    "f1": "F1 by human labels",
    "covered": "Covered by human labels",
}


def scatters_of(
    sides: CorrelationInputs, *, order: Sequence[str] = ()
) -> tuple[list[Scatter], list[str]]:
    """Return a scatter plot of each judge's scores and the human scores, and warnings.

    Points are in the units of their axes: percent, or the human raters' own scale. Several raters'
    scores of a caption are averaged. A warning names the captions without a score by a judge, and
    counts those of systems that it did not judge.

    Parameters
    ----------
    order : systems that come first, so that they look the same as in other figures of these runs

    Raises
    ------
    InputError
        A judge scored none of the rated captions.
    """
    found: list[Scatter] = []
    warnings = notice_lines(sides.warnings)
    for human in sides.scores:
        if human.name not in _MEASURES:
            continue
        for judge in sides.sources.judges:
            metric = sides.sources.metrics[f"{judge}:{_MEASURES[human.name]}"]
            if is_comparable(human.name, metric.measure):
                scatter, more = _scatter(sides, human, judge, order)
                found.append(scatter)
                warnings += more
    return found, list(dict.fromkeys(warnings))


def _scatter(
    sides: CorrelationInputs, human: RatingTable, judge: str, order: Sequence[str]
) -> tuple[Scatter, Sequence[str]]:
    measure = _MEASURES[human.name]
    name = f"{judge}:{measure}"
    metric = sides.sources.metrics[name]
    mine, others = _of_these_systems(human, metric)
    joined = join(mine, [metric], "drop")
    warnings = notice_lines(joined.warnings)
    if others:
        warnings.append(
            f"{human.file}: {others:,} of {len(human.keys):,} rated captions are of other systems "
            "and left out"
        )
    settings = Analysis(protocol=protocol(None, ["kendall_b"], ["pooled"]))
    (result, *_), _, _ = analyse(joined, settings)
    scale = 1 if human.name == "score" else 100
    rated = combine(joined.ratings, "mean")
    points: dict[str, list[tuple[float, float]]] = {}
    for (_, system), x, y in zip(joined.keys, joined.metrics[name], rated, strict=True):
        if not math.isnan(y):
            points.setdefault(system or "captions", []).append((100 * float(x), scale * float(y)))
    first = [system for system in order if system in points]
    count = sum(map(len, points.values()))
    tau = "none" if result.value is None else coefficient(result.value)
    return (
        Scatter(
            name="scatter" if len(sides.sources.judges) == 1 else f"scatter-{judge}",
            x=f"{measure.title() if measure != 'f1' else 'F1'} by {judge} (%)",
            y=_HUMAN[human.name] + ("" if human.name == "score" else " (%)"),
            points={system: tuple(points[system]) for system in [*first, *points]},
            note=f"Kendall τ-b {tau}, n = {thousands(count)}",
        ),
        warnings,
    )


def _of_these_systems(human: RatingTable, metric: MetricScores) -> tuple[RatingTable, int]:
    """Return the human scores of a metric's systems, and how many are of other systems."""
    systems = {system for _, system in (*metric.scores, *metric.missing)}
    kept = [place for place, (_, system) in enumerate(human.keys) if system in systems]
    if None in systems or not kept:
        # One side names no systems, or nothing matches: joining them reports it.
        return human, 0
    return human.take(kept), len(human.keys) - len(kept)

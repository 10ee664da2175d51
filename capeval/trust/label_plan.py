"""How many videos need human labels for calibrated scores of a given precision."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from capeval.errors import InputError
from capeval.runs.judged_run import JudgedRun
from capeval.scoring import MEASURES, AnnotationArrays, measures
from capeval.scoring.calibrated import human_scores
from capeval.stats.calibration import FEWEST_LABELLED, calibrate, labels_needed, variance_range

_MOST_EXPLAINED = 0.8
"""The optimistic end of a plan without labels: an assumption, since only labels can tell."""


_NO_VARIANCE = 1e-18
"""The variance of scores that differ by rounding errors alone."""


@dataclass(frozen=True)
class LabelPlan:
    """How many videos of a run to label for an interval of ± `half_width`, a fraction.

    `fewest` to `most` is the range that the data at hand leave open, `likely` the estimate from a
    pilot, None without one; `alone` is what human labels would take without the judge. Otherwise
    None means more than the `videos` that are judged. `pilot` is the number of labelled videos.
    """

    run: str
    measure: str
    half_width: float
    videos: int
    pilot: int
    fewest: int | None
    likely: int | None
    most: int | None
    alone: int | None


def plan_labels(judged: JudgedRun, half_width: float) -> LabelPlan:
    """Plan the labels of one judged run, from those that it has or from the judge's scores alone.

    At least ten labelled videos are a pilot: its residual variance, with a 95% interval, gives the
    range. Without one, human scores are taken to vary as much as the judge's, of which the judge
    explains between nothing and 80%.

    Raises
    ------
    InputError
        Fewer than two captions are scored, or scores do not differ: they tell nothing of how far
        other videos differ.
    """
    arrays = AnnotationArrays(judged.annotations)
    scored = {index: judged.scored[index] for index in arrays.rows if index in judged.scored}
    if len(scored) < 2:
        raise InputError("has too few scored captions to plan with", file=judged.file)
    labels = judged.labels
    measure = "recall" if labels and labels.scale == "binary" else "f1"
    place = MEASURES.index(measure)
    rows = [arrays.rows[index] for index in scored]
    relations = [judgment.relations for judgment in scored.values()]
    judge = measures(arrays.counts(rows, relations))[:, 0, place]
    videos, pilot, likely = len(judge), 0, None
    total = float(np.var(judge, ddof=1))
    low, high = (1 - _MOST_EXPLAINED) * total, total
    explained_low, explained_high = _MOST_EXPLAINED * total, 0.0
    if labels is not None:
        human = human_scores(arrays, labels)
        at, kept = human.rows_in({index: place for place, index in enumerate(scored)})
        pilot = len(kept)
        if pilot >= FEWEST_LABELLED:
            found = calibrate(judge, human.values[kept, 0, place], at)
            if found.reasons[0]:
                raise InputError(
                    f"has {pilot} labelled videos that are no pilot: {found.reasons[0]}; label "
                    "others",
                    file=judged.file,
                )
            residual = float(found.residual[0])
            explained_low = explained_high = float(found.explained[0])
            total = residual + explained_low
            low, high = variance_range(residual, pilot - 2)
            likely = labels_needed(half_width, residual, explained_low, videos)
    if pilot < FEWEST_LABELLED and total <= _NO_VARIANCE:
        raise InputError(
            f"has the same {measure} by the judge for every caption: nothing to plan with; label "
            f"at least {FEWEST_LABELLED} videos as a pilot",
            file=judged.file,
        )
    return LabelPlan(
        run=judged.name,
        measure=measure,
        half_width=half_width,
        videos=videos,
        pilot=pilot,
        fewest=labels_needed(half_width, low, explained_low, videos),
        likely=likely,
        most=labels_needed(half_width, high, explained_high, videos),
        alone=labels_needed(half_width, total, 0.0, videos),
    )

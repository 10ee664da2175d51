"""Inter-rater agreement, and the human ceiling: how well each rater agrees with the others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from capeval.correlation.joining import Joined
from capeval.correlation.result import (
    CeilingResult,
    Coefficient,
    Raters,
    bounds_of,
    number_of,
    reason_of,
)
from capeval.correlation.video_level import Settings
from capeval.files.ratings import LabelTable, RatingTable
from capeval.stats.agreement import Level, alpha_interval, krippendorff_alpha
from capeval.stats.human_ceiling import RatersApart
from capeval.stats.soft_accuracy import SOFT_ACCURACY
from capeval.stats.soft_ceiling import soft_ceiling
from capeval.stats.values import Floats, Interval, Ints, Missing, Value


def agreement_of(
    table: RatingTable | LabelTable, joined: Sequence[Joined], settings: Settings
) -> Raters:
    """Return Krippendorff's alpha, and each rater's agreement with the others.

    Alpha is interval for ratings and nominal for labels. A ceiling is computed for every human
    score, statistic and grouping that metrics are evaluated by, on the same captions.
    """
    level: Level = "interval" if isinstance(table, RatingTable) else "nominal"
    alpha: Value = Missing("there is one rater")
    bounds: Interval | Missing | None = None
    if len(table.raters) > 1:
        if isinstance(table, RatingTable):
            ratings, video = table.ratings, table.keys.video
        else:
            ratings, video = _of_labels(table)
        alpha = krippendorff_alpha(ratings, level)
        if settings.ci != "none" and not isinstance(alpha, Missing):
            draws = settings.bootstrap_resamples
            bounds = alpha_interval(ratings, video, level, draws=draws, seed=settings.seed)
    return Raters(
        names=table.raters,
        combined=settings.raters,
        alpha=Coefficient.of(alpha, bounds),
        level=level,
        ceiling=tuple(one for inputs in joined for one in _ceilings(inputs, settings)),
    )


def _ceilings(joined: Joined, settings: Settings) -> list[CeilingResult]:
    if len(joined.raters) < 2:
        return []
    how = "mean" if settings.raters == "each" else settings.raters
    apart = RatersApart(joined.ratings, joined.design, how=how)
    result = []
    for statistic, grouping in settings.protocol.pairs:
        if statistic == SOFT_ACCURACY:
            resamples = 0 if settings.ci == "none" else settings.bootstrap_resamples
            found, bounds = soft_ceiling(apart, seed=settings.seed, resamples=resamples)
        else:
            found = apart.ceiling(statistic, grouping)
            bounds = (
                Missing("no interval was asked for")
                if settings.ci == "none" or isinstance(found.value, Missing)
                else apart.interval(
                    statistic, grouping, draws=settings.resamples, seed=settings.seed
                )
            )
        result.append(
            CeilingResult(
                human=joined.human,
                statistic=statistic,
                grouping=grouping,
                value=number_of(found.value),
                reason=reason_of(found.value),
                **bounds_of(bounds),
                each={
                    name: number_of(value)
                    for name, value in zip(joined.raters, found.each, strict=True)
                },
            )
        )
    return result


def _of_labels(table: LabelTable) -> tuple[Floats, Ints]:
    """Return the labels' codes, (raters, elements), and the video of each element."""
    units: dict[object, int] = {}
    columns = [
        units.setdefault(place, len(units))
        for place in zip(table.keys, table.elements, strict=True)
    ]
    codes = {label: code for code, label in enumerate(dict.fromkeys(table.labels))}
    ratings = np.full((len(table.raters), len(units)), np.nan)
    ratings[table.rater, columns] = [codes[label] for label in table.labels]
    video = np.zeros(len(units), dtype=np.int64)
    video[columns] = table.keys.video
    return ratings, video

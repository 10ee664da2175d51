"""The people themselves: how far they agree, and the ceiling that this sets for a metric."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from capeval.correlation.joining import Joined
from capeval.correlation.result import CeilingResult, Estimate, Raters
from capeval.correlation.video_level import Settings
from capeval.files.ratings import LabelTable, RatingTable
from capeval.stats.agreement import krippendorff_alpha
from capeval.stats.human_ceiling import RatersApart
from capeval.stats.values import Missing, Value


def agreement_of(
    table: RatingTable | LabelTable, joined: Sequence[Joined], settings: Settings
) -> Raters:
    """Return Krippendorff's alpha, and each rater's agreement with the others.

    Alpha is interval for ratings, nominal for labels. A ceiling is taken of every human score, by
    every statistic and grouping that metrics are, on the same captions.
    """
    level: str
    alpha: Value
    if isinstance(table, RatingTable):
        level, names = "interval", table.raters
        alpha = (
            krippendorff_alpha(table.ratings, "interval")
            if len(names) > 1
            else Missing("there is one rater")
        )
    else:
        level, names = "nominal", table.names
        alpha = _of_labels(table) if len(names) > 1 else Missing("there is one rater")
    return Raters(
        names=names,
        combined=settings.raters,
        alpha=_estimate(alpha),
        level=level,
        ceiling=tuple(one for sides in joined for one in _ceilings(sides, settings)),
    )


def _ceilings(joined: Joined, settings: Settings) -> list[CeilingResult]:
    if len(joined.raters) < 2:
        return []
    how = "mean" if settings.raters == "each" else settings.raters
    apart = RatersApart(joined.ratings, joined.design, how=how)
    result = []
    for statistic, grouping in settings.protocol.taken:
        found = apart.ceiling(statistic, grouping)
        bounds = (
            Missing("no interval was asked for")
            if settings.ci == "none" or isinstance(found.value, Missing)
            else apart.interval(statistic, grouping, draws=settings.draws, seed=settings.seed)
        )
        result.append(
            CeilingResult(
                human=joined.human,
                statistic=statistic,
                grouping=grouping,
                **_estimate(found.value).model_dump(include={"value", "reason"}),
                low=None if isinstance(bounds, Missing) else bounds.low,
                high=None if isinstance(bounds, Missing) else bounds.high,
                interval_reason=bounds.reason if isinstance(bounds, Missing) else None,
                each={
                    name: None if isinstance(value, Missing) else value
                    for name, value in zip(joined.raters, found.each, strict=True)
                },
            )
        )
    return result


def _of_labels(table: LabelTable) -> Value:
    units: dict[object, int] = {}
    columns = [
        units.setdefault(place, len(units))
        for place in zip(table.keys, table.elements, strict=True)
    ]
    codes = {label: code for code, label in enumerate(dict.fromkeys(table.labels))}
    ratings = np.full((len(table.names), len(units)), np.nan)
    ratings[table.raters, columns] = [codes[label] for label in table.labels]
    return krippendorff_alpha(ratings, "nominal")


def _estimate(value: Value) -> Estimate:
    if isinstance(value, Missing):
        return Estimate(value=None, reason=value.reason)
    return Estimate(value=float(value))

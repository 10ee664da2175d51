"""Inter-rater agreement, and the human ceiling: how well each rater agrees with the others."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import numpy as np

from capeval.correlation.fields import CeilingResult, Raters
from capeval.correlation.joining import Joined
from capeval.correlation.video_level import Analysis
from capeval.files.ratings import LabelTable, RatingTable
from capeval.stats.agreement import combine_others, krippendorff_alpha
from capeval.stats.correlation import STATISTICS, Correlated, correlated, why_missing
from capeval.stats.values import (
    Coefficient,
    Floats,
    GroupingName,
    Ints,
    Missing,
    Value,
    number_of,
)


def agreement_of(
    table: RatingTable | LabelTable, joined: Sequence[Joined], settings: Analysis
) -> Raters:
    """Return Krippendorff's alpha, and each rater's agreement with the others.

    Alpha is interval for ratings and nominal for labels. A ceiling is computed for every human
    score, statistic and grouping that metrics are evaluated by, on the same captions.
    """
    rated = isinstance(table, RatingTable)
    if len(table.raters) < 2:
        alpha = Coefficient(None, reason="there is one rater")
    elif isinstance(table, RatingTable):
        alpha = krippendorff_alpha(table.ratings, table.keys.video, "interval")
    else:
        alpha = krippendorff_alpha(*_of_labels(table), "nominal")
    return Raters(
        names=table.raters,
        combined=settings.raters,
        alpha=alpha,
        level="interval" if rated else "nominal",
        ceiling=tuple(one for inputs in joined for one in _ceilings(inputs, settings)),
    )


def _ceilings(joined: Joined, settings: Analysis) -> list[CeilingResult]:
    """Return how each rater agrees with the aggregated score of the others, and the mean.

    A metric is compared with the aggregated score of all raters, which is steadier than that of all
    but one. So what is found here is no upper bound for a metric.
    """
    if len(joined.raters) < 2:
        return []
    how = "mean" if settings.raters == "each" else settings.raters
    others = combine_others(joined.ratings, how)
    ways = settings.protocol.pairs
    found: dict[tuple[str, GroupingName], dict[str, Value]] = {way: {} for way in ways}
    for name, own, rest in zip(joined.raters, joined.ratings, others, strict=True):
        there = ~np.isnan(own) & ~np.isnan(rest)
        design = joined.design.take(there)
        groupings = dict.fromkeys(grouping for _, grouping in ways) if there.any() else {}
        of = {g: correlated(own[there], rest[there], design, g) for g in groupings}
        for statistic, grouping in ways:
            found[statistic, grouping][name] = _value(of.get(grouping), statistic)
    results = []
    for (statistic, grouping), each in found.items():
        numbers = [value for value in each.values() if not isinstance(value, Missing)]
        reasons = dict.fromkeys(v.reason for v in each.values() if isinstance(v, Missing))
        results.append(
            CeilingResult(
                human=joined.human,
                statistic=statistic,
                grouping=grouping,
                each={name: number_of(value) for name, value in each.items()},
                value=fmean(numbers) if numbers else None,
                reason=None if numbers else "; ".join(reasons),
            )
        )
    return results


def _value(found: Correlated | None, name: str) -> Value:
    if found is None:
        return Missing("no caption is rated by another rater too")
    values = found.values(STATISTICS[name])
    values = values[~np.isnan(values)]
    return float(values.mean()) if len(values) else why_missing(found.sums, STATISTICS[name])


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

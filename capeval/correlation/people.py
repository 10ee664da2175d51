"""The people themselves: how far they agree, and the ceiling that this sets for a metric."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from capeval.correlation.human_scores import HumanScores
from capeval.correlation.result import Estimate, Raters
from capeval.files.ratings import LabelTable, RatingTable
from capeval.schema import RaterMode
from capeval.stats.agreement import krippendorff_alpha
from capeval.stats.raters import rater_ceiling
from capeval.stats.values import Missing, Statistic, Value

__all__ = ["agreement_of"]


def agreement_of(
    table: RatingTable | LabelTable,
    scores: HumanScores | None,
    statistics: Sequence[Statistic],
    how: RaterMode,
) -> Raters:
    """Return Krippendorff's alpha and each rater's agreement with all others.

    Alpha is interval for ratings, nominal for labels; `scores` are what the ceiling is of.
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
    ceiling: dict[Statistic, Estimate] = {}
    each: dict[Statistic, dict[str, float | None]] = {}
    if len(names) > 1 and scores is not None:
        for statistic in statistics:
            found = rater_ceiling(scores.ratings, statistic, how="mean" if how == "each" else how)
            ceiling[statistic] = _estimate(found.value)
            each[statistic] = {
                name: _estimate(value).value
                for name, value in zip(scores.raters, found.each, strict=True)
            }
    return Raters(
        names=names, combined=how, alpha=_estimate(alpha), level=level, ceiling=ceiling, each=each
    )


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

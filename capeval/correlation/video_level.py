"""Correlate metrics with human scores by every statistic and grouping; compare metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from statistics import fmean
from typing import Any

import numpy as np

from capeval.correlation.fields import (
    CeilingResult,
    ComparisonResult,
    Correlation,
    Groups,
    Notice,
    Raters,
    Ties,
)
from capeval.correlation.joining import Joined
from capeval.errors import UsageError
from capeval.files.ratings import LabelTable, RatingTable
from capeval.schema import RaterMode
from capeval.stats.agreement import combine, combine_others, krippendorff_alpha
from capeval.stats.correlation import (
    GROUPINGS,
    STATISTICS,
    Correlated,
    Design,
    Statistic,
    correlated,
    group_means,
    why_missing,
)
from capeval.stats.sign_flips import holm, rank_clusters
from capeval.stats.system_means import Values, drawn_values, interval_of, permutation_p
from capeval.stats.values import (
    FEWEST_LEFT_OUT,
    Coefficient,
    Floats,
    GroupingName,
    Inference,
    Ints,
    Mask,
    Missing,
    Value,
    jackknife,
    jackknife_difference,
    number_of,
    steady,
)
from capeval.text import nearest

# Below 30 captions, intervals are so wide that users should be warned.
FEW = 30
# Above this share of tied pairs, tau and rho depend on how ties are counted.
MANY_TIES = 0.3


@dataclass(frozen=True)
class StudyProtocol:
    """Which statistics to compute by which groupings, and the source of this choice.

    `binary` reduces three-way labels to covered or not.
    """

    name: str
    source: str
    pairs: tuple[tuple[str, GroupingName], ...]
    binary: bool = False


EVERYTHING = StudyProtocol("all", "", tuple((s, g) for g in GROUPINGS for s in STATISTICS))

TUNA = StudyProtocol(
    "tuna",
    "TUNA (ACL 2025), section 4.2 and B.2.4: one caption each of 40 videos; the human score is the "
    "weighted share of elements that raters find covered; Kendall, Spearman and Pearson over all "
    "captions",
    (("kendall_b", "pooled"), ("spearman", "pooled"), ("pearson", "pooled")),
    binary=True,
)


def protocol(
    name: str | None, statistics: Sequence[str] = (), groupings: Sequence[str] = ()
) -> StudyProtocol:
    """Return a protocol by name, else all statistics; limited to some statistics and groupings.

    >>> protocol("tuna", ["spearman"]).pairs
    (('spearman', 'pooled'),)
    """
    for given, known, what in (
        ([name] if name else [], [TUNA.name], "protocol"),
        (statistics, list(STATISTICS), "statistic"),
        (groupings, list(GROUPINGS), "grouping"),
    ):
        for one in given:
            if one not in known:
                near = nearest(one, known) or f"; one of {', '.join(known)}"
                raise UsageError(f"the {what} {one!r} is unknown{near}")
    whole = TUNA if name else EVERYTHING
    taken = tuple(
        (statistic, grouping)
        for statistic, grouping in whole.pairs
        if (not statistics or statistic in statistics) and (not groupings or grouping in groupings)
    )
    if not taken:
        pairs = ", ".join(f"{statistic} by {grouping}" for statistic, grouping in whole.pairs)
        raise UsageError(
            f"the protocol {whole.name} has none of these statistics and groupings; it has {pairs}"
        )
    return replace(whole, pairs=taken)


@dataclass(frozen=True)
class Analysis:
    """What to compute; the seed is for the grouping `system`."""

    protocol: StudyProtocol
    seed: int = 0
    raters: RaterMode = "mean"


@dataclass(frozen=True)
class _Scores:
    human: str
    rater: str | None
    y: Floats
    metrics: dict[str, Floats]
    design: Design

    def take(self, rows: Mask) -> _Scores:
        metrics = {name: values[rows] for name, values in self.metrics.items()}
        return _Scores(self.human, self.rater, self.y[rows], metrics, self.design.take(rows))

    def notice(self, kind: str, **values: object) -> Notice:
        return Notice(kind=kind, human=self.human, rater=self.rater, values=values)

    def notices(self) -> list[Notice]:
        found, videos = [], self.design.videos
        if videos < FEW:
            unit = "video" if self.design.repeats else "caption"
            found.append(
                self.notice(
                    "too_few" if videos < FEWEST_LEFT_OUT else "few", count=videos, unit=unit
                )
            )
        ties = [self.notice("ties", share=_tie_share(self.y))]
        ties += [
            Notice(kind="ties", metric=name, values={"share": _tie_share(values)})
            for name, values in self.metrics.items()
        ]
        return found + [one for one in ties if one.values["share"] > MANY_TIES]


def analyse(
    joined: Joined, settings: Analysis
) -> tuple[list[Correlation], list[ComparisonResult], list[Notice]]:
    results: list[Correlation] = []
    comparisons: list[ComparisonResult] = []
    notices = list(joined.warnings)
    for scores in _scores_of(joined, settings, notices):
        notices += scores.notices()
        for way in _ways(scores, settings):
            found, tests = way.results()
            results += found
            comparisons += tests
    return results, comparisons, notices


def _scores_of(joined: Joined, settings: Analysis, notices: list[Notice]) -> list[_Scores]:
    scores: list[tuple[str | None, Floats]]
    if settings.raters == "each":
        scores = list(zip(joined.raters, joined.ratings, strict=True))
    else:
        # The mean of the same ratings in another order must be the same number.
        largest = float(np.nanmax(np.abs(joined.ratings), initial=0.0))
        scores = [(None, steady(combine(joined.ratings, settings.raters), largest))]
    found = []
    for rater, y in scores:
        one = _Scores(joined.human, rater, y, joined.metrics, joined.design)
        there = ~np.isnan(y)
        if not there.any():
            notices.append(one.notice("no_human_score"))
            continue
        if not there.all():
            notices.append(one.notice("unrated", captions=int((~there).sum())))
        found.append(one if there.all() else one.take(there))
    return found


def _tie_share(values: Floats) -> float:
    sizes = np.unique(values, return_counts=True)[1].astype(float)
    return float((sizes * (sizes - 1)).sum() / max(1, len(values) * (len(values) - 1)))


# ---- All metrics by a grouping, and by a statistic ----------------------------------------------


@dataclass(frozen=True)
class _Grouped:
    scores: _Scores
    grouping: GroupingName
    seed: int

    @cached_property
    def by_metric(self) -> dict[str, Correlated]:
        scores = self.scores
        return {
            metric: correlated(x, scores.y, scores.design, self.grouping)
            for metric, x in scores.metrics.items()
        }

    @cached_property
    def drawn(self) -> dict[str, Values] | Missing:
        """The values of resampled system means, or why there are none."""
        scores = self.scores
        values = drawn_values([*scores.metrics.values()], scores.y, scores.design, self.seed)
        if isinstance(values, Missing):
            return values
        return dict(zip(scores.metrics, values, strict=True))


def _ways(scores: _Scores, settings: Analysis) -> list[_Way]:
    pairs = settings.protocol.pairs
    grouped = {grouping: _Grouped(scores, grouping, settings.seed) for _, grouping in pairs}
    return [_Way(grouped[grouping], STATISTICS[name]) for name, grouping in pairs]


@dataclass(frozen=True)
class _Way:
    """All metrics by one statistic and grouping."""

    of: _Grouped
    statistic: Statistic

    @cached_property
    def use(self) -> Mask:
        """The groups in which each metric that has any value has one: (groups,)."""
        there = [~np.isnan(one.values(self.statistic)) for one in self.of.by_metric.values()]
        # A constant metric has no usable group; the other metrics keep theirs.
        able = [one for one in there if one.any()]
        return np.asarray(np.all(able or there, axis=0))

    def value(self, metric: str) -> Value:
        found = self.of.by_metric[metric]
        values = found.values(self.statistic)[self.use]
        if not len(values) or np.isnan(values).any():
            return why_missing(found.sums, self.statistic, GROUPINGS[self.of.grouping].unit)
        return float(values.mean())

    def tested(self, *names: str) -> Inference | Missing:
        """Return the interval and p over other videos, of a value or of a difference."""
        values = []
        for name in names:
            value = self.value(name)
            if isinstance(value, Missing):
                return value
            values.append(value)
        if self.of.grouping != "system":
            each = [self.of.by_metric[name].left_out(self.statistic, self.use) for name in names]
            if len(names) == 1:
                return jackknife(values[0], each[0])
            return jackknife_difference((values[0], values[1]), (each[0], each[1]))
        drawn = self.of.drawn
        if isinstance(drawn, Missing):
            return drawn
        first, *second = (drawn[name][self.statistic.name] for name in names)
        return interval_of(
            values[0] - sum(values[1:]), first - sum(second), self.of.scores.design.videos
        )

    def results(self) -> tuple[list[Correlation], list[ComparisonResult]]:
        metrics = [*self.of.by_metric]
        values = [self.value(metric) for metric in metrics]
        pairs = list(combinations(range(len(metrics)), 2))
        tests = [self.tested(metrics[a], metrics[b]) for a, b in pairs]
        adjusted = holm([one if isinstance(one, Missing) else one.p for one in tests])
        clusters = rank_clusters(values, adjusted) if pairs else [None]
        correlations = [
            self._correlation(*one) for one in zip(metrics, values, clusters, strict=True)
        ]
        comparisons = []
        for (a, b), test, p in zip(pairs, tests, adjusted, strict=True):
            first, second = number_of(values[a]), number_of(values[b])
            apart = None if first is None or second is None else first - second
            comparisons.append(
                ComparisonResult(
                    first=metrics[a],
                    second=metrics[b],
                    difference=apart,
                    p_adjusted=number_of(p),
                    reason=test.reason if isinstance(test, Missing) else None,
                    **_bounds(test),
                    **self._about(metrics[a], there=apart is not None),
                )
            )
        return correlations, comparisons

    def _correlation(self, metric: str, value: Value, cluster: int | None) -> Correlation:
        bounds, missing = self.tested(metric), isinstance(value, Missing)
        numbers = _bounds(bounds)
        if self.of.grouping == "system" and not missing:
            scores = self.of.scores
            x, y = (
                group_means(side, scores.design.system)
                for side in (scores.metrics[metric], scores.y)
            )
            numbers["p"] = permutation_p(x, y, self.statistic, self.of.seed)
        ties = self.of.by_metric[metric].ties(self.use if self.use.any() else ~self.use)
        return Correlation(
            metric=metric,
            value=number_of(value),
            reason=value.reason if isinstance(value, Missing) else None,
            interval_reason=bounds.reason if isinstance(bounds, Missing) and not missing else None,
            ties=Ties(metric=number_of(ties[0]), human=number_of(ties[1])),
            cluster=cluster,
            **numbers,
            **self._about(metric, there=not missing),
        )

    def _about(self, metric: str, *, there: bool) -> dict[str, Any]:
        used = int(self.use.sum()) if there else 0
        return {
            "human": self.of.scores.human,
            "rater": self.of.scores.rater,
            "statistic": self.statistic.name,
            "grouping": self.of.grouping,
            "n": int(self.of.by_metric[metric].sums.size[self.use].sum()) if there else 0,
            "groups": Groups(used=used, dropped=len(self.use) - used),
        }


def _bounds(found: Inference | Missing) -> dict[str, float | None]:
    names = ("low", "high", "p")
    return {name: None if isinstance(found, Missing) else getattr(found, name) for name in names}


# ---- Human raters -------------------------------------------------------------------------------


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
        alpha = krippendorff_alpha(table.ratings, table.video, "interval")
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
    """Return each rater's agreement with the aggregated score of the others, and the mean."""
    if len(joined.raters) < 2:
        return []
    others = combine_others(
        joined.ratings, "mean" if settings.raters == "each" else settings.raters
    )
    pairs = settings.protocol.pairs
    found: dict[tuple[str, GroupingName], dict[str, Value]] = {pair: {} for pair in pairs}
    for name, own, rest in zip(joined.raters, joined.ratings, others, strict=True):
        there = ~np.isnan(own) & ~np.isnan(rest)
        scores = _Scores(joined.human, name, rest, {name: own}, joined.design).take(there)
        ways = _ways(scores, settings) if there.any() else [None] * len(pairs)
        for pair, way in zip(pairs, ways, strict=True):
            none = Missing("no caption has a second rater")
            found[pair][name] = way.value(name) if way else none
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
    video[columns] = table.video
    return ratings, video

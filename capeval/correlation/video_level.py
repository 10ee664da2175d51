"""Correlate metrics with human scores by every statistic and grouping, and compare the metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from capeval.correlation.fields import ComparisonResult, Correlation, Groups, Notice, Ties
from capeval.correlation.joining import Joined, in_order
from capeval.correlation.protocols import StudyProtocol
from capeval.schema import RaterMode
from capeval.stats.agreement import combine
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
from capeval.stats.jackknife import FEWEST, Inference, difference, jackknife
from capeval.stats.sign_flips import holm, rank_clusters
from capeval.stats.system_means import Values, drawn_values, interval_of, permutation_p
from capeval.stats.values import Floats, GroupingName, Mask, Missing, Value, number_of, steady

# Below 30 captions, intervals are so wide that users should be warned.
FEW = 30
# Above this share of tied pairs, tau and rho depend on how ties are counted.
MANY_TIES = 0.3


@dataclass(frozen=True)
class Analysis:
    """What to compute; the seed is that of the grouping `system`."""

    protocol: StudyProtocol
    seed: int = 0
    raters: RaterMode = "mean"


@dataclass(frozen=True)
class _Scores:
    """One human score with the scores of all metrics on the same captions."""

    human: str
    rater: str | None
    y: Floats
    metrics: dict[str, Floats]
    design: Design

    def notice(self, kind: str, **values: object) -> Notice:
        return Notice(kind=kind, human=self.human, rater=self.rater, values=values)


def analyse(
    joined: Joined, settings: Analysis
) -> tuple[list[Correlation], list[ComparisonResult], list[Notice]]:
    """Return correlations, comparisons of the metrics, and notices; the captions' order is free."""
    results: list[Correlation] = []
    comparisons: list[ComparisonResult] = []
    notices = list(joined.warnings)
    joined = in_order(joined)
    ways = settings.protocol.pairs
    for scores in _scores_of(joined, settings, notices):
        notices += _notices(scores)
        found: dict[tuple[str, GroupingName], _Way] = {}
        for grouping in dict.fromkeys(grouping for _, grouping in ways):
            names = [statistic for statistic, of in ways if of == grouping]
            for way in _by_grouping(scores, grouping, names, settings.seed):
                found[way.statistic.name, grouping] = way
        for pair in ways:
            tests = found[pair].comparisons()
            results += _ranked(found[pair].results(), tests)
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
            metrics = {name: values[there] for name, values in joined.metrics.items()}
            one = _Scores(joined.human, rater, y[there], metrics, joined.design.take(there))
        found.append(one)
    return found


def _notices(scores: _Scores) -> list[Notice]:
    design, found = scores.design, []
    if design.videos < FEW:
        unit = "video" if design.repeats else "caption"
        kind = "too_few" if design.videos < FEWEST else "few"
        found.append(scores.notice(kind, count=design.videos, unit=unit))
    ties = [scores.notice("ties", share=_tie_share(scores.y))]
    ties += [
        Notice(kind="ties", metric=name, values={"share": _tie_share(values)})
        for name, values in scores.metrics.items()
    ]
    return found + [one for one in ties if one.values["share"] > MANY_TIES]


def _tie_share(values: Floats) -> float:
    sizes = np.unique(values, return_counts=True)[1].astype(float)
    return float((sizes * (sizes - 1)).sum() / max(1, len(values) * (len(values) - 1)))


@dataclass(frozen=True)
class _Way:
    """All metrics by one statistic and grouping.

    Attributes
    ----------
    by_metric : what is correlated
    use : (groups,), the groups in which each metric that has any value has one
    drawn : by system, the values of drawn means, or why there are none
    """

    scores: _Scores
    statistic: Statistic
    grouping: GroupingName
    by_metric: Mapping[str, Correlated]
    use: Mask
    drawn: Mapping[str, Values] | Missing
    seed: int

    def value(self, metric: str) -> Value:
        found = self.by_metric[metric]
        values = found.values(self.statistic)[self.use]
        if not len(values) or np.isnan(values).any():
            return why_missing(found.sums, self.statistic, GROUPINGS[self.grouping].unit)
        return float(values.mean())

    def tested(self, metric: str, other: str | None = None) -> Inference | Missing:
        """Return the interval and p over other videos, of a value or of one minus another."""
        names = [metric] if other is None else [metric, other]
        values = [self.value(name) for name in names]
        numbers = [value for value in values if not isinstance(value, Missing)]
        if len(numbers) < len(values):
            return next(value for value in values if isinstance(value, Missing))
        if self.grouping != "system":
            left_out = [self.by_metric[name].left_out(self.statistic, self.use) for name in names]
            if other is None:
                return jackknife(numbers[0], left_out[0])
            return difference((numbers[0], numbers[1]), (left_out[0], left_out[1]))
        if isinstance(self.drawn, Missing):
            return self.drawn
        value, drawn = numbers[0], self.drawn[metric][self.statistic.name]
        if other is not None:
            value, drawn = value - numbers[1], drawn - self.drawn[other][self.statistic.name]
        return interval_of(value, drawn, self.scores.design.videos)

    def results(self) -> list[Correlation]:
        return [self._result(metric) for metric in self.by_metric]

    def _result(self, metric: str) -> Correlation:
        value, bounds = self.value(metric), self.tested(metric)
        missing = isinstance(value, Missing)
        p = bounds.p if isinstance(bounds, Inference) else None
        if self.grouping == "system" and not missing:
            x, y = (
                group_means(side, self.scores.design.system)
                for side in (self.scores.metrics[metric], self.scores.y)
            )
            p = permutation_p(x, y, self.statistic, self.seed)
        of_metric, of_human = self.by_metric[metric].ties(self.use if self.use.any() else ~self.use)
        return Correlation(
            metric=metric,
            value=number_of(value),
            low=bounds.low if isinstance(bounds, Inference) else None,
            high=bounds.high if isinstance(bounds, Inference) else None,
            p=p,
            reason=value.reason if isinstance(value, Missing) else None,
            interval_reason=bounds.reason if isinstance(bounds, Missing) and not missing else None,
            ties=Ties(metric=number_of(of_metric), human=number_of(of_human)),
            **self._about(metric, there=not missing),
        )

    def _about(self, metric: str, *, there: bool) -> dict[str, Any]:
        """Return what a result is about, and how many captions and groups it is of."""
        used = int(self.use.sum()) if there else 0
        return {
            "human": self.scores.human,
            "rater": self.scores.rater,
            "statistic": self.statistic.name,
            "grouping": self.grouping,
            "n": int(self.by_metric[metric].sums.size[self.use].sum()) if there else 0,
            "groups": Groups(used=used, dropped=len(self.use) - used),
        }

    def comparisons(self) -> list[ComparisonResult]:
        pairs = list(combinations(self.by_metric, 2))
        found = [self.tested(*pair) for pair in pairs]
        adjusted = holm([one if isinstance(one, Missing) else one.p for one in found])
        results = []
        for (first, second), one, p in zip(pairs, found, adjusted, strict=True):
            a, b = (number_of(self.value(name)) for name in (first, second))
            apart = None if a is None or b is None else a - b
            tested = one if isinstance(one, Inference) else None
            results.append(
                ComparisonResult(
                    first=first,
                    second=second,
                    difference=apart,
                    low=tested and tested.low,
                    high=tested and tested.high,
                    p=tested and tested.p,
                    p_adjusted=number_of(p),
                    reason=one.reason if isinstance(one, Missing) else None,
                    **self._about(first, there=apart is not None),
                )
            )
        return results


def _by_grouping(
    scores: _Scores,
    grouping: GroupingName,
    names: Sequence[str],
    seed: int,
) -> list[_Way]:
    by_metric = {
        metric: correlated(x, scores.y, scores.design, grouping)
        for metric, x in scores.metrics.items()
    }
    drawn: dict[str, Values] | Missing = Missing("only systems' means are drawn")
    if grouping == "system":
        values = drawn_values([*scores.metrics.values()], scores.y, scores.design, seed)
        drawn = (
            values
            if isinstance(values, Missing)
            else dict(zip(scores.metrics, values, strict=True))
        )
    ways = []
    for name in names:
        statistic = STATISTICS[name]
        there = [~np.isnan(one.values(statistic)) for one in by_metric.values()]
        # A constant metric has no usable group; the other metrics keep theirs.
        able = [one for one in there if one.any()]
        use = np.all(able or there, axis=0)
        ways.append(_Way(scores, statistic, grouping, by_metric, use, drawn, seed))
    return ways


def _ranked(found: list[Correlation], tests: Sequence[ComparisonResult]) -> list[Correlation]:
    """Return results of several metrics with the rank of each, from the tests of every two."""
    if len(found) < 2:
        return found
    place = {result.metric: at for at, result in enumerate(found)}
    unknown: Value = Missing("not tested")
    table: list[list[Value]] = [[unknown] * len(found) for _ in found]
    for test in tests:
        if test.p_adjusted is not None:
            a, b = place[test.first], place[test.second]
            table[a][b] = table[b][a] = test.p_adjusted
    values = [Missing(r.reason or "none") if r.value is None else r.value for r in found]
    return [
        result.model_copy(update={"cluster": cluster})
        for result, cluster in zip(found, rank_clusters(values, table), strict=True)
    ]

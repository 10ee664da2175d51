"""Correlate metrics with human scores by every statistic and grouping, and compare the metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import combinations, compress
from types import MappingProxyType

import numpy as np

from capeval.correlation.joining import Joined, in_order
from capeval.correlation.protocols import Protocol
from capeval.correlation.result import (
    HUMAN_WORDS,
    ComparisonResult,
    Correlation,
    Groups,
    Ties,
    bounds_of,
    number_of,
    reason_of,
)
from capeval.schema import RaterMode
from capeval.stats.comparison import MetricComparison, compare, leave_one_system_out, williams
from capeval.stats.design import Design, first_rows
from capeval.stats.estimate import common_to
from capeval.stats.groupings import POOLED, grouping_of
from capeval.stats.intervals import Kind, interval
from capeval.stats.multiple_testing import holm, rank_clusters
from capeval.stats.pair import Pair
from capeval.stats.pairwise import calibrate
from capeval.stats.percentiles import bootstrap_p
from capeval.stats.raters import combine, constant_raters
from capeval.stats.resampling import FEWEST
from capeval.stats.significance import PERMUTATIONS, RESAMPLES, p_value
from capeval.stats.soft_accuracy import SOFT_ACCURACY, compare_soft, soft_accuracy
from capeval.stats.statistic import ACC_EQ, PEARSON
from capeval.stats.values import (
    Floats,
    GroupingName,
    Interval,
    Mask,
    Missing,
    PValue,
    Value,
    steady,
)
from capeval.text import counted

# Below 30 captions, intervals are so wide that users should be warned.
FEW = 30
# Above this share of tied pairs, tau and rho depend on how ties are counted.
MANY_TIES = 0.3
# Leaving each system out repeats the statistic; for more captions this would take too long.
_LEAVE_OUT = 20_000
# Permutations for a comparison, and the p that the best comparison must be able to reach.
_PERMUTATIONS = 1_000
_REACHED = 0.01
# Of 95% intervals.
_TAIL = 0.05
# For fewer captions, starting threads takes longer than they save.
_AT_ONCE = 100_000

_Way = tuple[str, GroupingName]
_Found = tuple[list[Correlation], list[ComparisonResult]]


@dataclass(frozen=True)
class Settings:
    """What to compute, and how; with `resamples` None each method uses its own number."""

    protocol: Protocol
    ci: Kind | None = None
    resamples: int | None = None
    seed: int = 0
    raters: RaterMode = "mean"

    @property
    def bootstrap_resamples(self) -> int:
        """The number of bootstrap resamples."""
        return RESAMPLES if self.resamples is None else self.resamples


@dataclass(frozen=True)
class _Scores:
    """One human score with the scores of all metrics on the same captions."""

    human: str
    rater: str | None
    y: Floats
    metrics: dict[str, Pair]
    design: Design
    systems: tuple[str, ...]


def analyse(
    joined: Joined, settings: Settings, step: Callable[[], None] = lambda: None
) -> tuple[list[Correlation], list[ComparisonResult], list[str]]:
    """Return correlations, comparisons of the metrics, and warnings.

    The order of the captions does not matter. `step` is called `steps_of` times.
    """
    results: list[Correlation] = []
    comparisons: list[ComparisonResult] = []
    warnings: list[str] = list(joined.warnings)
    joined = in_order(joined)
    pairs = len(joined.metrics) * (len(joined.metrics) - 1) // 2
    permutations = settings.resamples
    if permutations is None:
        # Enough for an adjusted p (Holm) of .01.
        permutations = max(_PERMUTATIONS, 100 * pairs)
    for scores in _scores_of(joined, settings, warnings):
        warnings += _warnings(scores)
        found = _every_way(scores, settings, permutations, step)
        for way in settings.protocol.pairs:
            results += found[way][0]
            comparisons += found[way][1]
        warnings += _coarse(scores, settings, found)
    least = pairs / (permutations + 1)
    if least > _REACHED and comparisons:
        warnings.append(
            f"{permutations} resamples for {pairs} pairs of metrics: no adjusted p of a "
            f"permutation test can be below {min(least, 1.0):.2g}; leave --resamples out, or set "
            f"it to {100 * pairs} or more"
        )
    return results, comparisons, warnings


def steps_of(joined: Joined, settings: Settings) -> int:
    """Return the number of correlations and of pairs of metrics compared by a grouping."""
    metrics = len(joined.metrics)
    groupings = len({grouping for _, grouping in settings.protocol.pairs})
    humans = len(joined.raters) if settings.raters == "each" else 1
    tests = metrics * (metrics - 1) // 2 * groupings
    return humans * (metrics * len(settings.protocol.pairs) + tests)


def _every_way(
    scores: _Scores, settings: Settings, permutations: int, step: Callable[[], None]
) -> dict[_Way, _Found]:
    """Return the results by statistic and grouping.

    Groupings share little work, and numpy releases the interpreter lock while it sorts and adds:
    for many captions, two groupings run at a time. Their results do not depend on each other.
    """
    groupings = dict.fromkeys(grouping for _, grouping in settings.protocol.pairs)

    def by_grouping(grouping: GroupingName) -> dict[_Way, _Found]:
        ways = [way for way in settings.protocol.pairs if way[1] == grouping]
        soft = [way for way in ways if way[0] == SOFT_ACCURACY]
        ways = [way for way in ways if way not in soft]
        statistics = [statistic for statistic, _ in ways]
        compared_pairs = _compared_pairs(scores, statistics, grouping, settings, permutations, step)
        result: dict[_Way, _Found] = {}
        for way in ways:
            tests = _compare(scores, way, compared_pairs[way[0]])
            result[way] = clustered(_one_way(scores, way, settings, step), tests), tests
        for way in soft:
            tests = _compare(scores, way, _soft_comparisons(scores, settings, permutations))
            result[way] = clustered(_soft(scores, settings, step), tests), tests
        return result

    if len(scores.y) < _AT_ONCE:
        parts = list(map(by_grouping, groupings))
    else:
        with ThreadPoolExecutor(2) as pool:
            parts = list(pool.map(by_grouping, groupings))
    return {way: one for part in parts for way, one in part.items()}


def _scores_of(joined: Joined, settings: Settings, warnings: list[str]) -> list[_Scores]:
    scores: list[tuple[str | None, Floats]]
    if settings.raters == "each":
        scores = list(zip(joined.raters, joined.ratings, strict=True))
    else:
        if settings.raters == "zmean" and (same := constant_raters(joined.ratings)).any():
            names = ", ".join(compress(joined.raters, same))
            warnings.append(f"{names} gave one number to all captions and is left out of zmean")
        # The mean of the same ratings in another order must be the same number.
        largest = float(np.nanmax(np.abs(joined.ratings), initial=0.0))
        scale = 1.0 if settings.raters == "zmean" else largest
        scores = [(None, steady(combine(joined.ratings, settings.raters), scale))]
    result = []
    for rater, given in scores:
        there = ~np.isnan(given)
        who = f" of {rater}" if rater else ""
        if not there.any():
            warnings.append(f"there is no human score{who} to compare a metric with")
            continue
        y, metrics, design = given, joined.metrics, joined.design
        if not there.all():
            lacking = int((~there).sum())
            have = "has" if lacking == 1 else "have"
            warnings.append(f"{counted(lacking, 'caption')} {have} no human score{who}")
            design = design.take(there)
            y, metrics = y[there], {name: values[there] for name, values in metrics.items()}
        # `take` keeps the order of the systems' numbers: that of first appearance.
        rows = np.flatnonzero(there)[first_rows(design.system)]
        systems = tuple(str(joined.keys[int(row)][1]) for row in rows)
        result.append(
            _Scores(
                joined.human,
                rater,
                y,
                {name: Pair.of(values, y, design) for name, values in metrics.items()},
                design,
                systems,
            )
        )
    return result


def _who(scores: _Scores) -> str:
    of = f" of {scores.rater}" if scores.rater else ""
    return f"human {HUMAN_WORDS.get(scores.human, scores.human)}{of}"


def _warnings(scores: _Scores) -> list[str]:
    videos, who = scores.design.videos, _who(scores)
    found = []
    if videos < FEW:
        what = ("video" if scores.design.repeats else "caption") + ("" if videos == 1 else "s")
        warning = f"{videos} {what} are few (below {FEW}): intervals will be wide"
        if videos < FEWEST:
            none = ", and no p" if scores.design.repeats else ""
            warning = f"{videos} {what}: no intervals{none} by resampling (needs {FEWEST})"
        found.append(f"{who}: {warning}")
    ties = {name: pair.ties(POOLED) for name, pair in scores.metrics.items()}
    shares = {who: next(iter(ties.values()))[1]}
    shares |= {name: of_metric for name, (of_metric, _) in ties.items()}
    for name, share in shares.items():
        if share == 1:
            found.append(f"{name} is constant: it has no correlation")
        elif share > MANY_TIES:
            found.append(
                f"{name} ties {100 * share:.0f}% of all pairs (above 30%): see "
                "--full --statistic acc_eq"
            )
    return found


def _coarse(scores: _Scores, settings: Settings, found: dict[_Way, _Found]) -> list[str]:
    """Return a warning if no bootstrap p can be below .05, whatever the interval excludes."""
    draws, videos = settings.bootstrap_resamples, scores.design.videos
    resampled = any(
        any(r.test == "bootstrap of videos" for r in results)
        or any(c.method == "bootstrap" and c.p is not None for c in tests)
        for results, tests in found.values()
    )
    if not resampled or (least := bootstrap_p(np.ones(draws), videos)) <= _TAIL:
        return []
    warning = (
        f"{_who(scores)}: {draws} resamples of {videos} videos: no p by resampling can be below "
        f"{least:.2g}, even where the interval excludes 0; leave --resamples out, or raise it"
    )
    return [warning]


def _one_way(
    scores: _Scores, way: _Way, settings: Settings, step: Callable[[], None]
) -> list[Correlation]:
    only: Mask | None = None
    if len(scores.metrics) > 1:
        # A constant metric has no usable group; the other metrics keep theirs.
        pairs = scores.metrics.values()
        able = [pair for pair in pairs if not np.isnan(pair.values(*way)).all()]
        if able:
            only = common_to(able, *way)
    found = []
    for name in scores.metrics:
        found.append(_one(scores, name, way, settings, only))
        step()
    return found


def _one(
    scores: _Scores, name: str, way: _Way, settings: Settings, only: Mask | None
) -> Correlation:
    pair = scores.metrics[name]
    statistic, grouping = way
    threshold: Value = 0.0
    accuracies: dict[str, float | None] = {}
    if statistic == ACC_EQ.name:
        fitted = calibrate(pair, grouping, seed=settings.seed)
        if not grouping_of(grouping).means:
            threshold = fitted.threshold
        accuracies = {
            "threshold": number_of(threshold),
            "cross_fitted": number_of(fitted.cross_fitted),
            "untied": number_of(fitted.untied),
            "constant": number_of(fitted.constant),
        }
    used = 0.0 if isinstance(threshold, Missing) else threshold
    untied = pair.by(*way, only=only)
    found = pair.by(*way, threshold=used, only=only) if used else untied
    value: Value = threshold if isinstance(threshold, Missing) else found.value
    result = partial(
        _correlation,
        scores,
        name,
        way,
        value,
        found.n,
        Groups(used=found.used, dropped=found.dropped),
    )
    if isinstance(value, Missing):
        return result(accuracies=accuracies)
    bounds = interval(found, ci=settings.ci, seed=settings.seed, draws=settings.bootstrap_resamples)
    # A threshold fitted to the same pairs would bias the test: it uses the untied accuracy.
    test = p_value(untied, ci=settings.ci, seed=settings.seed, draws=settings.resamples)
    without: Sequence[Value] = ()
    if 3 <= scores.design.systems <= 50 and len(pair.x) <= _LEAVE_OUT:
        without = leave_one_system_out(found)
    return result(bounds=bounds, test=test, without=without, accuracies=accuracies)


def _correlation(
    scores: _Scores,
    name: str,
    way: _Way,
    value: Value,
    n: int,
    groups: Groups,
    *,
    bounds: Interval | Missing | None = None,
    test: PValue | Missing | None = None,
    without: Sequence[Value] = (),
    accuracies: Mapping[str, float | None] = MappingProxyType({}),
) -> Correlation:
    of_metric, of_human = scores.metrics[name].ties(way[1])
    tested = test if isinstance(test, PValue) else None
    return Correlation(
        metric=name,
        human=scores.human,
        rater=scores.rater,
        statistic=way[0],
        grouping=way[1],
        value=number_of(value),
        n=n,
        groups=groups,
        reason=reason_of(value),
        ties=Ties(metric=number_of(of_metric), human=number_of(of_human)),
        interval=bounds.method if isinstance(bounds, Interval) else None,
        p=tested and tested.p,
        test=tested and tested.method,
        p_least=tested and tested.least,
        p_reason=reason_of(test),
        without=dict(zip(scores.systems, map(number_of, without), strict=False)),
        **bounds_of(bounds),
        **accuracies,
    )


def _resamples(settings: Settings) -> int:
    return 0 if settings.ci == "none" else settings.bootstrap_resamples


def _soft(scores: _Scores, settings: Settings, step: Callable[[], None]) -> list[Correlation]:
    """Return the soft pairwise accuracy of every metric."""
    found = []
    draws = PERMUTATIONS if settings.resamples is None else settings.resamples
    for name, pair in scores.metrics.items():
        one = soft_accuracy(pair, seed=settings.seed, draws=draws, resamples=_resamples(settings))
        missing = isinstance(one.value, Missing)
        found.append(
            _correlation(
                scores,
                name,
                (SOFT_ACCURACY, "system"),
                one.value,
                0 if missing else scores.design.systems,
                Groups(used=int(not missing), dropped=int(missing)),
                bounds=one.interval,
                test=one.p,
                without=one.without,
            )
        )
        step()
    return found


def _soft_comparisons(
    scores: _Scores, settings: Settings, permutations: int
) -> list[MetricComparison]:
    resamples = _resamples(settings)
    return [
        compare_soft(one, two, seed=settings.seed, draws=permutations, resamples=resamples)
        for one, two in combinations(scores.metrics.values(), 2)
    ]


def _compared_pairs(
    scores: _Scores,
    statistics: Sequence[str],
    grouping: GroupingName,
    settings: Settings,
    permutations: int,
    step: Callable[[], None],
) -> dict[str, list[MetricComparison]]:
    """Return the comparisons of all pairs of metrics by each statistic."""

    def threshold(pair: Pair) -> float:
        if grouping_of(grouping).means or ACC_EQ.name not in statistics:
            return 0.0
        found = calibrate(pair, grouping, seed=settings.seed)
        return 0.0 if isinstance(found.threshold, Missing) else found.threshold

    metrics = list(scores.metrics.values())
    return compare(
        metrics,
        statistics,
        grouping,
        draws=permutations,
        seed=settings.seed,
        thresholds=list(map(threshold, metrics)),
        step=step,
        resamples=_resamples(settings),
    )


def _compare(
    scores: _Scores, way: _Way, compared_pairs: Sequence[MetricComparison]
) -> list[ComparisonResult]:
    families = [compared_pairs]
    if way == (PEARSON.name, POOLED.name) and not scores.design.repeats:
        families.append(
            [
                williams(one.x, two.x, scores.y, scores.design)
                for one, two in combinations(scores.metrics.values(), 2)
            ]
        )
    return [
        ComparisonResult(
            first=first,
            second=second,
            human=scores.human,
            rater=scores.rater,
            statistic=way[0],
            grouping=way[1],
            difference=number_of(test.difference),
            p=number_of(test.p),
            p_adjusted=number_of(p),
            p_one_sided=number_of(test.one_sided),
            **bounds_of(test.interval),
            method=test.method,
            n=test.n,
            groups=Groups(used=test.used, dropped=test.dropped),
            reason=reason_of(test.p),
        )
        for tests in families
        for (first, second), test, p in zip(
            combinations(scores.metrics, 2), tests, holm([test.p for test in tests]), strict=True
        )
    ]


def clustered(found: list[Correlation], tests: Sequence[ComparisonResult]) -> list[Correlation]:
    """Return results of several metrics with the rank of each, from the tests of every two."""
    if len(found) < 2:
        return found
    place = {result.metric: at for at, result in enumerate(found)}
    unknown: Value = Missing("not tested")
    table: list[list[Value]] = [[unknown] * len(found) for _ in found]
    for test in tests:
        if test.method != "williams" and test.p_adjusted is not None:
            a, b = place[test.first], place[test.second]
            table[a][b] = table[b][a] = test.p_adjusted
    values = [Missing(r.reason or "none") if r.value is None else r.value for r in found]
    return [
        result.model_copy(update={"cluster": cluster})
        for result, cluster in zip(found, rank_clusters(values, table), strict=True)
    ]

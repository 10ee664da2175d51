"""Metrics against people's scores of captions: every statistic by every grouping, and compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypedDict

import numpy as np

from capeval.correlation.joining import Joined
from capeval.correlation.protocols import Protocol
from capeval.correlation.result import ComparisonResult, Correlation, Groups, Ties
from capeval.schema import RaterMode
from capeval.stats.comparison import (
    Comparison,
    holm,
    leave_one_system_out,
    paired_permutation,
    rank_clusters,
    williams,
)
from capeval.stats.design import Design
from capeval.stats.grouping import common_to, grouped
from capeval.stats.intervals import Kind, interval
from capeval.stats.pair import Pair
from capeval.stats.pairwise import Calibration, calibrate
from capeval.stats.ranks import tie_share
from capeval.stats.raters import combine, constant_raters
from capeval.stats.significance import p_value
from capeval.stats.values import Floats, Grouping, Mask, Missing, Statistic, Value

__all__ = ["FEW", "MANY_TIES", "Settings", "analyse"]

FEW = 30
MANY_TIES = 0.3
_LEAVE_OUT = 20_000


@dataclass(frozen=True)
class Settings:
    """How much and what is taken; `draws` None leaves each method its own number."""

    protocol: Protocol
    ci: Kind | None = None
    draws: int | None = None
    seed: int = 0
    raters: RaterMode = "mean"


@dataclass(frozen=True)
class _Sides:
    """One human score with all metrics."""

    human: str
    rater: str | None
    y: Floats
    metrics: dict[str, Pair]
    design: Design
    systems: tuple[str, ...]


def analyse(
    joined: Joined, settings: Settings
) -> tuple[list[Correlation], list[ComparisonResult], list[str]]:
    """Return correlations, comparisons of the metrics, and warnings."""
    results: list[Correlation] = []
    comparisons: list[ComparisonResult] = []
    warnings: list[str] = list(joined.warnings)
    for sides in _sides(joined, settings, warnings):
        warnings += _warnings(sides)
        for statistic, grouping in settings.protocol.taken:
            found = _one_way(sides, statistic, grouping, settings)
            tests = _compare(sides, statistic, grouping, settings)
            results += _clustered(found, tests)
            comparisons += tests
    return results, comparisons, warnings


def _sides(joined: Joined, settings: Settings, warnings: list[str]) -> list[_Sides]:
    scores: list[tuple[str | None, Floats]]
    if settings.raters == "each":
        scores = list(zip(joined.raters, joined.ratings, strict=True))
    else:
        if settings.raters == "zmean":
            same = [
                name
                for name, constant in zip(
                    joined.raters, constant_raters(joined.ratings), strict=True
                )
                if constant
            ]
            if same:
                warnings.append(
                    f"{', '.join(same)} gave one number to all captions and is left out of zmean"
                )
        scores = [(None, combine(joined.ratings, settings.raters))]
    result = []
    for rater, y in scores:
        there = ~np.isnan(y)
        who = f" of {rater}" if rater else ""
        if not there.any():
            warnings.append(f"there is no human score{who} to hold a metric against")
            continue
        design = joined.design
        if not there.all():
            warnings.append(f"{int((~there).sum())} captions have no human score{who}")
            design = design.take(there)
        # `take` keeps the order of the systems' numbers, which is that of first sight.
        rows = np.flatnonzero(there)[np.unique(joined.design.system[there], return_index=True)[1]]
        systems = tuple(str(joined.keys[int(row)][1]) for row in rows)
        result.append(
            _Sides(
                joined.human,
                rater,
                y[there],
                {
                    name: Pair.of(values[there], y[there], design)
                    for name, values in joined.metrics.items()
                },
                design,
                systems,
            )
        )
    return result


def _warnings(sides: _Sides) -> list[str]:
    n = len(sides.y)
    who = f"{sides.human} of {sides.rater}" if sides.rater else sides.human
    found = []
    if n < FEW:
        found.append(f"human {who}: {n} captions are few (below {FEW}): intervals will be wide")
    shares = {f"human {who}": tie_share(sides.y)}
    shares |= {name: pair.ties("pooled")[0] for name, pair in sides.metrics.items()}
    for name, share in shares.items():
        if share == 1:
            found.append(f"{name} is constant: it has no correlation")
        elif share > MANY_TIES:
            found.append(f"{name} ties {100 * share:.0f}% of all pairs (above 30%): see acc_eq")
    return found


def _one_way(
    sides: _Sides, statistic: Statistic, grouping: Grouping, settings: Settings
) -> list[Correlation]:
    only: Mask | None = None
    if len(sides.metrics) > 1:
        # A constant metric has no group at all; it must not take the others' from them.
        able = [
            pair
            for pair in sides.metrics.values()
            if not np.isnan(pair.values(statistic, grouping)).all()
        ]
        if able:
            only = common_to(able, statistic, grouping)
    return [
        _one(sides, name, pair, statistic, grouping, settings, only)
        for name, pair in sides.metrics.items()
    ]


def _one(
    sides: _Sides,
    name: str,
    pair: Pair,
    statistic: Statistic,
    grouping: Grouping,
    settings: Settings,
    only: Mask | None,
) -> Correlation:
    x, y, design = pair.x, pair.y, pair.design
    calibration = None
    threshold: Value = 0.0
    if statistic == "acc_eq":
        calibration = calibrate(x, y, design, grouping, seed=settings.seed, pair=pair)
        if grouping != "system":
            threshold = calibration.threshold
    used = 0.0 if isinstance(threshold, Missing) else threshold
    found = grouped(x, y, design, statistic, grouping, threshold=used, only=only, pair=pair)
    value: Value = threshold if isinstance(threshold, Missing) else found.value
    of_metric, of_human = pair.ties(grouping)
    base = Correlation(
        metric=name,
        human=sides.human,
        rater=sides.rater,
        statistic=statistic,
        grouping=grouping,
        value=_value(value),
        n=found.n,
        groups=Groups(used=found.used, dropped=found.dropped),
        threshold=_value(threshold) if statistic == "acc_eq" else None,
        reason=_reason(value),
        ties=Ties(metric=_number(of_metric), human=_number(of_human)),
    ).model_copy(update=_accuracies(calibration))
    if isinstance(value, Missing):
        return base
    draws = _draws(settings)
    bounds = interval(
        x,
        y,
        design,
        statistic,
        grouping,
        ci=settings.ci,
        seed=settings.seed,
        threshold=used,
        only=only if grouping not in ("pooled", "system") else None,
        pair=pair,
        **draws,
    )
    # A threshold found on these very pairs would flatter the test: it is of the untied accuracy.
    test = p_value(
        x, y, design, statistic, grouping, seed=settings.seed, only=only, pair=pair, **draws
    )
    return base.model_copy(
        update={
            "low": None if isinstance(bounds, Missing) else bounds.low,
            "high": None if isinstance(bounds, Missing) else bounds.high,
            "interval": None if isinstance(bounds, Missing) else bounds.method,
            "interval_reason": bounds.reason if isinstance(bounds, Missing) else None,
            "p": None if isinstance(test, Missing) else test.p,
            "test": None if isinstance(test, Missing) else test.method,
            "p_reason": test.reason if isinstance(test, Missing) else None,
            "without": _without(sides, x, statistic, grouping, used),
        }
    )


class _Draws(TypedDict, total=False):
    draws: int


def _draws(settings: Settings) -> _Draws:
    """Return how many draws were asked for, or nothing."""
    return {} if settings.draws is None else {"draws": settings.draws}


def _accuracies(calibration: Calibration | None) -> dict[str, float | None]:
    if calibration is None:
        return {}
    return {
        "cross_fitted": _value(calibration.cross_fitted),
        "untied": _value(calibration.untied),
        "constant": _value(calibration.constant),
    }


def _without(
    sides: _Sides, x: Floats, statistic: Statistic, grouping: Grouping, threshold: float
) -> dict[str, float | None]:
    if not 3 <= sides.design.systems <= 50 or len(x) > _LEAVE_OUT:
        return {}
    left = leave_one_system_out(x, sides.y, sides.design, statistic, grouping, threshold=threshold)
    return {system: _value(found.value) for system, found in zip(sides.systems, left, strict=True)}


def _compare(
    sides: _Sides, statistic: Statistic, grouping: Grouping, settings: Settings
) -> list[ComparisonResult]:
    pairs = list(combinations(sides.metrics, 2))
    if not pairs:
        return []
    thresholds = dict.fromkeys(sides.metrics, 0.0)
    if statistic == "acc_eq" and grouping == "item":
        for name, pair in sides.metrics.items():
            found = calibrate(
                pair.x, pair.y, pair.design, grouping, seed=settings.seed, pair=pair
            ).threshold
            thresholds[name] = 0.0 if isinstance(found, Missing) else found
    swapped = [
        paired_permutation(
            sides.metrics[a].x,
            sides.metrics[b].x,
            sides.y,
            sides.design,
            statistic,
            grouping,
            seed=settings.seed,
            thresholds=(thresholds[a], thresholds[b]),
            **_draws(settings),
        )
        for a, b in pairs
    ]
    tests = _adjusted(sides, statistic, grouping, pairs, swapped)
    if statistic == "pearson" and grouping == "pooled" and not sides.design.repeats:
        classic = [
            williams(sides.metrics[a].x, sides.metrics[b].x, sides.y, sides.design)
            for a, b in pairs
        ]
        tests += _adjusted(sides, statistic, grouping, pairs, classic)
    return tests


def _adjusted(
    sides: _Sides,
    statistic: Statistic,
    grouping: Grouping,
    pairs: Sequence[tuple[str, str]],
    tests: Sequence[Comparison],
) -> list[ComparisonResult]:
    adjusted = holm([test.p for test in tests])
    return [
        ComparisonResult(
            first=first,
            second=second,
            human=sides.human,
            rater=sides.rater,
            statistic=statistic,
            grouping=grouping,
            difference=_value(test.difference),
            p=_value(test.p),
            p_adjusted=_value(p),
            method=test.method,
            n=test.n,
            groups=Groups(used=test.used, dropped=test.dropped),
            reason=_reason(test.p),
        )
        for (first, second), test, p in zip(pairs, tests, adjusted, strict=True)
    ]


def _clustered(found: list[Correlation], tests: Sequence[ComparisonResult]) -> list[Correlation]:
    if len(found) < 2:
        return found
    place = {result.metric: at for at, result in enumerate(found)}
    unknown: Value = Missing("not tested")
    table: list[list[Value]] = [[unknown] * len(found) for _ in found]
    for test in tests:
        if test.method == "permutation" and test.p_adjusted is not None:
            a, b = place[test.first], place[test.second]
            table[a][b] = table[b][a] = test.p_adjusted
    values = [Missing(r.reason or "none") if r.value is None else r.value for r in found]
    return [
        result.model_copy(update={"cluster": cluster})
        for result, cluster in zip(found, rank_clusters(values, table), strict=True)
    ]


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _value(value: Value) -> float | None:
    return None if isinstance(value, Missing) else float(value)


def _reason(value: Value) -> str | None:
    return value.reason if isinstance(value, Missing) else None

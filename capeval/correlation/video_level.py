"""Metrics against people's scores of captions: every statistic by every grouping, and compared."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TypedDict

import numpy as np

from capeval.correlation.joining import Joined, in_order
from capeval.correlation.protocols import Protocol
from capeval.correlation.result import ComparisonResult, Correlation, Groups, Ties
from capeval.schema import RaterMode
from capeval.stats.comparison import (
    Comparison,
    compared,
    holm,
    leave_one_system_out,
    rank_clusters,
    williams,
)
from capeval.stats.design import Design, first_rows
from capeval.stats.grouping import common_to, grouped
from capeval.stats.intervals import Kind, interval
from capeval.stats.pair import Pair
from capeval.stats.pairwise import Calibration, calibrate
from capeval.stats.raters import combine, constant_raters
from capeval.stats.resampling import FEWEST
from capeval.stats.significance import p_value
from capeval.stats.values import Floats, Grouping, Mask, Missing, Statistic, Value, steady

FEW = 30
MANY_TIES = 0.3
_LEAVE_OUT = 20_000
_LARGE = 500
_SWAPS = 1_000
_REACHED = 0.01
_AT_ONCE = 100_000

_Way = tuple[Statistic, Grouping]
_Found = tuple[list[Correlation], list[ComparisonResult]]


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
    exponents: dict[str, int] = field(default_factory=dict)
    """By which power of two a metric's scores were divided."""


def analyse(
    joined: Joined, settings: Settings
) -> tuple[list[Correlation], list[ComparisonResult], list[str]]:
    """Return correlations, comparisons of the metrics, and warnings.

    The order in which captions are given changes nothing.
    """
    results: list[Correlation] = []
    comparisons: list[ComparisonResult] = []
    warnings: list[str] = list(joined.warnings)
    joined = in_order(joined)
    draws = _swaps(joined, settings)
    pairs = len(joined.metrics) * (len(joined.metrics) - 1) // 2
    for sides in _sides(joined, settings, warnings):
        warnings += _warnings(sides)
        found = _every_way(sides, settings, draws)
        for way in settings.protocol.taken:
            results += found[way][0]
            comparisons += found[way][1]
    least = pairs / (draws + 1)
    if least > _REACHED and comparisons:
        warnings.append(
            f"{draws} draws for {pairs} pairs of metrics: no adjusted p of a permutation can be "
            f"below {min(least, 1.0):.2g}; leave --resamples out, or take {100 * pairs} or more"
        )
    return results, comparisons, warnings


def _every_way(sides: _Sides, settings: Settings, draws: int) -> dict[_Way, _Found]:
    """Return what is found by each statistic and grouping.

    Groupings hardly share anything, and numpy lets the interpreter go while it sorts and adds up:
    where captions are many, two are taken at a time. None depends on when another is done.
    """
    groupings = dict.fromkeys(grouping for _, grouping in settings.protocol.taken)

    def found(grouping: Grouping) -> dict[_Way, _Found]:
        return _by_grouping(sides, grouping, settings, draws)

    if len(sides.y) < _AT_ONCE:
        parts = list(map(found, groupings))
    else:
        with ThreadPoolExecutor(2) as pool:
            parts = list(pool.map(found, groupings))
    return {way: one for part in parts for way, one in part.items()}


def _by_grouping(
    sides: _Sides, grouping: Grouping, settings: Settings, draws: int
) -> dict[_Way, _Found]:
    statistics = [one for one, by in settings.protocol.taken if by == grouping]
    swapped = _swapped(sides, statistics, grouping, settings, draws)
    result: dict[_Way, _Found] = {}
    for statistic in statistics:
        found = _one_way(sides, statistic, grouping, settings)
        tests = _compare(sides, statistic, grouping, swapped[statistic])
        result[statistic, grouping] = _clustered(found, tests), tests
    return result


def _swaps(joined: Joined, settings: Settings) -> int:
    """Return with how many swaps metrics are compared: Holm's p of the best can reach .01."""
    if settings.draws is not None:
        return settings.draws
    pairs = len(joined.metrics) * (len(joined.metrics) - 1) // 2
    return max(_SWAPS, 100 * pairs)


def _exponent(values: Floats) -> int:
    """Return the power of two of values whose squares floats cannot hold, else 0."""
    largest = np.nanmax(np.abs(values), initial=0.0)
    exponent = int(np.frexp(largest)[1])
    return exponent if abs(exponent) > _LARGE else 0


def _divided(values: Floats, exponent: int) -> Floats:
    return np.ldexp(values, -exponent) if exponent else values


def _sides(joined: Joined, settings: Settings, warnings: list[str]) -> list[_Sides]:
    scores: list[tuple[str | None, Floats]]
    # Divided by a power of two, numbers keep all their digits.
    joined = replace(joined, ratings=_divided(joined.ratings, _exponent(joined.ratings)))
    exponents = {name: _exponent(values) for name, values in joined.metrics.items()}
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
        # The same ratings in another order must tie.
        largest = float(np.nanmax(np.abs(joined.ratings), initial=0.0))
        scale = 1.0 if settings.raters == "zmean" else largest
        scores = [(None, steady(combine(joined.ratings, settings.raters), scale))]
    result = []
    for rater, given in scores:
        there = ~np.isnan(given)
        who = f" of {rater}" if rater else ""
        if not there.any():
            warnings.append(f"there is no human score{who} to hold a metric against")
            continue
        y, metrics, design = given, joined.metrics, joined.design
        if not there.all():
            warnings.append(f"{int((~there).sum())} captions have no human score{who}")
            design = design.take(there)
            y, metrics = y[there], {name: values[there] for name, values in metrics.items()}
        # `take` keeps the order of the systems' numbers, which is that of first sight.
        rows = np.flatnonzero(there)[first_rows(design.system)]
        systems = tuple(str(joined.keys[int(row)][1]) for row in rows)
        result.append(
            _Sides(
                joined.human,
                rater,
                y,
                {
                    name: Pair.of(_divided(values, exponents[name]), y, design)
                    for name, values in metrics.items()
                },
                design,
                systems,
                exponents,
            )
        )
    return result


def _warnings(sides: _Sides) -> list[str]:
    videos = sides.design.videos
    who = f"people's {sides.human}" + (f" of {sides.rater}" if sides.rater else "")
    found = []
    if videos < FEW:
        what = ("video" if sides.design.repeats else "caption") + ("" if videos == 1 else "s")
        told = f"{videos} {what} are few (below {FEW}): intervals will be wide"
        if videos < FEWEST:
            none = ", and no p" if sides.design.repeats else ""
            told = f"{videos} {what}: no intervals{none} by resampling (needs {FEWEST})"
        found.append(f"{who}: {told}")
    ties = {name: pair.ties("pooled") for name, pair in sides.metrics.items()}
    shares = {who: next(iter(ties.values()))[1]}
    shares |= {name: of_metric for name, (of_metric, _) in ties.items()}
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
        threshold=_unscaled(threshold, sides.exponents.get(name, 0))
        if statistic == "acc_eq"
        else None,
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
        x,
        y,
        design,
        statistic,
        grouping,
        ci=settings.ci,
        seed=settings.seed,
        only=only if grouping not in ("pooled", "system") else None,
        pair=pair,
        **draws,
    )
    return base.model_copy(
        update={
            "low": None if isinstance(bounds, Missing) else bounds.low,
            "high": None if isinstance(bounds, Missing) else bounds.high,
            "interval": None if isinstance(bounds, Missing) else bounds.method,
            "interval_reason": bounds.reason if isinstance(bounds, Missing) else None,
            "p": None if isinstance(test, Missing) else test.p,
            "test": None if isinstance(test, Missing) else test.method,
            "p_least": None if isinstance(test, Missing) else test.least,
            "p_reason": test.reason if isinstance(test, Missing) else None,
            "without": _without(sides, pair, statistic, grouping, used),
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
    sides: _Sides, pair: Pair, statistic: Statistic, grouping: Grouping, threshold: float
) -> dict[str, float | None]:
    if not 3 <= sides.design.systems <= 50 or len(pair.x) > _LEAVE_OUT:
        return {}
    left = leave_one_system_out(
        pair.x, pair.y, pair.design, statistic, grouping, threshold=threshold, pair=pair
    )
    return {system: _value(found.value) for system, found in zip(sides.systems, left, strict=True)}


def _swapped(
    sides: _Sides,
    statistics: Sequence[Statistic],
    grouping: Grouping,
    settings: Settings,
    draws: int,
) -> dict[Statistic, list[Comparison]]:
    """Return the comparisons of all pairs of metrics by each statistic."""
    result: dict[Statistic, list[Comparison]] = {one: [] for one in statistics}
    pairs = list(combinations(sides.metrics, 2))
    for a, b in pairs:
        found = compared(
            sides.metrics[a],
            sides.metrics[b],
            statistics,
            grouping,
            draws=draws,
            seed=settings.seed,
            thresholds=(
                _threshold(sides.metrics[a], settings),
                _threshold(sides.metrics[b], settings),
            )
            if grouping == "item" and "acc_eq" in statistics
            else (0.0, 0.0),
            tests=len(pairs),
        )
        for statistic, test in found.items():
            result[statistic].append(test)
    return result


def _threshold(pair: Pair, settings: Settings) -> float:
    found = calibrate(pair.x, pair.y, pair.design, "item", seed=settings.seed, pair=pair).threshold
    return 0.0 if isinstance(found, Missing) else found


def _compare(
    sides: _Sides, statistic: Statistic, grouping: Grouping, swapped: Sequence[Comparison]
) -> list[ComparisonResult]:
    pairs = list(combinations(sides.metrics, 2))
    if not pairs:
        return []
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
        if test.method != "williams" and test.p_adjusted is not None:
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


def _unscaled(value: Value, exponent: int) -> float | None:
    return None if isinstance(value, Missing) else float(np.ldexp(value, exponent))


def _reason(value: Value) -> str | None:
    return value.reason if isinstance(value, Missing) else None

"""Whether the rows of a `correlations.json`, which may be edited by hand, can be right."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from capeval.correlation.result import ComparisonResult, Correlation, Correlations
from capeval.errors import InputError
from capeval.stats.statistic import ACC_EQ

_SLACK = 1e-9
# Files have all digits of a value, but a difference may be rounded once more.
_ROUNDING = 1e-6
# More captions than a file can have, and still exact as a float.
_COUNT = (0, 10**15)
_SHARE = (0, 1)
_VALUE = (-1, 1)
# An interval around a value can reach beyond the values that are possible, but not as far as this.
_END = (-10, 10)
# Scores are up to 1e100, and a threshold is a difference.
_THRESHOLD = (0, 2e100)
_LIMITS: dict[str, tuple[float, float]] = {
    "value": _VALUE,
    "difference": (-2, 2),
    "low": _END,
    "high": _END,
    "p": _SHARE,
    "p_adjusted": _SHARE,
    "p_one_sided": _SHARE,
    "p_least": _SHARE,
    "n": _COUNT,
    "used": _COUNT,
    "dropped": _COUNT,
    "cluster": _COUNT,
    "metric": _SHARE,
    "human": _SHARE,
    "threshold": _THRESHOLD,
    "cross_fitted": _SHARE,
    "untied": _SHARE,
    "constant": _SHARE,
    "without": _VALUE,
    "data_sets": _VALUE,
}
"""By field; `metric` and `human` are the numbers in `ties`."""


def check_rows(found: Correlations, file: Path) -> None:
    """Refuse impossible numbers, intervals and p, rows that are repeated or contradict each other.

    Raises
    ------
    InputError
        It names the row, from 1, and the field.
    """
    results: dict[tuple[Any, ...], int] = {}
    for number, one in enumerate(found.results, start=1):
        row = f"results.{number}"
        _check_numbers(one, row, file)
        _check_interval(one, one.value, row, file)
        key = (one.human, one.rater, one.metric, one.statistic, one.grouping)
        _check_new(results, key, number, row, file)
    comparisons: dict[tuple[Any, ...], int] = {}
    for number, test in enumerate(found.comparisons, start=1):
        row = f"comparisons.{number}"
        _check_numbers(test, row, file)
        _check_interval(test, test.difference, row, file)
        pair = frozenset((test.first, test.second))
        way = (test.human, test.rater, test.statistic, test.grouping)
        _check_new(comparisons, (*way, pair, test.method == "williams"), number, row, file)
        keys = [(test.human, test.rater, name, *way[2:]) for name in (test.first, test.second)]
        if all(key in results for key in keys):
            of_metrics = [found.results[results[key] - 1] for key in keys]
            _check_difference(test, of_metrics, row, file)


def _numbers(value: Any, name: str, path: str) -> Iterator[tuple[str, str, float]]:
    """Yield the name of the field, the dotted path and the value of each number."""
    if isinstance(value, dict):
        named = path.rpartition(".")[2] in ("without", "data_sets")
        for key, inner in value.items():
            yield from _numbers(inner, name if named else key, f"{path}.{key}")
    elif isinstance(value, int | float):
        yield name, path, value


def _check_numbers(one: Correlation | ComparisonResult, row: str, file: Path) -> None:
    for name, path, number in _numbers(one.model_dump(), "", row):
        low, high = _LIMITS[name]
        # Not of NaN either.
        if not low - _SLACK <= number <= high + _SLACK:
            raise InputError(f"must be between {low:g} and {high:g}", file=file, field=path)


def _check_interval(
    one: Correlation | ComparisonResult, value: float | None, row: str, file: Path
) -> None:
    low, high, problem = one.low, one.high, ""
    if (low is None) != (high is None):
        problem = "has one end of an interval"
    elif low is not None and high is not None:
        if value is None or not low <= high:
            problem = "has an interval that cannot be right"
        elif not low - _SLACK <= value <= high + _SLACK:
            problem = f"has the value {value:g} outside its interval"
    if not problem and one.p is not None and one.p <= 0:
        problem = f"has p = {one.p:g}"
    if problem:
        raise InputError(problem, file=file, field=row)


def _check_new(
    seen: dict[tuple[Any, ...], int], key: tuple[Any, ...], number: int, row: str, file: Path
) -> None:
    if (earlier := seen.setdefault(key, number)) != number:
        first = f"{row.partition('.')[0]}.{earlier}"
        raise InputError(f"repeats {first}; leave one of them out", file=file, field=row)


def _check_difference(
    test: ComparisonResult, of_metrics: list[Correlation], row: str, file: Path
) -> None:
    """Refuse a difference that is not that of the two values, where these are of the same groups.

    Files of earlier versions compare acc_eq with other thresholds than the values have.
    """
    first, second = of_metrics
    same = all((one.n, one.groups) == (test.n, test.groups) for one in of_metrics)
    if (
        not same
        or test.statistic == ACC_EQ.name
        or test.difference is None
        or first.value is None
        or second.value is None
    ):
        return
    expected = first.value - second.value
    if abs(test.difference - expected) > _ROUNDING:
        raise InputError(
            f"is not {expected:.6g}, the difference of the values of {test.first} and "
            f"{test.second}",
            file=file,
            field=f"{row}.difference",
        )

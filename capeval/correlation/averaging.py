"""Averages of correlations over data sets, from the files that `correlate` has written."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

from pydantic import ValidationError

from capeval.correlation.protocols import Protocol
from capeval.correlation.result import (
    HUMAN_WORDS,
    Coefficient,
    ComparisonResult,
    Correlation,
    Correlations,
    Elements,
    Groups,
    Raters,
    Ties,
    bounds_of,
    number_of,
    reason_of,
)
from capeval.correlation.result_checks import check_rows
from capeval.correlation.video_level import clustered
from capeval.errors import InputError
from capeval.files.id_hints import look_alike
from capeval.files.reading import parse_json, read_text
from capeval.scoring import Signature
from capeval.stats.averaging import mean_interval, mean_p
from capeval.stats.multiple_testing import holm
from capeval.stats.statistic import STATISTICS
from capeval.stats.values import GroupingName, Interval, Missing, Value
from capeval.text import complaint, counted, cut, listed, shown
from capeval.version import __version__

_SHA256 = re.compile("[0-9a-f]{64}")
METHOD = "of independent data sets"

_Way = tuple[str, str, GroupingName]
_UNTESTED = Missing("p is not averaged, as its value by chance differs between data sets")


@dataclass(frozen=True)
class DataSet:
    """The results of one data set: `name` is short, `sha256` that of the file."""

    name: str
    path: Path
    sha256: str
    found: Correlations

    @property
    def human(self) -> Mapping[str, str]:
        """The hashes of the human files, each with the name of its data set."""
        inner = self.found.inputs.get("data_sets")
        if isinstance(inner, dict):
            digests = {
                digest: f"{self.name}: {name}"
                for name, one in inner.items()
                for digest in _digests(one["human"])
            }
        else:
            digests = {self.found.inputs["human"]["sha256"]: self.name}
        return {digest: digests[digest] for digest in _digests([*digests])}

    @property
    def raters(self) -> str:
        """How ratings were aggregated."""
        return self.found.raters.combined


def _digests(value: Any) -> list[str]:
    """Return hashes; TypeError if they are none, or no list of them."""
    if not isinstance(value, list) or not value:
        raise TypeError
    if not all(isinstance(one, str) and _SHA256.fullmatch(one) for one in value):
        raise TypeError
    return value


def load_correlations(path: Path) -> Correlations:
    """Return the content of a `correlations.json`, if it is plausible.

    Raises
    ------
    InputError
        The file is not strict JSON or no `correlations.json`; a key is unknown or missing; a number
        is not possible; a row is repeated, or two contradict each other.
    """
    text = read_text(path)
    content = parse_json(text, file=path)
    if not isinstance(content, dict) or not {"results", "comparisons"} <= content.keys():
        raise InputError("is no correlations.json: it lacks `results` or `comparisons`", file=path)
    try:
        found = Correlations.model_validate_json(text, strict=True)
    except ValidationError as faults:
        field, message = complaint(faults)
        raise InputError(message, file=path, field=field[:200]) from None
    check_rows(found, path)
    return found


def load_data_sets(paths: Sequence[Path]) -> list[DataSet]:
    """Read files of results; each data set has the name of its file or folder, where these differ.

    Raises
    ------
    InputError
        A file cannot be read, has raters kept apart, or has the human ratings of another.
    """
    data_sets: list[DataSet] = []
    for path, name in zip(paths, _names(paths), strict=True):
        for other in data_sets:
            if path.exists() and path.samefile(other.path):
                raise InputError(
                    f"is the same file as {other.path}; an average is of different data sets",
                    file=path,
                )
        found = load_correlations(path)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        one = DataSet(name, path, digest, found)
        if any(r.rater is not None for r in found.results):
            raise InputError(
                "keeps raters apart (--raters each), who differ between data sets", file=path
            )
        try:
            human = one.human
        except (KeyError, TypeError):
            raise InputError("does not name its human file", file=path, field="inputs") from None
        for earlier in data_sets:
            if same := [digest for digest in human if digest in earlier.human]:
                raise InputError(
                    f"{path} and {earlier.path} have the same human ratings "
                    f"({earlier.human[same[0]]}); an average is of different data sets"
                )
        data_sets.append(one)
    return data_sets


def _names(paths: Sequence[Path]) -> list[str]:
    ways: tuple[Callable[[Path], str], ...] = (
        lambda path: path.stem,
        lambda path: path.absolute().parent.name,
        str,
    )
    for way in ways[:2]:
        names = list(map(way, paths))
        if len({*names}) == len(names) and all(names):
            return names
    return list(map(str, paths))


def average(data_sets: Sequence[DataSet], protocol: Protocol) -> Correlations:
    """Return the means over data sets of every statistic that all of them have.

    Every data set counts alike. A metric without a value in one of them has no mean.

    Parameters
    ----------
    protocol : which statistics and groupings to take

    Raises
    ------
    InputError
        The data sets have no statistic of a human score in common, or no metric.
    """
    ways = {one.name: _ways(one, protocol) for one in data_sets}
    first = ways[data_sets[0].name]
    common = [way for way in first if all(way in those for those in ways.values())]
    if not common:
        raise InputError(
            f"has no statistic of a human score in common with {data_sets[0].path}",
            file=next(
                (one.path for one in data_sets if not {*first} & {*ways[one.name]}),
                data_sets[-1].path,
            ),
        )
    warnings = [*_left_out(ways, common), *_lacking(data_sets, common)]
    if len(modes := {one.name: one.raters for one in data_sets}.values()) > 1 < len({*modes}):
        how = ", ".join(f"{one.name}: {one.raters}" for one in data_sets)
        warnings.append(f"ratings of several raters are aggregated differently ({how})")
    results: list[Correlation] = []
    comparisons: list[ComparisonResult] = []
    for way in common:
        found, tests = _one_way(data_sets, way)
        results += clustered(found, tests)
        comparisons += tests
    names = [one.name for one in data_sets]
    inputs = {
        "data_sets": {
            one.name: {
                "path": str(one.path),
                "sha256": one.sha256,
                "human": list(one.human),
                "signature": one.found.signature,
            }
            for one in data_sets
        },
        "settings": {"protocol": protocol.name},
    }
    fields = {
        "capeval": "correlate",
        "average": "+".join(f"{one.name}@{one.sha256[:6]}" for one in data_sets),
        "protocol": protocol.name,
        "metrics": "+".join(dict.fromkeys(r.metric for r in results)),
        "v": __version__,
    }
    return Correlations(
        results=tuple(results),
        comparisons=tuple(comparisons),
        elements=Elements(),
        raters=Raters(
            names=(),
            combined=data_sets[0].raters,
            alpha=Coefficient(value=None, reason=f"see the files of {listed(names)}"),
            level=data_sets[0].found.raters.level,
        ),
        warnings=tuple(warnings),
        inputs=inputs,
        signature=str(Signature.of(fields)),
    )


def _ways(one: DataSet, protocol: Protocol) -> list[_Way]:
    asked = {*protocol.pairs, *protocol.of_systems}
    rows = one.found.results
    return list(
        dict.fromkeys(
            (r.human, r.statistic, r.grouping) for r in rows if (r.statistic, r.grouping) in asked
        )
    )


def _left_out(ways: Mapping[str, Sequence[_Way]], common: Sequence[_Way]) -> Iterator[str]:
    """Yield a line for each data set that has what others lack."""
    for name, those in ways.items():
        more = [way for way in those if way not in common]
        if more:
            human, statistic, grouping = more[0]
            yield (
                f"{name}: {counted(len(more), 'statistic')} not in every data set, and left out "
                f"(such as {statistic} by {grouping} with the human "
                f"{HUMAN_WORDS.get(human, human)})"
            )


def _lacking(data_sets: Sequence[DataSet], common: Sequence[_Way]) -> Iterator[str]:
    """Yield a line for each data set that lacks metrics of others.

    Raises
    ------
    InputError
        No metric is in every data set.
    """
    metrics: dict[str, dict[_Way, set[str]]] = {
        one.name: {
            way: {r.metric for r in one.found.results if (r.human, r.statistic, r.grouping) == way}
            for way in common
        }
        for one in data_sets
    }
    names = {name: sorted(set().union(*of.values())) for name, of in metrics.items()}
    alike = ""
    for one, other in combinations(names.values(), 2):
        pair = look_alike([name for name in one if name not in other], other)
        if pair and not alike:
            alike = f"; {shown(pair[0])} and {shown(pair[1])} may be one metric"
    if not any(set.intersection(*(of[way] for of in metrics.values())) for way in common):
        first = names[data_sets[0].name]
        apart = next((one for one in data_sets if not {*first} & {*names[one.name]}), data_sets[-1])
        has = "; ".join(f"{cut(name)} has {listed(those, 3)}" for name, those in names.items())
        raise InputError(
            f"no metric is in every file{alike}; a metric must have the same name in all: {has}",
            file=apart.path,
        )
    every = sorted(set().union(*names.values()))
    for name, those in names.items():
        if absent := [metric for metric in every if metric not in those]:
            yield (
                f"{name} lacks {listed(absent)}, so there is no average of "
                f"{'it' if len(absent) == 1 else 'them'}{alike}"
            )


def _one_way(
    data_sets: Sequence[DataSet], way: _Way
) -> tuple[list[Correlation], list[ComparisonResult]]:
    """Return the means of one statistic, and those of the differences of metrics."""
    values: list[dict[str, Correlation]] = []
    tests: list[dict[tuple[str, str], ComparisonResult]] = []
    for one in data_sets:
        rows = (r for r in one.found.results if (r.human, r.statistic, r.grouping) == way)
        values.append({r.metric: r for r in rows})
        pairs = (
            c
            for c in one.found.comparisons
            if (c.human, c.statistic, c.grouping) == way and c.method != "williams"
        )
        tests.append({(c.first, c.second): c for c in pairs})
    metrics = sorted({name for of_one in values for name in of_one})
    names = [one.name for one in data_sets]
    results = [_mean(metric, way, names, [of.get(metric) for of in values]) for metric in metrics]
    valued = [r.metric for r in results if r.value is not None]
    compared = [
        _difference(first, second, way, names, tests) for first, second in combinations(valued, 2)
    ]
    adjusted = holm([Missing(c.reason or "") if c.p is None else c.p for c in compared])
    return results, [
        c.model_copy(update={"p_adjusted": number_of(p)})
        for c, p in zip(compared, adjusted, strict=True)
    ]


def _mean(
    metric: str, way: _Way, names: Sequence[str], rows: Sequence[Correlation | None]
) -> Correlation:
    human, statistic, grouping = way
    there = [r for r in rows if r is not None]
    base = Correlation(
        metric=metric,
        human=human,
        statistic=statistic,
        grouping=grouping,
        value=None,
        n=sum(r.n for r in there),
        groups=_groups(there),
        ties=Ties(
            metric=_mean_of(r.ties.metric if r else None for r in rows),
            human=_mean_of(r.ties.human if r else None for r in rows),
        ),
        data_sets={name: r and r.value for name, r in zip(names, rows, strict=True)},
    )
    lacking = [
        f"{name} ({'not in its file' if r is None else r.reason})"
        for name, r in zip(names, rows, strict=True)
        if r is None or r.value is None
    ]
    if lacking:
        return base.model_copy(update={"reason": f"no value in {listed(lacking, 3)}"})
    values = [r.value for r in there if r.value is not None]
    bounds = mean_interval(
        values, [_interval(r, name) for r, name in zip(there, names, strict=True)]
    )
    known = STATISTICS.get(statistic)
    chance = known.chance if known else None
    p: Value = _UNTESTED
    if chance is not None:
        p = _p([value - chance for value in values], there, names)
    test = None
    if not isinstance(p, Missing):
        test = there[0].test if len(there) == 1 else METHOD
    return base.model_copy(
        update={
            "value": fmean(values),
            **bounds_of(bounds),
            "interval": bounds.method if isinstance(bounds, Interval) else None,
            "p": number_of(p),
            "p_reason": reason_of(p),
            "test": test,
            **{
                name: _mean_of(getattr(r, name) for r in there)
                for name in ("cross_fitted", "untied", "constant")
            },
        }
    )


def _difference(
    first: str,
    second: str,
    way: _Way,
    names: Sequence[str],
    tests: Sequence[Mapping[tuple[str, str], ComparisonResult]],
) -> ComparisonResult:
    human, statistic, grouping = way
    rows = [of.get((first, second)) or turned(of.get((second, first))) for of in tests]
    there = [c for c in rows if c is not None and c.difference is not None]
    base = ComparisonResult(
        first=first,
        second=second,
        human=human,
        statistic=statistic,
        grouping=grouping,
        difference=None,
        p=None,
        p_adjusted=None,
        method=METHOD,
        n=sum(c.n for c in there),
        groups=_groups(there),
    )
    lacking = [
        f"{name} ({c.reason if c and c.reason else 'not in its file'})"
        for name, c in zip(names, rows, strict=True)
        if c is None or c.difference is None
    ]
    if lacking:
        return base.model_copy(update={"reason": f"no difference in {listed(lacking, 3)}"})
    gaps = [c.difference for c in there if c.difference is not None]
    mean = fmean(gaps)
    p = _p(gaps, there, names)
    bounds = mean_interval(gaps, [_interval(c, name) for c, name in zip(there, names, strict=True)])
    one_sided = None if isinstance(p, Missing) else p / 2 if mean >= 0 else 1 - p / 2
    return base.model_copy(
        update={
            "difference": mean,
            **bounds_of(bounds),
            "p": number_of(p),
            "p_one_sided": one_sided,
            "reason": reason_of(p),
            "method": there[0].method if len(there) == 1 else METHOD,
        }
    )


def turned(c: ComparisonResult | None) -> ComparisonResult | None:
    """Return a comparison with its metrics exchanged."""
    if c is None or c.difference is None:
        return c
    ends = (None, None) if c.low is None or c.high is None else (-c.high, -c.low)
    return c.model_copy(
        update={
            "first": c.second,
            "second": c.first,
            "difference": -c.difference,
            "low": ends[0],
            "high": ends[1],
            "p_one_sided": None if c.p_one_sided is None else 1 - c.p_one_sided,
        }
    )


def _interval(one: Correlation | ComparisonResult, name: str) -> Interval | Missing:
    if one.low is None or one.high is None:
        return Missing(f"no interval in {name} ({one.interval_reason or 'none is in its file'})")
    method = one.interval if isinstance(one, Correlation) else None
    return Interval(one.low, one.high, method or METHOD)


def _p(
    differences: Sequence[float],
    rows: Sequence[Correlation | ComparisonResult],
    names: Sequence[str],
) -> Value:
    given, widths = [], []
    for row, name in zip(rows, names, strict=True):
        if row.p is None:
            why = row.p_reason if isinstance(row, Correlation) else row.reason
            return Missing(f"no p in {name} ({why})")
        given.append(row.p)
        widths.append(math.nan if row.low is None or row.high is None else row.high - row.low)
    return mean_p(differences, given, widths)


def _groups(rows: Sequence[Correlation | ComparisonResult]) -> Groups:
    return Groups(
        used=sum(r.groups.used for r in rows), dropped=sum(r.groups.dropped for r in rows)
    )


def _mean_of(values: Iterator[float | None]) -> float | None:
    """Return the mean if every data set has a value."""
    there = list(values)
    known = [value for value in there if value is not None]
    return fmean(known) if known and len(known) == len(there) else None

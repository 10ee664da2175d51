"""Metrics compared with each other: a matrix of adjusted p, or a line each for two metrics."""

from __future__ import annotations

from collections.abc import Sequence

from capeval.correlation.result import ComparisonResult, Correlation, Correlations
from capeval.reporting.correlations.labels import GROUPING_WORDS, STATISTIC_WORDS, of_human
from capeval.reporting.numbers import NOTHING, coefficient, p_value, signed
from capeval.reporting.table import Table, columns
from capeval.text import one_line

_METHODS = {"permutation": "whole videos permuted", "jackknife": "jackknife over videos"}

_Pairs = dict[tuple[str, str], ComparisonResult]

_NOTE = (
    "Above the diagonal: p of row and column ({how}, Holm within a block). "
    "Below it: the difference, row − column, over the groups in which both have a value. "
    "A rank begins where a metric is worse than all metrics of the rank above."
)
_UNTIED = " Values of acc_eq are calibrated; its differences and p are without threshold."


def comparison_tables(found: Correlations) -> tuple[list[Table], list[str]]:
    """Return the tables, and the reasons why there is no p."""
    tables: list[Table] = []
    notes: list[str] = []
    for human, rater in dict.fromkeys((c.human, c.rater) for c in found.comparisons):
        those = [c for c in found.comparisons if (c.human, c.rater) == (human, rater)]
        values = [r for r in found.results if (r.human, r.rater) == (human, rater)]
        who = of_human(human, rater)
        names = dict.fromkeys(name for c in those for name in (c.first, c.second))
        tables += _of_two(those, who) if len(names) == 2 else _matrices(those, values, who)
        lost: dict[str, None] = {}
        for c in those:
            if c.reason is not None and c.difference is not None:
                where = f"{c.grouping}, {STATISTIC_WORDS[c.statistic]}"
                lost[f"metrics compared, {who}, {where}: no p ({one_line(c.reason)})"] = None
        notes += lost
    return tables, notes


def _blocks(those: Sequence[ComparisonResult]) -> dict[str, list[ComparisonResult]]:
    """Return the comparisons by the name of statistic and test."""
    blocks: dict[str, list[ComparisonResult]] = {}
    for statistic, name in STATISTIC_WORDS.items():
        for c in those:
            if c.statistic == statistic:
                test = ", Williams" if c.method == "williams" else ""
                blocks.setdefault(name + test, []).append(c)
    return blocks


def _of_two(those: Sequence[ComparisonResult], who: str) -> list[Table]:
    tested = [c for c in those if c.difference is not None]
    if not tested:
        return []
    first, second = one_line(tested[0].first), one_line(tested[0].second)
    groupings = [g for g in GROUPING_WORDS if any(c.grouping == g for c in tested)]
    table = Table(
        f"Metrics compared, {who}: {first} − {second} (p: {_how(tested)})",
        columns("Statistic", *groupings),
    )
    for name, block in _blocks(tested).items():
        by = {c.grouping: c for c in block}
        table.rows.append([name, *(_difference(by[g]) if g in by else NOTHING for g in groupings)])
    return [table]


def _how(those: Sequence[ComparisonResult]) -> str:
    used = [words for method, words in _METHODS.items() if any(c.method == method for c in those)]
    return " or, for many, ".join(used or _METHODS.values())


def _difference(c: ComparisonResult) -> str:
    return f"{signed(c.difference)} ({p_value(c.p_adjusted)})"


def _matrices(
    those: Sequence[ComparisonResult], values: Sequence[Correlation], who: str
) -> list[Table]:
    tables = []
    for grouping, words in GROUPING_WORDS.items():
        here = [c for c in those if c.grouping == grouping]
        rows: list[list[str]] = []
        for name, block in _blocks(here).items():
            statistic = block[0].statistic
            ranked = sorted(
                (r for r in values if (r.statistic, r.grouping) == (statistic, grouping)),
                key=lambda r: -(r.value or 0.0),
            )
            ranked = [r for r in ranked if r.value is not None]
            if len(ranked) > 1:
                rows += [[name], *_block(ranked, {(c.first, c.second): c for c in block})]
        if not rows:
            continue
        width = max(map(len, rows))
        numbers = [str(n) for n in range(1, width - 2)]
        untied = grouping != "item" and any(c.statistic == "acc_eq" for c in here)
        tables.append(
            Table(
                f"Metrics compared, {who}, {grouping} ({words})",
                columns("Metric", "rank", "value", *numbers),
                # A metric without a value leaves its block narrower than the others.
                [row + [""] * (width - len(row)) if len(row) > 1 else row for row in rows],
                note=_NOTE.format(how=_how(here)) + (_UNTIED if untied else ""),
            )
        )
    return tables


def _block(ranked: Sequence[Correlation], pairs: _Pairs) -> list[list[str]]:
    rows = []
    for n, row in enumerate(ranked):
        cells = [
            f"{n + 1} {one_line(row.metric)}",
            NOTHING if row.cluster is None else str(row.cluster),
            coefficient(row.value),
        ]
        for m, column in enumerate(ranked):
            if m == n:
                cells.append("")
                continue
            there = pairs.get((row.metric, column.metric))
            c = there or pairs.get((column.metric, row.metric))
            if c is None or c.difference is None:
                cells.append(NOTHING)
            elif m > n:
                cells.append(p_value(c.p_adjusted))
            else:
                cells.append(signed(c.difference if there else -c.difference))
        rows.append(cells)
    return rows

"""Tables of the values of statistics: one for a screen, and all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from capeval.correlation.protocols import SEVERAL
from capeval.correlation.result import Correlation
from capeval.reporting.correlations.labels import (
    GROUPING_WORDS,
    STATISTIC_WORDS,
    by_grouping,
    by_human,
    footnotes,
    missing,
    title_of,
    with_interval,
)
from capeval.reporting.numbers import (
    NOTHING,
    bounded,
    bounded_briefly,
    coefficient,
    p_value,
    significant,
    whole_percent,
)
from capeval.reporting.table import Row, Table, columns
from capeval.stats.design import GROUPINGS
from capeval.stats.values import GroupingName
from capeval.text import counted, listed, one_line

_GROUPED: tuple[GroupingName, ...] = ("item", "within_system")
_LOWER = "a metric ranks lower if it is worse than all of the rank above (p <= 0.05, Holm)."
_RANK = f"rank: {_LOWER}"
_DROPPED = (
    "A group with too few captions, or in which all have the same score by a metric or the human "
    "raters, is left out for all metrics."
)
_ACCURACY = (
    "in-sample: differences of the metric up to the threshold (thr.), which is fitted to these "
    "pairs, count as ties; untied: no threshold. a constant: a metric with one score for all "
    "captions; acc_eq has a value even if all values of a metric tie."
)


_ALPHA = 0.05
"""The level of significance of the paper whose table has this form."""

# The columns of values: heading and cell. Where there is a single group, its number says nothing.
_CELLS: dict[str, Callable[[Correlation], str]] = {
    "Grouping": lambda r: r.grouping,
    "Metric": lambda r: one_line(r.metric),
    "Statistic": lambda r: STATISTIC_WORDS[r.statistic],
    "Value": lambda r: bounded(r.value, r.low, r.high),
    "in-sample": lambda r: bounded(r.value, r.low, r.high),
    "thr.": lambda r: significant(r.threshold),
    "untied": lambda r: coefficient(r.untied),
    "p": lambda r: p_value(r.p),
    "n": lambda r: str(r.n),
    "systems": lambda r: str(r.n),
    "ties": lambda r: whole_percent(r.ties.metric),
    "groups": lambda r: (
        f"{r.groups.used}/{r.groups.used + r.groups.dropped}" if r.grouping in _GROUPED else ""
    ),
    "rank": lambda r: NOTHING if r.cluster is None else str(r.cluster),
}


def overview(results: Sequence[Correlation], statistic: str) -> tuple[list[Table], list[str]]:
    """Return one table of a statistic by all groupings: with p of one metric, else with ranks.

    Returns
    -------
    the table, if it has rows, and what a reader must know about its numbers
    """
    those = [r for r in results if r.statistic == statistic and shown_briefly(r)]
    if not those or statistic == "acc_eq":
        return value_tables(those), []
    ways = by_grouping(those)
    humans = by_human(those)
    title = f"{title_of(STATISTIC_WORDS[statistic])} by grouping"
    if len(those) == len(ways):
        title += f", {one_line(those[0].metric)} and {next(iter(humans))}"
        names = ("Grouping", "Value", "p", "n", "ties", "groups")
        table = _table(title, names, [r for (r,) in ways.values()], _legend(those))
        return [table], footnotes(those, set())
    several = len({r.metric for r in those}) > 1
    headings = (
        with_interval(grouping, any(r.low is not None for r in same))
        for grouping, same in ways.items()
    )
    table = Table(
        f"{title}, {next(iter(humans)) if len(humans) == 1 else 'human scores'}",
        columns("Metric", *headings),
        note=" ".join([_numbers(ways), *([f"#1: rank 1; {_LOWER}"] if several else [])]),
    )
    for who, of_who in humans.items():
        table.rows += [[who]] if len(humans) > 1 else []
        values = {(r.metric, r.grouping): r for r in of_who}
        ranked = (r for same in by_grouping(of_who).values() for r in same)
        for metric in dict.fromkeys(r.metric for r in ranked):
            table.rows.append(
                [one_line(metric), *(_ranked(values.get((metric, way))) for way in ways)]
            )
    return [table], [*missing([r for r in those if r.value is not None])]


def _numbers(ways: Mapping[GroupingName, Sequence[Correlation]]) -> str:
    """Return how many captions and groups each column is of."""
    parts = {}
    for grouping, those in ways.items():
        counts = {(r.n, r.groups.used, r.groups.dropped): r for r in those if r.value is not None}
        named = []
        for n, used, dropped in counts:
            unit = GROUPINGS[grouping].unit.removesuffix("s")
            groups = ""
            if grouping in _GROUPED:
                what = "video" if grouping == "item" else "system"
                groups = f" of {used:,}/{counted(used + dropped, what)}"
            named.append(counted(n, unit) + groups)
        if named:
            parts[grouping] = f"{grouping}: {' or '.join(named)}"
    dropped = any(r.groups.dropped for those in ways.values() for r in those)
    return "; ".join(parts.values()) + (f". {_DROPPED}" if dropped else ".")


def _ranked(r: Correlation | None) -> str:
    if r is None:
        return NOTHING
    return bounded(r.value, r.low, r.high) + ("" if r.cluster is None else f" #{r.cluster}")


def tables_of_protocol(results: Sequence[Correlation]) -> list[Table]:
    """Return all tables of one human score.

    Several metrics by several statistics of one grouping are one table with a row for each metric.
    """
    return _by_statistic(results) or value_tables(results)


def _by_statistic(results: Sequence[Correlation]) -> list[Table]:
    """Return a table with a column for each statistic, or nothing if it does not suit."""
    statistics = [name for name in STATISTIC_WORDS if any(r.statistic == name for r in results)]
    metrics = {r.metric for r in results}
    if len(metrics) < 2 or len(statistics) < 2 or "acc_eq" in statistics:
        return []
    if len({r.grouping for r in results}) > 1:
        return []
    # Where only some metrics have a value, n of the others is 0.
    most = max(results, key=lambda r: r.n)
    grouping = most.grouping
    who = next(iter(by_human(results)))
    table = Table(
        f"{title_of(who)}, {grouping} ({GROUPING_WORDS[grouping]}; n {most.n:,}"
        f"{_human_ties(results)})",
        columns(
            "Metric",
            *(
                with_interval(
                    STATISTIC_WORDS[name],
                    any(r.low is not None for r in results if r.statistic == name),
                )
                for name in statistics
            ),
        ),
    )
    cells = {(r.metric, r.statistic): bounded_briefly(r.value, r.low, r.high) for r in results}
    for metric in dict.fromkeys(r.metric for r in by_grouping(results)[grouping]):
        row = (cells.get((metric, name), NOTHING) for name in statistics)
        table.rows.append([one_line(metric), *row])
    table.note = " ".join([*missing([r for r in results if r.value is not None]), *_large(results)])
    return [table]


def _large(results: Sequence[Correlation]) -> list[str]:
    """Return which metrics have a p above .05."""
    valued = [r for r in results if r.p is not None]
    large = dict.fromkeys(one_line(r.metric) for r in valued if (r.p or 0.0) > _ALPHA)
    if not valued:
        return []
    if not large:
        return ["Every p is at most 0.05."]
    return [f"p is above 0.05 by at least one statistic: {listed(list(large), 3)}."]


def shown_briefly(r: Correlation) -> bool:
    """Return whether the screen has a place for a result."""
    return r.grouping != "system" or r.n >= SEVERAL


def value_tables(results: Sequence[Correlation], *, each: bool = False) -> list[Table]:
    """Return a table for each human score and grouping, then those of acc_eq, then one legend.

    `each` repeats below a table what concerns it.
    """
    known: set[str] = set()
    tables: list[Table] = []
    accuracies: list[Table] = []
    ranks: set[str] = set()
    for who, those in by_human(results).items():
        rank = ["rank"] if len({r.metric for r in those}) > 1 else []
        ranks.update(rank)
        for grouping, same in by_grouping(r for r in those if r.statistic != "acc_eq").items():
            if any(r.value is not None for r in same):
                title = f"{title_of(who)}, {grouping} ({GROUPING_WORDS[grouping]}"
                count = "systems" if grouping == "system" else "n"
                groups = ["groups"] if grouping in _GROUPED else []
                names = ("Metric", "Statistic", "Value", "p", count, "ties", *groups, *rank)
                note = " ".join(footnotes(same, known))
                tables.append(_table(f"{title}{_human_ties(same)})", names, same, note))
        accuracies += _accuracies(who, [r for r in those if r.statistic == "acc_eq"], rank)
    if each:
        rank_note = _RANK if ranks else ""
        for table in (*tables, *accuracies):
            accuracy = _ACCURACY if table in accuracies else ""
            legend = [table.note, _legend(results), accuracy, rank_note]
            table.note = " ".join(filter(None, legend))
        return [*tables, *accuracies]
    tables += accuracies
    if tables:
        legend = [tables[-1].note, _legend(results), _ACCURACY if accuracies else ""]
        tables[-1].note = " ".join(filter(None, [*legend, _RANK if ranks else ""]))
    return tables


def _table(
    title: str, names: Sequence[str], results: Sequence[Correlation], note: str = ""
) -> Table:
    ends = any(r.low is not None for r in results)
    headings = (with_interval(name, ends and name in ("Value", "in-sample")) for name in names)
    rows: list[Row] = [[_CELLS[name](r) for name in names] for r in results]
    return Table(title, columns(*headings, words=1 + ("Statistic" in names)), rows, note)


def _legend(results: Sequence[Correlation]) -> str:
    there = {r.grouping for r in results}
    legend = "n: captions" + ("; by system, systems" if "system" in there else "")
    legend += ". ties: the share of the compared pairs that the metric ties."
    groups = f" groups: used/all. {_DROPPED}"
    return legend + (groups if there & set(_GROUPED) else "")


def _human_ties(results: Sequence[Correlation]) -> str:
    share = next((r.ties.human for r in results if r.ties.human is not None), None)
    return "" if share is None else f"; human ties {whole_percent(share)}"


def _accuracies(who: str, results: Sequence[Correlation], rank: Sequence[str]) -> list[Table]:
    """Return a table of acc_eq, which means nothing without the accuracy of a constant metric."""
    names = ("Metric", "in-sample", "thr.", "untied", "n", "ties", *rank)
    whole = _table(f"Pairwise accuracy with ties (acc_eq), {who}", names, results)
    whole.rows = []
    for grouping, those in by_grouping(results).items():
        constant = next((r.constant for r in those if r.constant is not None), None)
        if constant is None:
            continue
        counts = {_CELLS["groups"](r) for r in those if r.groups.used}
        groups = f", groups {counts.pop()}" if grouping in _GROUPED and len(counts) == 1 else ""
        blank = [""] * (len(names) - 2)
        whole.rows += [
            [f"{grouping}{groups}{_human_ties(those)}"],
            *_table("", names, those).rows,
            ["a constant", coefficient(constant), *blank],
        ]
    return [whole] if whole.rows else []

"""Tables of the values of statistics: one for a screen, and all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from capeval.correlation.protocols import SEVERAL
from capeval.correlation.result import Correlation
from capeval.reporting.correlations.labels import (
    ALPHA,
    GROUPING_WORDS,
    STATISTIC_WORDS,
    by_grouping,
    by_human,
    footnote,
    title_of,
    with_interval,
)
from capeval.show.numbers import whole_percent
from capeval.show.table import (
    BOUNDED,
    COUNT,
    LINE,
    P_VALUE,
    SHARE,
    TEXT,
    Cell,
    Column,
    Kind,
    Row,
    Table,
)
from capeval.stats.design import GROUPINGS
from capeval.stats.values import GroupingName
from capeval.text import counted, listed, one_line

_GROUPED: tuple[GroupingName, ...] = ("item", "within_system")
_LOWER = "a metric ranks lower if it is worse than all of the rank above (p <= 0.05, Holm)."
_DROPPED = (
    "A group with too few captions, or in which all have the same score by a metric or the human "
    "raters, is left out for all metrics."
)


def _groups(r: Correlation) -> tuple[int, int] | None:
    """Return how many groups are used, of how many; a single group's number says nothing."""
    used = r.groups.used
    return (used, used + r.groups.dropped) if r.grouping in _GROUPED else None


LEGEND = {
    "kappa": "kappa: Cohen's.",
    "ties": "n: captions, by system the systems. ties: the share of the compared pairs that the "
    "metric ties.",
    "groups": f"groups: used/all. {_DROPPED}",
    "rank": f"rank: {_LOWER}",
}
"""What columns mean, by their keys."""

# The columns of values.
_FIELDS: dict[str, tuple[Kind, Callable[[Correlation], Any]]] = {
    "Metric": (LINE, attrgetter("metric")),
    "Grouping": (TEXT, attrgetter("grouping")),
    "Statistic": (Kind(STATISTIC_WORDS.__getitem__), attrgetter("statistic")),
    "Value": (BOUNDED, lambda r: r),
    "p": (P_VALUE, attrgetter("p")),
    "n": (COUNT, attrgetter("n")),
    "systems": (COUNT, attrgetter("n")),
    "ties": (Kind(whole_percent), attrgetter("ties.metric")),
    "groups": (SHARE, _groups),
    "rank": (TEXT, attrgetter("cluster")),
}


def overview(results: Sequence[Correlation], statistic: str) -> list[Table]:
    """Return one table of a statistic by all groupings: with p of one metric, else with ranks."""
    those = [r for r in results if r.statistic == statistic and shown_briefly(r)]
    if not those:
        return value_tables(those)
    ways = by_grouping(those)
    humans = by_human(those)
    title = f"{title_of(STATISTIC_WORDS[statistic])} by grouping"
    if len(those) == len(ways):
        title += f", {one_line(those[0].metric)} and {next(iter(humans))}"
        names = ("Grouping", "Value", "p", "n", "ties", "groups")
        return [_table(title, names, [r for (r,) in ways.values()], footnote(those))]
    title += f", {next(iter(humans)) if len(humans) == 1 else 'human scores'}"
    table = _crossed(title, those, {way: way for way in ways}, "grouping")
    several = len({r.metric for r in those}) > 1
    table.note = _numbers(ways) + (f" #1: rank 1; {_LOWER}" if several else "")
    return [table]


def _crossed(
    title: str, results: Sequence[Correlation], ways: Mapping[str, str], attribute: str
) -> Table:
    """Return a table with a row for each metric and a column for each grouping or statistic.

    Parameters
    ----------
    ways : headings of the columns by the values of the attribute
    """
    columns = [Column("Metric", words=True, kind=LINE)]
    for way, heading in ways.items():
        ends = any(r.low is not None for r in results if getattr(r, attribute) == way)
        columns.append(Column(with_interval(heading, ends), kind=BOUNDED, key=way))
    table = Table(title, columns)
    humans = by_human(results)
    for who, of_who in humans.items():
        table.rows += [[who]] if len(humans) > 1 else []
        values = {(r.metric, getattr(r, attribute)): r for r in of_who}
        ranked = (r for same in by_grouping(of_who).values() for r in same)
        for metric in dict.fromkeys(r.metric for r in ranked):
            found = [values.get((metric, way)) for way in ways]
            table.rows.append([metric, *map(_with_rank, found)])
    return table


def _with_rank(r: Correlation | None) -> Cell:
    ranked = r is not None and r.cluster is not None
    return Cell(r, after=f" #{r.cluster}" if r and ranked else "")


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


def tables_of_protocol(results: Sequence[Correlation]) -> list[Table]:
    """Return all tables of one human score.

    Several metrics by several statistics of one grouping are one table with a row for each metric.
    """
    statistics = {
        name: words
        for name, words in STATISTIC_WORDS.items()
        if any(r.statistic == name for r in results)
    }
    several = len({r.metric for r in results}) > 1 and len(statistics) > 1
    if not several or len({r.grouping for r in results}) > 1:
        return value_tables(results)
    # Where only some metrics have a value, n of the others is 0.
    most = max(results, key=lambda r: r.n)
    title = (
        f"{title_of(next(iter(by_human(results))))}, {most.grouping} "
        f"({GROUPING_WORDS[most.grouping]}; n {most.n:,}{_human_ties(results)})"
    )
    plain = [r.model_copy(update={"cluster": None}) for r in results]
    table = _crossed(title, plain, statistics, "statistic")
    table.note = _large(results)
    return [table]


def _large(results: Sequence[Correlation]) -> str:
    """Return which metrics have a p above .05."""
    valued = [r for r in results if r.p is not None]
    large = dict.fromkeys(one_line(r.metric) for r in valued if (r.p or 0.0) > ALPHA)
    if large:
        return f"p is above 0.05 by at least one statistic: {listed(list(large), 3)}."
    return "Every p is at most 0.05." if valued else ""


def shown_briefly(r: Correlation) -> bool:
    """Return whether the screen has a place for a result."""
    return r.grouping != "system" or r.n >= SEVERAL


def value_tables(results: Sequence[Correlation]) -> list[Table]:
    """Return a table for each human score and grouping."""
    tables: list[Table] = []
    for who, those in by_human(results).items():
        rank = ["rank"] if len({r.metric for r in those}) > 1 else []
        for grouping, same in by_grouping(those).items():
            if any(r.value is not None for r in same):
                title = f"{title_of(who)}, {grouping} ({GROUPING_WORDS[grouping]}"
                count = "systems" if grouping == "system" else "n"
                groups = ["groups"] if grouping in _GROUPED else []
                names = ("Metric", "Statistic", "Value", "p", count, "ties", *groups, *rank)
                tables.append(_table(f"{title}{_human_ties(same)})", names, same, footnote(same)))
    return tables


def _table(
    title: str, names: Sequence[str], results: Sequence[Correlation], note: str = ""
) -> Table:
    ends = any(r.low is not None for r in results)
    columns = [
        Column(
            with_interval(name, ends and name == "Value"),
            words=name in ("Metric", "Grouping", "Statistic"),
            kind=_FIELDS[name][0],
            key=name,
        )
        for name in names
    ]
    rows: list[Row] = [[_FIELDS[name][1](r) for name in names] for r in results]
    return Table(title, columns, rows, note)


def _human_ties(results: Sequence[Correlation]) -> str:
    share = next((r.ties.human for r in results if r.ties.human is not None), None)
    return "" if share is None else f"; human ties {whole_percent(share)}"

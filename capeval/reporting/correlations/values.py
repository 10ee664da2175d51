"""Tables of the values of statistics: one for a screen, and all of them."""

from __future__ import annotations

from collections.abc import Sequence

from capeval.correlation.result import Correlation, Correlations
from capeval.reporting.correlations.labels import (
    GROUPING_WORDS,
    STATISTIC_WORDS,
    by_grouping,
    by_human,
    footnotes,
    missing,
    with_interval,
)
from capeval.reporting.numbers import (
    NOTHING,
    bounded,
    coefficient,
    p_value,
    significant,
    whole_percent,
)
from capeval.reporting.table import Table, columns
from capeval.text import one_line

LEAST_SYSTEMS = 5
"""The fewest systems in the short table: over four, p of tau-b is at least 2/4! = .083."""

_GROUPED = ("item", "within_system")
_RANK = "rank: a metric ranks lower if it is worse than all of the rank above (p <= 0.05, Holm)."
_ACCURACY = (
    "in-sample: differences of the metric up to the threshold (thr.), which is fitted to these "
    "pairs, count as ties; cross: thresholds fitted to other videos; untied: no threshold, to "
    "which p belongs. a constant: a metric with one score for all captions; acc_eq has a value "
    "even if all values of a metric tie."
)


def overview(results: Sequence[Correlation], statistic: str) -> tuple[list[Table], list[str]]:
    """Return one table of a statistic by all groupings: with p of one metric, else the values.

    Returns
    -------
    the table, if it has rows, and what a reader must know about its numbers
    """
    those = [r for r in results if r.statistic == statistic and shown_briefly(r)]
    grouped, humans = by_grouping(those), by_human(those)
    if not those:
        return [], []
    title = f"{STATISTIC_WORDS[statistic]} by grouping"
    if len(those) == len(grouped):
        heading = with_interval("Value", any(r.low is not None for r in those))
        table = Table(
            f"{title}, {one_line(those[0].metric)} and {next(iter(humans))}",
            columns("Grouping", heading, "p", "n", "ties", "groups"),
            [[r.grouping, *_numbers(r), _groups(r)] for (r,) in grouped.values()],
            _legend(those),
        )
        return [table], footnotes(those, set())
    headings = (
        with_interval(g, any(r.low is not None for r in same)) for g, same in grouped.items()
    )
    who = next(iter(humans)) if len(humans) == 1 else "human scores"
    table = Table(f"{title}, {who}", columns("Metric", *headings))
    for who, of_who in humans.items():
        table.rows += [[who]] if len(humans) > 1 else []
        values = {(r.metric, r.grouping): r for r in of_who}
        ranked = (r for same in by_grouping(of_who).values() for r in same)
        for metric in dict.fromkeys(r.metric for r in ranked):
            cells = [values.get((metric, g)) for g in grouped]
            shown = (bounded(r.value, r.low, r.high) if r else NOTHING for r in cells)
            table.rows.append([one_line(metric), *shown])
    return [table], [*missing([r for r in those if r.value is not None], set())]


def shown_briefly(r: Correlation) -> bool:
    """Return whether the screen has a place for a result."""
    return r.grouping != "system" or r.n >= LEAST_SYSTEMS


def value_tables(found: Correlations) -> list[Table]:
    """Return a table for each human score and grouping, then those of acc_eq, then one legend."""
    known: set[tuple[str, str]] = set()
    tables: list[Table] = []
    accuracies: list[Table] = []
    ranked = False
    for who, those in by_human(found.results).items():
        several = len({r.metric for r in those}) > 1
        ranked |= several
        others = by_grouping(r for r in those if r.statistic != "acc_eq")
        tables += [
            _correlations(who, same, known, several=several)
            for same in others.values()
            if any(r.value is not None for r in same)
        ]
        of_accuracy = [r for r in those if r.statistic == "acc_eq"]
        accuracies += _accuracies(who, of_accuracy, several=several)
    tables += accuracies
    if tables:
        legend = [tables[-1].note, _legend(found.results), _ACCURACY if accuracies else ""]
        tables[-1].note = " ".join(filter(None, [*legend, _RANK if ranked else ""]))
    return tables


def _legend(results: Sequence[Correlation]) -> str:
    there = {r.grouping for r in results}
    legend = "n: captions" + ("; by system, systems" if "system" in there else "")
    legend += ". ties: the share of the compared pairs that the metric ties."
    groups = " groups: used/all; a group in which one metric has no value is left out for all."
    return legend + (groups if there & set(_GROUPED) else "")


def _numbers(r: Correlation) -> list[str]:
    value = bounded(r.value, r.low, r.high)
    return [value, p_value(r.p), str(r.n), whole_percent(r.ties.metric)]


def _groups(r: Correlation) -> str:
    # Where there is a single group, its number says nothing.
    used = r.groups.used
    return f"{used}/{used + r.groups.dropped}" if r.grouping in _GROUPED else ""


def _rank(r: Correlation) -> str:
    return NOTHING if r.cluster is None else str(r.cluster)


def _human_ties(results: Sequence[Correlation]) -> str:
    share = next((r.ties.human for r in results if r.ties.human is not None), None)
    return "" if share is None else f"; human ties {whole_percent(share)}"


def _correlations(
    who: str, those: Sequence[Correlation], known: set[tuple[str, str]], *, several: bool
) -> Table:
    grouping = those[0].grouping
    groups = grouping in _GROUPED
    words = f"{GROUPING_WORDS[grouping]}{_human_ties(those)}"
    heading = with_interval("Value", any(r.low is not None for r in those))
    count = "systems" if grouping == "system" else "n"
    table = Table(
        f"{who[:1].upper()}{who[1:]}, {grouping} ({words})",
        columns(
            *("Metric", "Statistic", heading, "p", count, "ties"),
            *(["groups"] if groups else []),
            *(["rank"] if several else []),
            words=2,
        ),
        note=" ".join(footnotes(those, known)),
    )
    for r in those:
        row = [one_line(r.metric), STATISTIC_WORDS[r.statistic], *_numbers(r)]
        row += [_groups(r)] if groups else []
        table.rows.append([*row, _rank(r)] if several else row)
    return table


def _accuracies(who: str, results: Sequence[Correlation], *, several: bool) -> list[Table]:
    """Return a table of acc_eq, which means nothing without the accuracy of a constant metric."""
    heading = with_interval("in-sample", any(r.low is not None for r in results))
    names = ("Metric", heading, "thr.", "cross", "untied", "p", "n", "ties")
    table = Table(
        f"Pairwise accuracy with ties (acc_eq), {who}",
        columns(*names, *(["rank"] if several else [])),
    )
    for grouping, those in by_grouping(results).items():
        constant = next((r.constant for r in those if r.constant is not None), None)
        if constant is None:
            continue
        counts = {_groups(r) for r in those if r.groups.used}
        groups = f", groups {counts.pop()}" if grouping in _GROUPED and len(counts) == 1 else ""
        table.rows.append([f"{grouping}{groups}{_human_ties(those)}"])
        for r in those:
            value, *others = _numbers(r)
            fitted = (significant(r.threshold), coefficient(r.cross_fitted), coefficient(r.untied))
            row = [one_line(r.metric), value, *fitted, *others]
            table.rows.append([*row, _rank(r)] if several else row)
        blank = [""] * (len(table.columns) - 2)
        table.rows.append(["a constant", coefficient(constant), *blank])
    return [table] if table.rows else []

"""The tables of correlations between metrics and human scores."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from capeval.correlation.result import PUBLISHED_NOTE, Correlation, Correlations, Published
from capeval.reporting.correlations.agreement import ceiling_tables, element_tables
from capeval.reporting.correlations.comparisons import comparison_tables
from capeval.reporting.correlations.labels import (
    GROUPING_WORDS,
    STATISTIC_WORDS,
    footnotes,
    of_human,
    with_interval,
)
from capeval.reporting.correlations.summary import overview, summary_lines
from capeval.reporting.formats import Format, rendered
from capeval.reporting.numbers import NOTHING, bounded, coefficient, p_value
from capeval.reporting.table import Page, Table, columns
from capeval.reporting.terminal import print_line, print_pages
from capeval.stats.values import Grouping
from capeval.text import one_line

_GROUPS = "groups: used/all; one in which a metric has no value is left out for all metrics. "
_USED = (
    "item, within_system: groups used/all; where all values of a metric tie, acc_eq still has a "
    "value. "
)
_RANK = (
    "rank: a new one begins where a metric is worse (p to .05, Holm) than all of the rank above. "
)
_ACCURACY = (
    "in-sample: with the threshold thr. found on these pairs, up to which differences of the "
    "metric are ties; cross: with thresholds found on other videos; untied: with none. "
)


def print_correlations(
    found: Correlations, console: Console, *, form: Format = "table", full: bool = False
) -> None:
    """Print a headline, a summary, the tables and the signature.

    Parameters
    ----------
    full : all tables; otherwise one that has all metrics by one statistic. Formats other than
        "table" always have all.
    """
    if form != "table" or full:
        tables, notes = correlation_tables(found)
    else:
        tables, notes = overview(found), _missing_lines(found)
        if found.results or found.elements.tables:
            notes.append(
                "--full shows all statistics with p, agreement of elements, and metrics compared."
            )
    page = Page(tables, notes=notes, signatures=[found.signature])
    if form == "table":
        print_pages([page], console, headline="\n".join(summary_lines(found)))
    else:
        print_line(rendered([page], form), console)


def correlation_tables(found: Correlations) -> tuple[list[Table], list[str]]:
    """Return all tables and the notes below them."""
    tables = element_tables(found.elements)
    known: set[tuple[str, str]] = set()
    for human, rater in dict.fromkeys((r.human, r.rater) for r in found.results):
        who = of_human(human, rater)
        those = [r for r in found.results if (r.human, r.rater) == (human, rater)]
        tables += _correlations(who, those, known) + _accuracies(who, those)
    if found.published:
        tables.append(_published(found.published))
    compared, untested = comparison_tables(found)
    ceilings, lines = ceiling_tables(found)
    return [*tables, *compared, *ceilings], [*_missing_lines(found), *untested, *lines]


def _missing_lines(found: Correlations) -> list[str]:
    """Return why there is no value, in one line where a grouping has none at all."""
    lines = []
    for human, rater in dict.fromkeys((r.human, r.rater) for r in found.results):
        of_who = [r for r in found.results if (r.human, r.rater) == (human, rater)]
        for grouping, those in _by_grouping(of_who).items():
            title = f"{of_human(human, rater)}, {grouping}"
            missing = [r for r in those if r.value is None]
            if len(missing) == len(those):
                reasons = "; ".join(dict.fromkeys(one_line(str(r.reason)) for r in missing))
                lines.append(f"{title}: no value ({reasons})")
                continue
            lines += [f"{title}: {one_line(r.metric)}, {r.statistic}: {r.reason}" for r in missing]
    return lines


def _by_grouping(results: Sequence[Correlation]) -> dict[Grouping, list[Correlation]]:
    """Return results by grouping, each by statistic with the best metric first."""
    order = list(STATISTIC_WORDS)
    return {
        grouping: sorted(
            those, key=lambda r: (order.index(r.statistic), r.value is None, -(r.value or 0.0))
        )
        for grouping in GROUPING_WORDS
        if (those := [r for r in results if r.grouping == grouping])
    }


def _share(value: float | None) -> str:
    return NOTHING if value is None else f"{100 * value:.0f}%"


def _ties(results: Sequence[Correlation]) -> str:
    """Return how many pairs are tied: by humans once, for it is the same for every metric."""
    shares = {
        grouping: _share(next((r.ties.human for r in those if r.ties.human is not None), None))
        for grouping, those in _by_grouping(results).items()
    }
    known = [f"{grouping} {share}" for grouping, share in shares.items() if share != NOTHING]
    human = f"; human ties: {', '.join(known)}" if known else ""
    return f"ties: of the pairs compared, those that the metric ties{human}. "


def _correlations(
    who: str, results: Sequence[Correlation], known: set[tuple[str, str]]
) -> list[Table]:
    """Return a table for each grouping; the last has the legend."""
    tables: list[Table] = []
    legend = ""
    several = len({r.metric for r in results}) > 1
    for grouping, those in _by_grouping([r for r in results if r.statistic != "acc_eq"]).items():
        if all(r.value is None for r in those):
            continue
        # Where there is a single group, its number says nothing.
        groups = grouping in ("item", "within_system")
        table = Table(
            f"{who[:1].upper()}{who[1:]}, {grouping} ({GROUPING_WORDS[grouping]})",
            columns(
                "Metric",
                "Statistic",
                with_interval("Value", any(r.low is not None for r in those)),
                "p",
                "systems" if grouping == "system" else "n",
                "ties",
                *(["groups"] if groups else []),
                *(["rank"] if several else []),
                words=2,
            ),
            note=footnotes(those, known).strip(),
        )
        for r in those:
            table.rows.append(
                [
                    one_line(r.metric),
                    STATISTIC_WORDS[r.statistic],
                    bounded(r.value, r.low, r.high),
                    p_value(r.p),
                    str(r.n),
                    _share(r.ties.metric),
                    *([f"{r.groups.used}/{r.groups.used + r.groups.dropped}"] if groups else []),
                    *([_rank(r)] if several else []),
                ]
            )
        tables.append(table)
        legend = _GROUPS if groups else legend
    if tables:
        ranks = _RANK if several else ""
        legend = f"n: captions. {_ties(results)}{legend}{ranks}"
        tables[-1].note = f"{tables[-1].note} {legend}".strip()
    return tables


def _rank(result: Correlation) -> str:
    return NOTHING if result.cluster is None else str(result.cluster)


def _accuracies(who: str, results: Sequence[Correlation]) -> list[Table]:
    """Return a table of acc_eq, which means nothing without the accuracy of a constant metric."""
    accuracies = [r for r in results if r.statistic == "acc_eq"]
    several = len({r.metric for r in accuracies}) > 1
    table = Table(
        f"Pairwise accuracy with ties (acc_eq), {who}",
        columns(
            "Metric",
            with_interval("in-sample", any(r.low is not None for r in accuracies)),
            *("thr.", "cross", "untied", "p", "n", "ties"),
            *(["rank"] if several else []),
        ),
    )
    grouped = False
    for grouping, those in _by_grouping(accuracies).items():
        constant = next((r.constant for r in those if r.constant is not None), None)
        if constant is None:
            continue
        heading: str = grouping
        counts = {(r.groups.used, r.groups.used + r.groups.dropped) for r in those if r.groups.used}
        if grouping in ("item", "within_system") and len(counts) == 1:
            used, total = next(iter(counts))
            heading += f", {used}/{total}"
            grouped = True
        table.rows.append([heading])
        for r in those:
            table.rows.append(
                [
                    one_line(r.metric),
                    bounded(r.value, r.low, r.high),
                    NOTHING if r.threshold is None else f"{r.threshold:.3g}",
                    coefficient(r.cross_fitted),
                    coefficient(r.untied),
                    p_value(r.p),
                    str(r.n),
                    _share(r.ties.metric),
                    *([_rank(r)] if several else []),
                ]
            )
        blank = [""] * (len(table.columns) - 2)
        table.rows.append(["a constant", coefficient(constant), *blank])
    if not table.rows:
        return []
    table.note = (
        f"{_ACCURACY}p is of untied. a constant: a metric that gives every caption one score. "
        f"n: captions; in system, systems. {_ties(accuracies)}"
        f"{_USED if grouped else ''}{_RANK if several else ''}"
    ).strip()
    return [table]


def _published(rows: Sequence[Published]) -> Table:
    return Table(
        "Published in TUNA, table 3 (n = 40; not computed here)",
        columns("Metric", "Kendall tau", "Spearman rho", "Pearson r"),
        [
            [
                f"{row.metric} (published)",
                *map(coefficient, (row.kendall, row.spearman, row.pearson)),
            ]
            for row in rows
        ],
        note=PUBLISHED_NOTE,
    )

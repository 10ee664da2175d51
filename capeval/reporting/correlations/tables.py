"""The tables of correlations between metrics and human scores."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.console import Console

from capeval.correlation.result import (
    PUBLISHED_NOTE,
    ComparisonResult,
    Correlation,
    Correlations,
    Published,
)
from capeval.reporting.correlations.agreement import ceiling_tables, element_tables
from capeval.reporting.correlations.labels import (
    GROUPING_WORDS,
    STATISTIC_WORDS,
    footnotes,
    of_human,
    shown_reason,
    with_interval,
)
from capeval.reporting.correlations.summary import overview, summary_lines
from capeval.reporting.formats import Format, rendered
from capeval.reporting.numbers import (
    NOTHING,
    bounded,
    coefficient,
    p_value,
    signed,
    signed_bounds,
    significant,
    thousands,
    whole_percent,
)
from capeval.reporting.table import Page, Table, columns
from capeval.reporting.terminal import one_screen, print_line, print_pages
from capeval.stats.values import Grouping
from capeval.text import counted, one_line

_GROUPS = "groups: used/all; a group in which one metric has no value is left out for all. "
_USED = (
    "item, within_system: groups used/all; acc_eq has a value even if all values of a metric tie. "
)
_RANK = "rank: a metric ranks lower if it is worse than all of the rank above (p <= 0.05, Holm). "
_ACCURACY = (
    "in-sample: differences of the metric up to the threshold (thr.), which is fitted to these "
    "pairs, count as ties; cross: thresholds fitted to other videos; untied: no threshold. "
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
        tables, notes = overview(found), _missing_causes(found)
        if found.results or found.elements.tables:
            notes.append(
                "--full shows every statistic with its p, every missing value, the agreement on "
                "elements, and the metrics compared with each other."
            )
    pages = [Page(tables, notes=notes, signatures=[found.signature])]
    if form != "table":
        print_line(rendered(pages, form), console)
        return
    headline = "\n".join(summary_lines(found))
    if not full:
        pages = one_screen(pages, console.width, headline=headline)
    print_pages(pages, console, headline=headline)


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


def _missing_causes(found: Correlations) -> list[str]:
    """Return a line for each cause of missing values: how many there are, and one of them."""
    causes: dict[str, list[Correlation]] = {}
    for r in found.results:
        if r.value is None:
            causes.setdefault(_cause(str(r.reason)), []).append(r)
    lines = []
    for those in sorted(causes.values(), key=len, reverse=True):
        r = those[0]
        lines.append(
            f"{thousands(len(those))} of {counted(len(found.results), 'correlation')} "
            f"{'has' if len(those) == 1 else 'have'} no value: {shown_reason(r.reason)} (such as "
            f"{one_line(r.metric)}, {STATISTIC_WORDS[r.statistic]}, {r.grouping}, "
            f"{of_human(r.human, r.rater)})"
        )
    return lines


def _cause(reason: str) -> str:
    """Return a reason without what differs between the values that it is the cause of.

    >>> _cause("1 pair; kendall_b needs 2") == _cause("2 pairs; spearman needs 3")
    True
    """
    general = re.sub("|".join(STATISTIC_WORDS), "statistic", reason)
    return re.sub(r"\b(group|pair|caption)s\b", r"\1", re.sub(r"\d+", "#", general))


def _missing_lines(found: Correlations) -> list[str]:
    """Return why each value is missing, in one line where a grouping has none at all."""
    lines = []
    for human, rater in dict.fromkeys((r.human, r.rater) for r in found.results):
        of_who = [r for r in found.results if (r.human, r.rater) == (human, rater)]
        for grouping, those in _by_grouping(of_who).items():
            title = f"{of_human(human, rater)}, {grouping}"
            missing = [r for r in those if r.value is None]
            if len(missing) == len(those):
                reasons = "; ".join(dict.fromkeys(shown_reason(r.reason) for r in missing))
                lines.append(f"{title}: no value ({reasons})")
                continue
            lines += [
                f"{title}: {one_line(r.metric)}, {STATISTIC_WORDS[r.statistic]}: "
                f"{shown_reason(r.reason)}"
                for r in missing
            ]
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


def _ties(results: Sequence[Correlation]) -> str:
    """Return how many pairs are tied: by humans once, for it is the same for every metric."""
    shares = {
        grouping: next((r.ties.human for r in those if r.ties.human is not None), None)
        for grouping, those in _by_grouping(results).items()
    }
    known = [f"{g} {whole_percent(share)}" for g, share in shares.items() if share is not None]
    human = f"; human ties: {', '.join(known)}" if known else ""
    return f"ties: the share of the compared pairs that the metric ties{human}. "


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
                    whole_percent(r.ties.metric),
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
                    significant(r.threshold),
                    coefficient(r.cross_fitted),
                    coefficient(r.untied),
                    p_value(r.p),
                    str(r.n),
                    whole_percent(r.ties.metric),
                    *([_rank(r)] if several else []),
                ]
            )
        blank = [""] * (len(table.columns) - 2)
        table.rows.append(["a constant", coefficient(constant), *blank])
    if not table.rows:
        return []
    table.note = (
        f"{_ACCURACY}p is that of untied. a constant: a metric with one score for all captions. "
        f"n: captions; in system, systems. {_ties(accuracies)}"
        f"{_USED if grouped else ''}{_RANK if several else ''}"
    ).strip()
    return [table]


def _published(rows: Sequence[Published]) -> Table:
    return Table(
        "Published in TUNA, table 3 (n = 40; values not computed here)",
        columns("Published", "Kendall tau [95%]", "Spearman rho [95%]", "Pearson r [95%]"),
        [
            [
                row.metric,
                bounded(row.kendall, *(row.kendall_interval or _NO_ENDS)),
                bounded(row.spearman, *(row.spearman_interval or _NO_ENDS)),
                bounded(row.pearson, *(row.pearson_interval or _NO_ENDS)),
            ]
            for row in rows
        ],
        note=PUBLISHED_NOTE,
    )


_NO_ENDS = (None, None)
_METHODS = {"permutation": "whole videos permuted", "jackknife": "jackknife over videos"}

_Pairs = dict[tuple[str, str], ComparisonResult]

_NOTE = (
    "Above the diagonal: p of row and column ({how}, Holm within a block). "
    "Below it: the difference, row − column, over the groups in which both have a value. "
    "A metric ranks lower if it is worse than all metrics of the rank above. "
    "The intervals of the differences and one-sided p are in the file (--out)."
)


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
                lost[f"metrics compared, {who}, {where}: no p ({shown_reason(c.reason)})"] = None
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
    ends = with_interval("Difference", any(c.low is not None for c in tested))
    table = Table(
        f"Metrics compared, {who}: {first} − {second} (p: {_how(tested)})",
        columns("Statistic", ends, "p", "one-sided"),
        note=f"one-sided: p of the alternative that {first} is better.",
    )
    for grouping in GROUPING_WORDS:
        blocks = _blocks([c for c in tested if c.grouping == grouping])
        table.rows += [[grouping]] if blocks else []
        for name, (c, *_) in blocks.items():
            bounds = signed_bounds(c.difference, c.low, c.high)
            table.rows.append([name, bounds, p_value(c.p_adjusted), p_value(c.p_one_sided)])
    return [table]


def _how(those: Sequence[ComparisonResult]) -> str:
    used = [words for method, words in _METHODS.items() if any(c.method == method for c in those)]
    return " or ".join(used or _METHODS.values())


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
        tables.append(
            Table(
                f"Metrics compared, {who}, {grouping} ({words})",
                columns("Metric", "rank", "value", *numbers),
                # A metric without a value leaves its block narrower than the others.
                [row + [""] * (width - len(row)) if len(row) > 1 else row for row in rows],
                note=_NOTE.format(how=_how(here)),
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

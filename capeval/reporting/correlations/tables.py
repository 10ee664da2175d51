"""The tables of correlations between metrics and human scores."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from capeval.correlation.protocols import TUNA
from capeval.correlation.result import (
    PUBLISHED_NOTE,
    Coefficient,
    ComparisonResult,
    Correlation,
    Correlations,
    Published,
)
from capeval.reporting.correlations.agreement import ceiling_tables, element_tables
from capeval.reporting.correlations.labels import (
    GROUPING_WORDS,
    STATISTIC_WORDS,
    causes_of_missing,
    of_human,
    with_interval,
)
from capeval.reporting.correlations.summary import elements_of_best, of_first_human, summary_lines
from capeval.reporting.correlations.values import (
    LEGEND,
    overview,
    shown_briefly,
    tables_of_protocol,
    value_tables,
)
from capeval.show.formats import Format, rendered
from capeval.show.table import BOUNDED, LINE, P_VALUE, SIGNED_BOUNDED, Column, Page, Table
from capeval.show.terminal import one_screen, print_line, print_pages
from capeval.text import counted, one_line

# Lines of the screen: elements and the main statistic, with what a reader must know.
_LINES = 60


def print_correlations(
    found: Correlations, console: Console, *, form: Format = "table", full: bool = False
) -> None:
    """Print a headline, a summary, the tables and the signature.

    Parameters
    ----------
    full : all tables; otherwise the main statistic of one human score by grouping, and the
        elements. Formats other than "table" always have all.
    """
    if form != "table":
        print_line(rendered([correlations_page(found)], form), console)
        return
    pages = (
        [correlations_page(found)]
        if full
        else one_screen([correlations_screen(found)], lines=_LINES)
    )
    print_pages(pages, console, headline="\n".join(summary_lines(found)))


def correlations_page(found: Correlations) -> Page:
    """Return all tables, and why values are missing."""
    ceilings, notes = ceiling_tables(found)
    tables = [
        *element_tables(found.elements),
        *value_tables(found.results),
        *_published(found.published),
        *_comparisons(found),
        *ceilings,
    ]
    untested = [
        (c.reason, f"{one_line(c.first)} − {one_line(c.second)}, {_where(c)}")
        for c in found.comparisons
        if c.difference is not None
    ]
    return Page(
        tables,
        legend=LEGEND,
        notes=[*_missing(found), *causes_of_missing("comparison", untested, "p"), *notes],
        signatures=[found.signature],
    )


def correlations_screen(found: Correlations) -> Page:
    """Return the tables of the summary's human score and judge, and what else there is."""
    tables: list[Table] = []
    leading = of_first_human(found)
    statistics = {r.statistic for r in found.results}
    alike = [r for r in found.results if r.human == leading[0].human]
    named = bool(found.inputs["settings"]["protocol"] == TUNA.name)
    if leading and named:
        tables = tables_of_protocol(alike)
    elif leading:
        tables = overview(alike, min(statistics, key=list(STATISTIC_WORDS).index))
    tested = any(column.key == "p" for table in tables for column in table.columns)
    ranked = any("rank" in table.header or "#1" in table.note for table in tables)
    best = elements_of_best(found)
    # A table of several metrics is the answer; those of elements would leave no room for its rows.
    apart = named and len({r.metric for r in alike}) > 1
    # Published rows are read next to the computed ones.
    tables += _published(found.published)
    tables += element_tables(found.elements, best) if best and not apart else []
    others = sorted({r.human for r in found.results if r.human != leading[0].human})
    hidden = [r for r in found.results if not shown_briefly(r) and not named]
    few = max((r.n for r in hidden), default=0)
    more = {
        "the other statistics": len(statistics) > 1 and not named,
        of_human(", ".join(others), None): others,
        f"the means of the {counted(few, 'system')}": few,
        "p": alike and not tested,
        "ranks": apart and not ranked,
        "metrics compared with each other": found.comparisons,
        "agreement on elements": best and apart,
        "elements of the other judges": not apart
        and len({t.given for t in found.elements.tables}) > 1,
        "the ceilings of raters": found.raters.ceiling,
    }
    notes = _missing(found)
    if shown := [what for what, there in more.items() if there]:
        notes.append(f"--full also shows: {'; '.join(shown)}.")
    return Page(tables, legend=LEGEND, notes=notes, signatures=[found.signature])


def _missing(found: Correlations) -> list[str]:
    """Return why correlations have no value or no interval."""
    names = [f"{one_line(r.metric)}, {_where(r)}" for r in found.results]
    values = [r.reason if r.value is None else None for r in found.results]
    intervals = [r.interval_reason if r.value is not None else None for r in found.results]
    return [
        *causes_of_missing("correlation", list(zip(values, names, strict=True)), "value"),
        *causes_of_missing("correlation", list(zip(intervals, names, strict=True)), "interval"),
    ]


def _published(rows: Sequence[Published]) -> list[Table]:
    table = Table(
        "Published in TUNA, table 3 (n = 40; values not computed here)",
        [
            Column("Published", words=True, key="metric"),
            *(
                Column(f"{words} [95%]", kind=BOUNDED, key=name)
                for name, words in _PUBLISHED.items()
            ),
        ],
        note=PUBLISHED_NOTE,
    )
    for row in rows:
        cells = []
        for name in _PUBLISHED:
            low, high = getattr(row, f"{name}_interval") or (None, None)
            cells.append(Coefficient(value=getattr(row, name), low=low, high=high))
        table.rows.append([row.metric, *cells])
    return [table] if rows else []


_PUBLISHED = {"kendall": "Kendall tau", "spearman": "Spearman rho", "pearson": "Pearson r"}


def _comparisons(found: Correlations) -> list[Table]:
    """Return a table for each human score: every two metrics, the better one first."""
    values = {(r.human, r.rater, r.grouping, r.statistic, r.metric): r for r in found.results}

    def value(c: ComparisonResult, metric: str) -> float:
        one = values.get((c.human, c.rater, c.grouping, c.statistic, metric))
        return -2.0 if one is None or one.value is None else one.value

    def order(c: ComparisonResult) -> tuple[int, float, float]:
        low, high = sorted((value(c, c.first), value(c, c.second)))
        return list(STATISTIC_WORDS).index(c.statistic), -high, -low

    tables = []
    compared = [c for c in found.comparisons if c.difference is not None]
    for human, rater in dict.fromkeys((c.human, c.rater) for c in compared):
        those = [c for c in compared if (c.human, c.rater) == (human, rater)]
        ends = any(c.low is not None for c in those)
        table = Table(
            f"Metrics compared, {of_human(human, rater)}",
            [
                Column("Statistic", words=True),
                Column("Metrics", words=True, kind=LINE),
                Column(with_interval("Difference", ends), kind=SIGNED_BOUNDED, key="difference"),
                Column("p", kind=P_VALUE),
            ],
            note="p: by Holm within a statistic and grouping.",
        )
        for grouping, words in GROUPING_WORDS.items():
            here = sorted((c for c in those if c.grouping == grouping), key=order)
            table.rows += [[f"{grouping} ({words})"]] if here else []
            table.rows += map(_compared, here)
        tables.append(table)
    return tables


def _compared(c: ComparisonResult) -> list[object]:
    worse = (c.difference or 0) < 0
    names = (c.second, c.first) if worse else (c.first, c.second)
    ends = (c.difference, c.high, c.low) if worse else (c.difference, c.low, c.high)
    value, low, high = (-one if worse and one is not None else one for one in ends)
    shown = Coefficient(value=value, low=low, high=high)
    return [STATISTIC_WORDS[c.statistic], " − ".join(names), shown, c.p_adjusted]


def _where(c: ComparisonResult | Correlation) -> str:
    return f"{STATISTIC_WORDS[c.statistic]}, {c.grouping}, {of_human(c.human, c.rater)}"

"""The tables of correlations between metrics and human scores."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from capeval.correlation.protocols import TUNA
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
    lines_of_missing,
    of_human,
    with_interval,
)
from capeval.reporting.correlations.summary import elements_of_best, of_first_human, summary_lines
from capeval.reporting.correlations.values import (
    overview,
    shown_briefly,
    tables_of_protocol,
    value_tables,
)
from capeval.reporting.formats import Format, rendered
from capeval.reporting.numbers import (
    NOTHING,
    bounded,
    coefficient,
    p_value,
    signed,
    signed_bounds,
    thousands,
)
from capeval.reporting.table import P_VALUE, Kind, Page, Table, columns
from capeval.reporting.terminal import one_screen, print_line, print_pages
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
    if form == "table" and not full:
        tables, notes = _short(found)
    else:
        # In LaTeX, each table is on its own.
        tables, notes = correlation_tables(found, each=form == "latex")
    pages = [Page(tables, notes=notes, signatures=[found.signature])]
    if form != "table":
        print_line(rendered(pages, form), console)
        return
    headline = "\n".join(summary_lines(found))
    if not full:
        pages = one_screen(pages, console.width, headline=headline, lines=_LINES)
    print_pages(pages, console, headline=headline)


def _short(found: Correlations) -> tuple[list[Table], list[str]]:
    """Return the tables of the summary's human score and judge, and the notes below them."""
    tables: list[Table] = []
    notes: list[str] = []
    leading = of_first_human(found)
    statistics = {r.statistic for r in found.results}
    alike = [r for r in found.results if r.human == leading[0].human]
    named = _is_protocol(found)
    if leading and named:
        tables = tables_of_protocol(alike)
    elif leading:
        tables, notes = overview(alike, min(statistics, key=list(STATISTIC_WORDS).index))
    tested = any(column.heading == "p" for table in tables for column in table.columns)
    ranked = any("rank" in table.header or "#1" in table.note for table in tables)
    best = elements_of_best(found)
    # A table of several metrics is the answer; those of elements would leave no room for its rows.
    apart = named and len({r.metric for r in alike}) > 1
    # Published rows are read next to the computed ones.
    tables += [_published(found.published)] if found.published else []
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
    notes += _missing_causes(found)
    if shown := [what for what, there in more.items() if there]:
        notes.append(f"--full also shows: {'; '.join(shown)}.")
    return tables, notes


def _is_protocol(found: Correlations) -> bool:
    """Return whether the statistics are those of a published protocol."""
    return bool(found.inputs["settings"]["protocol"] == TUNA.name)


def correlation_tables(found: Correlations, *, each: bool = False) -> tuple[list[Table], list[str]]:
    """Return all tables and the notes below them; `each` table of values with its own legend."""
    tables = [*element_tables(found.elements), *value_tables(found.results, each=each)]
    if found.published:
        tables.append(_published(found.published))
    compared, untested = comparison_tables(found)
    ceilings, lines = ceiling_tables(found)
    missing = lines_of_missing(
        (f"{of_human(r.human, r.rater)}, {r.grouping}", one_line(r.metric), r.statistic, r.reason)
        for r in found.results
        if r.value is None
    )
    return [*tables, *compared, *ceilings], [*missing, *untested, *lines]


def _missing_causes(found: Correlations) -> list[str]:
    """Return a line for each cause of missing values: how many there are, and one of them."""
    causes: dict[str, list[Correlation]] = {}
    for r in found.results:
        if r.value is None:
            causes.setdefault(r.reason or "", []).append(r)
    lines = []
    for those in sorted(causes.values(), key=len, reverse=True):
        r = those[0]
        lines.append(
            f"{thousands(len(those))} of {counted(len(found.results), 'correlation')} "
            f"{'has' if len(those) == 1 else 'have'} no value: {r.reason} (such as "
            f"{one_line(r.metric)}, {STATISTIC_WORDS[r.statistic]}, {r.grouping}, "
            f"{of_human(r.human, r.rater)})"
        )
    return lines


def _published(rows: Sequence[Published]) -> Table:
    return Table(
        "Published in TUNA, table 3 (n = 40; values not computed here)",
        columns(
            "Published",
            *((f"{name} [95%]", _PRINTED) for name in ("Kendall tau", "Spearman rho", "Pearson r")),
        ),
        [
            [
                row.metric,
                (row.kendall, row.kendall_interval),
                (row.spearman, row.spearman_interval),
                (row.pearson, row.pearson_interval),
            ]
            for row in rows
        ],
        note=PUBLISHED_NOTE,
    )


_PRINTED = Kind(lambda pair: bounded(pair[0], *(pair[1] or (None, None))))

_DIFFERENCE = Kind(
    lambda of: signed_bounds(*of),
    parts=lambda of: dict(zip(("", "_low", "_high"), of, strict=True)),
)

_End = float | None
_Pairs = dict[tuple[str, str], tuple[_End, _End, _End, _End]]

_NOTE = (
    " Above the diagonal: p of row and column, by Holm within a block. "
    "Below it: the difference, row − column. "
    "The other differences' intervals are in the file (--out)."
)


def comparison_tables(found: Correlations) -> tuple[list[Table], list[str]]:
    """Return the tables, and the reasons why there is no p."""
    tables: list[Table] = []
    matrices: list[Table] = []
    notes: list[str] = []
    for human, rater in dict.fromkeys((c.human, c.rater) for c in found.comparisons):
        those = [c for c in found.comparisons if (c.human, c.rater) == (human, rater)]
        values = [r for r in found.results if (r.human, r.rater) == (human, rater)]
        who = of_human(human, rater)
        names = dict.fromkeys(name for c in those for name in (c.first, c.second))
        if len(names) == 2:
            tables += _of_two(those, who)
        else:
            matrices += _matrices(those, values, who)
        lost: dict[str, None] = {}
        for c in those:
            if c.reason is not None and c.difference is not None:
                where = f"{c.grouping}, {STATISTIC_WORDS[c.statistic]}"
                lost[f"metrics compared, {who}, {where}: no p ({c.reason})"] = None
        notes += lost
    if matrices:
        # The last matrix has the differences of its best metric below it.
        matrices[-2].note += _NOTE
    return [*tables, *matrices], notes


def _blocks(those: Sequence[ComparisonResult]) -> dict[str, list[ComparisonResult]]:
    """Return the comparisons by the name of their statistic."""
    blocks: dict[str, list[ComparisonResult]] = {}
    for statistic, name in STATISTIC_WORDS.items():
        for c in those:
            if c.statistic == statistic:
                blocks.setdefault(name, []).append(c)
    return blocks


def _of_two(those: Sequence[ComparisonResult], who: str) -> list[Table]:
    tested = [c for c in those if c.difference is not None]
    if not tested:
        return []
    first, second = one_line(tested[0].first), one_line(tested[0].second)
    ends = with_interval("Difference", any(c.low is not None for c in tested))
    table = Table(
        f"Metrics compared, {who}: {first} − {second}",
        columns("Statistic", (ends, _DIFFERENCE), ("p", P_VALUE)),
    )
    for grouping in GROUPING_WORDS:
        blocks = _blocks([c for c in tested if c.grouping == grouping])
        table.rows += [[grouping]] if blocks else []
        for name, (c, *_) in blocks.items():
            table.rows.append([name, (c.difference, c.low, c.high), c.p_adjusted])
    return [table]


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
                rows += [[name], *_block(ranked, _both_ways(block))]
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
            )
        )
        tables.append(_from_best(here, values, f"{who}, {grouping}"))
    return tables


def _from_best(
    here: Sequence[ComparisonResult], values: Sequence[Correlation], where: str
) -> Table:
    """Return the differences of each statistic's best metric from the others, with intervals."""
    ends = with_interval("Difference", any(c.low is not None for c in here))
    table = Table(
        f"Best metric − others, {where}",
        columns("Metrics", (ends, _DIFFERENCE), ("p", P_VALUE)),
    )
    for name, block in _blocks(here).items():
        way = (block[0].statistic, block[0].grouping)
        those = [r for r in values if (r.statistic, r.grouping) == way and r.value is not None]
        best, *others = [r.metric for r in sorted(those, key=lambda r: -(r.value or 0.0))] or [""]
        pairs = _both_ways(block)
        rows = [
            [f"{one_line(best)} − {one_line(other)}", bounds, p]
            for other in others
            for *bounds, p in [pairs[best, other]]
            if bounds[0] is not None
        ]
        table.rows += [[name], *rows] if rows else []
    return table


def _both_ways(block: Sequence[ComparisonResult]) -> _Pairs:
    """Return the difference, its ends and p of every two metrics, in both orders."""

    def less(end: float | None) -> float | None:
        return None if end is None else -end

    pairs: _Pairs = {}
    for c in block:
        pairs[c.first, c.second] = (c.difference, c.low, c.high, c.p_adjusted)
        pairs[c.second, c.first] = (less(c.difference), less(c.high), less(c.low), c.p_adjusted)
    return pairs


def _block(ranked: Sequence[Correlation], pairs: _Pairs) -> list[list[str]]:
    rows = []
    for n, row in enumerate(ranked):
        cells = [
            f"{n + 1} {one_line(row.metric)}",
            NOTHING if row.cluster is None else str(row.cluster),
            coefficient(row.value),
        ]
        for m, column in enumerate(ranked):
            difference, _, _, p = pairs.get((row.metric, column.metric), (None, None, None, None))
            if m == n or difference is None:
                cells.append("" if m == n else NOTHING)
            else:
                cells.append(p_value(p) if m > n else signed(difference))
        rows.append(cells)
    return rows

"""The tables of correlations: in a terminal, as Markdown, or as LaTeX."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from capeval.correlation.result import PUBLISHED_NOTE, Correlation, Correlations, Published
from capeval.reporting.correlations.comparisons import comparison_sheets
from capeval.reporting.correlations.elements import element_sheets
from capeval.reporting.correlations.labels import (
    GROUPING_WORDS,
    STATISTIC_WORDS,
    footnotes,
    of_human,
    with_interval,
)
from capeval.reporting.correlations.raters import rater_sheets
from capeval.reporting.correlations.summary import summary_lines
from capeval.reporting.numbers import NOTHING, bounded, coefficient, p_value
from capeval.reporting.text_table import Format, Sheet, print_sheets, rendered
from capeval.stats.values import Grouping
from capeval.text import one_line

_GROUPS = (
    "groups: used/all; one in which a metric has no value is left out, for all metrics alike. "
)
_USED = (
    "item, within_system: groups used/all; where all of a metric tie, acc_eq still has a value. "
)
_RANK = (
    "rank: a new one begins where a metric is worse (p to .05, Holm) than all of the rank above. "
)
_ACCURACY = (
    "in-sample: with the threshold thr. found on these pairs, up to which differences of the "
    "metric are ties; cross: with thresholds found on other videos; untied: with none. "
)


def sheets_of(found: Correlations) -> tuple[list[Sheet], list[str]]:
    """Return all tables and the lines below them."""
    sheets, notes = _video_sheets(found)
    sheets = element_sheets(found.elements) + sheets
    if found.published:
        sheets.append(_published(found.published))
    compared, untested = comparison_sheets(found)
    of_raters, lines = rater_sheets(found.raters)
    return [*sheets, *compared, *of_raters], [*notes, *untested, *lines]


def _video_sheets(found: Correlations) -> tuple[list[Sheet], list[str]]:
    sheets: list[Sheet] = []
    notes: list[str] = []
    told: set[tuple[str, str]] = set()
    for human, rater in dict.fromkeys((r.human, r.rater) for r in found.results):
        who = of_human(human, rater)
        of_who = [r for r in found.results if (r.human, r.rater) == (human, rater)]
        sheets += _correlations(who, of_who, told) + _accuracies(who, of_who)
        for grouping, those in _by_grouping(of_who).items():
            notes += _unvalued(f"{who}, {grouping}", those)
    return sheets, notes


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


def _unvalued(title: str, results: Sequence[Correlation]) -> list[str]:
    """Return why there is no value, in one line where there is none at all."""
    missing = [r for r in results if r.value is None]
    if len(missing) == len(results):
        reasons = "; ".join(dict.fromkeys(one_line(str(r.reason)) for r in missing))
        return [f"{title}: no value ({reasons})"]
    return [f"{title}: {one_line(r.metric)}, {r.statistic}: {r.reason}" for r in missing]


def _first_upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _share(value: float | None) -> str:
    return NOTHING if value is None else f"{100 * value:.0f}%"


def _ties(results: Sequence[Correlation]) -> str:
    """Return what is tied: by people once, for it is the same of every metric."""
    shares = {
        grouping: _share(next((r.ties.human for r in those if r.ties.human is not None), None))
        for grouping, those in _by_grouping(results).items()
    }
    told = [f"{grouping} {share}" for grouping, share in shares.items() if share != NOTHING]
    by_people = f"; people tie: {', '.join(told)}" if told else ""
    return f"ties: of the pairs compared, those that the metric ties{by_people}. "


def _correlations(
    who: str, results: Sequence[Correlation], told: set[tuple[str, str]]
) -> list[Sheet]:
    """Return a table for each grouping; the last has the legend."""
    sheets: list[Sheet] = []
    legend: dict[str, None] = {}
    several = len({r.metric for r in results}) > 1
    for grouping, those in _by_grouping([r for r in results if r.statistic != "acc_eq"]).items():
        if all(r.value is None for r in those):
            continue
        # Groups say nothing where there is one.
        groups = grouping in ("item", "within_system")
        sheet = Sheet(
            f"{_first_upper(who)}, {grouping} ({GROUPING_WORDS[grouping]})",
            [
                "Metric",
                "Statistic",
                with_interval("Value", any(r.low is not None for r in those)),
                "p",
                "systems" if grouping == "system" else "n",
                "ties",
                *(["groups"] if groups else []),
                *(["rank"] if several else []),
            ],
            left=2,
            note=footnotes(those, told).strip(),
        )
        for r in those:
            sheet.rows.append(
                [
                    one_line(r.metric),
                    STATISTIC_WORDS[r.statistic],
                    bounded(r.value, r.low, r.high),
                    p_value(r.p),
                    str(r.n),
                    _share(r.ties.metric),
                    *([f"{r.groups.used}/{r.groups.used + r.groups.dropped}"] if groups else []),
                    *([NOTHING if r.cluster is None else str(r.cluster)] if several else []),
                ]
            )
        sheets.append(sheet)
        legend |= dict.fromkeys([_GROUPS] if groups else [])
    if sheets:
        ranks = _RANK if several else ""
        legend_of_all = f"n: captions. {_ties(results)}{''.join(legend)}{ranks}".strip()
        sheets[-1].note = " ".join(filter(None, [sheets[-1].note, legend_of_all]))
    return sheets


def _accuracies(who: str, results: Sequence[Correlation]) -> list[Sheet]:
    """Return acc_eq by itself: it means nothing without what a constant metric gets."""
    those_all = [r for r in results if r.statistic == "acc_eq"]
    title = f"Pairwise accuracy with ties (acc_eq), {who}"
    several = len({r.metric for r in those_all}) > 1
    there = any(r.low is not None for r in those_all)
    sheet = Sheet(
        title,
        [
            "Metric",
            with_interval("in-sample", there),
            "thr.",
            "cross",
            "untied",
            "p",
            "n",
            "ties",
            *(["rank"] if several else []),
        ],
    )
    grouped = False
    for grouping, those in _by_grouping(those_all).items():
        constant = next((r.constant for r in those if r.constant is not None), None)
        if constant is None:
            continue
        heading: str = grouping
        counts = {(r.groups.used, r.groups.used + r.groups.dropped) for r in those if r.groups.used}
        if grouping in ("item", "within_system") and len(counts) == 1:
            used, total = next(iter(counts))
            heading += f", {used}/{total}"
            grouped = True
        sheet.rows.append([heading])
        for r in those:
            sheet.rows.append(
                [
                    one_line(r.metric),
                    bounded(r.value, r.low, r.high),
                    NOTHING if r.threshold is None else f"{r.threshold:.3g}",
                    coefficient(r.cross_fitted),
                    coefficient(r.untied),
                    p_value(r.p),
                    str(r.n),
                    _share(r.ties.metric),
                    *([NOTHING if r.cluster is None else str(r.cluster)] if several else []),
                ]
            )
        blank = [""] * (len(sheet.header) - 2)
        sheet.rows.append(["a constant", coefficient(constant), *blank])
    if not sheet.rows:
        return []
    sheet.note = (
        f"{_ACCURACY}p is of untied. a constant: what a metric gets that gives all one score. "
        f"n: captions; of system, systems. {_ties(those_all)}"
        f"{_USED if grouped else ''}{_RANK if several else ''}"
    ).strip()
    return [sheet]


def _published(rows: Sequence[Published]) -> Sheet:
    return Sheet(
        "Published in TUNA, table 3 (n = 40; not computed here)",
        ["Metric", "Kendall tau", "Spearman rho", "Pearson r"],
        [
            [
                f"{row.metric} (published)",
                *map(coefficient, (row.kendall, row.spearman, row.pearson)),
            ]
            for row in rows
        ],
        note=PUBLISHED_NOTE,
    )


def print_correlations(
    found: Correlations,
    console: Console,
    *,
    form: Format = "table",
    full: bool = False,  # noqa: ARG001
) -> None:
    """Print all tables, their notes and the signature; in a terminal, first what they come to."""
    sheets, notes = sheets_of(found)
    if form != "table":
        text = rendered(sheets, [*notes, found.signature], form)
        console.print(Text(text), soft_wrap=True)
        return
    if summary := summary_lines(found):
        for line in (*summary, ""):
            console.print(Text(line))
    print_sheets(sheets, console)
    for line in notes:
        console.print(Text(line), soft_wrap=True)
    console.print(Text(f"  {found.signature}", style="dim"), soft_wrap=True)

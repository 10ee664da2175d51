"""The tables of correlations: in a terminal, as Markdown, or as LaTeX."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from capeval.correlation.published import PUBLISHED, PUBLISHED_NOTE
from capeval.correlation.result import Correlations, ElementTable
from capeval.errors import one_line
from capeval.reporting.comparison_tables import comparison_sheets
from capeval.reporting.correlation_words import GROUPING_WORDS, STATISTIC_WORDS, of_human
from capeval.reporting.numbers import NOTHING, bounded, coefficient, p_value
from capeval.reporting.sheets import Format, Sheet, print_sheets, rendered

__all__ = ["print_correlations", "sheets_of"]


def sheets_of(found: Correlations, *, published: bool = False) -> tuple[list[Sheet], list[str]]:
    """Return all tables and the lines below them."""
    sheets, notes = _video_sheets(found)
    sheets = _element_sheets(found.elements.tables) + sheets
    if published:
        sheets.append(_published())
    compared, untested = comparison_sheets(found)
    sheets += compared
    notes += untested
    sheets += _rater_sheets(found)
    return sheets, notes


def _video_sheets(found: Correlations) -> tuple[list[Sheet], list[str]]:
    sheets: list[Sheet] = []
    notes: list[str] = []
    ways = dict.fromkeys((r.human, r.rater, r.grouping) for r in found.results)
    for human, rater, grouping in ways:
        those = [
            r for r in found.results if (r.human, r.rater, r.grouping) == (human, rater, grouping)
        ]
        who = of_human(human, rater)
        title = f"{who}, {grouping} ({GROUPING_WORDS[grouping]})"
        if all(r.value is None for r in those):
            reasons = "; ".join(dict.fromkeys(str(r.reason) for r in those))
            notes.append(f"{title}: no value ({reasons})")
            continue
        several = len({r.metric for r in those}) > 1
        # Groups say nothing where there is one.
        groups = grouping in ("item", "within_system")
        header = ["Metric", "Statistic", "Value [95%]", "p", "n", "ties"]
        sheet = Sheet(title, header, left=2)
        if groups:
            header.append("groups")
        if several:
            header.append("rank")
        for r in sorted(those, key=lambda r: list(STATISTIC_WORDS).index(r.statistic)):
            if r.value is None:
                notes.append(f"{title}: {one_line(r.metric)}, {r.statistic}: {r.reason}")
            if r.statistic == "acc_eq":
                continue
            row = [
                one_line(r.metric),
                STATISTIC_WORDS[r.statistic],
                bounded(r.value, r.low, r.high),
                p_value(r.p),
                str(r.n),
                NOTHING if r.ties.metric is None else f"{100 * r.ties.metric:.0f}%",
            ]
            if groups:
                row.append(f"{r.groups.used}/{r.groups.used + r.groups.dropped}")
            if several:
                row.append(NOTHING if r.cluster is None else str(r.cluster))
            sheet.rows.append(row)
        if sheet.rows:
            sheets.append(sheet)
    return sheets + _accuracy_sheets(found), notes


def _accuracy_sheets(found: Correlations) -> list[Sheet]:
    """Return acc_eq by itself: it means nothing without what a constant metric gets."""
    sheets = []
    those = [r for r in found.results if r.statistic == "acc_eq" and r.constant is not None]
    for human, rater in dict.fromkeys((r.human, r.rater) for r in those):
        who = of_human(human, rater)
        sheet = Sheet(
            f"Pairwise accuracy with ties (acc_eq), {who}",
            [
                "Metric",
                "Grouping",
                "in-sample [95%]",
                "threshold",
                "cross-fitted",
                "untied",
                "p",
                "constant",
                "n",
                "ties",
                "rank",
            ],
            left=2,
        )
        for r in those:
            if (r.human, r.rater) == (human, rater):
                sheet.rows.append(
                    [
                        one_line(r.metric),
                        r.grouping,
                        bounded(r.value, r.low, r.high),
                        NOTHING if r.threshold is None else f"{r.threshold:.3g}",
                        coefficient(r.cross_fitted),
                        coefficient(r.untied),
                        p_value(r.p),
                        coefficient(r.constant),
                        str(r.n),
                        NOTHING if r.ties.metric is None else f"{100 * r.ties.metric:.0f}%",
                        NOTHING if r.cluster is None else str(r.cluster),
                    ]
                )
        sheets.append(sheet)
    return sheets


def _published() -> Sheet:
    sheet = Sheet(
        "Published in TUNA, table 3 (n = 40; not computed here)",
        ["Metric", "Kendall tau", "Spearman rho", "Pearson r"],
        note=PUBLISHED_NOTE,
    )
    for name, values in PUBLISHED.items():
        sheet.rows.append([f"{name} (published)", *(coefficient(value) for value in values)])
    return sheet


def _element_sheets(tables: Sequence[ElementTable]) -> list[Sheet]:
    sheets = []
    for truth, given in dict.fromkeys((t.truth, t.given) for t in tables):
        those = [t for t in tables if (t.truth, t.given) == (truth, given)]
        pair = f"{one_line(truth)} against {one_line(given)}"
        sheet = Sheet(
            f"Elements, {pair}",
            ["Elements", "n", "kappa [95%]", "AC1 [95%]", "acc.", "macro-F1", "BP", "alpha"],
        )
        for weighted in (False, True):
            sheet.rows.append(["weighted" if weighted else "plain"])
            for t in those:
                if t.weighted == weighted:
                    c = t.coefficients
                    plain = ("accuracy", "macro_f1", "brennan_prediger", "alpha")
                    leading = [bounded(c[n].value, c[n].low, c[n].high) for n in ("kappa", "ac1")]
                    others = [coefficient(c[n].value) for n in plain]
                    sheet.rows.append([t.by, str(t.n), *leading, *others])
        sheets.append(sheet)
        whole = next(t for t in those if t.by == "all" and not t.weighted)
        counts = Sheet(
            f"Labels of {one_line(truth)} (rows) against {one_line(given)} (columns)",
            ["Label", *whole.labels, "precision", "recall", "F1"],
        )
        for label, row in zip(whole.labels, whole.confusion, strict=True):
            of = whole.classes[label]
            figures = (of.precision, of.recall, of.f1)
            counts.rows.append([label, *(f"{n:.0f}" for n in row), *map(coefficient, figures)])
        sheets.append(counts)
    return sheets


def _rater_sheets(found: Correlations) -> list[Sheet]:
    raters = found.raters
    if len(raters.names) < 2:
        return []
    names = [one_line(name) for name in raters.names]
    sheet = Sheet(
        f"{len(names)} raters: each against all others; Krippendorff's alpha ({raters.level}) "
        f"{coefficient(raters.alpha.value)}",
        ["Statistic", "ceiling", *(names if len(names) <= 6 else [])],
    )
    for statistic, ceiling in raters.ceiling.items():
        each = [coefficient(raters.each[statistic].get(name)) for name in raters.names]
        sheet.rows.append(
            [
                STATISTIC_WORDS[statistic],
                coefficient(ceiling.value),
                *(each if len(names) <= 6 else []),
            ]
        )
    return [sheet]


def print_correlations(
    found: Correlations, console: Console, *, form: Format = "table", published: bool = False
) -> None:
    """Print all tables, their notes and the signature."""
    sheets, notes = sheets_of(found, published=published)
    if form != "table":
        text = rendered(sheets, [*notes, found.signature], form)
        console.print(Text(text), soft_wrap=True)
        return
    print_sheets(sheets, console)
    for line in notes:
        console.print(Text(line), soft_wrap=True)
    console.print(Text(f"  {found.signature}", style="dim"), soft_wrap=True)

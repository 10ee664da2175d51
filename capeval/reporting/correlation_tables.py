"""The tables of correlations: in a terminal, as Markdown, or as LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from capeval.correlation.published import PUBLISHED, PUBLISHED_NOTE
from capeval.correlation.result import Correlations, ElementTable, Estimate
from capeval.errors import one_line
from capeval.reporting.numbers import NOTHING
from capeval.stats.values import Statistic

__all__ = [
    "Format",
    "Sheet",
    "p_shown",
    "print_correlations",
    "print_sheets",
    "rendered",
    "sheets_of",
]

Format = Literal["table", "markdown", "latex"]

_STATISTICS: dict[Statistic, str] = {
    "kendall_b": "Kendall tau-b",
    "kendall_c": "Kendall tau-c",
    "spearman": "Spearman rho",
    "pearson": "Pearson r",
    "acc_eq": "acc_eq",
}
_GROUPINGS = {
    "pooled": "all captions",
    "item": "mean over videos",
    "within_system": "mean over systems",
    "system": "means of systems",
}


@dataclass
class Sheet:
    """One table as text: what every format shows alike."""

    title: str
    header: list[str]
    rows: list[list[str]] = field(default_factory=list)
    left: int = 1
    """How many columns are words, from the left."""


def number(value: float | None) -> str:
    """Return a coefficient with three decimals.

    >>> number(0.57249), number(-0.0001), number(None)
    ('0.572', '0.000', '–')
    """
    return NOTHING if value is None else f"{round(value, 3) + 0.0:.3f}"


def bounded(value: float | None, low: float | None, high: float | None) -> str:
    """Return a value with its interval.

    >>> bounded(0.5, 0.25, 0.75), bounded(0.5, None, None)
    ('0.500 [0.25, 0.75]', '0.500')
    """
    if value is None or low is None or high is None:
        return number(value)
    return f"{number(value)} [{round(low, 2) + 0.0:.2f}, {round(high, 2) + 0.0:.2f}]"


def p_shown(p: float | None) -> str:
    """Return a p-value; a small one as a bound, never as 0.

    >>> p_shown(0.0312), p_shown(1e-9), p_shown(None)
    ('0.031', '<0.001', '–')
    """
    if p is None:
        return NOTHING
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def sheets_of(found: Correlations, *, published: bool = False) -> tuple[list[Sheet], list[str]]:
    """Return all tables and the lines below them."""
    sheets, notes = _video_sheets(found)
    sheets = _element_sheets(found.elements.tables) + sheets
    if published:
        sheets.append(_published())
        notes.append(PUBLISHED_NOTE)
    sheets += _comparison_sheets(found)
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
        who = f"human {human}" + (f" of {one_line(rater)}" if rater else "")
        title = f"{who}, {grouping} ({_GROUPINGS[grouping]})"
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
        for r in sorted(those, key=lambda r: list(_STATISTICS).index(r.statistic)):
            if r.value is None:
                notes.append(f"{title}: {one_line(r.metric)}, {r.statistic}: {r.reason}")
            if r.statistic == "acc_eq":
                continue
            row = [
                one_line(r.metric),
                _STATISTICS[r.statistic],
                bounded(r.value, r.low, r.high),
                p_shown(r.p),
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


_ACCURACY = ["Metric", "Grouping", "in-sample [95%]", "threshold", "cross-fitted", "untied", "p"]
_ACCURACY += ["constant", "n", "ties", "rank"]


def _accuracy_sheets(found: Correlations) -> list[Sheet]:
    """Return acc_eq by itself: it means nothing without what a constant metric gets."""
    sheets = []
    those = [r for r in found.results if r.statistic == "acc_eq" and r.constant is not None]
    for human, rater in dict.fromkeys((r.human, r.rater) for r in those):
        who = f"human {human}" + (f" of {one_line(rater)}" if rater else "")
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
                        number(r.cross_fitted),
                        number(r.untied),
                        p_shown(r.p),
                        number(r.constant),
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
    )
    for name, values in PUBLISHED.items():
        sheet.rows.append([f"{name} (published)", *(number(value) for value in values)])
    return sheet


def _comparison_sheets(found: Correlations) -> list[Sheet]:
    sheets = []
    for human, rater, method in dict.fromkeys(
        (c.human, c.rater, c.method) for c in found.comparisons
    ):
        those = [
            c
            for c in found.comparisons
            if (c.human, c.rater, c.method) == (human, rater, method) and c.difference is not None
        ]
        if not those:
            continue
        statistics = [s for s in _STATISTICS if any(c.statistic == s for c in those)]
        who = f"human {human}" + (f" of {one_line(rater)}" if rater else "")
        name = "Williams' test" if method == "williams" else "paired permutation of videos"
        sheet = Sheet(
            f"Metrics compared, {who}: difference (p by {name}, Holm)",
            ["First – second", "Grouping", *(_STATISTICS[s] for s in statistics)],
            left=2,
        )
        cells = {(c.first, c.second, c.grouping, c.statistic): c for c in those}
        for first, second, grouping in dict.fromkeys(
            (c.first, c.second, c.grouping) for c in those
        ):
            row = [f"{one_line(first)} – {one_line(second)}", grouping]
            for statistic in statistics:
                c = cells.get((first, second, grouping, statistic))
                row.append(
                    NOTHING
                    if c is None or c.difference is None
                    else f"{round(c.difference, 3) + 0.0:+.3f} ({p_shown(c.p_adjusted)})"
                )
            sheet.rows.append(row)
        sheets.append(sheet)
    return sheets


def _element_sheets(tables: Sequence[ElementTable]) -> list[Sheet]:
    sheets = []
    for truth, given in dict.fromkeys((t.truth, t.given) for t in tables):
        those = [t for t in tables if (t.truth, t.given) == (truth, given)]
        pair = f"{one_line(truth)} against {one_line(given)}"
        sheet = Sheet(
            f"Elements, {pair}",
            ["Elements", "n", "kappa [95%]", "AC1 [95%]", "accuracy", "macro-F1", "BP", "alpha"],
        )
        for t in those:
            c = t.coefficients
            sheet.rows.append(
                [
                    f"{t.by}, by weight" if t.weighted else t.by,
                    str(t.n),
                    _estimated(c["kappa"]),
                    _estimated(c["ac1"]),
                    *(
                        number(c[name].value)
                        for name in ("accuracy", "macro_f1", "brennan_prediger", "alpha")
                    ),
                ]
            )
        sheets.append(sheet)
        whole = next(t for t in those if t.by == "all" and not t.weighted)
        counts = Sheet(
            f"Labels of {one_line(truth)} (rows) against {one_line(given)} (columns)",
            ["Label", *whole.labels, "precision", "recall", "F1"],
        )
        for label, row in zip(whole.labels, whole.confusion, strict=True):
            of = whole.classes[label]
            figures = (of.precision, of.recall, of.f1)
            counts.rows.append([label, *(f"{n:.0f}" for n in row), *map(number, figures)])
        sheets.append(counts)
    return sheets


def _estimated(estimate: Estimate) -> str:
    return bounded(estimate.value, estimate.low, estimate.high)


def _rater_sheets(found: Correlations) -> list[Sheet]:
    raters = found.raters
    if len(raters.names) < 2:
        return []
    names = [one_line(name) for name in raters.names]
    sheet = Sheet(
        f"{len(names)} raters: each against all others; Krippendorff's alpha ({raters.level}) "
        f"{number(raters.alpha.value)}",
        ["Statistic", "ceiling", *(names if len(names) <= 6 else [])],
    )
    for statistic, ceiling in raters.ceiling.items():
        each = [number(raters.each[statistic].get(name)) for name in raters.names]
        sheet.rows.append(
            [
                _STATISTICS[statistic],
                number(ceiling.value),
                *(each if len(names) <= 6 else []),
            ]
        )
    return [sheet]


def rendered(sheets: Sequence[Sheet], notes: Sequence[str], form: Format) -> str:
    """Return tables and notes as Markdown or LaTeX."""
    render = _latex if form == "latex" else _markdown
    parts = [render(sheet) for sheet in sheets]
    if form == "latex":
        parts += ["\n".join(f"% {line}" for line in notes)] if notes else []
    else:
        parts += ["\n".join(f"- {_md(line)}" for line in notes)] if notes else []
    return "\n\n".join(parts)


def _markdown(sheet: Sheet) -> str:
    marks = ["---"] * sheet.left + ["---:"] * (len(sheet.header) - sheet.left)
    lines = [sheet.header, marks, *sheet.rows]
    cells = ["| " + " | ".join(_md(cell) for cell in line) + " |" for line in lines]
    return f"**{_md(sheet.title)}**\n\n" + "\n".join(cells)


def _md(text: str) -> str:
    for mark in "\\|*_`<[":
        text = text.replace(mark, "\\" + mark)
    return text


_TEX = {
    "\\": r"\textbackslash{}",
    "–": "--",
    "<": r"\textless{}",
    **{mark: "\\" + mark for mark in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def _tex(text: str) -> str:
    return "".join(_TEX.get(mark, mark) for mark in text)


def _latex(sheet: Sheet) -> str:
    columns = "l" * sheet.left + "r" * (len(sheet.header) - sheet.left)
    rows = [" & ".join(_tex(cell) for cell in row) + r" \\" for row in sheet.rows]
    # A rule or a line break would take a bracket that follows as its own option.
    rows = [f"{{}}{row}" if row.startswith("[") else row for row in rows]
    head = " & ".join(_tex(cell) for cell in sheet.header) + r" \\"
    return "\n".join(
        [
            r"\begin{table}",
            rf"\caption{{{_tex(sheet.title)}}}",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            head,
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
    )


def print_sheets(sheets: Sequence[Sheet], console: Console) -> None:
    """Print tables to a terminal."""
    for sheet in sheets:
        table = Table(
            title=Text(sheet.title),
            title_justify="left",
            title_style="bold",
            box=box.SIMPLE_HEAD,
            show_edge=False,
            pad_edge=False,
            padding=(0, 1, 0, 0),
        )
        for at, heading in enumerate(sheet.header):
            table.add_column(
                Text(heading), justify="left" if at < sheet.left else "right", no_wrap=True
            )
        for row in sheet.rows:
            table.add_row(*(Text(cell) for cell in row))
        # A number is never cut: the terminal wraps the line instead.
        table.width = max(
            Console(width=100_000, file=console.file, record=False).measure(table).maximum, 1
        )
        console.print(table, crop=False)
        console.print()


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

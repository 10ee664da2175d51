"""Agreement of labels with a judge's verdicts, and of human raters with one another."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from capeval.correlation.result import (
    CeilingResult,
    Correlations,
    Elements,
    ElementTable,
    Raters,
)
from capeval.reporting.correlations.labels import (
    GROUPING_WORDS,
    STATISTIC_WORDS,
    UNASKED,
    lines_of_missing,
    of_human,
    with_interval,
)
from capeval.reporting.numbers import bounded, coefficient, thousands
from capeval.reporting.table import Table, columns
from capeval.text import one_line

_LEADING = ("kappa", "ac1")
_OTHERS = ("accuracy", "macro_f1", "brennan_prediger", "alpha")
_LEGEND = (
    "kappa: Cohen's; AC1: Gwet's; acc.: accuracy; mF1: macro-F1; BP: Brennan-Prediger; alpha: "
    "Krippendorff's, nominal."
)
# Beside the mean, so many raters have a column each.
_MOST_NAMED = 6
_CEILING_NOTE = (
    "ceiling: mean over raters. It is not an upper bound: a metric is compared with the aggregated "
    "score of all raters, a rater only with that of the others."
)


def element_tables(elements: Elements, only: ElementTable | None = None) -> list[Table]:
    """Return two tables for each pair of sides: coefficients by type, and the labels themselves.

    Parameters
    ----------
    only : one pair, without the coefficients of weighted elements
    """
    tables: list[Table] = []
    pairs = dict.fromkeys((t.truth, t.given) for t in ([only] if only else elements.tables))
    for pair in pairs:
        those = [
            t for t in elements.tables if (t.truth, t.given) == pair and not (only and t.weighted)
        ]
        tables += [_coefficients(those, elements.unjudged), _labels(those)]
    if tables:
        resampled = any(e.low is not None for t in elements.tables for e in t.coefficients.values())
        notes = (tables[-2].note, _LEGEND, "Intervals resample whole videos." if resampled else "")
        tables[-2].note = " ".join(filter(None, notes))
    return tables


def _coefficients(those: Sequence[ElementTable], unjudged: int) -> Table:
    whole = _whole(those)
    title = f"Elements, {one_line(whole.truth)} and {one_line(whole.given)}"
    notes = []
    if whole.tied:
        title += (
            f": {whole.tied} of {whole.n + whole.tied} elements are left out because raters are "
            "evenly divided on them"
        )
        notes.append(_divided(whole))
    if unjudged:
        notes.append(f"{unjudged} labelled elements have no verdict and are left out.")
    leading = [t.coefficients[name] for t in those for name in _LEADING]
    reasons = {e.reason for e in leading if e.value is not None and e.low is None}
    notes += [f"No interval: {reason}." for reason in sorted(filter(None, reasons))]
    ends = any(e.low is not None for e in leading)
    names = [with_interval(name, ends) for name in ("kappa", "AC1")]
    table = Table(
        title, columns("Elements", "n", *names, "acc.", "mF1", "BP", "alpha"), note=" ".join(notes)
    )
    for weighted in sorted({t.weighted for t in those}):
        if any(t.weighted for t in those):
            table.rows.append(["weighted" if weighted else "plain"])
        for t in those:
            if t.weighted == weighted:
                c = t.coefficients
                bounds = [bounded(c[n].value, c[n].low, c[n].high) for n in _LEADING]
                others = [coefficient(c[n].value) for n in _OTHERS]
                table.rows.append([t.by, str(t.n), *bounds, *others])
    return table


def _divided(whole: ElementTable) -> str:
    """Return what the judge gets where no element is left out: compared with each rater."""
    text = "Leaving these out favours the judge"
    means = []
    for name, words in zip(_LEADING, ("kappa", "AC1"), strict=True):
        values = [v for each in whole.each.values() if (v := each[name]) is not None]
        if values:
            means.append(f"{words} {coefficient(fmean(values))}")
    if means:
        text += f": compared with each rater separately, it has on average {' and '.join(means)}"
    return f"{text}; see --raters each."


def _labels(those: Sequence[ElementTable]) -> Table:
    whole = _whole(those)
    table = Table(
        f"Labels of {one_line(whole.truth)} (rows) and {one_line(whole.given)} (columns)",
        columns("Label", *whole.labels, "precision", "recall", "F1"),
    )
    for label, row in zip(whole.labels, whole.confusion, strict=True):
        of = whole.classes[label]
        numbers = (of.precision, of.recall, of.f1)
        table.rows.append([label, *map(thousands, row), *map(coefficient, numbers)])
    return table


def _whole(those: Sequence[ElementTable]) -> ElementTable:
    return next(t for t in those if t.by == "all" and not t.weighted)


def ceiling_tables(found: Correlations) -> tuple[list[Table], list[str]]:
    """Return a table of ceilings for each human score, and notes below all tables."""
    raters = found.raters
    if len(raters.names) < 2:
        return [], []
    alpha = f"Krippendorff's alpha ({raters.level}) of {len(raters.names)} raters: "
    alpha += bounded(raters.alpha.value, raters.alpha.low, raters.alpha.high)
    if raters.alpha.value is None:
        alpha += f" ({raters.alpha.reason})"
    tables = []
    for human in dict.fromkeys(c.human for c in raters.ceiling):
        table = _ceilings(raters, human, [c for c in raters.ceiling if c.human == human])
        tables += [table] if table.rows else []
    if tables:
        reasons = {
            c.interval_reason for c in raters.ceiling if c.value is not None and c.low is None
        }
        notes = [_CEILING_NOTE]
        if any(c.statistic == "acc_eq" for c in raters.ceiling):
            notes.append("acc_eq is without threshold.")
        notes += [f"No interval: {reason}." for reason in sorted(filter(None, reasons - {UNASKED}))]
        tables[-1].note = " ".join(notes)
    lost = [c for c in raters.ceiling if c.value is None]
    return tables, [
        alpha,
        *lines_of_missing(
            (f"Ceiling, {c.grouping}", of_human(c.human, None), c.statistic, c.reason) for c in lost
        ),
    ]


def _ceilings(raters: Raters, human: str, those: list[CeilingResult]) -> Table:
    # Of two raters, one number says how they agree.
    named = raters.names if 2 < len(raters.names) <= _MOST_NAMED else ()
    how = "mean" if raters.combined == "each" else raters.combined
    whose = (
        "2 raters compared with each other"
        if len(raters.names) == 2
        else f"each of {thousands(len(raters.names))} raters compared with the {how} of the others"
    )
    table = Table(
        f"Ceiling, {of_human(human, None)}: {whose}",
        columns(
            "Statistic",
            with_interval("ceiling", any(c.low is not None for c in those)),
            *map(one_line, named),
        ),
    )
    for grouping in GROUPING_WORDS:
        there = [c for c in those if c.grouping == grouping and c.value is not None]
        if there:
            table.rows.append([grouping])
        for c in sorted(there, key=lambda c: list(STATISTIC_WORDS).index(c.statistic)):
            each = [coefficient(c.each.get(name)) for name in named]
            table.rows.append(
                [STATISTIC_WORDS[c.statistic], bounded(c.value, c.low, c.high), *each]
            )
    return table

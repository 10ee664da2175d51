"""People's labels against judges', and judges' among themselves, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from capeval.correlation.result import Elements, ElementTable
from capeval.reporting.correlations.labels import with_interval
from capeval.reporting.numbers import bounded, coefficient
from capeval.reporting.text_table import Sheet
from capeval.text import one_line

_LEADING = ("kappa", "ac1")
_PLAIN = ("accuracy", "macro_f1", "brennan_prediger", "alpha")
_LEGEND = (
    "kappa: Cohen's; AC1: Gwet's; acc.: accuracy; mF1: macro-F1; BP: Brennan-Prediger; alpha: "
    "Krippendorff's, nominal."
)


def element_sheets(elements: Elements) -> list[Sheet]:
    """Return two tables for each two sides: coefficients by type, and the labels themselves."""
    sheets = []
    tables = elements.tables
    for truth, given in dict.fromkeys((t.truth, t.given) for t in tables):
        those = [t for t in tables if (t.truth, t.given) == (truth, given)]
        sheets += [_coefficients(those, elements.unjudged), _labels(those)]
    if sheets:
        bounded_ones = any(e.low is not None for t in tables for e in t.coefficients.values())
        resampled = "Intervals resample whole videos." if bounded_ones else ""
        sheets[-2].note = " ".join(filter(None, [sheets[-2].note, _LEGEND, resampled]))
    return sheets


def _coefficients(tables: Sequence[ElementTable], unjudged: int) -> Sheet:
    whole = _whole(tables)
    title = f"Elements, {one_line(whole.truth)} against {one_line(whole.given)}"
    notes = []
    if whole.tied:
        title += (
            f": {whole.tied} of {whole.n + whole.tied} elements left out, "
            "on which raters are evenly divided"
        )
        notes.append(_divided(whole))
    if unjudged:
        notes.append(f"{unjudged} labelled elements have no verdict and are left out.")
    ends = [t.coefficients[name] for t in tables for name in _LEADING]
    unbounded = {e.reason for e in ends if e.value is not None and e.low is None}
    notes += [f"No interval: {reason}." for reason in sorted(filter(None, unbounded))]
    there = any(t.coefficients[name].low is not None for t in tables for name in _LEADING)
    names = [with_interval(name, there) for name in ("kappa", "AC1")]
    sheet = Sheet(
        title, ["Elements", "n", *names, "acc.", "mF1", "BP", "alpha"], note=" ".join(notes)
    )
    for weighted in (False, True):
        sheet.rows.append(["weighted" if weighted else "plain"])
        for t in tables:
            if t.weighted == weighted:
                c = t.coefficients
                leading = [bounded(c[n].value, c[n].low, c[n].high) for n in _LEADING]
                others = [coefficient(c[n].value) for n in _PLAIN]
                sheet.rows.append([t.by, str(t.n), *leading, *others])
    return sheet


def _divided(whole: ElementTable) -> str:
    """Return what the judge gets where no element is left out: against each rater."""
    told = "Leaving these out flatters the judge"
    means = []
    for name, words in zip(_LEADING, ("kappa", "AC1"), strict=True):
        values = [v for each in whole.each.values() if (v := each[name]) is not None]
        if values:
            means.append(f"{words} {coefficient(fmean(values))}")
    if means:
        told += f": against each rater alone it has {' and '.join(means)} in the mean"
    return f"{told}; see --raters each."


def _labels(tables: Sequence[ElementTable]) -> Sheet:
    whole = _whole(tables)
    sheet = Sheet(
        f"Labels of {one_line(whole.truth)} (rows) against {one_line(whole.given)} (columns)",
        ["Label", *whole.labels, "precision", "recall", "F1"],
    )
    for label, row in zip(whole.labels, whole.confusion, strict=True):
        of = whole.classes[label]
        figures = (of.precision, of.recall, of.f1)
        sheet.rows.append([label, *(f"{n:.0f}" for n in row), *map(coefficient, figures)])
    return sheet


def _whole(tables: Sequence[ElementTable]) -> ElementTable:
    return next(t for t in tables if t.by == "all" and not t.weighted)

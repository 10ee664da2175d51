"""Agreement of labels with a judge's verdicts, and of human raters with one another."""

from __future__ import annotations

from collections.abc import Sequence

from capeval.correlation.result import CeilingResult, Correlations, Elements, ElementTable, Raters
from capeval.reporting.correlations.labels import (
    GROUPING_WORDS,
    STATISTIC_WORDS,
    causes_of_missing,
    of_human,
    with_interval,
)
from capeval.show.numbers import bounded, thousands
from capeval.show.table import BOUNDED, COEFFICIENT, COUNT, Column, Table, columns
from capeval.text import one_line

_JACKKNIFED = "Intervals leave out one video at a time."
# Beside the mean, so many raters have a column each.
_MOST_NAMED = 6
_CEILING_NOTE = (
    "ceiling: mean over raters. It is not an upper bound: a metric is compared with the aggregated "
    "score of all raters, a rater only with that of the others."
)


def element_tables(elements: Elements, only: ElementTable | None = None) -> list[Table]:
    """Return two tables for each judge: coefficients by type, and the labels themselves.

    Parameters
    ----------
    only : one judge
    """
    tables: list[Table] = []
    pairs = dict.fromkeys((t.truth, t.given) for t in ([only] if only else elements.tables))
    for pair in pairs:
        those = [t for t in elements.tables if (t.truth, t.given) == pair]
        tables += [_coefficients(those, elements.unjudged), _labels(those)]
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
        notes.append("Leaving these out favours the judge; see --raters each.")
    if unjudged:
        notes.append(f"{unjudged} labelled elements have no verdict and are left out.")
    found = [t.kappa for t in those]
    reasons = {e.reason for e in found if e.value is not None and e.reason}
    notes += [f"No interval: {reason}." for reason in sorted(reasons)]
    ends = any(e.low is not None for e in found)
    notes += [_JACKKNIFED] if ends else []
    shown = [
        Column("Elements", words=True),
        Column("n", kind=COUNT),
        Column(with_interval("kappa", ends), kind=BOUNDED, key="kappa"),
    ]
    table = Table(title, shown, note=" ".join(notes))
    for t in those:
        table.rows.append([t.by, t.n, t.kappa])
    return table


def _labels(those: Sequence[ElementTable]) -> Table:
    whole = _whole(those)
    table = Table(
        f"Labels of {one_line(whole.truth)} (rows) and {one_line(whole.given)} (columns)",
        columns(
            "Label",
            *((label, COUNT) for label in whole.labels),
            *((name, COEFFICIENT) for name in ("precision", "recall", "F1")),
        ),
    )
    for label, row in zip(whole.labels, whole.confusion, strict=True):
        of = whole.classes[label]
        table.rows.append([label, *row, of.precision, of.recall, of.f1])
    return table


def _whole(those: Sequence[ElementTable]) -> ElementTable:
    return next(t for t in those if t.by == "all")


def ceiling_tables(found: Correlations) -> tuple[list[Table], list[str]]:
    """Return a table of ceilings for each human score, and notes below all tables."""
    raters = found.raters
    if len(raters.names) < 2:
        return [], []
    alpha = f"Krippendorff's alpha ({raters.level}) of {len(raters.names)} raters: "
    alpha += bounded(raters.alpha)
    if raters.alpha.value is None:
        alpha += f" ({raters.alpha.reason})"
    tables = []
    for human in dict.fromkeys(c.human for c in raters.ceiling):
        table = _ceilings(raters, human, [c for c in raters.ceiling if c.human == human])
        tables += [table] if table.rows else []
    if tables:
        tables[-1].note = _CEILING_NOTE
    named = [
        (c.reason, f"{STATISTIC_WORDS[c.statistic]}, {c.grouping}, {of_human(c.human, None)}")
        for c in raters.ceiling
    ]
    return tables, [alpha, *causes_of_missing("ceiling", named, "value")]


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
        columns("Statistic", *((one_line(one), COEFFICIENT) for one in ("ceiling", *named))),
    )
    for grouping in GROUPING_WORDS:
        there = [c for c in those if c.grouping == grouping and c.value is not None]
        if there:
            table.rows.append([grouping])
        for c in sorted(there, key=lambda c: list(STATISTIC_WORDS).index(c.statistic)):
            each = (c.each.get(name) for name in named)
            table.rows.append([STATISTIC_WORDS[c.statistic], c.value, *each])
    return table

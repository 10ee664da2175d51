"""How people agree with one another, as tables: the ceiling by human score and grouping."""

from __future__ import annotations

from collections.abc import Sequence

from capeval.correlation.result import CeilingResult, Raters
from capeval.reporting.correlations.labels import (
    GROUPING_WORDS,
    STATISTIC_WORDS,
    UNASKED,
    of_human,
    with_interval,
)
from capeval.reporting.numbers import bounded, coefficient
from capeval.reporting.text_table import Sheet
from capeval.text import one_line

_NAMED = 6
_NOTE = (
    "ceiling: mean over raters. It is no upper bound: a metric is held against the combined score "
    "of all raters, a rater against that of the others only."
)
_UNTIED = "acc_eq is without threshold."


def rater_sheets(raters: Raters) -> tuple[list[Sheet], list[str]]:
    """Return a table of ceilings for each human score, and lines that stand below all tables."""
    if len(raters.names) < 2:
        return [], []
    alpha = f"Krippendorff's alpha ({raters.level}) of {len(raters.names)} raters: "
    alpha += coefficient(raters.alpha.value)
    if raters.alpha.value is None:
        alpha += f" ({raters.alpha.reason})"
    sheets = []
    notes = [alpha]
    for human in dict.fromkeys(c.human for c in raters.ceiling):
        those = [c for c in raters.ceiling if c.human == human]
        sheet = _ceilings(raters, of_human(human, None), those)
        sheets += [sheet] if sheet.rows else []
    notes += _unvalued(raters.ceiling)
    if sheets:
        told = {c.interval_reason for c in raters.ceiling if c.value is not None and c.low is None}
        why = [f"No interval: {reason}." for reason in sorted(filter(None, told - {UNASKED}))]
        untied = [_UNTIED] if any(c.statistic == "acc_eq" for c in raters.ceiling) else []
        sheets[-1].note = " ".join([_NOTE, *untied, *why])
    return sheets, notes


def _ceilings(raters: Raters, who: str, those: list[CeilingResult]) -> Sheet:
    # Two raters are held against each other: one number says it.
    named = raters.names if 2 < len(raters.names) <= _NAMED else ()
    how = "mean" if raters.combined == "each" else raters.combined
    whose = (
        "2 raters against each other"
        if len(raters.names) == 2
        else f"each of {len(raters.names):,} raters against the {how} of the others"
    )
    sheet = Sheet(
        f"Ceiling, {who}: {whose}",
        [
            "Statistic",
            with_interval("ceiling", any(c.low is not None for c in those)),
            *map(one_line, named),
        ],
    )
    for grouping in GROUPING_WORDS:
        there = [c for c in those if c.grouping == grouping and c.value is not None]
        if there:
            sheet.rows.append([grouping])
        for c in sorted(there, key=lambda c: list(STATISTIC_WORDS).index(c.statistic)):
            each = [coefficient(c.each.get(name)) for name in named]
            sheet.rows.append(
                [STATISTIC_WORDS[c.statistic], bounded(c.value, c.low, c.high), *each]
            )
    return sheet


def _unvalued(ceilings: Sequence[CeilingResult]) -> list[str]:
    """Return why there is no ceiling, the same of several human scores in one line."""
    lost: dict[tuple[str, str], dict[str, list[str]]] = {}
    for c in ceilings:
        if c.value is None:
            by_human = lost.setdefault((c.grouping, str(c.reason)), {})
            by_human.setdefault(c.human, []).append(STATISTIC_WORDS[c.statistic])
    lines = []
    for (grouping, reason), by_human in lost.items():
        alike: dict[str, list[str]] = {}
        for human, names in by_human.items():
            alike.setdefault(", ".join(names), []).append(human)
        lines += [
            f"Ceiling, {of_human(', '.join(humans), None)}, {grouping}, {names}: "
            f"no value ({one_line(reason)})"
            for names, humans in alike.items()
        ]
    return lines
